/* shape.c: from a file's metadata to the one description of a model. Key names: docs/gguf.md of the ggml repository. A key that
 * would change the result and is not understood is an error, so that a model either runs as its makers meant it or says why not.
 */
#include "model/shape.h"
#include "base/buf.h"
#include "model/gguf.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Limits far above any model, low enough that no product of two or three overflows 64 bits and no loop over layers is long. */
enum { MAX_L = 4096, MAX_D = 1 << 20, MAX_F = 1 << 24, MAX_H = 1 << 16, MAX_E = 1 << 14, MAX_V = 1 << 24, MAX_POS = 1 << 30 };

static const struct family {
    const char *arch;
    bool adjacent; /* rotation pairs (2i, 2i+1): the converter to this architecture permutes the rows of q and k for it */
    bool qk_norm;  /* must have attn_q_norm and attn_k_norm */
} families[] = {
    {"llama", true, false},   /* Llama 2, 3, 3.1, 3.2, SmolLM2, Mistral 7B as converted by llama.cpp */
    {"mistral", true, false}, /* the same under its own name */
    {"qwen2", false, false},
    {"qwen3", false, true},
};

const char *shape_arch_name(size_t i) { return i < ARRAY_LEN(families) ? families[i].arch : NULL; }

static const char *arch_at(const void *ud, size_t i)
{
    (void)ud;
    return shape_arch_name(i);
}

/* Text from the file made fit to be shown: whole UTF-8 characters up to cap-1 bytes, '?' for the rest. */
static void show(char *out, size_t cap, struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n;) {
        uint32_t cp, k = utf8_next(s.p + i, s.n - i, &cp);
        if (n + k >= cap) break;
        if (cp == UINT32_MAX || cp < 0x20 || cp == 0x7f)
            out[n++] = '?';
        else
            memcpy(out + n, s.p + i, k), n += k;
        i += k;
    }
    out[n] = 0;
}

/* ---- keys under the architecture's prefix */

struct src {
    const struct gguf *g;
    const char *arch;
    struct err *e;
};
struct key {
    char z[96];
};
static struct key key_of(const struct src *c, const char *suffix)
{
    struct key k;
    snprintf(k.z, sizeof k.z, "%s.%s", c->arch, suffix);
    return k;
}
/* 1 present, 0 absent (*v keeps its default). */
static int get(const struct src *c, const char *suffix, uint32_t lo, uint32_t hi, uint32_t *v)
{
    uint64_t x;
    int rc = gguf_u64(c->g, key_of(c, suffix).z, lo, hi, &x, c->e);
    if (rc == 1) *v = (uint32_t)x;
    return rc;
}
static int need(const struct src *c, const char *suffix, uint32_t lo, uint32_t hi, uint32_t *v)
{
    int rc = get(c, suffix, lo, hi, v);
    if (rc == 0) return gguf_fail(c->g, c->e, E_FORMAT, "key %s is missing", key_of(c, suffix).z);
    return rc;
}
static int getf(const struct src *c, const char *suffix, double lo, double hi, float *v)
{
    double x;
    struct key k = key_of(c, suffix);
    int rc = gguf_f64(c->g, k.z, &x, c->e);
    if (rc == 1 && !(x >= lo && x <= hi))
        return gguf_fail(c->g, c->e, E_FORMAT, "key %s: %g; %g to %g is wanted", k.z, x, lo, hi);
    if (rc == 1) *v = (float)x;
    return rc;
}

/* Keys of other families (Gemma, Grok, Granite, Command-R, Falcon, Llama 4) that change the arithmetic: fine at their neutral
 * value only. */
static int refuse_foreign(const struct src *c)
{
    static const struct {
        const char *suffix;
        double neutral[2];
    } num[] = {
        {"attn_logit_softcapping", {0, 0}},
        {"final_logit_softcapping", {0, 0}},
        {"attention.max_alibi_bias", {0, 0}},
        {"attention.clamp_kqv", {0, 0}},
        {"attention.temperature_scale", {0, 0}},
        {"embedding_scale", {0, 1}},
        {"residual_scale", {0, 1}},
        {"logit_scale", {0, 1}},
        {"rope.scaling.attn_factor", {0, 1}},
        {"rope.scaling.yarn_log_multiplier", {0, 0}},
    };
    for (size_t i = 0; i < ARRAY_LEN(num); i++) {
        struct key k = key_of(c, num[i].suffix);
        double v = num[i].neutral[0];
        TRY(gguf_f64(c->g, k.z, &v, c->e));
        if (v != num[i].neutral[0] && v != num[i].neutral[1])
            return gguf_fail(c->g, c->e, E_UNSUP, "key %s: %g is not supported", k.z, v);
    }
    bool causal = true, parallel = false;
    TRY(gguf_bool(c->g, key_of(c, "attention.causal").z, &causal, c->e));
    if (!causal)
        return gguf_fail(c->g, c->e, E_UNSUP, "attention.causal is false: a model without causal attention is not supported");
    TRY(gguf_bool(c->g, key_of(c, "use_parallel_residual").z, &parallel, c->e));
    if (parallel) return gguf_fail(c->g, c->e, E_UNSUP, "use_parallel_residual is not supported");
    struct key pat = key_of(c, "attention.sliding_window_pattern");
    if (gguf_find(c->g, pat.z))
        return gguf_fail(c->g, c->e, E_UNSUP, "key %s (a window in some layers only) is not supported", pat.z);
    return OK;
}

static int find_arch(struct model_shape *s, const struct family **f, const struct gguf *g, struct err *e)
{
    struct str arch;
    char shown[48];
    int rc = gguf_str(g, "general.architecture", &arch, e);
    if (rc == 0) return gguf_fail(g, e, E_FORMAT, "key general.architecture is missing");
    TRY(rc);
    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        if (str_eq(arch, families[i].arch)) {
            *f = &families[i];
            snprintf(s->arch, sizeof s->arch, "%s", families[i].arch);
            return OK;
        }
    show(shown, sizeof shown, arch);
    const char *near = near_name(shown, arch_at, NULL, ARRAY_LEN(families));
    struct buf list = {.max = 120};
    for (size_t i = 0; i < ARRAY_LEN(families); i++) buf_printf(&list, "%s%s", i ? ", " : "", families[i].arch);
    rc = gguf_fail(g, e, E_UNSUP, "architecture \"%s\" is not supported (known: %s%s%s)", shown, list.p ? list.p : "",
                   near ? "; nearest: " : "", near ? near : "");
    buf_free(&list);
    return rc;
}

/* Tokens in the vocabulary: as many as the tokenizer has, else the key, else the embedding's rows. weights_bind holds the
 * matrices against it. */
static int read_vocab(struct model_shape *s, const struct src *c)
{
    const struct gguf_kv *tok;
    int rc = gguf_arr(c->g, "tokenizer.ggml.tokens", GGUF_STR, &tok, c->e);
    TRY(rc);
    if (rc == 1) {
        if (tok->n < 1 || tok->n > MAX_V)
            return gguf_fail(c->g, c->e, E_FORMAT, "tokenizer.ggml.tokens has %llu entries", (unsigned long long)tok->n);
        s->V = (uint32_t)tok->n;
        return OK;
    }
    rc = get(c, "vocab_size", 1, MAX_V, &s->V);
    if (rc != 0) return MIN(rc, OK);
    const struct gguf_tensor *t = gguf_tensor_find(c->g, "token_embd.weight");
    if (!t || t->dim[1] > MAX_V)
        return gguf_fail(c->g, c->e, E_FORMAT, "no way to know the vocabulary's size (%s)", key_of(c, "vocab_size").z);
    s->V = (uint32_t)t->dim[1];
    return OK;
}

/* Rotary embedding: base, rotated part, scaling. */
static int read_rope(struct model_shape *s, const struct src *c)
{
    struct str type = {0};
    char shown[48];
    s->rope_theta = 10000.0f; /* docs/gguf.md names no default; this is RoPE's own (Su et al. 2021) */
    s->rope_dim = s->E;
    s->rope_factor = 1.0f;
    TRY(get(c, "rope.dimension_count", 2, s->E, &s->rope_dim));
    if (s->rope_dim % 2) return gguf_fail(c->g, c->e, E_FORMAT, "%s.rope.dimension_count is %u, not even", c->arch, s->rope_dim);
    TRY(getf(c, "rope.freq_base", 1.0, 1e12, &s->rope_theta));
    int has_type = gguf_str(c->g, key_of(c, "rope.scaling.type").z, &type, c->e);
    TRY(has_type);
    if (has_type && !str_eq(type, "none") && !str_eq(type, "linear")) {
        show(shown, sizeof shown, type);
        return gguf_fail(c->g, c->e, E_UNSUP,
                         "rope scaling of type \"%s\" is not supported (none, linear, and factors in rope_freqs.weight are)",
                         shown);
    }
    /* A factor without a type means linear; scale_linear is the key's older name (docs/gguf.md). */
    int has = getf(c, "rope.scaling.factor", 0.0, 1e9, &s->rope_factor);
    if (has == 0) has = getf(c, "rope.scale_linear", 0.0, 1e9, &s->rope_factor);
    TRY(has);
    if (s->rope_factor == 0.0f || str_eq(type, "none")) s->rope_factor = 1.0f;
    s->rope = s->rope_factor != 1.0f ? ROPE_LINEAR : ROPE_NONE;
    if (gguf_tensor_find(c->g, "rope_freqs.weight")) {
        if (s->rope == ROPE_LINEAR) return gguf_fail(c->g, c->e, E_UNSUP, "both linear rope scaling and rope_freqs.weight");
        s->rope = ROPE_FACTORS;
    }
    return OK;
}

static int read_heads(struct model_shape *s, const struct src *c)
{
    uint32_t value = 0;
    TRY(need(c, "attention.head_count", 1, MAX_H, &s->H));
    s->G = s->H;
    TRY(get(c, "attention.head_count_kv", 1, MAX_H, &s->G));
    int has = get(c, "attention.key_length", 2, MAX_E, &s->E);
    TRY(has);
    if (has == 0) {
        if (s->D % s->H)
            return gguf_fail(c->g, c->e, E_FORMAT, "%u heads do not divide the width %u, and there is no key_length", s->H, s->D);
        s->E = s->D / s->H;
    }
    if (s->E % 2) return gguf_fail(c->g, c->e, E_FORMAT, "head size %u is odd", s->E);
    value = s->E;
    TRY(get(c, "attention.value_length", 1, MAX_E, &value));
    if (value != s->E)
        return gguf_fail(c->g, c->e, E_UNSUP, "heads of %u values for keys and %u for values are not supported", s->E, value);
    s->attn_scale = 1.0f / sqrtf((float)s->E);
    float scale = 0.0f;
    TRY(getf(c, "attention.scale", 0.0, 1e6, &scale));
    if (scale > 0.0f) s->attn_scale = scale;
    return OK;
}

int shape_from_gguf(struct model_shape *s, const struct gguf *g, struct err *e)
{
    const struct family *f = NULL;
    struct str name = {0};
    *s = (struct model_shape){0};
    TRY(find_arch(s, &f, g, e));
    TRY(gguf_str(g, "general.name", &name, e));
    show(s->name, sizeof s->name, name);
    const struct src c = {g, f->arch, e};
    TRY(need(&c, "block_count", 1, MAX_L, &s->L));
    TRY(need(&c, "context_length", 1, MAX_POS, &s->max_pos));
    TRY(need(&c, "embedding_length", 1, MAX_D, &s->D));
    TRY(need(&c, "feed_forward_length", 1, MAX_F, &s->F));
    TRY(read_heads(s, &c));
    TRY(get(&c, "expert_count", 0, 65536, &s->n_expert));
    if (s->n_expert)
        return gguf_fail(g, e, E_UNSUP, "a sparse model (%s.expert_count is %u) is not supported yet", f->arch, s->n_expert);
    int rc = getf(&c, "attention.layer_norm_rms_epsilon", 0.0, 1.0, &s->norm_eps);
    if (rc == 0) return gguf_fail(g, e, E_FORMAT, "key %s.attention.layer_norm_rms_epsilon is missing", f->arch);
    TRY(rc);
    TRY(get(&c, "attention.sliding_window", 0, MAX_POS, &s->window));
    TRY(read_rope(s, &c));
    TRY(read_vocab(s, &c));
    TRY(refuse_foreign(&c));
    s->rope_adjacent = f->adjacent;
    s->qk_norm = f->qk_norm;
    s->tied = !gguf_tensor_find(g, "output.weight");
    s->qkv_bias = gguf_tensor_find(g, "blk.0.attn_q.bias") != NULL;
    char show_[96];
    return shape_check(s, gguf_show_path(g->path, show_), e);
}

int shape_check(const struct model_shape *s, const char *what, struct err *e)
{
    const struct {
        const char *name;
        uint32_t v, max;
    } dim[] = {{"layers", s->L, MAX_L},     {"width", s->D, MAX_D},
               {"heads", s->H, MAX_H},      {"KV heads", s->G, MAX_H},
               {"head size", s->E, MAX_E},  {"feed-forward width", s->F, MAX_F},
               {"vocabulary", s->V, MAX_V}, {"context length", s->max_pos, MAX_POS}};
    for (size_t i = 0; i < ARRAY_LEN(dim); i++)
        if (dim[i].v < 1 || dim[i].v > dim[i].max)
            return err_set(e, E_FORMAT, "%s: %s of %u; 1 to %u is wanted", what, dim[i].name, dim[i].v, dim[i].max);
    if (s->H % s->G) return err_set(e, E_FORMAT, "%s: %u heads are no multiple of %u KV heads", what, s->H, s->G);
    if (s->E % 2) return err_set(e, E_FORMAT, "%s: head size %u is odd", what, s->E);
    if (s->rope_dim < 2 || s->rope_dim % 2 || s->rope_dim > s->E)
        return err_set(e, E_FORMAT, "%s: %u rotated values in heads of %u", what, s->rope_dim, s->E);
    if (s->n_expert_used > s->n_expert || (s->n_expert && !s->n_expert_used))
        return err_set(e, E_FORMAT, "%s: %u experts used of %u", what, s->n_expert_used, s->n_expert);
    if (!(s->norm_eps >= 0.0f && s->norm_eps < 1.0f) || !(s->rope_theta >= 1.0f && isfinite(s->rope_theta)) ||
        !(s->rope_factor > 0.0f && isfinite(s->rope_factor)) || !(s->attn_scale > 0.0f && isfinite(s->attn_scale)))
        return err_set(e, E_FORMAT, "%s: norm epsilon %g, rope base %g, rope factor %g, attention scale %g: one is out of range",
                       what, (double)s->norm_eps, (double)s->rope_theta, (double)s->rope_factor, (double)s->attn_scale);
    /* H*E at most 2^30, so the row counts of q, k, v fit 32 bits; the largest matrix in f32 fits size_t with room to add a few.
     */
    size_t b, rows = MAX(MAX((size_t)s->H * s->E, (size_t)s->F), (size_t)s->V);
    if (rows > UINT32_MAX || !mul_ok(rows, s->D, &b) || !mul_ok(b, 4 * MAX(s->n_expert, 1u), &b) || b > SIZE_MAX / 4)
        return err_set(e, E_FORMAT, "%s: a matrix of %zu x %u is too large", what, rows, s->D);
    return OK;
}

uint64_t shape_params(const struct model_shape *s)
{
    uint64_t D = s->D, q = (uint64_t)s->H * s->E, kv = (uint64_t)s->G * s->E;
    uint64_t ffn = 3 * D * s->F * (s->n_expert ? s->n_expert_used : 1) + D * s->n_expert;
    return s->L * (2 * D * q + 2 * D * kv + ffn) + D * s->V;
}

uint64_t shape_kv_bytes(const struct model_shape *s, uint32_t elem_bytes)
{
    return (uint64_t)2 * s->L * s->G * s->E * elem_bytes;
}
