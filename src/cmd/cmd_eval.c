/* cmd_eval.c: hearth eval: how well a model predicts a text. Ids are cut into windows without overlap; each id after a window's first is predicted. */
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "cmd/common.h"
#include <math.h>
#include <stdio.h>

#define MAX_TEXT ((size_t)1 << 30)
#define SCORE_ROWS 64u /* logit rows of a step */

struct eval {
    struct engine *g;
    const int32_t *id; /* of the window */
    uint32_t n;
    double nll;
    uint64_t predicted, done;
    uint32_t top;
    struct buf argmax, ids, logits; /* JSON pieces */
    float *val;
    int32_t *vid;
    struct progress bar;
    bool any;
};

static int on_rows(void *ud, uint32_t first, uint32_t n_row, const float *logits)
{
    struct eval *v = ud;
    uint32_t V = v->g->shape.V, k = MAX(v->top, 1u);
    for (uint32_t i = 0; i < n_row; i++) {
        float max, lse;
        const float *row = logits + (size_t)i * V;
        uint32_t at = first + i;
        dev_kern(&v->g->dev)->topk(v->val, v->vid, k, &max, &lse, row, V);
        if (at + 1 < v->n) {
            v->nll += (double)lse - (double)row[v->id[at + 1]];
            v->predicted++;
        }
        if (v->top) {
            const char *c = v->any ? "," : "";
            buf_printf(&v->argmax, "%s%d", c, v->vid[0]);
            buf_printf(&v->ids, "%s[", c);
            buf_printf(&v->logits, "%s[", c);
            for (uint32_t j = 0; j < k; j++) {
                buf_printf(&v->ids, "%s%d", j ? "," : "", v->vid[j]);
                buf_printf(&v->logits, "%s%.6g", j ? "," : "", (double)v->val[j]);
            }
            buf_putc(&v->ids, ']');
            buf_putc(&v->logits, ']');
            v->any = true;
        }
    }
    v->done += n_row;
    progress_at(&v->bar, v->done);
    return OK;
}

/* A JSON list of ids, or an object with one under "ids". */
static int read_ids(struct ids *out, const char *path, struct err *e)
{
    struct buf b = {0};
    json_t *j = NULL;
    int rc;
    TRYG(os_read_file(&b, path, MAX_TEXT, e));
    TRYG(json_parse(&j, b.p ? b.p : "", b.n, 0, path, e));
    const json_t *a = json_is_object(j) ? json_object_get(j, "ids") : j;
    if (!json_is_array(a)) {
        rc = err_set(e, E_FORMAT, "%s: a list of token ids is expected, or an object with one under \"ids\"", path);
        goto out;
    }
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *x = json_array_get(a, i);
        if (!json_is_integer(x) || json_integer_value(x) < 0 || json_integer_value(x) > INT32_MAX) {
            rc = err_set(e, E_FORMAT, "%s: entry %zu is no token id", path, i);
            goto out;
        }
        TRYG(ids_push(out, (int32_t)json_integer_value(x), e));
    }
out:
    json_decref(j);
    buf_free(&b);
    return rc;
}

static int read_text(struct ids *out, const char *path, const struct tok *t, struct err *e)
{
    struct buf b = {0};
    int rc;
    TRYG(os_read_file(&b, path, MAX_TEXT, e));
    size_t bad = utf8_check(b.p ? b.p : "", b.n);
    if (bad < b.n) {
        rc = err_set(e, E_FORMAT, "%s: invalid UTF-8 at byte %zu", path, bad);
        goto out;
    }
    TRYG(tok_encode(t, out, b.p ? b.p : "", b.n, 0, e));
out:
    buf_free(&b);
    return rc;
}

int cmd_eval(const struct opts *o)
{
    struct err e = {0};
    struct engine *g = NULL;
    struct ids ids = {0};
    struct seq seq = {0};
    struct eval v = {.top = o->top};
    int32_t *win = NULL;
    int rc;

    cmd_catch_int();
    uint32_t window = o->ctx;
    if (o->ids_file) TRYG(read_ids(&ids, o->ids_file, &e));
    TRYG(cmd_engine(&g, o, 1, SCORE_ROWS, 0, &e));
    v.g = g;
    if (!window) window = MIN(2048u, g->ctx);
    bool bos = false;
    if (!o->ids_file) {
        if (!g->tok) {
            rc = err_set(&e, E_UNSUP, "%s; eval --ids FILE.json works without one", g->no_tok);
            goto out;
        }
        TRYG(read_text(&ids, o->file, g->tok, &e));
        bos = o->bos == OPTS_BOS_YES || (o->bos == OPTS_BOS_AUTO && tok_adds_bos(g->tok));
        if (bos && tok_bos(g->tok) < 0) {
            rc = err_set(&e, E_ARG, "--bos yes: the model names no BOS token");
            goto out;
        }
    }
    if (ids.n < 2) {
        rc = err_set(&e, E_FORMAT, "%zu tokens to score, at least 2 are needed", ids.n);
        goto out;
    }
    if (o->top > g->shape.V) {
        rc = err_set(&e, E_ARG, "--top %u: the vocabulary has %u tokens", o->top, g->shape.V);
        goto out;
    }
    v.val = mem_alloc(MAX(o->top, 1u), sizeof *v.val);
    v.vid = mem_alloc(MAX(o->top, 1u), sizeof *v.vid);
    win = mem_alloc(window, sizeof *win);
    if (!v.val || !v.vid || !win) {
        rc = err_set(&e, E_NOMEM, "no memory for a window of %u tokens", window);
        goto out;
    }
    uint32_t body = window - (bos ? 1 : 0);
    if (window < 2) {
        rc = err_set(&e, E_ARG, "--ctx %u: a window needs 2 tokens", window);
        goto out;
    }
    if (!o->quiet) progress_begin(&v.bar, "scoring", "tokens", ids.n);
    uint64_t t0 = os_now_ns();
    for (size_t at = 0; at < ids.n; at += body) {
        uint32_t k = (uint32_t)MIN((size_t)body, ids.n - at), m = 0;
        if (bos) win[m++] = tok_bos(g->tok);
        for (uint32_t i = 0; i < k; i++) win[m++] = ids.v[at + i];
        TRYG(seq_init(&seq, window, &e));
        v.id = win;
        v.n = m;
        TRYG(engine_score(g, &seq, win, m, on_rows, &v, &e));
        seq_free(&seq, &g->kv);
    }
    uint64_t ns = os_now_ns() - t0;
    progress_end(&v.bar);
    double nll = v.predicted ? v.nll / (double)v.predicted : 0, tps = (double)v.done * 1e9 / (double)ns;
    if (o->json) {
        printf("{\"tokens\":%zu,\"predicted\":%llu,\"nll\":%.9g,\"ppl\":%.9g,\"tokens_per_s\":%.3f,\"window\":%u,\"isa\":\"%s\"", ids.n, (unsigned long long)v.predicted,
               nll, exp(nll), tps, window, isa_name(g->isa));
        if (o->top)
            printf(",\"argmax\":[%s],\"ids\":[%s],\"logits\":[%s]", v.argmax.p ? v.argmax.p : "", v.ids.p ? v.ids.p : "", v.logits.p ? v.logits.p : "");
        puts("}");
    } else {
        printf("%zu tokens, %llu predicted: nll %.5f nats, perplexity %.4f, %.1f tokens/s (%s, window %u)\n", ids.n, (unsigned long long)v.predicted, nll, exp(nll),
               tps, isa_name(g->isa), window);
    }
    if (!buf_ok(&v.argmax) || !buf_ok(&v.ids) || !buf_ok(&v.logits)) rc = err_set(&e, E_NOMEM, "no memory for the list of logits");
out:
    progress_end(&v.bar);
    if (g) seq_free(&seq, &g->kv);
    engine_close(g);
    buf_free(&v.argmax);
    buf_free(&v.ids);
    buf_free(&v.logits);
    mem_free(v.val);
    mem_free(v.vid);
    mem_free(win);
    ids_free(&ids);
    return rc < 0 ? cmd_fail(&e) : EXIT_OK;
}
