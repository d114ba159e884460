/* bench_tok.c: how fast hearth tokenises, for tools/bench_tok.py (which compiles and runs it).
 *   bench_tok MODEL.gguf open           opening the tokenizer: nanoseconds
 *   bench_tok MODEL.gguf FILE [N]       encodes FILE N times: one line "nanoseconds ids hash" per run; the first is cold
 *   bench_tok MODEL.gguf ids FILE       all ids, one a line
 *   bench_tok MODEL.gguf nul FILE [special] [add]   FILE holds texts, each ended by a NUL byte... as lines of ids */
#include "base/os.h"
#include "model/tok.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const struct err *e)
{
    fprintf(stderr, "bench_tok: %s\n", e->msg);
    return 1;
}

static void print(const struct ids *v)
{
    for (size_t i = 0; i < v->n; i++) printf("%s%d", i ? " " : "", v->v[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct gguf g;
    struct tok *t;
    struct buf text = {0};
    struct ids ids = {0};
    if (argc < 3)
        return fprintf(stderr, "usage: bench_tok MODEL.gguf (open | FILE [N] | ids FILE | nul FILE [special] [add])\n"), 2;
    if (gguf_open(&g, argv[1], &e) < 0) return fail(&e);
    uint64_t t0 = os_now_ns();
    if (tok_open_gguf(&t, &g, &e) < 0) return fail(&e);
    uint64_t opened = os_now_ns() - t0;
    gguf_close(&g);
    if (strcmp(argv[2], "open") == 0) return printf("%llu\n", (unsigned long long)opened), 0;
    bool all = strcmp(argv[2], "ids") == 0, nul = strcmp(argv[2], "nul") == 0;
    if (os_read_file(&text, argv[2 + (all || nul)], (size_t)1 << 30, &e) < 0) return fail(&e);
    if (nul) {
        unsigned flags = 0;
        for (int i = 4; i < argc; i++) flags |= strcmp(argv[i], "add") == 0 ? TOK_ADD : TOK_SPECIAL;
        for (size_t i = 0; i < text.n; i += strlen(text.p + i) + 1) {
            ids.n = 0;
            if (tok_encode(t, &ids, text.p + i, strlen(text.p + i), flags, &e) < 0) return fail(&e);
            print(&ids);
        }
        return 0;
    }
    int n = !all && argc > 3 ? atoi(argv[3]) : 1;
    for (int i = 0; i < n; i++) {
        ids_free(&ids);
        t0 = os_now_ns();
        if (tok_encode(t, &ids, text.p, text.n, 0, &e) < 0) return fail(&e);
        uint64_t ns = os_now_ns() - t0, h = 1469598103934665603u;
        for (size_t k = 0; k < ids.n; k++) h = (h ^ (uint32_t)ids.v[k]) * 1099511628211u;
        if (!all) printf("%llu %zu %016llx\n", (unsigned long long)ns, ids.n, (unsigned long long)h);
    }
    if (all) print(&ids);
    ids_free(&ids);
    buf_free(&text);
    tok_close(t);
    return 0;
}
