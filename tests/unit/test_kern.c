/* Every slot of the kernel table on every level this CPU has: against double arithmetic within bounds derived from the rounding
 * steps, and the numerical contract as bits. `test_kern --bench [LEVEL [TYPE|rest]]` prints speeds of one thread. Seed: SEED in
 * the environment, printed. */
#include "base/half.h"
#include "base/mem.h"
#include "kern/kern.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define U 0x1p-24 /* unit roundoff of f32 */
static const uint32_t n_list[] = {1, 2, 3, 5, 8, 16, 17, 64, 130};
#define N_MAX 130u

static uint64_t rng = 1;
static uint64_t rnd(void) /* xorshift64* (Vigna 2016) */
{
    rng ^= rng >> 12;
    rng ^= rng << 25;
    rng ^= rng >> 27;
    return rng * 2685821657736338717u;
}
static uint32_t below(uint32_t n) { return (uint32_t)((rnd() >> 32) * n >> 32); }
static float unit(void) { return (float)((double)(int64_t)rnd() * 0x1p-63); } /* -1..1 */
static float normal(void) { return unit() + unit() + unit(); }

/* Memory with 64 known bytes on both sides. */
static uint8_t *guarded(size_t bytes)
{
    uint8_t *p = mem_big(align_up(bytes, 64) + 192);
    assert_non_null(p);
    size_t n = align_up(bytes, 64);
    memcpy(p, &bytes, sizeof bytes);
    memset(p + 64, 0xa5, 64);
    memset(p + 128 + bytes, 0xa5, n - bytes + 64);
    return p + 128;
}
static void guard_check(const void *v)
{
    const uint8_t *p = v;
    size_t bytes;
    memcpy(&bytes, p - 128, sizeof bytes);
    for (int i = 1; i <= 64; i++) assert_int_equal(p[-i], 0xa5);
    for (size_t i = bytes; i < align_up(bytes, 64) + 64; i++) assert_int_equal(p[i], 0xa5);
}
static void guard_free(void *v)
{
    size_t bytes;
    if (!v) return;
    guard_check(v);
    memcpy(&bytes, (uint8_t *)v - 128, sizeof bytes);
    mem_big_free((uint8_t *)v - 128, align_up(bytes, 64) + 192);
}

/* ---- random weights */

static void put_f16(uint8_t *p, float f)
{
    uint16_t h = f32_to_f16(f);
    memcpy(p, &h, 2);
}

/* Block scales: mostly ordinary; edge adds zero, denormals, the largest and negative ones. */
static float scale_val(bool edge)
{
    if (edge) switch (below(12)) {
        case 0: return 0;
        case 1: return -0.0f;
        case 2: return 0x1p-24f;
        case 3: return 0x1p-15f;
        case 4: return 65504.0f;
        case 5: return -0.01f;
        default: break;
        }
    return 0.005f + 0.01f * fabsf(unit());
}

static void make_weights(uint8_t *p, enum dtype dt, size_t blocks, bool edge)
{
    const uint32_t bytes = dtype_table[dt].bytes;
    for (size_t b = 0; b < blocks; b++, p += bytes) {
        for (uint32_t i = 0; i < bytes; i += 8) {
            uint64_t r = rnd();
            memcpy(p + i, &r, MIN(8, bytes - i));
        }
        float v = edge && below(10) == 0 ? (below(2) ? 1e-39f : 0) : normal() * 0.1f;
        uint16_t h = f32_to_bf16(v);
        switch (dt) {
        case DT_F32: memcpy(p, &v, 4); break;
        case DT_BF16: memcpy(p, &h, 2); break;
        case DT_F16: put_f16(p, edge && below(10) == 0 ? 0x1p-22f : v); break;
        case DT_Q6_K: put_f16(p + 208, scale_val(edge) * 0.1f); break;
        default:
            put_f16(p, scale_val(edge));
            if (dt == DT_Q4_1 || dt == DT_Q5_1 || dt == DT_Q4_K || dt == DT_Q5_K) put_f16(p + 2, scale_val(edge) * 0.3f);
        }
        if (edge && bytes >= 18 && below(8) == 0) { /* all codes and block-internal scales at an end */
            uint32_t from = dt == DT_Q6_K ? 0 : dt == DT_Q8_0 || dt == DT_Q4_0 || dt == DT_Q5_0 ? 2 : 4;
            memset(p + from, below(2) ? 0xff : 0, dt == DT_Q6_K ? 208 : bytes - from);
        }
    }
}

/* Largest |d*q| + |m| of the block of 32 that holds column c: what the parts of a value can be before they cancel. */
static double part_size(enum dtype dt, const uint8_t *row, uint32_t c)
{
    const uint8_t *p = row + (size_t)(c / dtype_table[dt].block) * dtype_table[dt].bytes;
    uint16_t d, m;
    memcpy(&d, p, 2);
    memcpy(&m, p + 2, 2);
    double D = fabs((double)f16_to_f32(d)), M = fabs((double)f16_to_f32(m));
    if (dt == DT_Q4_1 || dt == DT_Q5_1) return 31 * D + M;
    if (dt == DT_Q4_K || dt == DT_Q5_K) return 31 * 63 * D + 63 * M;
    return 0;
}

/* ---- gemm */

struct gemm_case {
    struct mat m; /* file layout */
    uint8_t *file;
    void *packed; /* NULL: used in place */
    float *x;     /* [N_MAX][ldx] */
    size_t ldx;
    double *want, *bound; /* [N_MAX][rows], without activation rounding */
};

static void *prep(const struct kern *k, enum act_fmt f, const float *x, size_t ldx, uint32_t n, uint32_t cols)
{
    void *xa = guarded(k->act_bytes[f](n, cols));
    memset(xa, 0x7f, k->act_bytes[f](n, cols));
    /* in two parts, as threads do */
    uint32_t mid = n / KERN_ROWS / 2 * KERN_ROWS;
    if (mid) k->act_prep[f](xa, x, ldx, n, cols, 0, mid);
    k->act_prep[f](xa, x, ldx, n, cols, mid, n);
    return xa;
}

/* What activation row i, column c stands for in a gemm. The layout of ACT_BF16 is the level's own, its values are not. */
static double act_value(enum act_fmt f, void *xa, const float *x, uint32_t n, uint32_t cols, uint32_t i, uint32_t c)
{
    if (f == ACT_F32) return (double)((float *)xa)[i * act_f32_ld(cols) + c];
    if (f == ACT_BF16) return (double)bf16_to_f32(f32_to_bf16(x[c]));
    struct act_q8 a;
    act_q8_view(&a, xa, n, cols);
    size_t at = act_q8_at(&a, i, c / 32, MIN(16, n - i / 16 * 16));
    return (double)a.q[at * 32 + c % 32] * (double)a.scale[at];
}

static void fill_x(float *x, size_t n, bool edge)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = normal();
        if (edge) switch (below(40)) {
            case 0: x[i] = 0; break;
            case 1: x[i] = 1e-40f; break;
            case 2: x[i] *= 100; break;
            case 3:
                for (int j = 0; j < 40 && i + 1 < n; j++) x[i++] = below(2) ? 0 : 1e-39f;
                break;
            default: break;
            }
    }
}

static void run_gemm(const struct kern *k, const struct gemm_case *c, float *y, size_t ldy, const void *xa, uint32_t n,
                     uint32_t r0, uint32_t r1)
{
    const struct kern_gemm *g = &k->gemm[c->m.dt];
    struct mat m = c->m;
    if (c->packed) {
        m.w = c->packed;
        m.layout = g->layout;
    }
    void *s = guarded(g->scratch + g->scratch_col * m.cols);
    g->gemm(y, ldy, xa, &m, n, r0, r1, s);
    guard_free(s);
}

static void check_pack(const struct kern *k, struct gemm_case *c)
{
    const struct kern_gemm *g = &k->gemm[c->m.dt];
    c->packed = NULL;
    assert_true(g->unit >= 1);
    if (!g->layout) {
        assert_null(g->pack);
        return;
    }
    size_t bytes = g->pack_bytes(c->m.rows, c->m.cols);
    c->packed = guarded(bytes);
    uint32_t mid = c->m.rows / 2 / g->unit * g->unit;
    if (mid) g->pack(c->packed, c->file, c->m.row_bytes, c->m.rows, c->m.cols, 0, mid);
    g->pack(c->packed, c->file, c->m.row_bytes, c->m.rows, c->m.cols, mid, c->m.rows);
    guard_check(c->packed);
    uint8_t *row = guarded(c->m.row_bytes);
    for (uint32_t r = 0; r < c->m.rows; r++) {
        memset(row, 0x11, c->m.row_bytes);
        g->unpack(row, c->packed, c->m.rows, c->m.cols, r);
        assert_memory_equal(row, c->file + r * c->m.row_bytes, c->m.row_bytes);
    }
    guard_free(row);
}

/* Sums in double of the values that the level's activations stand for, and how far f32 arithmetic may be from them. */
static void expect(struct gemm_case *c, enum act_fmt f, void *xa)
{
    uint32_t R = c->m.rows, K = c->m.cols;
    float *w = mem_alloc(K, 4);
    double *xv = mem_alloc((size_t)N_MAX * K, 8);
    assert_non_null(w);
    assert_non_null(xv);
    for (uint32_t i = 0; i < N_MAX; i++)
        for (uint32_t j = 0; j < K; j++) xv[(size_t)i * K + j] = act_value(f, xa, c->x + i * c->ldx, N_MAX, K, i, j);
    for (uint32_t r = 0; r < R; r++) {
        const uint8_t *row = c->file + r * c->m.row_bytes;
        dtype_table[c->m.dt].dequant(w, row, K);
        for (uint32_t i = 0; i < N_MAX; i++) {
            double s = 0, mag = 0, tiny = 0, part = 0;
            for (uint32_t j = 0; j < K; j++) {
                double p = (double)w[j] * xv[(size_t)i * K + j];
                if (f == ACT_Q8 && j % 32 == 0) part = part_size(c->m.dt, row, j);
                s += p;
                mag += fabs(p) + part * fabs(xv[(size_t)i * K + j]);
                tiny += fabs((double)w[j]) + fabs(xv[(size_t)i * K + j]);
            }
            double b = c->m.bias ? (double)c->m.bias[r] : 0;
            c->want[(size_t)i * R + r] = s + b;
            /* lanes of at least 8 with the fold, K/8 + 8 roundings deep, 4 more for scales; bf16 dot products take bf16 weights
             * (2^-8 off at most) and may treat denormals as zero */
            c->bound[(size_t)i * R + r] =
                (U * (K / 8 + 12) + (f == ACT_BF16 && c->m.dt != DT_BF16 ? 0x1p-8 : 0)) * (mag + fabs(b)) + 0x1p-126 * (tiny + 1);
        }
    }
    mem_free(w);
    mem_free(xv);
}

static void gemm_one(const struct kern *k, const struct kern *ref, enum dtype dt, uint32_t rows, uint32_t cols, bool edge,
                     bool bias)
{
    const enum act_fmt f = k->gemm[dt].act;
    const uint32_t unit = k->gemm[dt].unit;
    struct gemm_case c = {.m = {.rows = rows, .cols = cols, .dt = dt, .row_bytes = dtype_row_bytes(dt, cols)}};
    c.file = guarded(c.m.row_bytes * rows);
    make_weights(c.file, dt, (size_t)rows * cols / dtype_table[dt].block, edge);
    c.m.w = c.m.file = c.file;
    c.ldx = cols + 3;
    c.x = (float *)(void *)guarded(N_MAX * c.ldx * 4);
    fill_x(c.x, N_MAX * c.ldx, edge);
    float *bv = mem_alloc(rows, 4);
    for (uint32_t r = 0; r < rows; r++) bv[r] = normal();
    if (bias) c.m.bias = bv;
    c.want = mem_alloc((size_t)N_MAX * rows, 8);
    c.bound = mem_alloc((size_t)N_MAX * rows, 8);
    check_pack(k, &c);

    void *xa = prep(k, f, c.x, c.ldx, N_MAX, cols), *xr = prep(ref, f, c.x, c.ldx, N_MAX, cols);
    if (f != ACT_BF16) {
        assert_int_equal(k->act_bytes[f](N_MAX, cols), ref->act_bytes[f](N_MAX, cols));
        assert_memory_equal(xa, xr, ref->act_bytes[f](N_MAX, cols));
    }
    expect(&c, f, xr);

    size_t ldy = rows + 5;
    float *whole = (float *)(void *)guarded(N_MAX * ldy * 4), *y = (float *)(void *)guarded(N_MAX * ldy * 4);
    memset(whole, 0x5a, N_MAX * ldy * 4);
    run_gemm(k, &c, whole, ldy, xa, N_MAX, 0, rows);
    for (uint32_t i = 0; i < N_MAX; i++) {
        for (uint32_t r = 0; r < rows; r++) {
            double d = fabs((double)whole[i * ldy + r] - c.want[(size_t)i * rows + r]);
            if (!(d <= c.bound[(size_t)i * rows + r]))
                fail_msg("%s %s %ux%u n %u: y[%u][%u] = %.9g, want %.9g +- %.3g", isa_name(k->isa), dtype_name(dt), rows, cols,
                         N_MAX, i, r, (double)whole[i * ldy + r], c.want[(size_t)i * rows + r], c.bound[(size_t)i * rows + r]);
        }
        for (uint32_t r = rows; r < ldy; r++) assert_int_equal(f32_bits(whole[i * ldy + r]), 0x5a5a5a5a);
    }
    /* the same bits however many rows are computed together, and however the weight rows are split */
    for (size_t t = 0; t < ARRAY_LEN(n_list) + 2; t++) {
        uint32_t n = t < ARRAY_LEN(n_list) ? n_list[t] : 1, at = t < ARRAY_LEN(n_list) ? 0 : below(N_MAX);
        void *xn = prep(k, f, c.x + at * c.ldx, c.ldx, n, cols);
        memset(y, 0x33, N_MAX * ldy * 4);
        for (uint32_t r0 = 0, r1; r0 < rows; r0 = r1) {
            r1 = r0 + unit * (1 + below(rows / unit + 1));
            r1 = MIN(rows, r1);
            run_gemm(k, &c, y, ldy, xn, n, r0, r1);
        }
        for (uint32_t i = 0; i < n; i++)
            if (memcmp(y + i * ldy, whole + (at + i) * ldy, (size_t)rows * 4) != 0)
                fail_msg("%s %s %ux%u: row %u of n %u differs from the same row among %u", isa_name(k->isa), dtype_name(dt), rows,
                         cols, i, n, N_MAX);
        for (size_t i = 0; i < N_MAX; i++)
            for (size_t r = i < n ? rows : 0; r < ldy; r++)
                if (f32_bits(y[i * ldy + r]) != 0x33333333)
                    fail_msg("%s %s %ux%u n %u: wrote outside, at row %zu column %zu", isa_name(k->isa), dtype_name(dt), rows,
                             cols, n, i, r);
        guard_free(xn);
    }
    guard_free(whole);
    guard_free(y);
    guard_free(xa);
    guard_free(xr);
    guard_free(c.packed);
    guard_free(c.file);
    guard_free(c.x);
    mem_free(bv);
    mem_free(c.want);
    mem_free(c.bound);
}

#define EACH_LEVEL(k, ref)                                                                                                       \
    struct kern k, ref;                                                                                                          \
    kern_init(&ref, ISA_REF);                                                                                                    \
    for (unsigned lv_ = 0; lv_ <= kern_cpu_isa() && (kern_init(&k, (enum isa)lv_), true); lv_++)

static void gemm_all(void **state)
{
    (void)state;
    EACH_LEVEL(k, ref)
    {
        for (unsigned t = 0; t < DT_N; t++) {
            uint32_t b = dtype_table[t].block;
            static const uint32_t odd_cols[] = {1, 31, 66, 300}, cols32[] = {32, 96, 352, 2080},
                                  cols256[] = {256, 512, 768, 2304}, rows[] = {1, 37, 64, 19};
            for (int s = 0; s < 4; s++)
                gemm_one(&k, &ref, (enum dtype)t, rows[s],
                         b == 1    ? odd_cols[s]
                         : b == 32 ? cols32[s]
                                   : cols256[s],
                         s & 1, s >= 2);
            if (b == 1) gemm_one(&k, &ref, (enum dtype)t, 23, 2081, true, false);
        }
    }
}

static void pack_is_compact(void **state)
{
    (void)state;
    EACH_LEVEL(k, ref)
    {
        for (unsigned t = 0; t < DT_N; t++)
            if (k.gemm[t].layout)
                assert_true(k.gemm[t].pack_bytes(2048, 2048) <= 2048 * dtype_row_bytes((enum dtype)t, 2048) * 105 / 100);
    }
}

static void act_q8_rounds(void **state)
{
    (void)state;
    EACH_LEVEL(k, ref)
    {
        enum { n = 37, K = 416 };
        float *x = (float *)(void *)guarded(n * K * 4);
        fill_x(x, n * K, true);
        for (int i = 0; i < 32; i++) x[i] = (float)(i - 15) * 0.5f + (i == 31 ? 55.5f : 0); /* halves: ties go to even */
        void *a = prep(&k, ACT_Q8, x, K, n, K), *b = prep(&ref, ACT_Q8, x, K, n, K);
        assert_memory_equal(a, b, k.act_bytes[ACT_Q8](n, K));
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t c = 0; c < K; c++) {
                float m = 0;
                for (uint32_t j = c / 32 * 32; j < c / 32 * 32 + 32; j++) m = fmaxf(m, fabsf(x[i * K + j]));
                assert_true(fabs(act_value(ACT_Q8, a, x + i * K, n, K, i, c) - (double)x[i * K + c]) <=
                            (double)m / 254 * (1 + 300 * U) + 0x1p-100);
            }
        guard_free(a);
        guard_free(b);
        guard_free(x);
    }
}

/* ---- row operations */

static void norms(void **state)
{
    (void)state;
    static const uint32_t ds[] = {1, 7, 16, 64, 100, 576, 2051};
    EACH_LEVEL(k, ref)
    {
        for (size_t s = 0; s < ARRAY_LEN(ds); s++) {
            uint32_t d = ds[s], n = 3;
            size_t ld = d + 2;
            float *x = (float *)(void *)guarded(n * ld * 4), *g = (float *)(void *)guarded(d * 4),
                  *y = (float *)(void *)guarded(n * ld * 4);
            fill_x(x, n * ld, false);
            fill_x(g, d, false);
            memset(x + ld, 0, d * 4); /* a row of zeros */
            memset(y, 0x44, n * ld * 4);
            k.rmsnorm(y, ld, x, ld, g, n, d, 1e-5f);
            for (uint32_t i = 0; i < n; i++) {
                double m = 0;
                for (uint32_t j = 0; j < d; j++) m += (double)x[i * ld + j] * (double)x[i * ld + j];
                double r = 1 / sqrt(m / d + (double)1e-5f);
                for (uint32_t j = 0; j < d; j++) {
                    double want = (double)x[i * ld + j] * r * (double)g[j];
                    assert_true(fabs((double)y[i * ld + j] - want) <= U * (d / 16 + 14) * fabs(want) + 1e-40);
                }
                assert_int_equal(f32_bits(y[i * ld + d]), 0x44444444);
            }
            k.rmsnorm(x, ld, x, ld, g, n, d, 1e-5f); /* in place: the same bits */
            for (uint32_t i = 0; i < n; i++) assert_memory_equal(x + i * ld, y + i * ld, d * 4);
            guard_free(x);
            guard_free(g);
            guard_free(y);
        }
    }
}

static void ropes(void **state)
{
    (void)state;
    static const uint32_t dims[] = {2, 6, 32, 64, 96, 128};
    EACH_LEVEL(k, ref)
    {
        for (size_t s = 0; s < ARRAY_LEN(dims) * 2; s++) {
            uint32_t d = dims[s / 2], E = d + 4 * (s / 2 % 2);
            float *x = (float *)(void *)guarded(E * 4), *cs = (float *)(void *)guarded(d * 4), old[256];
            fill_x(x, E, false);
            memcpy(old, x, E * 4);
            for (uint32_t i = 0; i < d / 2; i++) {
                float a = normal() * 3;
                cs[2 * i] = cosf(a);
                cs[2 * i + 1] = sinf(a);
            }
            bool adj = s & 1;
            k.rope(x, cs, d, adj);
            for (uint32_t i = 0; i < d / 2; i++) {
                uint32_t p = adj ? 2 * i : i, q = adj ? p + 1 : p + d / 2;
                double a = (double)old[p], b = (double)old[q], c = (double)cs[2 * i], z = (double)cs[2 * i + 1],
                       m = (fabs(a) + fabs(b)) * 3 * U;
                assert_true(fabs((double)x[p] - (a * c - b * z)) <= m);
                assert_true(fabs((double)x[q] - (a * z + b * c)) <= m);
            }
            assert_memory_equal(x + d, old + d, (E - d) * 4);
            guard_free(x);
            guard_free(cs);
        }
    }
}

static void silus_adds(void **state)
{
    (void)state;
    static const uint32_t fs[] = {1, 8, 17, 33, 100, 1536};
    EACH_LEVEL(k, ref)
    {
        for (size_t s = 0; s < ARRAY_LEN(fs); s++) {
            uint32_t f = fs[s], n = 3;
            size_t ld = 2 * f + 3, ldy = f + 1;
            float *gu = (float *)(void *)guarded(n * ld * 4), *y = (float *)(void *)guarded(n * ldy * 4),
                  *old = (float *)(void *)guarded(n * ldy * 4);
            for (size_t i = 0; i < n * ld; i++) gu[i] = normal() * (float)(1 << below(8));
            gu[0] = -1e30f;
            if (f > 1) gu[1] = 1e30f;
            memset(y, 0x44, n * ldy * 4);
            k.silu_mul(y, ldy, gu, ld, n, f);
            for (uint32_t i = 0; i < n; i++) {
                for (uint32_t j = 0; j < f; j++) {
                    double g = (double)gu[i * ld + j], u = (double)gu[i * ld + f + j], w = g / (1 + exp(-g)) * u;
                    assert_true(fabs((double)y[i * ldy + j] - w) <=
                                8 * U * fabs(w) + 0x1p-117 * (fabs(u) + 1)); /* exp is 0 or infinite beyond +-87..89 */
                }
                assert_int_equal(f32_bits(y[i * ldy + f]), 0x44444444);
            }
            memcpy(old, y, n * ldy * 4);
            k.silu_mul(gu, ld, gu, ld, n, f); /* in place */
            for (uint32_t i = 0; i < n; i++) assert_memory_equal(gu + i * ld, y + i * ldy, f * 4);
            k.add(y, gu, n * ldy);
            for (size_t i = 0; i < n * ldy; i++) assert_int_equal(f32_bits(y[i]), f32_bits(old[i] + gu[i]));
            guard_free(gu);
            guard_free(y);
            guard_free(old);
        }
    }
}

/* attn_merge with a = {0, 0} and b = {x, 1} leaves exp(x) as l. */
static void exp_is_close(void **state)
{
    (void)state;
    EACH_LEVEL(k, ref)
    {
        double worst = 0;
        for (int i = 0; i < 400000; i++) {
            float x = i < 1000 ? -(float)i * 1e-6f : (float)-(rnd() >> 40) * 0x1p-24f * 87.3f, a[4] = {0, 0, 0, 0},
                  b[4] = {x, 1, 2, 3};
            k.attn_merge(a, b, 1, 2);
            double want = exp((double)x), ulp = ldexp(1, ilogb(want) - 23), err = fabs((double)a[1] - want) / ulp;
            worst = err > worst ? err : worst;
        }
        assert_true(worst <= 2);
        float a[4] = {0, 0.5f, 1, 2}, b[4] = {-1e30f, 1, 1, 1};
        k.attn_merge(a, b, 1, 2);
        assert_true(a[1] == 0.5f && a[3] == 2);
        b[0] = -INFINITY;
        k.attn_merge(a, b, 1, 2);
        assert_true(a[0] == 0 && a[1] == 0.5f);
        a[0] = -INFINITY, a[1] = a[2] = a[3] = 0, b[0] = 3;
        k.attn_merge(a, b, 1, 2);
        assert_true(a[0] == 3 && a[1] == 1 && a[2] == 1 && a[3] == 1);
    }
}

/* ---- attention */

enum { BLKS = 40 };
struct kv_case {
    uint8_t *slab;
    uint32_t blk[BLKS], len, E;
    enum kv_fmt f;
    float *k, *v; /* [len][E] as stored (rounded) */
};

static void kv_make(const struct kern *kn, struct kv_case *c, uint32_t E, enum kv_fmt f, uint32_t len)
{
    size_t head = (size_t)16 * E * kv_elem_bytes(f), blk = 2 * head + 64;
    *c = (struct kv_case){.len = len, .E = E, .f = f};
    c->slab = guarded(BLKS * blk);
    memset(c->slab, 0xff, BLKS * blk); /* not-a-number wherever nothing is written */
    for (uint32_t i = 0; i < BLKS; i++) c->blk[i] = i;
    for (uint32_t i = BLKS - 1; i; i--) {
        uint32_t j = below(i + 1), t = c->blk[i];
        c->blk[i] = c->blk[j];
        c->blk[j] = t;
    }
    c->k = mem_alloc((size_t)len * E, 4);
    c->v = mem_alloc((size_t)len * E, 4);
    for (uint32_t p = 0; p < len; p++) {
        float *kr = c->k + (size_t)p * E, *vr = c->v + (size_t)p * E;
        for (uint32_t e = 0; e < E; e++) {
            kr[e] = normal();
            vr[e] = normal();
        }
        uint8_t *b = c->slab + c->blk[p / 16] * blk;
        kn->kv_put[f](b, b + head, kr, vr, E, p % 16);
        if (f == KV_BF16)
            for (uint32_t e = 0; e < E; e++) {
                kr[e] = bf16_to_f32(f32_to_bf16(kr[e]));
                vr[e] = bf16_to_f32(f32_to_bf16(vr[e]));
            }
    }
}

static void attn_case(const struct kern *kn, uint32_t E, enum kv_fmt f, uint32_t pos0, uint32_t n_q, uint32_t n_h,
                      uint32_t window)
{
    struct kv_case c;
    kv_make(kn, &c, E, f, pos0 + n_q);
    size_t head = (size_t)16 * E * kv_elem_bytes(f), ldq = (size_t)n_h * E + 3, ldy = (size_t)n_h * E + 1;
    uint32_t spans = (pos0 + n_q - 1) / KERN_SPAN + 1;
    size_t row = E + 2, rows = (size_t)n_q * n_h;
    float *q = (float *)(void *)guarded(n_q * ldq * 4), *part = (float *)(void *)guarded(rows * row * 4),
          *sum = (float *)(void *)guarded(rows * row * 4);
    float *one = (float *)(void *)guarded(row * 4), *y = (float *)(void *)guarded(n_q * ldy * 4);
    void *scratch = guarded(kn->attn_scratch(E));
    fill_x(q, n_q * ldq, false);
    struct attn_job j = {.q = q,
                         .ldq = ldq,
                         .n_q = n_q,
                         .n_h = n_h,
                         .E = E,
                         .pos0 = pos0,
                         .window = window,
                         .scale = 1 / sqrtf((float)E),
                         .k = c.slab,
                         .v = c.slab + head,
                         .blk_bytes = 2 * head + 64,
                         .blk = c.blk};
    for (uint32_t s = 0; s < spans; s++) {
        float *p = s ? part : sum;
        memset(p, 0xff, rows * row * 4);
        kn->attn_span[f](&j, s, p, scratch);
        guard_check(p);
        /* one query and one head alone: the same bits */
        for (int t = 0; t < 6; t++) {
            uint32_t i = t ? below(n_q) : 0, h = below(n_h);
            struct attn_job o = j;
            o.q = q + i * ldq + (size_t)h * E;
            o.n_q = o.n_h = 1;
            o.pos0 = pos0 + i;
            kn->attn_span[f](&o, s, one, scratch);
            assert_memory_equal(one, p + (i * n_h + h) * row, row * 4);
        }
        guard_check(scratch);
        if (s) kn->attn_merge(sum, part, (uint32_t)rows, E);
    }
    memset(y, 0x44, n_q * ldy * 4);
    kn->attn_end(y, ldy, sum, n_q, n_h, E);
    double *w = mem_alloc(c.len, 8);
    for (uint32_t i = 0; i < n_q; i++) {
        for (uint32_t h = 0; h < n_h; h++) {
            const float *qr = q + i * ldq + (size_t)h * E;
            uint32_t pos = pos0 + i, lo = window && pos >= window ? pos + 1 - window : 0;
            double m = -INFINITY, l = 0, err = 0, top = 0;
            for (uint32_t p = lo; p <= pos; p++) {
                double d = 0, a = 0;
                for (uint32_t e = 0; e < E; e++) {
                    d += (double)qr[e] * (double)c.k[(size_t)p * E + e];
                    a += fabs((double)qr[e] * (double)c.k[(size_t)p * E + e]);
                }
                w[p] = d * (double)j.scale;
                /* AMX rounds q and the weights to bf16, as it does k and v */
                a = a * (double)j.scale * ((E + 3) * U + (kn->isa == ISA_AMX && f == KV_BF16 ? 0x1p-8 : 0));
                err = a > err ? a : err;
                m = w[p] > m ? w[p] : m;
            }
            for (uint32_t p = lo; p <= pos; p++) l += w[p] = exp(w[p] - m);
            for (uint32_t e = 0; e < E; e++) {
                double want = 0;
                for (uint32_t p = lo; p <= pos; p++) {
                    want += w[p] * (double)c.v[(size_t)p * E + e];
                    top = fabs((double)c.v[(size_t)p * E + e]) > top ? fabs((double)c.v[(size_t)p * E + e]) : top;
                }
                /* a score off by err moves its weight by that share, in the sum and in the total; 256 + a few roundings */
                double d = fabs((double)y[i * ldy + (size_t)h * E + e] - want / l),
                       b = top * (2 * (2 * err + 16 * U) + 300 * U + (kn->isa == ISA_AMX && f == KV_BF16 ? 0x1p-8 : 0));
                if (!(d <= b))
                    fail_msg("%s E %u kv %d pos %u window %u: off by %g, bound %g", isa_name(kn->isa), E, f, pos, window, d, b);
            }
        }
        assert_int_equal(f32_bits(y[i * ldy + (size_t)n_h * E]), 0x44444444);
    }
    mem_free(w);
    mem_free(c.k);
    mem_free(c.v);
    guard_free(c.slab);
    guard_free(q);
    guard_free(part);
    guard_free(sum);
    guard_free(one);
    guard_free(y);
    guard_free(scratch);
}

static void attention(void **state)
{
    (void)state;
    static const struct {
        uint32_t E, pos0, n_q, n_h, window;
    } cs[] = {
        {64, 0, 1, 1, 0},     {64, 0, 37, 3, 0},    {64, 255, 1, 3, 0},    {64, 256, 2, 4, 0},
        {128, 300, 5, 5, 0},  {2, 14, 20, 1, 0},    {6, 100, 9, 2, 0},     {80, 40, 17, 3, 7},
        {24, 250, 30, 2, 16}, {96, 511, 3, 7, 100}, {32, 530, 12, 1, 300}, {256, 20, 3, 8, 1},
    };
    EACH_LEVEL(k, ref)
    {
        for (size_t i = 0; i < ARRAY_LEN(cs); i++)
            for (unsigned f = 0; f < KV_N; f++)
                attn_case(&k, cs[i].E, (enum kv_fmt)f, cs[i].pos0, cs[i].n_q, cs[i].n_h, cs[i].window);
    }
}

static void kv_layout(void **state)
{
    (void)state;
    EACH_LEVEL(k, ref)
    {
        for (unsigned f = 0; f < KV_N; f++)
            for (uint32_t E = 2; E <= 130; E += 14) {
                size_t b = (size_t)16 * E * kv_elem_bytes((enum kv_fmt)f);
                uint8_t *a = guarded(2 * b);
                memset(a, 0x77, 2 * b);
                float kv[2 * 130];
                fill_x(kv, 2 * E, true);
                uint32_t slot = below(16);
                k.kv_put[f](a, a + b, kv, kv + E, E, slot);
                for (uint32_t e = 0; e < E; e++)
                    for (uint32_t t = 0; t < 16; t++) {
                        size_t ki = (size_t)(e / 2 * 16 + t) * 2 + e % 2, vi = ((size_t)(t / 2) * E + e) * 2 + t % 2;
                        if (f == KV_F32) {
                            assert_int_equal(f32_bits(((float *)(void *)a)[ki]), t == slot ? f32_bits(kv[e]) : 0x77777777);
                            assert_int_equal(f32_bits(((float *)(void *)(a + b))[vi]),
                                             t == slot ? f32_bits(kv[E + e]) : 0x77777777);
                        } else {
                            assert_int_equal(((uint16_t *)(void *)a)[ki], t == slot ? f32_to_bf16(kv[e]) : 0x7777);
                            assert_int_equal(((uint16_t *)(void *)(a + b))[vi], t == slot ? f32_to_bf16(kv[E + e]) : 0x7777);
                        }
                    }
                guard_free(a);
            }
    }
}

/* ---- candidates */

static const float *sort_x;
static int by_value(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    return sort_x[i] != sort_x[j] ? (sort_x[i] > sort_x[j] ? -1 : 1) : (i > j) - (i < j);
}

static void topks(void **state)
{
    (void)state;
    static const uint32_t vs[] = {1, 7, 16, 100, 1000, 49152, 9973}, ks[] = {1, 5, 40, 300, 0};
    EACH_LEVEL(k, ref)
    {
        for (size_t s = 0; s < ARRAY_LEN(vs) * ARRAY_LEN(ks) * 2; s++) {
            uint32_t v = vs[s / 2 / ARRAY_LEN(ks)], kk = ks[s / 2 % ARRAY_LEN(ks)];
            bool ties = s & 1;
            float *x = (float *)(void *)guarded(v * 4), *val = (float *)(void *)guarded(kk * 4 + 4), max, lse;
            int32_t *id = (int32_t *)(void *)guarded(kk * 4 + 4), *order = mem_alloc(v, 4);
            double m = -INFINITY, l = 0;
            for (uint32_t i = 0; i < v; i++) {
                x[i] = ties ? (float)below(6) : normal() * 8;
                if (ties && below(50) == 0) x[i] = -INFINITY;
                order[i] = (int32_t)i;
                m = (double)x[i] > m ? (double)x[i] : m;
            }
            for (uint32_t i = 0; i < v; i++) l += exp((double)x[i] - m);
            sort_x = x;
            qsort(order, v, 4, by_value);
            k.topk(val, id, kk, &max, &lse, x, v);
            for (uint32_t i = 0; i < kk; i++) {
                assert_int_equal(id[i], i < v ? order[i] : -1);
                assert_int_equal(f32_bits(val[i]), f32_bits(i < v ? x[order[i]] : -INFINITY));
            }
            assert_true((double)max == m);
            if (l > 0) assert_true(fabs((double)lse - (m + log(l))) <= 600 * U + U * fabs(m + log(l)));
            mem_free(order);
            guard_free(x);
            guard_free(val);
            guard_free(id);
        }
        float bad[40], val[3], max, lse;
        int32_t id[3];
        for (int i = 0; i < 40; i++) bad[i] = (float)(i % 7);
        bad[0] = bad[20] = bad[33] = NAN;
        k.topk(val, id, 3, &max, &lse, bad, 40);
        assert_true(id[0] == 6 && id[1] == 13 && id[2] == 27 && max == 6 && lse != lse);
    }
}

static void names(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ISA_N; i++) assert_int_equal(isa_by_name(isa_name((enum isa)i)), i);
    assert_int_equal(isa_by_name("avx"), ISA_N);
    EACH_LEVEL(k, ref)
    {
        assert_int_equal(k.isa, lv_);
        for (unsigned t = 0; t < DT_N; t++) assert_non_null(k.gemm[t].gemm);
        for (unsigned t = 0; t < ACT_N; t++) assert_true(k.act_bytes[t] && k.act_prep[t]);
        for (unsigned t = 0; t < KV_N; t++) assert_true(k.kv_put[t] && k.attn_span[t]);
        assert_true(k.rmsnorm && k.rope && k.attn_scratch && k.attn_merge && k.attn_end && k.silu_mul && k.add && k.topk);
    }
}

/* ---- speeds, one thread: its own processor time, so that a busy neighbour counts only through caches and memory */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void bench_gemm(const struct kern *k, enum dtype dt)
{
    const struct kern_gemm *g = &k->gemm[dt];
    uint32_t K = 2048, R = (uint32_t)((size_t)400e6 / dtype_row_bytes(dt, K)) / 64 * 64; /* beyond the caches */
    size_t rb = dtype_row_bytes(dt, K), file = rb * R, packed = g->layout ? g->pack_bytes(R, K) : 0;
    uint8_t *w = mem_big(file), *p = packed ? mem_big(packed) : NULL;
    if (!w || (packed && !p)) return;
    make_weights(w, dt, (size_t)64 * K / dtype_table[dt].block, false);
    for (uint32_t r = 64; r < R; r++) memcpy(w + r * rb, w + r % 64 * rb, rb);
    double t0 = now();
    if (p) g->pack(p, w, rb, R, K, 0, R);
    t0 = now() - t0;
    uint32_t n_max = 512, R2 = 1024;
    float *x = mem_big((size_t)n_max * K * 4), *y = mem_big(MAX((size_t)R * 16, (size_t)n_max * R2) * 4);
    void *xa = mem_big(k->act_bytes[g->act](n_max, K)), *s = mem_big(g->scratch + g->scratch_col * K + 64);
    if (!x || !y || !xa || !s) return;
    fill_x(x, (size_t)n_max * K, false);
    struct mat m = {.w = p ? (void *)p : w, .file = w, .rows = R, .cols = K, .dt = dt, .layout = g->layout, .row_bytes = rb};
    printf("%-11s %-5s", isa_name(k->isa), dtype_name(dt));
    static const uint32_t ns[] = {1, 2, 4, 8, 16, 64, 512};
    for (size_t i = 0; i < ARRAY_LEN(ns); i++) {
        uint32_t n = ns[i], rows = n <= 16 ? R : R2;
        double best = 1e9, first = now();
        k->act_prep[g->act](xa, x, K, n, K, 0, n);
        for (int rep = 0; rep < 200 && (rep < 5 || now() - first < 1); rep++) { /* the best of many: neighbours come and go */
            double t = now();
            g->gemm(y, rows, xa, &m, n, 0, rows, s);
            t = now() - t;
            best = t < best ? t : best;
        }
        if (n <= 4)
            printf("  n=%u %5.1f GB/s", n, (double)rb * rows / best / 1e9);
        else
            printf("  n=%u %6.1f GFLOP/s", n, 2.0 * n * K * rows / best / 1e9);
        fflush(stdout);
    }
    double t = now();
    k->act_prep[g->act](xa, x, K, n_max, K, 0, n_max);
    t = now() - t;
    printf("  prep %.1f GB/s", (double)n_max * K * 4 / t / 1e9);
    if (p) printf("  pack %.1f GB/s", (double)file / t0 / 1e9);
    printf("\n");
    mem_big_free(w, file);
    if (p) mem_big_free(p, packed);
    mem_big_free(x, (size_t)n_max * K * 4);
    mem_big_free(y, MAX((size_t)R * 16, (size_t)n_max * R2) * 4);
    mem_big_free(xa, k->act_bytes[g->act](n_max, K));
    mem_big_free(s, g->scratch + g->scratch_col * K + 64);
}

#define BEST(best, code)                                                                                                         \
    double best = 1e9;                                                                                                           \
    for (int rep_ = 0; rep_ < 7; rep_++) {                                                                                       \
        double t_ = now();                                                                                                       \
        code;                                                                                                                    \
        t_ = now() - t_;                                                                                                         \
        best = t_ < best ? t_ : best;                                                                                            \
    }

static void bench_rest(const struct kern *k)
{
    const uint32_t E = 64, G = 8, n_h = 4, blks = 8192;
    printf("%-11s", isa_name(k->isa));
    for (unsigned f = 0; f < KV_N; f++) {
        size_t head = (size_t)16 * E * kv_elem_bytes((enum kv_fmt)f), slab_bytes = 2 * head * G * blks;
        uint8_t *slab = mem_big(slab_bytes);
        uint32_t *blk = mem_alloc(blks, 4);
        float *q = mem_zalloc(64 * n_h * E, 4), *part = mem_zalloc(64 * n_h * (E + 2), 4);
        void *s = mem_big(k->attn_scratch(E));
        if (!slab || !blk || !q || !part || !s) return;
        memset(slab, 0, slab_bytes);
        for (uint32_t i = 0; i < blks; i++) blk[i] = i;
        struct attn_job j = {.q = q,
                             .ldq = n_h * E,
                             .n_q = 1,
                             .n_h = n_h,
                             .E = E,
                             .pos0 = blks * 16 - 1,
                             .scale = 0.125f,
                             .blk_bytes = 2 * head * G,
                             .blk = blk};
        BEST(
            a, for (uint32_t h = 0; h < G; h++) {
                j.k = slab + h * head;
                j.v = j.k + G * head;
                for (uint32_t i = 0; i < blks / 16; i++) k->attn_span[f](&j, i, part, s);
            });
        j.n_q = 64;
        j.pos0 = 512;
        BEST(b, for (int i = 0; i < 20; i++) k->attn_span[f](&j, 0, part, s));
        printf("  attn %s: 1 query %.1f GB/s, 64 %.1f GFLOP/s", f ? "bf16" : "f32", (double)slab_bytes / a / 1e9,
               20 * 4.0 * 64 * n_h * E * KERN_SPAN / b / 1e9);
        mem_big_free(slab, slab_bytes);
        mem_free(blk);
        mem_free(q);
        mem_free(part);
        mem_big_free(s, k->attn_scratch(E));
    }
    const uint32_t d = 2048, n = 64, v = 131072;
    float *x = mem_zalloc(v + (size_t)2 * n * d, 4), *y = mem_zalloc((size_t)n * d, 4), val[64], mx, lse;
    int32_t id[64];
    if (!x || !y) return;
    fill_x(x, v, false);
    BEST(a, k->rmsnorm(y, d, x, d, x, n, d, 1e-5f));
    BEST(b, k->silu_mul(y, d, x, 2 * d, n, d));
    BEST(c, k->topk(val, id, 64, &mx, &lse, x, v));
    BEST(e, for (uint32_t i = 0; i < n * d / 64; i++) k->rope(y + i * 64, x, 64, true));
    BEST(g, for (uint32_t i = 0; i < n * d / 64; i++) k->rope(y + i * 64, x, 64, false));
    printf("  Gelem/s: norm %.2f silu %.2f topk %.2f rope %.2f %.2f\n", n * d / a / 1e9, n * d / b / 1e9, v / c / 1e9,
           n * d / e / 1e9, n * d / g / 1e9);
    mem_free(x);
    mem_free(y);
}

static int bench(const char *level, const char *type)
{
    struct kern k, last;
    memset(&last, 0, sizeof last);
    for (unsigned i = 0; i <= kern_cpu_isa(); i++) {
        kern_init(&k, (enum isa)i);
        if (!level || isa_by_name(level) == i) {
            for (unsigned t = 0; t < DT_N; t++)
                if ((!type || dtype_by_name(type) == t) && (level || k.gemm[t].gemm != last.gemm[t].gemm))
                    bench_gemm(&k, (enum dtype)t);
            if ((!type || strcmp(type, "rest") == 0) && (level || k.attn_span[KV_BF16] != last.attn_span[KV_BF16]))
                bench_rest(&k);
        }
        last = k;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) return bench(argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
    const char *s = getenv("SEED");
    rng = s ? strtoull(s, NULL, 0) | 1 : ((uint64_t)time(NULL) * 2654435761u) | 1;
    printf("test_kern: SEED=%llu, up to %s\n", (unsigned long long)rng, isa_name(kern_cpu_isa()));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),         cmocka_unit_test(gemm_all),     cmocka_unit_test(pack_is_compact),
        cmocka_unit_test(act_q8_rounds), cmocka_unit_test(norms),        cmocka_unit_test(ropes),
        cmocka_unit_test(silus_adds),    cmocka_unit_test(exp_is_close), cmocka_unit_test(kv_layout),
        cmocka_unit_test(attention),     cmocka_unit_test(topks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
