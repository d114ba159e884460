/* kern_avx512bf16.c: BF16 on CPUs with AVX512_BF16 and no usable AMX (Zen 4, Cooper Lake): BF16 activations, weights from the
 * file's rows.
 *
 * Activations (ACT_BF16): groups of 16 rows; in a group of g rows (16, fewer at the end) [K/32][16 pairs of k][g][2], zero past
 *   k. So the pair (2p, 2p+1) of all rows of a group lies together: a B tile for AMX, and 4 bytes to broadcast here. Rounded to
 *   nearest even; denormals become zero.
 * Weights: 64 rows x KC of the file at a time are turned into [KC/2 pairs][64 rows][2] in scratch, then all activation rows pass
 *   by, up to 6 at once.
 * Sum: one f32 accumulator per output, k ascending in pairs by VDPBF16PS (Intel SDM: of a pair first the odd product is added,
 *   then the even; denormals count as zero), the same for every n; between two KC it waits in y. */
#include "kern/kern.h"
#include <immintrin.h>
#include <string.h>

static size_t act_bytes(uint32_t n, uint32_t k) { return (size_t)n * align_up(k, 32) * 2; }

/* 16x16 32-bit transpose in registers. */
static inline __attribute__((always_inline)) void transpose16(__m512i r[16])
{
    __m512i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    /* r[4i + j] lane l = column 4l + j of rows 4i..4i+3 */
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m512i a = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x44), b = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xee);
        __m512i c = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x44), d = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xee);
        t[j] = _mm512_shuffle_i32x4(a, c, 0x88);
        t[4 + j] = _mm512_shuffle_i32x4(a, c, 0xdd);
        t[8 + j] = _mm512_shuffle_i32x4(b, d, 0x88);
        t[12 + j] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = t[i];
}

static inline __m512i bf16_32(const float *x, __mmask16 lo, __mmask16 hi)
{
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(hi, x + 16), _mm512_maskz_loadu_ps(lo, x));
}

static void act_prep(void *xa, const float *x, size_t ldx, uint32_t n, uint32_t k, uint32_t i0, uint32_t i1)
{
    size_t kp = align_up(k, 32);
    for (uint32_t g0 = i0; g0 < i1; g0 += 16) {
        uint32_t g = MIN(16u, n - g0);
        uint16_t *d = (uint16_t *)xa + (size_t)g0 * kp;
        const float *s = x + (size_t)g0 * ldx;
        for (uint32_t t = 0; t < kp; t += 32, d += 32 * g) {
            uint32_t left = k - t;
            __mmask16 lo = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
            __mmask16 hi = left >= 32 ? 0xffff : left > 16 ? (__mmask16)((1u << (left - 16)) - 1) : 0;
            if (g == 1) {
                _mm512_storeu_si512(d, bf16_32(s + t, lo, hi));
                continue;
            }
            __m512i r[16];
            if (g == 16) {
#pragma GCC unroll 16
                for (uint32_t i = 0; i < 16; i++) r[i] = bf16_32(s + i * ldx + t, lo, hi);
                transpose16(r);
#pragma GCC unroll 16
                for (uint32_t i = 0; i < 16; i++) _mm512_storeu_si512(d + 32 * i, r[i]);
            } else {
#pragma GCC unroll 16
                for (uint32_t i = 0; i < 16; i++) r[i] = i < g ? bf16_32(s + i * ldx + t, lo, hi) : _mm512_setzero_si512();
                transpose16(r);
                __mmask16 m = (__mmask16)((1u << g) - 1);
#pragma GCC unroll 16
                for (uint32_t i = 0; i < 16; i++) _mm512_mask_storeu_epi32(d + 2 * g * i, m, r[i]);
            }
        }
    }
}

enum { KC = 512, ROWS = 64 };

/* Rows r..r+nr (at most 64) x columns k0..k0+kn of the file -> w [ceil(kn/32)*16 pairs][64 rows][2], zeros beside.
 * Fetches what will be turned next: KC columns on, or the next 64 rows. */
static void turn(uint8_t *w, const struct mat *m, uint32_t r, uint32_t nr, uint32_t k0, uint32_t kn)
{
    for (uint32_t q = 0; q < ROWS; q += 16) {
        const uint8_t *p = (const uint8_t *)m->w + (size_t)(r + q) * m->row_bytes + (size_t)k0 * 2;
        uint32_t n = nr > q ? MIN(16u, nr - q) : 0;
        const size_t next = k0 + kn < m->cols ? (size_t)KC * 2 : ROWS * m->row_bytes - (size_t)k0 * 2;
        for (uint32_t t = 0; t < kn; t += 32) {
            __mmask32 mask = kn - t >= 32 ? 0xffffffffu : (1u << (kn - t)) - 1;
            for (uint32_t i = 0; i < n; i++) _mm_prefetch((const char *)p + next + i * m->row_bytes + t * 2, _MM_HINT_T1);
            __m512i x[16];
#pragma GCC unroll 16
            for (uint32_t i = 0; i < 16; i++)
                x[i] = i < n ? _mm512_maskz_loadu_epi16(mask, p + i * m->row_bytes + t * 2) : _mm512_setzero_si512();
            transpose16(x);
#pragma GCC unroll 16
            for (uint32_t i = 0; i < 16; i++) _mm512_store_si512(w + (t / 2 + i) * (ROWS * 4) + q * 4, x[i]);
        }
    }
}

/* M activation rows (pairs `step` bytes apart, rows 4) x 64 weight rows over `pairs` pairs of k. */
static inline __attribute__((always_inline)) void tile(const uint32_t M, float *y, size_t ldy, const uint8_t *a, size_t step,
                                                       const uint8_t *w, uint32_t pairs, const __mmask16 *rows, const float *bias,
                                                       bool first, bool last)
{
    __m512 c[6][4];
#pragma GCC unroll 6
    for (uint32_t i = 0; i < M; i++)
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) c[i][q] = first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(rows[q], y + i * ldy + 16 * q);
    for (uint32_t p = 0; p < pairs; p++, w += ROWS * 4, a += step) {
        __m512i v[4];
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) v[q] = _mm512_load_si512(w + 64 * q);
#pragma GCC unroll 6
        for (uint32_t i = 0; i < M; i++) {
            int32_t pair;
            memcpy(&pair, a + 4 * i, 4);
            __m512i x = _mm512_set1_epi32(pair);
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) c[i][q] = _mm512_dpbf16_ps(c[i][q], (__m512bh)v[q], (__m512bh)x);
        }
    }
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        __m512 b = last && bias ? _mm512_maskz_loadu_ps(rows[q], bias + 16 * q) : _mm512_setzero_ps();
#pragma GCC unroll 6
        for (uint32_t i = 0; i < M; i++)
            _mm512_mask_storeu_ps(y + i * ldy + 16 * q, rows[q], last && bias ? _mm512_add_ps(c[i][q], b) : c[i][q]);
    }
}

static void gemm_bf16(float *y, size_t ldy, const void *xa, const struct mat *m, uint32_t n, uint32_t r0, uint32_t r1,
                      void *scratch)
{
    const size_t kp = align_up(m->cols, 32);
    for (uint32_t r = r0; r < r1; r += ROWS) {
        uint32_t nr = MIN((uint32_t)ROWS, r1 - r);
        __mmask16 rows[4];
        for (uint32_t q = 0; q < 4; q++) rows[q] = (__mmask16)((1u << (nr > 16 * q ? MIN(16u, nr - 16 * q) : 0)) - 1);
        for (uint32_t k = 0; k < m->cols; k += KC) {
            uint32_t kn = MIN((uint32_t)KC, m->cols - k), pairs = (uint32_t)align_up(kn, 32) / 2;
            bool first = k == 0, last = k + kn == m->cols;
            turn(scratch, m, r, nr, k, kn);
            const float *bias = m->bias ? m->bias + r : NULL;
            for (uint32_t g0 = 0; g0 < n; g0 += 16) {
                uint32_t g = MIN(16u, n - g0);
                const uint8_t *a = (const uint8_t *)xa + g0 * kp * 2 + (size_t)k * g * 2;
                for (uint32_t i = 0; i < g;) {
                    uint32_t M = g - i > 6 ? (g - i > 10 ? 6 : 5) : g - i; /* 16 = 6 + 5 + 5 */
                    float *o = y + (size_t)(g0 + i) * ldy + r;
#define TILE(M)                                                                                                                  \
    case M: tile(M, o, ldy, a + 4 * i, (size_t)4 * g, scratch, pairs, rows, bias, first, last); break
                    switch (M) {
                        TILE(1);
                        TILE(2);
                        TILE(3);
                        TILE(4);
                        TILE(5);
                    default: tile(6, o, ldy, a + 4 * i, (size_t)4 * g, scratch, pairs, rows, bias, first, last);
                    }
                    i += M;
                }
            }
        }
    }
}

void kern_fill_avx512bf16(struct kern *k)
{
    k->isa = ISA_AVX512BF16;
    k->act_bytes[ACT_BF16] = act_bytes;
    k->act_prep[ACT_BF16] = act_prep;
    k->gemm[DT_BF16] = (struct kern_gemm){.act = ACT_BF16, .unit = 16, .scratch = (size_t)ROWS * KC * 2, .gemm = gemm_bf16};
}
