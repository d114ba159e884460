/* tokenize: text -> ids and pieces, or (--decode) ids -> exact bytes. Needs nothing of a model but its tokenizer. */
#include "base/os.h"
#include "cmd/common.h"
#include "cmd/model_path.h"
#include "model/tok.h"
#include <stdio.h>
#include <string.h>

#define MAX_INPUT ((size_t)1 << 32)

static int open_tok(struct tok **t, const char *model, struct err *e)
{
    struct buf path = {0};
    struct gguf g = {0};
    int rc;
    TRYG(model_path(&path, model, e));
    TRYG(gguf_open(&g, path.p, e));
    rc = tok_open_gguf(t, &g, e);
    if (rc == E_AGAIN) rc = err_set(e, E_UNSUP, "%s: no tokenizer in it", path.p);
    gguf_close(&g);
out:
    if (rc < 0 && path.p && !strstr(e->msg, path.p)) err_prefix(e, "%s", path.p);
    buf_free(&path);
    return rc;
}

/* "1 2 3", "1,2,3" and "[1, 2, 3]" are all ids. what: the source, for messages. */
static int read_ids(struct ids *out, const struct tok *t, const char *p, size_t n, const char *what, struct err *e)
{
    for (size_t i = 0; i < n;) {
        if (p[i] == ' ' || p[i] == '\n' || p[i] == '\r' || p[i] == '\t' || p[i] == ',' || p[i] == '[' || p[i] == ']') {
            i++;
            continue;
        }
        size_t from = i;
        uint64_t v = 0;
        while (i < n && p[i] >= '0' && p[i] <= '9' && v <= INT32_MAX) v = v * 10 + (uint64_t)(p[i++] - '0');
        bool number = i > from && (i == n || !(p[i] >= '0' && p[i] <= '9') || v > INT32_MAX);
        if (!number || (i < n && (p[i] == '.' || p[i] == '-')))
            return err_set(e, E_FORMAT, "%s: byte %zu: a token id is expected, not '%.*s'", what, from,
                           (int)MIN(n - from, (size_t)12), p + from);
        if (v >= tok_vocab(t))
            return err_set(e, E_FORMAT, "%s: token id %llu%s is outside the vocabulary of %u", what, (unsigned long long)v,
                           v > INT32_MAX ? "..." : "", tok_vocab(t));
        TRY(ids_push(out, (int32_t)v, e));
    }
    return OK;
}

static void put_piece(struct buf *b, const struct tok *t, int32_t id)
{
    struct str s = tok_piece(t, id, true);
    buf_json_str(b, s.p ? s.p : "", s.n);
}

static void print_tokens(struct buf *b, const struct opts *o, const struct tok *t, const struct ids *a)
{
    if (o->json) {
        buf_puts(b, "{\"ids\": [");
        for (size_t i = 0; i < a->n; i++) buf_printf(b, "%s%d", i ? ", " : "", a->v[i]);
        buf_puts(b, "], \"pieces\": [");
        for (size_t i = 0; i < a->n; i++) {
            buf_puts(b, i ? ", " : "");
            put_piece(b, t, a->v[i]);
        }
        buf_puts(b, "]}\n");
        return;
    }
    if (o->ids_only) {
        for (size_t i = 0; i < a->n; i++) buf_printf(b, "%s%d", i ? " " : "", a->v[i]);
        buf_putc(b, '\n');
        return;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (!o->pieces) buf_printf(b, "%d\t", a->v[i]);
        put_piece(b, t, a->v[i]);
        buf_putc(b, '\n');
    }
}

int cmd_tokenize(const struct opts *o)
{
    struct err e = {0};
    struct buf file = {0}, out = {0};
    struct ids ids = {0};
    struct tok *t = NULL;
    int rc;
    TRYG(open_tok(&t, o->model, &e));
    struct str in = {o->text, o->text ? strlen(o->text) : 0};
    const char *what = o->text ? "-p" : o->file ? o->file : "standard input";
    if (!o->text) {
        TRYG(os_read_file(&file, o->file ? o->file : "-", MAX_INPUT, &e));
        in = (struct str){file.p ? file.p : "", file.n};
    }
    if (o->decode_ids) {
        TRYG(read_ids(&ids, t, in.p, in.n, what, &e));
        tok_decode(t, &out, ids.v, ids.n, o->special);
    } else {
        TRYG(tok_encode(t, &ids, in.p, in.n, (o->special ? TOK_SPECIAL : 0u) | (o->add_special ? TOK_ADD : 0u), &e));
        print_tokens(&out, o, t, &ids);
    }
    if (!buf_ok(&out)) rc = err_set(&e, E_NOMEM, "out of memory");
out:
    if (rc == OK && out.n) fwrite(out.p, 1, out.n, stdout);
    /* ids written on the command line are its fault, those of a file are not */
    if (rc == E_FORMAT && o->text && t) e.code = E_ARG;
    if (t) tok_close(t);
    ids_free(&ids);
    buf_free(&file);
    buf_free(&out);
    return rc == OK ? EXIT_OK : cmd_fail(&e);
}
