/* kern_avx512.c: f32 kernels over 16 lanes for CPUs with AVX-512 F, BW, DQ and VL. The algorithms are in kern_simd.h; here are
 * its vector primitives. */
#include <immintrin.h>

#include <stdbool.h>
#include <stdint.h>

#define VL 16u
#define V_TILE 6
#define V_SUMS 16 /* sums of V elements kept at a time: 8 rows x 2 vectors, 4 x 4 */
#define VFN static inline __attribute__((always_inline))
typedef __m512 vf;

VFN __mmask16 first_n(uint32_t n) { return (__mmask16)((1u << n) - 1); }
VFN vf v_set1(float x) { return _mm512_set1_ps(x); }
VFN vf v_load(const float *p) { return _mm512_loadu_ps(p); }
VFN vf v_load_n(const float *p, uint32_t n) { return _mm512_maskz_loadu_ps(first_n(n), p); }
VFN void v_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
VFN void v_store_n(float *p, vf a, uint32_t n) { _mm512_mask_storeu_ps(p, first_n(n), a); }
VFN vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
VFN vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
VFN vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
VFN vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
VFN vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
VFN vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); } /* b when either is NaN */
VFN vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
VFN vf v_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VFN vf v_scale2(vf a, vf n) { return _mm512_scalef_ps(a, n); } /* a * 2^n */
VFN vf v_zero_below(vf a, vf x, vf t) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, t, _CMP_NLT_UQ), a); }
VFN bool v_any_above(vf x, float t) { return _mm512_cmp_ps_mask(x, _mm512_set1_ps(t), _CMP_GT_OQ) != 0; }
/* x in lanes lo..hi-1 (may lie outside 0..16), -inf elsewhere */
VFN vf v_keep(vf x, int lo, int hi)
{
    uint32_t m = hi <= 0 ? 0 : hi >= 16 ? 0xffff : (1u << hi) - 1;
    if (lo > 0) m &= lo >= 16 ? 0 : 0xffffu << lo;
    return _mm512_mask_mov_ps(_mm512_set1_ps(-__builtin_inff()), (__mmask16)m, x);
}
VFN __m256 v_upper(vf a) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)); }
/* Lanes fold by 8, 4, 2, 1. */
VFN float v_sum(vf a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), v_upper(a));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
VFN float v_top(vf a) { return _mm512_reduce_max_ps(a); }
/* {sum a, sum b, sum c, sum d}, each in the same order */
VFN __m128 v_fold4(vf a, vf b, vf c, vf d)
{
    vf t0 = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    vf t1 = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    __m512d p = _mm512_castps_pd(t0), q = _mm512_castps_pd(t1);
    vf u = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(p, q)), _mm512_castpd_ps(_mm512_unpackhi_pd(p, q)));
    __m256 v = _mm256_add_ps(_mm512_castps512_ps256(u), v_upper(u));
    return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}
VFN vf v_f16(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
VFN vf v_bf16(const uint8_t *p)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)), 16));
}
/* 16 int8 -> d[i] = q[i] * s, or q[i] * s + m (two roundings, as the specification) */
VFN void v_put16(float *d, __m128i q, float s)
{
    v_store(d, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)), _mm512_set1_ps(s)));
}
VFN void v_put16m(float *d, __m128i q, float s, float m)
{
    v_store(d, _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)), _mm512_set1_ps(s)), _mm512_set1_ps(m)));
}
/* VL interleaved pairs at p -> first and second members as f32 */
VFN void split(__m512i u, vf *lo, vf *hi)
{
    *lo = _mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
    *hi = _mm512_castsi512_ps(_mm512_and_si512(u, _mm512_set1_epi32((int)0xffff0000)));
}
VFN void split_f32(vf a, vf b, vf *lo, vf *hi)
{
    const __m512i i = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *lo = _mm512_permutex2var_ps(a, i, b);
    *hi = _mm512_permutex2var_ps(a, _mm512_add_epi32(i, _mm512_set1_epi32(1)), b);
}
VFN void v_pair(const uint8_t *p, bool bf16, vf *lo, vf *hi)
{
    if (bf16)
        split(_mm512_loadu_si512(p), lo, hi);
    else
        split_f32(_mm512_loadu_ps(p), _mm512_loadu_ps(p + 64), lo, hi);
}
VFN void v_pair_n(const uint8_t *p, bool bf16, uint32_t n, vf *lo, vf *hi)
{
    if (bf16)
        split(_mm512_maskz_loadu_epi32(first_n(n), p), lo, hi);
    else
        split_f32(_mm512_maskz_loadu_ps(first_n(n >= 8 ? 16 : 2 * n), p),
                  _mm512_maskz_loadu_ps(n > 8 ? first_n(2 * n - 16) : (__mmask16)0, p + 64), lo, hi);
}

#include "kern/kern_simd.h"

void kern_fill_avx512(struct kern *k)
{
    k->isa = ISA_AVX512;
    fill_f32(k);
}
