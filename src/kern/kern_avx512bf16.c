/* kern_avx512bf16.c: BF16 on CPUs with AVX512_BF16 (Zen 4, Cooper Lake): activations as BF16 pairs, weights from the file's own
 * rows.
 *
 * Activations (ACT_BF16): groups of 16 rows; in a group of g rows (16, fewer at the end) [K/32][16 pairs of k][g][2], zero past
 * k. So the pair (2p, 2p+1) of all rows of a group lies together: a B tile for AMX, and 4 bytes to broadcast here. Rounded to
 * nearest even; denormals become zero. Weights: 16 rows x 32 k of the file are turned into [16 pairs][16 rows][2] on the way,
 * once per call for many activation rows, in passing for few. Sum: one f32 accumulator per output, k ascending in pairs by
 * VDPBF16PS (Intel SDM: the odd product is added first, then the even; both flush denormals), the same for every n. */
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

void kern_fill_avx512bf16(struct kern *k)
{
    k->isa = ISA_AVX512BF16;
    k->act_bytes[ACT_BF16] = act_bytes;
    k->act_prep[ACT_BF16] = act_prep;
}
