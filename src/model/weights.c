/* weights.c: tensor names -> places of the forward pass. Names: docs/gguf.md, "Standardized tensor names". Every tensor is looked
 * up by name, its dimensions are held against the shape, and what is left over is judged: a tensor that another family would use
 * is refused, since leaving it out would give wrong answers without a word. */
#include "model/weights.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct binder {
    struct weights *w;
    const struct gguf *g;
    struct err *e;
    size_t n_made, at_made; /* floats to convert: counted by a first pass, handed out by a second */
    bool counting;
};

static int mark(struct binder *b, const struct gguf_tensor *t)
{
    b->w->used[t - b->g->t] = 1;
    return OK;
}

/* "3x4" */
static void put_dims(char out[96], const struct gguf_tensor *t)
{
    int n = 0;
    for (uint32_t i = 0; i < t->n_dim && n >= 0 && n < 80; i++)
        n += snprintf(out + n, 96 - (size_t)n, "%s%llu", i ? "x" : "", (unsigned long long)t->dim[i]);
}

/* The tensor `name` of dim0 x dim1 values (dim1 1: a vector); NULL in *t when it is absent and may be. */
static int find(struct binder *b, const char *name, bool must, uint64_t dim0, uint64_t dim1, const struct gguf_tensor **t)
{
    *t = gguf_tensor_find(b->g, name);
    if (!*t) return must ? gguf_fail(b->g, b->e, E_FORMAT, "tensor %s is missing", name) : OK;
    const uint64_t *d = (*t)->dim;
    if (d[0] != dim0 || d[1] != dim1 || d[2] != 1 || d[3] != 1) {
        char got[96] = "";
        put_dims(got, *t);
        if (dim1 == 1)
            return gguf_fail(b->g, b->e, E_FORMAT, "tensor %s: file has %s, %llu is wanted", name, got, (unsigned long long)dim0);
        return gguf_fail(b->g, b->e, E_FORMAT, "tensor %s: file has %s, %llux%llu is wanted", name, got, (unsigned long long)dim0,
                         (unsigned long long)dim1);
    }
    return mark(b, *t);
}

static int bind_mat(struct binder *b, struct mat *m, const char *name, uint32_t rows, uint32_t cols)
{
    const struct gguf_tensor *t;
    TRY(find(b, name, true, cols, rows, &t));
    const float *bias = m->bias;
    *m = (struct mat){.w = t->data, .file = t->data, .bias = bias, .rows = rows, .cols = cols, .dt = t->dt, .src = t};
    m->row_bytes = dtype_row_bytes(t->dt, cols);
    return OK;
}

/* A vector of n values as f32: in place when the file has it so, else converted into w->made. */
static int bind_vec(struct binder *b, const float **v, const char *name, bool must, uint32_t n)
{
    const struct gguf_tensor *t;
    TRY(find(b, name, must, n, 1, &t));
    if (!t) return OK;
    if (t->dt == DT_F32) {
        *v = (const float *)(const void *)t->data; /* 8-byte aligned: a rule of the loader */
        return OK;
    }
    if (b->counting) {
        b->n_made += n;
        return OK;
    }
    float *to = b->w->made + b->at_made;
    b->at_made += n;
    dtype_table[t->dt].dequant(to, t->data, n);
    *v = to;
    return OK;
}

static const char *in_layer(char out[64], uint32_t l, const char *name)
{
    snprintf(out, 64, "blk.%u.%s", l, name);
    return out;
}

static int bind_layer(struct binder *b, uint32_t l)
{
    const struct model_shape *s = b->w->shape;
    struct layer *y = &b->w->layer[l];
    const uint32_t q = s->H * s->E, kv = s->G * s->E;
    char z[64];
    TRY(bind_vec(b, &y->attn_norm, in_layer(z, l, "attn_norm.weight"), true, s->D));
    TRY(bind_mat(b, &y->q, in_layer(z, l, "attn_q.weight"), q, s->D));
    TRY(bind_mat(b, &y->k, in_layer(z, l, "attn_k.weight"), kv, s->D));
    TRY(bind_mat(b, &y->v, in_layer(z, l, "attn_v.weight"), kv, s->D));
    TRY(bind_mat(b, &y->o, in_layer(z, l, "attn_output.weight"), s->D, q));
    if (s->qkv_bias) {
        TRY(bind_vec(b, &y->q.bias, in_layer(z, l, "attn_q.bias"), true, q));
        TRY(bind_vec(b, &y->k.bias, in_layer(z, l, "attn_k.bias"), true, kv));
        TRY(bind_vec(b, &y->v.bias, in_layer(z, l, "attn_v.bias"), true, kv));
    }
    if (s->qk_norm) {
        TRY(bind_vec(b, &y->q_norm, in_layer(z, l, "attn_q_norm.weight"), true, s->E));
        TRY(bind_vec(b, &y->k_norm, in_layer(z, l, "attn_k_norm.weight"), true, s->E));
    }
    TRY(bind_vec(b, &y->ffn_norm, in_layer(z, l, "ffn_norm.weight"), true, s->D));
    TRY(bind_mat(b, &y->gate, in_layer(z, l, "ffn_gate.weight"), s->F, s->D));
    TRY(bind_mat(b, &y->up, in_layer(z, l, "ffn_up.weight"), s->F, s->D));
    return bind_mat(b, &y->down, in_layer(z, l, "ffn_down.weight"), s->D, s->F);
}

static int bind_all(struct binder *b)
{
    struct weights *w = b->w;
    const struct model_shape *s = w->shape;
    TRY(bind_mat(b, &w->embed, "token_embd.weight", s->V, s->D));
    TRY(bind_vec(b, &w->out_norm, "output_norm.weight", true, s->D));
    if (s->tied)
        w->out = w->embed;
    else
        TRY(bind_mat(b, &w->out, "output.weight", s->V, s->D));
    if (s->rope == ROPE_FACTORS) TRY(bind_vec(b, &w->rope_factors, "rope_freqs.weight", true, s->rope_dim / 2));
    for (uint32_t l = 0; l < s->L; l++) TRY(bind_layer(b, l));
    return OK;
}

/* A tensor that was not bound: harmless, or part of a computation that hearth would leave out? */
static int judge_extra(const struct binder *b, const struct gguf_tensor *t)
{
    /* Outside the layers: names that other families give to things every token passes through. */
    static const char *const global[] = {"token_embd",
                                         "token_embd_norm",
                                         "token_types",
                                         "position_embd",
                                         "output",
                                         "output_norm",
                                         "rope_factors_long",
                                         "rope_freqs",
                                         "rope_factors_short",
                                         "per_layer_token_embd",
                                         "per_layer_model_proj",
                                         "per_layer_proj_norm",
                                         "dec",
                                         "enc",
                                         "cls"};
    static const char blk[] = "blk.";
    const int shown = (int)utf8_whole(t->name.p, MIN(t->name.n, (size_t)64));
    struct str n = t->name;
    if (n.n > sizeof blk - 1 && memcmp(n.p, blk, sizeof blk - 1) == 0) {
        uint64_t l = 0;
        size_t i = sizeof blk - 1;
        for (; i < n.n && n.p[i] >= '0' && n.p[i] <= '9' && l < 1000000; i++) l = l * 10 + (uint64_t)(n.p[i] - '0');
        if (l >= b->w->shape->L)
            return gguf_fail(b->g, b->e, E_FORMAT, "tensor %.*s: the file says it has %u layers", shown, n.p, b->w->shape->L);
        struct str rest = {n.p + i, n.n - i};
        /* inverse frequencies that early converters stored: nothing reads them */
        if (str_eq(rest, ".attn_rot_embd") || str_eq(rest, ".attn_rot_embd.weight") || str_eq(rest, ".attn.rotary_emb.inv_freq"))
            return OK;
        return gguf_fail(b->g, b->e, E_UNSUP, "tensor %.*s is not part of a model of family %s", shown, n.p, b->w->shape->arch);
    }
    const char *dot = memchr(n.p, '.', n.n);
    struct str head = {n.p, dot ? (size_t)(dot - n.p) : n.n};
    for (size_t i = 0; i < ARRAY_LEN(global); i++)
        if (str_eq(head, global[i]))
            return gguf_fail(b->g, b->e, E_UNSUP, "tensor %.*s is not part of a model of family %s", shown, n.p,
                             b->w->shape->arch);
    return OK;
}

static int check_factors(const struct binder *b)
{
    const float *f = b->w->rope_factors;
    for (uint32_t i = 0; f && i < b->w->shape->rope_dim / 2; i++)
        if (!(f[i] > 0.0f && isfinite(f[i])))
            return gguf_fail(b->g, b->e, E_FORMAT, "tensor rope_freqs.weight: value %u is %g, a positive number is wanted", i,
                             (double)f[i]);
    return OK;
}

int weights_bind(struct weights *w, const struct model_shape *s, const struct gguf *g, struct err *e)
{
    struct binder b = {.w = w, .g = g, .e = e, .counting = true};
    int rc = OK;
    *w = (struct weights){.shape = s};
    if (g->n_t == 0) return gguf_fail(g, e, E_FORMAT, "holds a vocabulary only, no weights");
    w->used = mem_zalloc(g->n_t, 1);
    w->layer = mem_zalloc(s->L, sizeof *w->layer);
    if (!w->used || !w->layer) TRYG(gguf_fail(g, e, E_NOMEM, "no memory for %u layers", s->L));
    TRYG(bind_all(&b));
    if (b.n_made) {
        w->made = mem_alloc(b.n_made, sizeof *w->made);
        if (!w->made) TRYG(gguf_fail(g, e, E_NOMEM, "no memory for %zu values", b.n_made));
        b.counting = false;
        TRYG(bind_all(&b));
    }
    TRYG(check_factors(&b));
    for (uint32_t i = 0; i < g->n_t; i++)
        if (!w->used[i]) TRYG(judge_extra(&b, &g->t[i]));
    for (uint32_t l = 0; l < s->L; l++) {
        const struct layer *y = &w->layer[l];
        const struct mat *m[] = {&y->q, &y->k, &y->v, &y->o, &y->gate, &y->up, &y->down};
        for (size_t i = 0; i < ARRAY_LEN(m); i++) w->matrix_bytes += mat_file_bytes(m[i]);
    }
    w->matrix_bytes += mat_file_bytes(&w->out);
out:
    if (rc < 0) weights_free(w);
    return rc;
}

void weights_free(struct weights *w)
{
    mem_free(w->layer);
    mem_free(w->made);
    mem_free(w->used);
    *w = (struct weights){0};
}

int weights_each(struct weights *w, int (*fn)(void *ud, struct mat *m, const char *name), void *ud)
{
    static const char *const names[] = {"attn_q.weight",   "attn_k.weight", "attn_v.weight",  "attn_output.weight",
                                        "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"};
    for (uint32_t l = 0; l < w->shape->L; l++) {
        struct layer *y = &w->layer[l];
        struct mat *m[] = {&y->q, &y->k, &y->v, &y->o, &y->gate, &y->up, &y->down};
        char z[64];
        for (size_t i = 0; i < ARRAY_LEN(m); i++) TRY(fn(ud, m[i], in_layer(z, l, names[i])));
    }
    return fn(ud, &w->out, "output.weight");
}
