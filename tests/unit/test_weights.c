/* Weights bound by name: what is found, what is missing, misshapen or foreign, vectors of other types, and real files of each
 * family. */
#include "base/buf.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/os.h"
#include "model/shape.h"
#include "model/weights.h"
#include "unit/gguf_make.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct bound {
    struct buf b;
    struct gguf g;
    struct model_shape s;
    struct weights w;
};
static int bind(struct bound *x, const struct gm *m, struct err *e)
{
    memset(x, 0, sizeof *x);
    gm_build(m, &x->b);
    int rc = gguf_open_mem(&x->g, "x.gguf", x->b.p, x->b.n, e);
    assert_int_equal(rc, OK);
    rc = shape_from_gguf(&x->s, &x->g, e);
    if (rc != OK) fail_msg("%s", e->msg);
    return weights_bind(&x->w, &x->s, &x->g, e);
}
static void unbind(struct bound *x)
{
    weights_free(&x->w);
    gguf_close(&x->g);
    buf_free(&x->b);
}
static void bad(const struct gm *m, int code, const char *want)
{
    struct bound x;
    struct err e = {0};
    int rc = bind(&x, m, &e);
    if (rc != code || strncmp(e.msg, "x.gguf: ", 8) != 0 || !strstr(e.msg, want))
        fail_msg("status %d (want %d), '%s' has no '%s'", rc, code, e.msg, want);
    assert_null(x.w.layer);
    unbind(&x);
}

static const uint8_t *data_of(const struct gguf *g, const char *name)
{
    const struct gguf_tensor *t = gguf_tensor_find(g, name);
    assert_non_null(t);
    return t->data;
}
static void mat_is(const struct bound *x, const struct mat *m, const char *name, uint32_t rows, uint32_t cols)
{
    assert_ptr_equal(m->w, data_of(&x->g, name));
    assert_ptr_equal(m->file, m->w);
    assert_ptr_equal(m->src, gguf_tensor_find(&x->g, name));
    assert_true(m->rows == rows && m->cols == cols && m->dt == DT_F32 && m->row_bytes == cols * 4 && m->layout == 0);
}

struct walk {
    char seen[2000];
    size_t n, stop_at;
};
static int note(void *ud, struct mat *m, const char *name)
{
    struct walk *k = ud;
    if (k->n++ == k->stop_at) return E_AGAIN;
    strcat(strcat(k->seen, name), " ");
    m->layout = 7;
    return OK;
}

static void binds_all(void **state)
{
    (void)state;
    struct gm m;
    struct bound x;
    struct err e = {0};
    gm_tiny(&m, "llama", 2);
    assert_int_equal(bind(&x, &m, &e), OK);
    mat_is(&x, &x.w.embed, "token_embd.weight", 40, 32);
    mat_is(&x, &x.w.out, "output.weight", 40, 32);
    mat_is(&x, &x.w.layer[0].q, "blk.0.attn_q.weight", 32, 32);
    mat_is(&x, &x.w.layer[1].k, "blk.1.attn_k.weight", 16, 32);
    mat_is(&x, &x.w.layer[1].v, "blk.1.attn_v.weight", 16, 32);
    mat_is(&x, &x.w.layer[1].o, "blk.1.attn_output.weight", 32, 32);
    mat_is(&x, &x.w.layer[1].gate, "blk.1.ffn_gate.weight", 64, 32);
    mat_is(&x, &x.w.layer[0].up, "blk.0.ffn_up.weight", 64, 32);
    mat_is(&x, &x.w.layer[1].down, "blk.1.ffn_down.weight", 32, 64);
    assert_ptr_equal(x.w.out_norm, data_of(&x.g, "output_norm.weight"));
    assert_ptr_equal(x.w.layer[1].attn_norm, data_of(&x.g, "blk.1.attn_norm.weight"));
    assert_ptr_equal(x.w.layer[0].ffn_norm, data_of(&x.g, "blk.0.ffn_norm.weight"));
    assert_null(x.w.rope_factors);
    assert_null(x.w.layer[0].q.bias);
    assert_null(x.w.layer[0].q_norm);
    assert_null(x.w.made);
    assert_int_equal(x.w.matrix_bytes, shape_params(&x.s) * 4);
    for (uint32_t i = 0; i < x.g.n_t; i++) assert_int_equal(x.w.used[i], 1);

    struct walk k = {.stop_at = SIZE_MAX};
    assert_int_equal(weights_each(&x.w, note, &k), OK);
    assert_string_equal(
        k.seen, "blk.0.attn_q.weight blk.0.attn_k.weight blk.0.attn_v.weight blk.0.attn_output.weight blk.0.ffn_gate.weight "
                "blk.0.ffn_up.weight blk.0.ffn_down.weight blk.1.attn_q.weight blk.1.attn_k.weight blk.1.attn_v.weight "
                "blk.1.attn_output.weight blk.1.ffn_gate.weight blk.1.ffn_up.weight blk.1.ffn_down.weight output.weight ");
    assert_int_equal(x.w.layer[1].down.layout, 7);
    assert_int_equal(x.w.out.layout, 7);
    assert_int_equal(x.w.embed.layout, 0);
    k = (struct walk){.stop_at = 3};
    assert_int_equal(weights_each(&x.w, note, &k), E_AGAIN);
    assert_int_equal(k.n, 4);
    unbind(&x);

    /* tied: the output is the embedding, but a matrix of its own that may be packed */
    gm_drop_tensor(&m, "output.weight");
    assert_int_equal(bind(&x, &m, &e), OK);
    assert_true(x.s.tied);
    mat_is(&x, &x.w.out, "token_embd.weight", 40, 32);
    k = (struct walk){.stop_at = SIZE_MAX};
    assert_int_equal(weights_each(&x.w, note, &k), OK);
    assert_true(x.w.out.layout == 7 && x.w.embed.layout == 0);
    assert_int_equal(x.w.matrix_bytes, shape_params(&x.s) * 4);
    unbind(&x);
    gm_free(&m);
}

static void missing_or_misshapen(void **state)
{
    (void)state;
    struct gm m;
    gm_tiny(&m, "llama", 2);
    const uint32_t n = m.n_t;
    for (uint32_t i = 0; i < n; i++) {
        char want[200], name[80];
        gm_free(&m);
        gm_tiny(&m, "llama", 2);
        snprintf(name, sizeof name, "%s", m.t[i].name);
        if (strcmp(name, "output.weight") != 0) { /* without it the model is a tied one */
            gm_drop_tensor(&m, name);
            snprintf(want, sizeof want, "tensor %s is missing", name);
            bad(&m, E_FORMAT, want);
            gm_free(&m);
            gm_tiny(&m, "llama", 2);
        }
        /* one row, or value, too many */
        struct gm_t *t = &m.t[i];
        const uint64_t d0 = t->dim[0], d1 = t->dim[1];
        if (t->n_dim == 2) {
            gm_tensor(&m, name, 0, d0, d1 + 1, d0 * (d1 + 1) * 4);
            snprintf(want, sizeof want, "tensor %s: file has %llux%llu, %llux%llu is wanted", name, (unsigned long long)d0,
                     (unsigned long long)d1 + 1, (unsigned long long)d0, (unsigned long long)d1);
            bad(&m, E_FORMAT, want);
            t = gm_tensor(&m, name, 0, d0, d1, d0 * d1 * 8);
            t->n_dim = 3;
            t->dim[2] = 2;
            snprintf(want, sizeof want, "tensor %s: file has %llux%llux2, ", name, (unsigned long long)d0,
                     (unsigned long long)d1);
        } else {
            gm_tensor(&m, name, 0, d0 + 1, 0, (d0 + 1) * 4);
            snprintf(want, sizeof want, "tensor %s: file has %llu, %llu is wanted", name, (unsigned long long)d0 + 1,
                     (unsigned long long)d0);
        }
        bad(&m, E_FORMAT, want);
    }
    /* a vocabulary that does not fit the embedding */
    gm_free(&m);
    gm_tiny(&m, "llama", 1);
    struct buf *b = gm_arr(&m, "tokenizer.ggml.tokens", GGUF_STR, 2);
    gm_put_str(b, "a", 1);
    gm_put_str(b, "b", 1);
    bad(&m, E_FORMAT, "tensor token_embd.weight: file has 32x40, 32x2 is wanted");
    const uint32_t all = m.n_t;
    m.n_t = 0;
    bad(&m, E_FORMAT, "holds a vocabulary only, no weights");
    m.n_t = all;
    gm_free(&m);
}

static void foreign(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int code;
        const char *want;
    } t[] = {
        {"blk.0.attn_output.bias", E_UNSUP, "tensor blk.0.attn_output.bias is not part of a model of family llama"},
        {"blk.0.ffn_down.bias", E_UNSUP, "ffn_down.bias"},
        {"blk.0.attn_q_norm.weight", E_UNSUP, "attn_q_norm"}, /* llama has none */
        {"blk.0.post_attention_norm.weight", E_UNSUP, "post_attention_norm"},
        {"blk.0.ffn_gate_inp.weight", E_UNSUP, "ffn_gate_inp"},
        {"blk.0.attn_k.bias", E_UNSUP, "blk.0.attn_k.bias"}, /* without attn_q.bias */
        {"blk.1.attn_q.bias", E_UNSUP, "blk.1.attn_q.bias"}, /* layer 0 has none */
        {"blk.0", E_UNSUP, "blk.0 is not part"},
        {"blk.2.attn_norm.weight", E_FORMAT, "tensor blk.2.attn_norm.weight: the file says it has 2 layers"},
        {"blk.99999999999999999999999.x", E_FORMAT, "the file says it has 2 layers"},
        {"output.bias", E_UNSUP, "output.bias"},
        {"output_norm.bias", E_UNSUP, "output_norm.bias"},
        {"token_embd_norm.weight", E_UNSUP, "token_embd_norm"},
        {"position_embd.weight", E_UNSUP, "position_embd"},
        {"rope_factors_long.weight", E_UNSUP, "rope_factors_long"},
    };
    struct gm m;
    struct bound x;
    struct err e = {0};
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        gm_tiny(&m, "llama", 2);
        gm_tensor(&m, t[i].name, 0, 32, 0, 128);
        bad(&m, t[i].code, t[i].want);
        gm_free(&m);
    }
    /* harmless: bound by nobody, and known as such */
    static const char *const fine[] = {"v.blk.0.attn_q.weight", "mm.0.weight", "blk.1.attn_rot_embd.weight", "anything"};
    gm_tiny(&m, "llama", 2);
    const uint32_t n = m.n_t;
    for (size_t i = 0; i < ARRAY_LEN(fine); i++) gm_tensor(&m, fine[i], 0, 32, 0, 128);
    if (bind(&x, &m, &e) != OK) fail_msg("%s", e.msg);
    for (uint32_t i = 0; i < x.g.n_t; i++) assert_int_equal(x.w.used[i], i < n);
    unbind(&x);
    gm_free(&m);
}

/* Norms, biases and rope factors in 16 bits or F32, mixed. */
static void vectors(void **state)
{
    (void)state;
    struct gm m;
    struct bound x;
    struct err e = {0};
    gm_tiny(&m, "qwen3", 1);
    static const struct {
        const char *name;
        uint32_t n, type, bytes;
    } v[] = {
        {"blk.0.attn_q.bias", 32, 1, 2},        {"blk.0.attn_k.bias", 16, 30, 2},       {"blk.0.attn_v.bias", 16, 0, 4},
        {"blk.0.attn_q_norm.weight", 16, 1, 2}, {"blk.0.attn_k_norm.weight", 16, 0, 4}, {"blk.0.attn_norm.weight", 32, 30, 2},
        {"blk.0.ffn_norm.weight", 32, 8, 34},   {"output_norm.weight", 32, 1, 2},       {"rope_freqs.weight", 8, 0, 4}};
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        gm_tensor(&m, v[i].name, v[i].type, v[i].n, 0, v[i].type == 8 ? v[i].bytes : (size_t)v[i].n * v[i].bytes);
    if (bind(&x, &m, &e) != OK) fail_msg("%s", e.msg);
    const struct layer *y = &x.w.layer[0];
    const float *got[] = {y->q.bias,    y->k.bias,   y->v.bias,    y->q_norm,       y->k_norm,
                          y->attn_norm, y->ffn_norm, x.w.out_norm, x.w.rope_factors};
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        const struct gguf_tensor *t = gguf_tensor_find(&x.g, v[i].name);
        float want[32];
        dtype_table[t->dt].dequant(want, t->data, v[i].n);
        assert_non_null(got[i]);
        assert_memory_equal(got[i], want, v[i].n * 4);
        assert_int_equal((const void *)got[i] == (const void *)t->data, t->dt == DT_F32);
    }
    unbind(&x);
    for (int i = 0; i < 3; i++) { /* k or v bias, k norm cannot be left out */
        static const char *const drop[] = {"blk.0.attn_k.bias", "blk.0.attn_v.bias", "blk.0.attn_k_norm.weight"};
        gm_drop_tensor(&m, drop[i]);
        bad(&m, E_FORMAT, drop[i]);
        gm_tensor(&m, drop[i], 0, 16, 0, 64);
    }
    /* a divisor of nothing */
    static const float wrong[] = {0.0f, -1.0f, NAN, INFINITY};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct gm_t *t = gm_tensor(&m, "rope_freqs.weight", 0, 8, 0, 32);
        memcpy(t->data.p + 12, &wrong[i], 4);
        bad(&m, E_FORMAT, "tensor rope_freqs.weight: value 3 is");
    }
    gm_free(&m);
}

static void no_memory(void **state)
{
    (void)state;
    struct gm m;
    struct err e = {0};
    struct gguf g;
    struct model_shape s;
    struct weights w;
    struct buf b = {0};
    gm_tiny(&m, "llama", 2);
    gm_tensor(&m, "output_norm.weight", 1, 32, 0, 64); /* needs a converted copy */
    gm_build(&m, &b);
    assert_int_equal(gguf_open_mem(&g, "x.gguf", b.p, b.n, &e), OK);
    assert_int_equal(shape_from_gguf(&s, &g, &e), OK);
    for (uint64_t k = 1; k <= 3; k++) {
        mem_fail_after(k);
        assert_int_equal(weights_bind(&w, &s, &g, &e), E_NOMEM);
        assert_null(w.layer);
    }
    mem_fail_after(0);
    assert_int_equal(weights_bind(&w, &s, &g, &e), OK);
    weights_free(&w);
    gguf_close(&g);
    buf_free(&b);
    gm_free(&m);
}

/* Models that transformers made (tests/data/models), through tests/tools/st2gguf.py. */
static void real_families(void **state)
{
    (void)state;
    static const struct {
        const char *family, *arch;
        uint32_t E, G, window;
        enum rope_kind rope;
        bool adjacent, tied, bias, qk_norm;
        enum dtype dt;
    } f[] = {{"llama", "llama", 16, 2, 0, ROPE_FACTORS, true, false, false, false, DT_BF16},
             {"llama-tied", "llama", 16, 4, 0, ROPE_NONE, true, true, false, false, DT_F16},
             {"mistral", "llama", 24, 2, 24, ROPE_NONE, true, false, false, false, DT_BF16},
             {"qwen2", "qwen2", 16, 2, 0, ROPE_NONE, false, false, true, false, DT_F32},
             {"qwen3", "qwen3", 32, 2, 0, ROPE_NONE, false, true, false, true, DT_BF16}};
    for (size_t i = 0; i < ARRAY_LEN(f); i++) {
        char cmd[400], path[200];
        struct gguf g;
        struct model_shape s;
        struct weights w;
        struct err e = {0};
        snprintf(path, sizeof path, "%s/%s.gguf", gm_dir(), f[i].family);
        snprintf(cmd, sizeof cmd, "python3 tests/tools/st2gguf.py tests/data/models/%s '%s'", f[i].family, path);
        assert_int_equal(system(cmd), 0);
        if (gguf_open(&g, path, &e) != OK || shape_from_gguf(&s, &g, &e) != OK || weights_bind(&w, &s, &g, &e) != OK)
            fail_msg("%s", e.msg);
        assert_string_equal(s.arch, f[i].arch);
        assert_true(s.L == 3 && s.D == 64 && s.H == 4 && s.F == 176 && s.V == 512 && s.max_pos == 2048);
        assert_true(s.E == f[i].E && s.G == f[i].G && s.window == f[i].window && s.rope == f[i].rope && s.rope_dim == s.E);
        assert_true(s.rope_adjacent == f[i].adjacent && s.tied == f[i].tied && s.qkv_bias == f[i].bias &&
                    s.qk_norm == f[i].qk_norm);
        assert_int_equal(w.layer[2].down.dt, f[i].dt);
        assert_int_equal(w.layer[2].q.bias != NULL, f[i].bias);
        assert_int_equal(w.layer[2].k_norm != NULL, f[i].qk_norm);
        assert_int_equal(w.rope_factors != NULL, f[i].rope == ROPE_FACTORS);
        if (w.rope_factors) { /* the file's scaling: 8 below the lowest band, 1 above the highest, in between between */
            assert_true(w.rope_factors[0] == 1.0f && w.rope_factors[7] == 8.0f);
            for (int k = 1; k < 8; k++) assert_true(w.rope_factors[k] >= w.rope_factors[k - 1]);
        }
        assert_int_equal(w.matrix_bytes, shape_params(&s) * dtype_table[f[i].dt].bytes);
        for (uint32_t k = 0; k < g.n_t; k++) assert_int_equal(w.used[k], 1);
        weights_free(&w);
        gguf_close(&g);
    }
    gm_rm_dir();
    struct gguf g;
    struct model_shape s;
    struct weights w;
    struct err e = {0};
    if (gguf_open(&g, "tests/data/models/stories260K.gguf", &e) != OK || shape_from_gguf(&s, &g, &e) != OK ||
        weights_bind(&w, &s, &g, &e) != OK)
        fail_msg("%s", e.msg);
    assert_true(s.L == 5 && s.D == 64 && s.H == 8 && s.G == 4 && s.E == 8 && s.F == 172 && s.V == 512 && s.tied);
    assert_int_equal(w.matrix_bytes, 1037312);
    weights_free(&w);
    gguf_close(&g);
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(binds_all), cmocka_unit_test(missing_or_misshapen),
                                   cmocka_unit_test(foreign),   cmocka_unit_test(vectors),
                                   cmocka_unit_test(no_memory), cmocka_unit_test(real_families)};
    return cmocka_run_group_tests_name("weights", t, NULL, NULL);
}
