/* What is special about the AMX level: weights are the file's values rounded to BF16 and nothing else (seen one by one through
 * unit vectors), every tail of rows, columns and activations, parts of k between which sums wait in y, and the same bits for any
 * n and any split. */
#include "base/half.h"
#include "base/mem.h"
#include "kern/kern.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 0x9e3779b97f4a7c15;
static uint32_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}
static float unit(void) { return (float)(int32_t)rnd() * 0x1p-31f; }

static bool amx(struct kern *k)
{
    if (kern_cpu_isa() < ISA_AMX) {
        print_message("skipped: this CPU or kernel has no AMX\n");
        return false;
    }
    kern_init(k, ISA_AMX);
    return true;
}

/* Random blocks with ordinary scales. */
static uint8_t *make_file(enum dtype t, uint32_t rows, uint32_t cols)
{
    const struct dtype_info *d = &dtype_table[t];
    size_t n = (size_t)rows * cols / d->block;
    uint8_t *f = mem_alloc(n, d->bytes), *p = f;
    assert_non_null(f);
    for (size_t i = 0; i < n; i++, p += d->bytes) {
        for (uint32_t j = 0; j < d->bytes; j++) p[j] = (uint8_t)rnd();
        uint16_t a = f32_to_f16(0.01f * (1.5f + unit())), b = f32_to_f16(0.05f * unit()), w = f32_to_bf16(unit());
        bool two = t == DT_Q4_1 || t == DT_Q5_1 || t == DT_Q4_K || t == DT_Q5_K;
        memcpy(p + (t == DT_Q6_K ? 208 : 0), t == DT_BF16 ? &w : &a, 2);
        if (two) memcpy(p + 2, &b, 2);
    }
    return f;
}

struct packed {
    struct mat m;
    void *mem;
    size_t bytes;
};
static struct packed pack(const struct kern *k, enum dtype t, const uint8_t *file, uint32_t rows, uint32_t cols)
{
    const struct kern_gemm *g = &k->gemm[t];
    struct packed p = {
        .m = {.w = file, .file = file, .rows = rows, .cols = cols, .dt = t, .row_bytes = dtype_row_bytes(t, cols)}};
    if (!g->layout) return p;
    p.bytes = g->pack_bytes(rows, cols);
    p.mem = mem_big(p.bytes);
    assert_non_null(p.mem);
    uint32_t cut = rows / 2 / g->unit * g->unit; /* in two pieces */
    g->pack(p.mem, file, p.m.row_bytes, rows, cols, 0, cut);
    g->pack(p.mem, file, p.m.row_bytes, rows, cols, cut, rows);
    p.m.w = p.mem;
    p.m.layout = g->layout;
    return p;
}

/* y [n][ldy] of rows [r0, r1). */
static void gemm(const struct kern *k, const struct mat *m, float *y, size_t ldy, const float *x, uint32_t n, uint32_t r0,
                 uint32_t r1)
{
    const struct kern_gemm *g = &k->gemm[m->dt];
    size_t xb = k->act_bytes[g->act](n, m->cols), sb = g->scratch + g->scratch_col * m->cols;
    void *xa = mem_big(xb), *s = mem_big(sb);
    assert_true(xa && s);
    k->act_prep[g->act](xa, x, m->cols, n, m->cols, 0, n);
    g->gemm(y, ldy, xa, m, n, r0, r1, s);
    mem_big_free(xa, xb);
    mem_big_free(s, sb);
}

static const enum dtype types[] = {DT_BF16, DT_Q8_0, DT_Q4_0, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q4_K, DT_Q5_K, DT_Q6_K};

/* x = unit vectors: y is the weight itself. Nearest BF16, either way in a tie; both ways through the matrix. */
static void weights_are_rounded_only(void **state)
{
    (void)state;
    struct kern k;
    if (!amx(&k)) skip();
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        enum dtype t = types[i];
        enum { ROWS = 35, COLS = 512, N = 64 };
        uint8_t *file = make_file(t, ROWS, COLS);
        struct packed p = pack(&k, t, file, ROWS, COLS);
        float *w = mem_alloc((size_t)ROWS * COLS, 4), *x = mem_zalloc((size_t)N * COLS, 4), *y = mem_alloc((size_t)N * ROWS, 4);
        assert_true(w && x && y);
        for (uint32_t r = 0; r < ROWS; r++) dtype_table[t].dequant(w + r * COLS, file + r * p.m.row_bytes, COLS);
        for (uint32_t c0 = 0; c0 < COLS; c0 += N) {
            for (uint32_t j = 0; j < N; j++) x[j * COLS + c0 + j] = 1;
            for (uint32_t n = N; n; n = n == N ? 7 : 0) {
                gemm(&k, &p.m, y, ROWS, x, n, 0, ROWS);
                for (uint32_t j = 0; j < n; j++)
                    for (uint32_t r = 0; r < ROWS; r++) {
                        float v = w[r * COLS + c0 + j], got = y[j * ROWS + r];
                        if (f32_bits(got) & 0xffff || fabsf(got - v) > fabsf(v) * 0x1p-8f * (1 - 0x1p-9f))
                            fail_msg("%s row %u column %u: %a, file has %a", dtype_name(t), r, c0 + j, (double)got, (double)v);
                        float other = f32_of_bits(f32_bits(got) + (fabsf(v) > fabsf(got) ? 0x10000u : (uint32_t)-0x10000));
                        if (fabsf(other - v) < fabsf(got - v))
                            fail_msg("%s: %a is nearer to %a than %a", dtype_name(t), (double)other, (double)v, (double)got);
                    }
            }
            for (uint32_t j = 0; j < N; j++) x[j * COLS + c0 + j] = 0;
        }
        mem_free(w);
        mem_free(x);
        mem_free(y);
        mem_free(file);
        if (p.mem) mem_big_free(p.mem, p.bytes);
    }
}

/* Bits of every n, of every split into pieces of rows, and of every row alone equal those of one call for all; close to the sum
 * in double. */
static void bits(const struct kern *k, enum dtype t, uint32_t rows, uint32_t cols, bool bias)
{
    enum { N = 100 };
    uint8_t *file = make_file(t, rows, cols);
    struct packed p = pack(k, t, file, rows, cols);
    size_t ldy = rows + 5;
    float *x = mem_alloc((size_t)N * cols, 4), *all = mem_alloc(N * ldy, 4), *y = mem_alloc(N * ldy, 4), *w = mem_alloc(cols, 4),
          *b = mem_alloc(rows, 4);
    assert_true(x && all && y && w && b);
    for (size_t i = 0; i < (size_t)N * cols; i++) x[i] = unit();
    for (uint32_t i = 0; i < rows; i++) b[i] = unit();
    if (bias) p.m.bias = b;
    gemm(k, &p.m, all, ldy, x, N, 0, rows);
    for (uint32_t r = 0; r < rows; r += 1 + rows / 13) {
        dtype_table[t].dequant(w, file + r * p.m.row_bytes, cols);
        for (uint32_t i = 0; i < N; i += 9) {
            double s = bias ? (double)b[r] : 0, mag = 0;
            for (uint32_t c = 0; c < cols; c++) {
                double v = (double)w[c] * (double)bf16_to_f32(f32_to_bf16(x[(size_t)i * cols + c]));
                s += v;
                mag += fabs(v);
            }
            /* weights are off by 2^-9 of themselves at most; a quarter of that would mean that all err to one side */
            double d = fabs((double)all[i * ldy + r] - s), bound = mag * (t == DT_BF16 ? 1e-6 : 0x1p-9) + 1e-6;
            if (!(d <= bound)) fail_msg("%s %ux%u row %u: off by %g of %g", dtype_name(t), rows, cols, r, d, mag);
        }
    }
    static const uint32_t ns[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 97};
    for (size_t q = 0; q < ARRAY_LEN(ns); q++) {
        uint32_t from = rnd() % (N - ns[q] + 1); /* a group may begin at any row */
        memset(y, 0x7f, N * ldy * 4);
        for (uint32_t r = 0; r < rows;) {
            uint32_t r1 = r + k->gemm[t].unit * (1 + rnd() % 9);
            if (r1 > rows) r1 = rows;
            gemm(k, &p.m, y, ldy, x + (size_t)from * cols, ns[q], r, r1);
            r = r1;
        }
        for (uint32_t i = 0; i < N; i++) {
            const float *got = y + i * ldy;
            if (i < ns[q] && memcmp(got, all + (from + i) * ldy, rows * 4))
                fail_msg("%s %ux%u n %u row %u: other bits", dtype_name(t), rows, cols, ns[q], i);
            for (size_t j = i < ns[q] ? rows : 0; j < ldy; j++)
                assert_int_equal(f32_bits(got[j]), 0x7f7f7f7f); /* nothing beside y */
        }
    }
    mem_free(x);
    mem_free(all);
    mem_free(y);
    mem_free(w);
    mem_free(b);
    mem_free(file);
    if (p.mem) mem_big_free(p.mem, p.bytes);
}

static void tails_and_bits(void **state)
{
    (void)state;
    struct kern k;
    if (!amx(&k)) skip();
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        uint32_t b = dtype_table[types[i]].block;
        bits(&k, types[i], 5, b > 32 ? 256 : 32, false);
        bits(&k, types[i], 37, b > 32 ? 768 : 32 * 9, true);
        bits(&k, types[i], 64, 1280, false);
        bits(&k, types[i], 300, b > 32 ? 2816 : 64 * 37, true); /* two panels of rows, two parts of k */
    }
    bits(&k, DT_BF16, 1, 7, true);
    bits(&k, DT_BF16, 33, 33, false);
    bits(&k, DT_BF16, 50, 999, true);
    bits(&k, DT_BF16, 290, 4099, true);
}

/* Activations: every row of a group, tails of k as zeros, nothing written outside; pieces of rows as one call. */
static void activations(void **state)
{
    (void)state;
    struct kern k;
    if (!amx(&k)) skip();
    static const uint32_t ks[] = {1, 15, 16, 17, 31, 32, 33, 100, 576};
    for (size_t q = 0; q < ARRAY_LEN(ks); q++)
        for (uint32_t n = 1; n <= 49; n += n < 18 ? 1 : 15) {
            uint32_t K = ks[q], kp = (K + 31) / 32 * 32;
            float *x = mem_alloc((size_t)n * (K + 3), 4);
            size_t bytes = k.act_bytes[ACT_BF16](n, K);
            uint16_t *a = mem_alloc(bytes + 64, 1), *b = mem_alloc(bytes + 64, 1);
            assert_true(x && a && b);
            for (size_t i = 0; i < (size_t)n * (K + 3); i++) x[i] = unit();
            memset(a, 0x55, bytes + 64);
            memset(b, 0x55, bytes + 64);
            k.act_prep[ACT_BF16](a, x, K + 3, n, K, 0, n);
            for (uint32_t i = 0; i < n; i += 16) k.act_prep[ACT_BF16](b, x, K + 3, n, K, i, MIN(i + 16, n));
            assert_memory_equal(a, b, bytes + 64);
            for (size_t i = 0; i < 32; i++) assert_int_equal(a[bytes / 2 + i], 0x5555);
            for (uint32_t i = 0; i < n; i++)
                for (uint32_t c = 0; c < kp; c++) {
                    uint32_t g0 = i / 16 * 16, g = MIN(16u, n - g0);
                    uint16_t got = a[(size_t)g0 * kp + (size_t)(c / 2) * g * 2 + (i - g0) * 2 + (c & 1)];
                    assert_int_equal(got, c < K ? f32_to_bf16(x[(size_t)i * (K + 3) + c]) : 0);
                }
            mem_free(x);
            mem_free(a);
            mem_free(b);
        }
}

/* Attention: one row alone, any neighbours, and pieces of rows give the same bits; window and causal borders at all places of a
 * block and of a tile pair. */
static void attention_bits(void **state)
{
    (void)state;
    struct kern k;
    if (!amx(&k)) skip();
    enum { BLK = 40, POS = BLK * 16 };
    static const uint32_t es[] = {32, 64, 96, 128, 160, 256};
    for (size_t q = 0; q < ARRAY_LEN(es); q++) {
        uint32_t E = es[q], n_h = 1 + rnd() % 5, n_q = 60, blk[BLK];
        size_t head = (size_t)32 * E, bb = 2 * head + 128, slab_bytes = BLK * bb, ss = k.attn_scratch(E);
        uint8_t *slab = mem_big(slab_bytes);
        void *s = mem_big(ss);
        float *x = mem_alloc((size_t)n_q * n_h * E, 4), *kv = mem_alloc(2 * E, 4);
        float *all = mem_alloc((size_t)n_q * n_h * (E + 2), 4), *y = mem_alloc((size_t)n_q * n_h * (E + 2), 4);
        assert_true(slab && s && x && kv && all && y);
        for (uint32_t i = 0; i < BLK; i++) blk[i] = (i * 7) % BLK;
        for (uint32_t p = 0; p < POS; p++) {
            for (uint32_t e = 0; e < 2 * E; e++) kv[e] = unit();
            uint8_t *b = slab + blk[p / 16] * bb;
            k.kv_put[KV_BF16](b, b + head, kv, kv + E, E, p % 16);
        }
        for (size_t i = 0; i < (size_t)n_q * n_h * E; i++) x[i] = 4 * unit();
        for (uint32_t c = 0; c < 12; c++) {
            struct attn_job j = {.q = x,
                                 .ldq = (size_t)n_h * E,
                                 .n_q = n_q,
                                 .n_h = n_h,
                                 .E = E,
                                 .scale = 1 / sqrtf((float)E),
                                 .k = slab,
                                 .v = slab + head,
                                 .blk_bytes = bb,
                                 .blk = blk};
            j.pos0 = rnd() % (POS - n_q);
            j.window = c % 3 ? 1 + rnd() % 200 : 0;
            for (uint32_t span = 0; span < 3; span++) {
                size_t row = E + 2;
                k.attn_span[KV_BF16](&j, span, all, s);
                for (uint32_t i = 0; i < n_q;) {
                    struct attn_job o = j;
                    uint32_t some = 1 + rnd() % 23;
                    o.n_q = MIN(some, n_q - i);
                    o.pos0 = j.pos0 + i;
                    o.q = x + (size_t)i * n_h * E;
                    memset(y, 0x7f, (size_t)n_q * n_h * row * 4);
                    k.attn_span[KV_BF16](&o, span, y, s);
                    assert_memory_equal(y, all + i * n_h * row, o.n_q * n_h * row * 4);
                    for (size_t z = o.n_q * n_h * row; z < (size_t)n_q * n_h * row; z++)
                        assert_int_equal(f32_bits(y[z]), 0x7f7f7f7f);
                    i += o.n_q;
                }
                for (uint32_t i = 0; i < n_q; i++) {
                    uint32_t pos = j.pos0 + i, lo = j.window && pos >= j.window ? pos + 1 - j.window : 0;
                    bool any = pos >= span * KERN_SPAN && lo < (span + 1) * KERN_SPAN;
                    const float *r = all + (size_t)i * n_h * row;
                    if (any ? !(r[1] >= 0.999f && isfinite(r[0])) : !(r[0] == -INFINITY && r[1] == 0 && r[2] == 0))
                        fail_msg("E %u pos %u window %u span %u: m %g l %g", E, pos, j.window, span, (double)r[0], (double)r[1]);
                }
            }
        }
        mem_big_free(slab, slab_bytes);
        mem_big_free(s, ss);
        mem_free(x);
        mem_free(kv);
        mem_free(all);
        mem_free(y);
    }
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(weights_are_rounded_only),
        cmocka_unit_test(tails_and_bits),
        cmocka_unit_test(activations),
        cmocka_unit_test(attention_bits),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
