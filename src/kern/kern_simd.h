/* kern_simd.h: the f32 kernels shared by kern_avx2.c and kern_avx512.c, written over a vector of VL floats. Private to those two
 * files: each defines VL, vf and the v_* primitives first, then includes this once; everything here is static and compiled with
 * the including file's flags.
 *
 * GEMM: a panel of weight rows is expanded to f32 for a chunk of GK columns and multiplied with register tiles of 4 weight rows
 * and up to V_TILE activation rows. Order of a sum: inside a chunk lane j adds columns j, j+VL, ... (FMA), the lanes fold by one
 * fixed tree, chunks add up ascending, bias last. Tiles only decide which elements are computed together. */
#pragma once
#include "base/half.h"
#include "kern/kern.h"
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum {
    GK = 1024,        /* columns per chunk: a multiple of every block size */
    GR = 16,          /* weight rows per panel */
    FEW = 4 * V_TILE, /* up to so many activation rows reading the weights is what takes time */
    GN = 96,          /* activation rows per pass over the panels: their chunk stays in the second cache */
};

/* ---- expansion of one weight row's columns [0, k) of a chunk to f32, exactly as dtype.c; k is padded with zeros to VL */

INLINE float rd_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return _cvtsh_ss(h);
}

static void exp_f32(float *d, const uint8_t *p, uint32_t k)
{
    uint32_t i = 0;
    for (; i + VL <= k; i += VL) v_store(d + i, v_load((const float *)(const void *)p + i));
    if (i < k) v_store(d + i, v_load_n((const float *)(const void *)p + i, k - i));
}

INLINE void exp_16bit(float *d, const uint8_t *p, uint32_t k, bool bf16)
{
    uint32_t i = 0;
    for (; i + VL <= k; i += VL) v_store(d + i, bf16 ? v_bf16(p + 2 * i) : v_f16(p + 2 * i));
    if (i < k) {
        uint8_t t[2 * VL] = {0};
        memcpy(t, p + 2 * i, (k - i) * 2);
        v_store(d + i, bf16 ? v_bf16(t) : v_f16(t));
    }
}

static void exp_f16(float *d, const uint8_t *p, uint32_t k) { exp_16bit(d, p, k, false); }
static void exp_bf16(float *d, const uint8_t *p, uint32_t k) { exp_16bit(d, p, k, true); }

INLINE __m128i ld128(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
INLINE __m128i lo4(__m128i q) { return _mm_and_si128(q, _mm_set1_epi8(15)); }
INLINE __m128i hi4(__m128i q) { return _mm_and_si128(_mm_srli_epi16(q, 4), _mm_set1_epi8(15)); }

/* Bit i of h -> 16 in byte i. */
INLINE __m128i bits16(uint32_t h)
{
    const __m128i spread = _mm_set_epi64x(0x0101010101010101, 0), bit = _mm_set1_epi64x((long long)0x8040201008040201);
    __m128i x = _mm_and_si128(_mm_shuffle_epi8(_mm_cvtsi32_si128((int)h), spread), bit);
    return _mm_and_si128(_mm_cmpeq_epi8(x, bit), _mm_set1_epi8(16));
}

static void exp_q8_0(float *d, const uint8_t *p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i += 32, p += 34) {
        float s = rd_f16(p);
        v_put16(d + i, ld128(p + 2), s);
        v_put16(d + i + 16, ld128(p + 18), s);
    }
}

static void exp_q4_0(float *d, const uint8_t *p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i += 32, p += 18) {
        __m128i q = ld128(p + 2), off = _mm_set1_epi8(8);
        float s = rd_f16(p);
        v_put16(d + i, _mm_sub_epi8(lo4(q), off), s);
        v_put16(d + i + 16, _mm_sub_epi8(hi4(q), off), s);
    }
}

static void exp_q4_1(float *d, const uint8_t *p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i += 32, p += 20) {
        __m128i q = ld128(p + 4);
        float s = rd_f16(p), m = rd_f16(p + 2);
        v_put16m(d + i, lo4(q), s, m);
        v_put16m(d + i + 16, hi4(q), s, m);
    }
}

static void exp_q5_0(float *d, const uint8_t *p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i += 32, p += 22) {
        __m128i q = ld128(p + 6), off = _mm_set1_epi8(16);
        float s = rd_f16(p);
        uint32_t h;
        memcpy(&h, p + 2, 4);
        v_put16(d + i, _mm_sub_epi8(_mm_or_si128(lo4(q), bits16(h)), off), s);
        v_put16(d + i + 16, _mm_sub_epi8(_mm_or_si128(hi4(q), bits16(h >> 16)), off), s);
    }
}

static void exp_q5_1(float *d, const uint8_t *p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i += 32, p += 24) {
        __m128i q = ld128(p + 8);
        float s = rd_f16(p), m = rd_f16(p + 2);
        uint32_t h;
        memcpy(&h, p + 4, 4);
        v_put16m(d + i, _mm_or_si128(lo4(q), bits16(h)), s, m);
        v_put16m(d + i + 16, _mm_or_si128(hi4(q), bits16(h >> 16)), s, m);
    }
}

/* The 12 bytes of a K block -> 8 scales in bytes 0..7, 8 minima in 8..15 (bit layout: dtype.c). */
INLINE void k_scales(uint8_t o[16], const uint8_t *s)
{
    uint32_t a, b, c;
    memcpy(&a, s, 4);
    memcpy(&b, s + 4, 4);
    memcpy(&c, s + 8, 4);
    uint32_t v[4] = {a & 0x3f3f3f3f, (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030), b & 0x3f3f3f3f,
                     (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030)};
    memcpy(o, v, 16);
}

/* h: 32 bytes with a bit plane per group, or NULL. */
INLINE void exp_k(float *d, const uint8_t *p, const uint8_t *h, const uint8_t *q)
{
    float s = rd_f16(p), sm = rd_f16(p + 2);
    uint8_t sc[16];
    k_scales(sc, p + 4);
    for (int g = 0; g < 8; g++, d += 32) {
        float d1 = s * (float)sc[g], m1 = -(sm * (float)sc[g + 8]);
        for (int i = 0; i < 32; i += 16) {
            __m128i x = ld128(q + g / 2 * 32 + i);
            x = g & 1 ? hi4(x) : lo4(x);
            if (h) {
                __m128i bit = _mm_set1_epi8((char)(1 << g));
                x = _mm_or_si128(x, _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(ld128(h + i), bit), bit), _mm_set1_epi8(16)));
            }
            v_put16m(d + i, x, d1, m1);
        }
    }
}

static void exp_q4_k(float *d, const uint8_t *p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i += 256, p += 144) exp_k(d + i, p, NULL, p + 16);
}

static void exp_q5_k(float *d, const uint8_t *p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i += 256, p += 176) exp_k(d + i, p, p + 16, p + 48);
}

static void exp_q6_k(float *d, const uint8_t *p, uint32_t k)
{
    const __m128i off = _mm_set1_epi8(32), top = _mm_set1_epi8(0x30);
    for (uint32_t b = 0; b < k; b += 256, p += 210) {
        float s = rd_f16(p + 208);
        for (int v = 0; v < 16; v++, d += 16) {
            int half = v / 8, j = v / 2 % 4, i = v % 2 * 16;
            __m128i l = ld128(p + half * 64 + (j & 1) * 32 + i), h = ld128(p + 128 + half * 32 + i);
            l = j >> 1 ? hi4(l) : lo4(l);
            h = j == 0 ? _mm_slli_epi16(h, 4) : j == 1 ? _mm_slli_epi16(h, 2) : j == 2 ? h : _mm_srli_epi16(h, 2);
            v_put16(d, _mm_sub_epi8(_mm_or_si128(l, _mm_and_si128(h, top)), off), s * (float)(int8_t)p[192 + v]);
        }
    }
}

typedef void expand_fn(float *d, const uint8_t *p, uint32_t k);
static expand_fn *const expand_table[DT_N] = {
    [DT_F32] = exp_f32,   [DT_F16] = exp_f16,   [DT_BF16] = exp_bf16, [DT_Q8_0] = exp_q8_0,
    [DT_Q4_0] = exp_q4_0, [DT_Q4_1] = exp_q4_1, [DT_Q5_0] = exp_q5_0, [DT_Q5_1] = exp_q5_1,
    [DT_Q4_K] = exp_q4_k, [DT_Q5_K] = exp_q5_k, [DT_Q6_K] = exp_q6_k,
};

/* ---- gemm */

/* VL weights from column k on, as f32; the last n < VL of a row with zeros behind. */
INLINE vf ld_w(enum dtype dt, const uint8_t *p, uint32_t k)
{
    if (dt == DT_F32) return v_load((const float *)(const void *)p + k);
    return dt == DT_BF16 ? v_bf16(p + 2 * k) : v_f16(p + 2 * k);
}
INLINE vf ld_w_n(enum dtype dt, const uint8_t *p, uint32_t k, uint32_t n)
{
    uint8_t t[4 * VL] = {0};
    uint32_t e = dt == DT_F32 ? 4 : 2;
    memcpy(t, p + (size_t)k * e, (size_t)n * e);
    return ld_w(dt, t, 0);
}

/* T activation rows ld apart times h <= 4 weight rows ws bytes apart over kc columns: added to (first: stored in) h values of
 * each of T output rows. dt: F32 (rows of the panel, or of the file), F16 or BF16 (of the file). near: bytes to the rows that
 * come next, to be fetched meanwhile. */
INLINE void tile(int T, enum dtype dt, float *y, size_t ldy, const float *x, size_t ld, const uint8_t *w, size_t ws, size_t near,
                 uint32_t kc, uint32_t h, bool first)
{
    vf acc[V_TILE][4];
    const uint8_t *p[4];
    const size_t e = dt == DT_F32 ? 4 : 2;
    UNROLL
    for (int j = 0; j < 4; j++) {
        p[j] = w + MIN((uint32_t)j, h - 1) * ws;
        UNROLL
        for (int t = 0; t < T; t++) acc[t][j] = v_set1(0);
    }
    uint32_t k = 0;
    for (; k + VL <= kc; k += VL) {
        vf a[V_TILE];
        UNROLL
        for (int t = 0; t < T; t++) a[t] = v_load(x + (size_t)t * ld + k);
        UNROLL
        for (int j = 0; j < 4; j++) {
            vf b = ld_w(dt, p[j], k);
            if (near) _mm_prefetch((const char *)p[j] + near + k * e, _MM_HINT_T0);
            UNROLL
            for (int t = 0; t < T; t++) acc[t][j] = v_fma(b, a[t], acc[t][j]);
        }
    }
    if (k < kc) {
        UNROLL
        for (int j = 0; j < 4; j++) {
            vf b = ld_w_n(dt, p[j], k, kc - k);
            UNROLL
            for (int t = 0; t < T; t++) acc[t][j] = v_fma(b, v_load(x + (size_t)t * ld + k), acc[t][j]);
        }
    }
    UNROLL
    for (int t = 0; t < T; t++, y += ldy) {
        __m128 s = v_fold4(acc[t][0], acc[t][1], acc[t][2], acc[t][3]);
        if (h == 4) {
            _mm_storeu_ps(y, first ? s : _mm_add_ps(_mm_loadu_ps(y), s));
        } else {
            float o[4];
            _mm_storeu_ps(o, s);
            for (uint32_t j = 0; j < h; j++) y[j] = first ? o[j] : y[j] + o[j];
        }
    }
}

typedef void tile_fn(float *y, size_t ldy, const float *x, size_t ld, const uint8_t *w, size_t ws, uint32_t kc, uint32_t h,
                     bool first);
#define TILE(name, T, dt, near)                                                                                                  \
    static void tile_##name##T(float *y, size_t ldy, const float *x, size_t ld, const uint8_t *w, size_t ws, uint32_t kc,        \
                               uint32_t h, bool first)                                                                           \
    {                                                                                                                            \
        tile(T, dt, y, ldy, x, ld, w, ws, near, kc, h, first);                                                                   \
    }
#define TILES3(name, dt, near) TILE(name, 1, dt, near) TILE(name, 2, dt, near) TILE(name, 3, dt, near)
#if V_TILE == 6
#define TILES(name, dt, near)                                                                                                    \
    TILES3(name, dt, near)                                                                                                       \
    TILE(name, 4, dt, near) TILE(name, 5, dt, near) TILE(name, 6, dt, near) static tile_fn *const tiles_##name[V_TILE] = {       \
        tile_##name##1, tile_##name##2, tile_##name##3, tile_##name##4, tile_##name##5, tile_##name##6};
#else
#define TILES(name, dt, near)                                                                                                    \
    TILES3(name, dt, near) static tile_fn *const tiles_##name[V_TILE] = {tile_##name##1, tile_##name##2, tile_##name##3};
#endif
TILES(panel, DT_F32, 0)
TILES(f32, DT_F32, 4 * ws)
TILES(f16, DT_F16, 4 * ws)
TILES(bf16, DT_BF16, 4 * ws)

/* Few activation rows and weights that need little expansion: multiplied as they are read. */
static void gemm_direct(float *y, size_t ldy, const float *x, size_t ld, const struct mat *w, uint32_t n, uint32_t r0,
                        uint32_t r1)
{
    tile_fn *const *f = w->dt == DT_F32 ? tiles_f32 : w->dt == DT_F16 ? tiles_f16 : tiles_bf16;
    const size_t e = dtype_table[w->dt].bytes;
    for (uint32_t r = r0; r < r1; r += 4)
        for (uint32_t c = 0; c < w->cols; c += GK) {
            const uint8_t *p = (const uint8_t *)w->w + r * w->row_bytes + c * e;
            for (uint32_t i = 0; i < n; i += V_TILE)
                f[MIN(V_TILE, n - i) - 1](y + i * ldy + r, ldy, x + i * ld + c, ld, p, w->row_bytes, MIN(GK, w->cols - c),
                                          MIN(4, r1 - r), c == 0);
        }
}

static void gemm_panel(float *y, size_t ldy, const float *x, size_t ld, const struct mat *w, uint32_t n, uint32_t r0, uint32_t r1,
                       float *wf)
{
    const uint32_t block = dtype_table[w->dt].block, bytes = dtype_table[w->dt].bytes, k = w->cols, step = n <= FEW ? 4 : GR;
    expand_fn *expand = expand_table[w->dt];
    for (uint32_t r = r0; r < r1; r += step) {
        uint32_t h = MIN(step, r1 - r);
        for (uint32_t c = 0; c < k; c += GK) {
            uint32_t kc = MIN(GK, k - c);
            size_t off = (size_t)(c / block) * bytes, len = (size_t)(kc / block) * bytes;
            for (uint32_t j = 0; j < h; j++) {
                const uint8_t *p = (const uint8_t *)w->w + (size_t)(r + j) * w->row_bytes + off;
                expand(wf + (size_t)j * GK, p, kc);
                if (n <= FEW) /* the next panel's same chunk, while this one is multiplied */
                    for (size_t b = 0; b < len; b += 64) _mm_prefetch((const char *)p + 4 * w->row_bytes + b, _MM_HINT_T0);
            }
            for (uint32_t i = 0; i < n; i += V_TILE) {
                tile_fn *f = tiles_panel[MIN(V_TILE, n - i) - 1];
                for (uint32_t j = 0; j < h; j += 4)
                    f(y + i * ldy + r + j, ldy, x + i * ld + c, ld, (const uint8_t *)(wf + (size_t)j * GK), GK * 4,
                      (uint32_t)align_up(kc, VL), MIN(4, h - j), c == 0);
            }
        }
    }
}

static void gemm_f32(float *y, size_t ldy, const void *xa, const struct mat *w, uint32_t n, uint32_t r0, uint32_t r1,
                     void *scratch)
{
    const size_t ld = act_f32_ld(w->cols);
    const float *x = xa;
    if (n <= FEW && dtype_table[w->dt].block == 1)
        gemm_direct(y, ldy, x, ld, w, n, r0, r1);
    else
        for (uint32_t i = 0; i < n; i += GN) gemm_panel(y + i * ldy, ldy, x + i * ld, ld, w, MIN(GN, n - i), r0, r1, scratch);
    if (w->bias)
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t r = r0; r < r1; r++) y[i * ldy + r] += w->bias[r];
}

/* ---- exp: n = round(x / ln 2), e^(x - n ln 2) by its degree 7 Taylor polynomial on |r| <= ln 2 / 2 (first term left out is
 * below 6e-9), ln 2 in two parts (Cody and Waite) so that n*hi is exact. Within 1.5 ulp, see the test. Below -87.33 the result is
 * 0 (no denormals: they cost an assist each), above 88.8 infinity; NaN stays. */
INLINE vf v_exp(vf x)
{
    vf c = v_min(v_set1(89.0f), v_max(v_set1(-88.0f), x)); /* operand order: NaN passes */
    vf n = v_round(v_mul(c, v_set1(0x1.715476p+0f)));
    vf r = v_fma(n, v_set1(-0x1.62ep-1f), c);
    r = v_fma(n, v_set1(-0x1.0bfbe8p-15f), r);
    vf p = v_set1(1.0f / 5040);
    p = v_fma(p, r, v_set1(1.0f / 720));
    p = v_fma(p, r, v_set1(1.0f / 120));
    p = v_fma(p, r, v_set1(1.0f / 24));
    p = v_fma(p, r, v_set1(1.0f / 6));
    p = v_fma(p, r, v_set1(0.5f));
    p = v_fma(v_mul(p, r), r, r);
    p = v_add(p, v_set1(1.0f));
    return v_zero_below(v_scale2(p, n), x, v_set1(-87.33654f));
}

/* ---- row operations */

static void rmsnorm_v(float *y, size_t ldy, const float *x, size_t ldx, const float *g, uint32_t n, uint32_t d, float eps)
{
    for (uint32_t i = 0; i < n; i++) {
        const float *a = x + i * ldx;
        float *o = y + i * ldy;
        vf s0 = v_set1(0), s1 = s0, s2 = s0, s3 = s0;
        uint32_t j = 0;
        for (; j + 4 * VL <= d; j += 4 * VL) {
            vf b0 = v_load(a + j), b1 = v_load(a + j + VL), b2 = v_load(a + j + 2 * VL), b3 = v_load(a + j + 3 * VL);
            s0 = v_fma(b0, b0, s0);
            s1 = v_fma(b1, b1, s1);
            s2 = v_fma(b2, b2, s2);
            s3 = v_fma(b3, b3, s3);
        }
        for (; j < d; j += VL) {
            vf b = v_load_n(a + j, MIN(VL, d - j));
            s0 = v_fma(b, b, s0);
        }
        float r = 1.0f / sqrtf(v_sum(v_add(v_add(s0, s1), v_add(s2, s3))) / (float)d + eps);
        for (j = 0; j + VL <= d; j += VL) v_store(o + j, v_mul(v_mul(v_load(a + j), v_set1(r)), v_load(g + j)));
        if (j < d) v_store_n(o + j, v_mul(v_mul(v_load_n(a + j, d - j), v_set1(r)), v_load_n(g + j, d - j)), d - j);
    }
}

/* Plain loops: the compiler vectorises them with this file's flags. */
static void rope_v(float *x, const float *cs, uint32_t rope_dim, bool adjacent)
{
    uint32_t half = rope_dim / 2;
    if (adjacent) {
        for (uint32_t i = 0; i < half; i++) {
            float a = x[2 * i], b = x[2 * i + 1], c = cs[2 * i], s = cs[2 * i + 1];
            x[2 * i] = a * c - b * s;
            x[2 * i + 1] = a * s + b * c;
        }
    } else {
        float *restrict p = x, *restrict q = x + half;
        for (uint32_t i = 0; i < half; i++) {
            float a = p[i], b = q[i], c = cs[2 * i], s = cs[2 * i + 1];
            p[i] = a * c - b * s;
            q[i] = a * s + b * c;
        }
    }
}

INLINE vf silu1(vf g, vf u) { return v_mul(v_div(g, v_add(v_set1(1.0f), v_exp(v_sub(v_set1(0), g)))), u); }

static void silu_mul_v(float *y, size_t ldy, const float *gu, size_t ldgu, uint32_t n, uint32_t f)
{
    for (uint32_t i = 0; i < n; i++) {
        const float *g = gu + i * ldgu, *u = g + f;
        float *o = y + i * ldy;
        uint32_t j = 0;
        for (; j + VL <= f; j += VL) v_store(o + j, silu1(v_load(g + j), v_load(u + j)));
        if (j < f) v_store_n(o + j, silu1(v_load_n(g + j, f - j), v_load_n(u + j, f - j)), f - j);
    }
}

static void add_v(float *x, const float *y, size_t n)
{
    size_t j = 0;
    for (; j + VL <= n; j += VL) v_store(x + j, v_add(v_load(x + j), v_load(y + j)));
    for (; j < n; j++) x[j] += y[j];
}

/* ---- attention */

enum {
    AT = 8,   /* (query, head) rows computed together */
    NEAR = 4, /* KV blocks of prefetch distance */
};

struct attn_tile {
    float *s;              /* [AT][KERN_SPAN] scores, then weights */
    float *q;              /* [E][AT] */
    uint32_t base, v0, v1; /* span's first position; token vectors v0..v1-1 of the span hold what any row sees */
};

/* Scores of T rows for B vectors of VL tokens from vector v on: over e ascending, then the scale. */
INLINE void scores(int T, int B, const struct attn_job *j, const struct attn_tile *a, uint32_t v, bool bf16)
{
    const size_t eb = bf16 ? 2 : 4;
    const uint8_t *kp[8], *next[8];
    vf acc[8][8];
    UNROLL
    for (int b = 0; b < B; b++) {
        uint32_t t = (v + (uint32_t)b) * VL, t2 = t + NEAR * 16, end = a->v1 * VL;
        kp[b] = j->k + j->blk[(a->base + t) / 16] * j->blk_bytes + t % 16 * 2 * eb;
        /* fetched meanwhile: the K that comes next, or, at the end, the first V */
        next[b] = t2 < end
                      ? j->k + j->blk[(a->base + t2) / 16] * j->blk_bytes + t2 % 16 * 2 * eb
                      : j->v + j->blk[(a->base + MIN(a->v0 * VL + t2 - end, end - 1)) / 16] * j->blk_bytes + t2 % 16 * 2 * eb;
        UNROLL
        for (int t1 = 0; t1 < T; t1++) acc[t1][b] = v_set1(0);
    }
    const float *q = a->q;
    for (uint32_t e = 0; e < j->E / 2; e++, q += 2 * AT) UNROLL
    for (int b = 0; b < B; b++) {
        vf lo, hi;
        v_pair(kp[b] + e * 32 * eb, bf16, &lo, &hi);
        _mm_prefetch((const char *)next[b] + e * 32 * eb, _MM_HINT_T0);
        if (!bf16 && VL == 16) _mm_prefetch((const char *)next[b] + e * 32 * eb + 64, _MM_HINT_T0);
        UNROLL
        for (int t = 0; t < T; t++) {
            acc[t][b] = v_fma(lo, v_set1(q[t]), acc[t][b]);
            acc[t][b] = v_fma(hi, v_set1(q[AT + t]), acc[t][b]);
        }
    }
    UNROLL
    for (int b = 0; b < B; b++) UNROLL
    for (int t = 0; t < T; t++) v_store(a->s + t * KERN_SPAN + (v + (uint32_t)b) * VL, v_mul(acc[t][b], v_set1(j->scale)));
}

/* One token pair (which: 0 the first, 1 the second, 2 both) of C vectors of V, weighted and added for T rows. */
INLINE void value_pair(int T, int C, vf (*acc)[8], const uint8_t *v, const float *w, int which, uint32_t left, bool bf16)
{
    UNROLL
    for (int c = 0; c < C; c++) {
        vf x, y;
        if (left < VL)
            v_pair_n(v, bf16, left, &x, &y);
        else
            v_pair(v + (size_t)c * VL * (bf16 ? 4 : 8), bf16, &x, &y);
        UNROLL
        for (int t = 0; t < T; t++) {
            if (which != 1) acc[t][c] = v_fma(x, v_set1(w[t * KERN_SPAN]), acc[t][c]);
            if (which != 0) acc[t][c] = v_fma(y, v_set1(w[t * KERN_SPAN + 1]), acc[t][c]);
        }
    }
}

/* acc of T rows for C vectors of elements from e on (the last one has `left` elements): over the positions lo..hi-1 ascending. A
 * position outside may never have been written: even a weight of 0 must not touch it. */
INLINE void values(int T, int C, const struct attn_job *j, const struct attn_tile *a, float *const *o, uint32_t lo, uint32_t hi,
                   uint32_t e, uint32_t left, bool bf16)
{
    const size_t step = (size_t)j->E * (bf16 ? 4 : 8), skip = (size_t)e * (bf16 ? 4 : 8), width = (size_t)C * VL * (bf16 ? 4 : 8);
    vf acc[8][8];
    UNROLL
    for (int t = 0; t < T; t++) UNROLL
    for (int c = 0; c < C; c++) acc[t][c] = v_set1(0);
    for (uint32_t b = lo / 16, last = (hi - 1) / 16; b <= last; b++) {
        uint32_t p = MAX(lo, b * 16), end = MIN(hi, b * 16 + 16);
        const uint8_t *v = j->v + j->blk[b] * j->blk_bytes + skip + p % 16 / 2 * step, *next = v;
        if (b + NEAR <= last)
            next = j->v + j->blk[b + NEAR] * j->blk_bytes + skip;
        else if ((a->base + KERN_SPAN + NEAR * 16) <= j->pos0)
            next = j->k + j->blk[a->base / 16 + 15 + b + NEAR - last] * j->blk_bytes + skip;
        const float *w = a->s + (p & ~1u) - a->base;
        if (p & 1) {
            value_pair(T, C, acc, v, w, 1, left, bf16);
            p++, v += step, w += 2;
        }
        for (; p + 2 <= end; p += 2, v += step, w += 2, next += step) {
            UNROLL
            for (size_t l = 0; l < width; l += 64) _mm_prefetch((const char *)next + l, _MM_HINT_T0);
            value_pair(T, C, acc, v, w, 2, left, bf16);
        }
        if (p < end) value_pair(T, C, acc, v, w, 0, left, bf16);
    }
    /* + 0: a row's -0 must not depend on whether other rows of the tile added their positions' zeros */
    UNROLL
    for (int t = 0; t < T; t++) UNROLL
    for (int c = 0; c < C; c++) {
        vf r = v_add(acc[t][c], v_set1(0));
        if (left < VL)
            v_store_n(o[t] + 2 + e, r, left);
        else
            v_store(o[t] + 2 + e + (uint32_t)c * VL, r);
    }
}

/* T rows r.. of the job. Arithmetic per row is the same for every T. */
INLINE void attn_rows(int T, int B, uint32_t C, const struct attn_job *j, uint32_t span, float *part, void *scratch, uint32_t r,
                      bool bf16)
{
    const uint32_t E = j->E;
    struct attn_tile a = {.s = scratch, .q = (float *)scratch + AT * KERN_SPAN, .base = span * KERN_SPAN};
    uint32_t lo = UINT32_MAX, hi = 0, rlo[8], rhi[8];
    float *o[8];
    for (int t = 0; t < T; t++) {
        uint32_t i = (r + (uint32_t)t) / j->n_h, h = (r + (uint32_t)t) % j->n_h;
        const float *q = j->q + i * j->ldq + (size_t)h * E;
        for (uint32_t e = 0; e < E; e++) a.q[e * AT + (uint32_t)t] = q[e];
        o[t] = part + (size_t)(r + (uint32_t)t) * (E + 2);
        attn_visible(j, span, j->pos0 + i, &rlo[t], &rhi[t]);
        if (rlo[t] >= rhi[t]) continue;
        lo = MIN(lo, rlo[t]);
        hi = MAX(hi, rhi[t]);
    }
    if (lo >= hi) {
        for (int t = 0; t < T; t++) {
            memset(o[t], 0, (size_t)(E + 2) * 4);
            o[t][0] = -INFINITY;
        }
        return;
    }
    a.v0 = (lo - a.base) / VL;
    a.v1 = (hi - a.base + VL - 1) / VL;
    uint32_t v = a.v0;
    for (; v + (uint32_t)B <= a.v1; v += (uint32_t)B) scores(T, B, j, &a, v, bf16);
    for (; v < a.v1; v++) scores(T, 1, j, &a, v, bf16);
    for (int t = 0; t < T; t++) {
        float *s = a.s + t * KERN_SPAN;
        vf mv = v_set1(-INFINITY), lv = v_set1(0);
        for (v = a.v0; v < a.v1; v++) {
            vf x = v_load(s + v * VL);
            if (a.base + v * VL < rlo[t] || a.base + v * VL + VL > rhi[t]) {
                x = v_keep(x, (int)rlo[t] - (int)(a.base + v * VL), (int)rhi[t] - (int)(a.base + v * VL));
                v_store(s + v * VL, x);
            }
            mv = v_max(x, mv);
        }
        float m = v_top(mv);
        for (v = a.v0; v < a.v1; v++) {
            vf p = m == -INFINITY ? v_set1(0) : v_exp(v_sub(v_load(s + v * VL), v_set1(m)));
            v_store(s + v * VL, p);
            lv = v_add(lv, p);
        }
        o[t][0] = m;
        o[t][1] = v_sum(lv);
    }
    uint32_t e = 0;
    for (; e + C * VL <= E; e += C * VL) values(T, (int)C, j, &a, o, lo, hi, e, VL, bf16);
    for (; e + VL <= E; e += VL) values(T, 1, j, &a, o, lo, hi, e, VL, bf16);
    if (e < E) values(T, 1, j, &a, o, lo, hi, e, E - e, bf16);
}

INLINE void attn_any(const struct attn_job *j, uint32_t span, float *part, void *scratch, bool bf16)
{
    uint32_t r = 0, n = j->n_q * j->n_h;
    for (; r + 8 <= n; r += 8) attn_rows(8, 1, V_SUMS / 8, j, span, part, scratch, r, bf16);
    if (r + 4 <= n) {
        attn_rows(4, 2, V_SUMS / 4, j, span, part, scratch, r, bf16);
        r += 4;
    }
    if (r + 3 == n)
        attn_rows(3, 2, V_SUMS / 4, j, span, part, scratch, r, bf16);
    else if (r + 2 == n)
        attn_rows(2, 4, 4, j, span, part, scratch, r, bf16);
    else if (r + 1 == n)
        attn_rows(1, 8, 4, j, span, part, scratch, r, bf16);
}

static void attn_f32_v(const struct attn_job *j, uint32_t span, float *part, void *scratch)
{
    attn_any(j, span, part, scratch, false);
}
static void attn_bf16_v(const struct attn_job *j, uint32_t span, float *part, void *scratch)
{
    attn_any(j, span, part, scratch, true);
}
static size_t attn_scratch_v(uint32_t E) { return align_up((size_t)AT * (KERN_SPAN + E) * 4, 64); }

static void attn_merge_v(float *a, const float *b, uint32_t n, uint32_t E)
{
    for (uint32_t i = 0; i < n; i++, a += E + 2, b += E + 2) {
        if (b[0] == -INFINITY) continue;
        float m = a[0] > b[0] ? a[0] : b[0];
        vf fa = v_exp(v_set1(a[0] - m)), fb = v_exp(v_set1(b[0] - m));
        a[0] = m;
        uint32_t e = 1;
        for (; e + VL <= E + 2; e += VL) v_store(a + e, v_fma(v_load(b + e), fb, v_mul(v_load(a + e), fa)));
        if (e < E + 2) v_store_n(a + e, v_fma(v_load_n(b + e, E + 2 - e), fb, v_mul(v_load_n(a + e, E + 2 - e), fa)), E + 2 - e);
    }
}

static void attn_end_v(float *y, size_t ldy, const float *part, uint32_t n_q, uint32_t n_h, uint32_t E)
{
    for (uint32_t i = 0; i < n_q; i++)
        for (uint32_t h = 0; h < n_h; h++, part += E + 2) {
            float r = part[1] > 0 ? 1.0f / part[1] : 0, *o = y + i * ldy + (size_t)h * E;
            for (uint32_t e = 0; e < E; e++) o[e] = part[2 + e] * r;
        }
}

/* ---- candidates */

/* Heap of the k best so far, the worst on top: lower value, or the same with a higher id. */
INLINE bool worse(float a, int32_t ia, float b, int32_t ib) { return a < b || (a == b && ia > ib); }

static void sift_down(float *val, int32_t *id, uint32_t n, uint32_t at)
{
    float x = val[at];
    int32_t xi = id[at];
    for (uint32_t c; (c = 2 * at + 1) < n; at = c) {
        if (c + 1 < n && worse(val[c + 1], id[c + 1], val[c], id[c])) c++;
        if (!worse(val[c], id[c], x, xi)) break;
        val[at] = val[c];
        id[at] = id[c];
    }
    val[at] = x;
    id[at] = xi;
}

static void topk_v(float *val, int32_t *id, uint32_t k, float *max, float *lse, const float *x, uint32_t v)
{
    vf mv = v_set1(-INFINITY);
    uint32_t i = 0;
    for (; i + VL <= v; i += VL) mv = v_max(v_load(x + i), mv); /* operand order: NaN is passed over */
    float m = v_top(mv);
    for (; i < v; i++) m = x[i] > m ? x[i] : m;

    double sum = 0;
    if (m > -INFINITY && m < INFINITY)
        for (i = 0; i < v;) {
            vf s = v_set1(0);
            uint32_t end = MIN(v, i + 4096);
            for (; i + VL <= end; i += VL) s = v_add(s, v_exp(v_sub(v_load(x + i), v_set1(m))));
            float t = 0;
            if (i < end) {
                float e[VL];
                v_store(e, v_exp(v_sub(v_load_n(x + i, end - i), v_set1(m))));
                for (uint32_t j = 0; j < end - i; j++) t += e[j];
                i = end;
            }
            sum += (double)v_sum(s) + (double)t;
        }
    *max = m;
    *lse = sum > 0 || sum != sum ? (float)((double)m + log(sum)) : m;

    uint32_t n = 0;
    for (i = 0; n < k && i < v; i++)
        if (x[i] == x[i]) {
            val[n] = x[i];
            id[n++] = (int32_t)i;
        }
    for (uint32_t j = n; j < k; j++) {
        val[j] = -INFINITY;
        id[j] = -1;
    }
    for (uint32_t j = n / 2; j-- > 0;) sift_down(val, id, n, j);
    while (n && i < v) {
        if (i + VL <= v && !v_any_above(v_load(x + i), val[0])) {
            i += VL;
            continue;
        }
        for (uint32_t end = MIN(v, i + VL); i < end; i++)
            if (x[i] > val[0]) {
                val[0] = x[i];
                id[0] = (int32_t)i;
                sift_down(val, id, n, 0);
            }
    }
    /* the worst goes last, again and again: best first in the end */
    for (uint32_t j = n; j > 1; j--) {
        float tv = val[0];
        int32_t ti = id[0];
        val[0] = val[j - 1];
        id[0] = id[j - 1];
        val[j - 1] = tv;
        id[j - 1] = ti;
        sift_down(val, id, j - 1, 0);
    }
}

static void fill_f32(struct kern *k)
{
    for (unsigned t = 0; t < DT_N; t++)
        k->gemm[t] = (struct kern_gemm){.act = ACT_F32, .unit = 1, .scratch = (size_t)GR * GK * 4, .gemm = gemm_f32};
    k->rmsnorm = rmsnorm_v;
    k->rope = rope_v;
    k->attn_span[KV_F32] = attn_f32_v;
    k->attn_span[KV_BF16] = attn_bf16_v;
    k->attn_scratch = attn_scratch_v;
    k->attn_merge = attn_merge_v;
    k->attn_end = attn_end_v;
    k->silu_mul = silu_mul_v;
    k->add = add_v;
    k->topk = topk_v;
}
