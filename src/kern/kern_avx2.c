/* kern_avx2.c: f32 kernels over 8 lanes for CPUs with AVX2, FMA, F16C and BMI2. The algorithms are in kern_simd.h; here are its
 * vector primitives. */
#include <immintrin.h>

#include <stdbool.h>
#include <stdint.h>

#define VL 8u
#define V_TILE 3
#define V_SUMS 8 /* sums of V elements kept at a time: 8 rows x 1 vector, 4 x 2 */
#define VFN static inline __attribute__((always_inline))
typedef __m256 vf;

VFN __m256i first_n(uint32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
VFN vf v_set1(float x) { return _mm256_set1_ps(x); }
VFN vf v_load(const float *p) { return _mm256_loadu_ps(p); }
VFN vf v_load_n(const float *p, uint32_t n) { return _mm256_maskload_ps(p, first_n(n)); }
VFN void v_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
VFN void v_store_n(float *p, vf a, uint32_t n) { _mm256_maskstore_ps(p, first_n(n), a); }
VFN vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
VFN vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
VFN vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
VFN vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
VFN vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
VFN vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); } /* b when either is NaN */
VFN vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
VFN vf v_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* a * 2^n for |n| <= 254, in two halves so that neither power leaves the normal range */
VFN vf v_scale2(vf a, vf n)
{
    __m256i i = _mm256_cvtps_epi32(n), h = _mm256_srai_epi32(i, 1), bias = _mm256_set1_epi32(127);
    vf p = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(h, bias), 23));
    vf q = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(i, h), bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(a, p), q);
}
VFN vf v_zero_below(vf a, vf x, vf t) { return _mm256_and_ps(a, _mm256_cmp_ps(x, t, _CMP_NLT_UQ)); }
VFN bool v_any_above(vf x, float t) { return _mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_set1_ps(t), _CMP_GT_OQ)) != 0; }
/* x in lanes lo..hi-1 (may lie outside 0..8), -inf elsewhere */
VFN vf v_keep(vf x, int lo, int hi)
{
    const __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i in = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(lo), i), _mm256_cmpgt_epi32(_mm256_set1_epi32(hi), i));
    return _mm256_blendv_ps(_mm256_set1_ps(-__builtin_inff()), x, _mm256_castsi256_ps(in));
}
/* Lanes fold by 4, 2, 1. */
VFN float v_sum(vf a)
{
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
VFN float v_top(vf a)
{
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
/* {sum a, sum b, sum c, sum d}, each in the same order */
VFN __m128 v_fold4(vf a, vf b, vf c, vf d)
{
    vf t0 = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    vf t1 = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    __m256d p = _mm256_castps_pd(t0), q = _mm256_castps_pd(t1);
    vf u = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(p, q)), _mm256_castpd_ps(_mm256_unpackhi_pd(p, q)));
    return _mm_add_ps(_mm256_castps256_ps128(u), _mm256_extractf128_ps(u, 1));
}
VFN vf v_f16(const uint8_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }
VFN vf v_bf16(const uint8_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)), 16));
}
/* 16 int8 -> d[i] = q[i] * s, or q[i] * s + m (two roundings, as the specification) */
VFN vf cvt8(__m128i q) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)); }
VFN void v_put16(float *d, __m128i q, float s)
{
    vf m = _mm256_set1_ps(s);
    v_store(d, _mm256_mul_ps(cvt8(q), m));
    v_store(d + 8, _mm256_mul_ps(cvt8(_mm_unpackhi_epi64(q, q)), m));
}
VFN void v_put16m(float *d, __m128i q, float s, float m)
{
    vf a = _mm256_set1_ps(s), b = _mm256_set1_ps(m);
    v_store(d, _mm256_add_ps(_mm256_mul_ps(cvt8(q), a), b));
    v_store(d + 8, _mm256_add_ps(_mm256_mul_ps(cvt8(_mm_unpackhi_epi64(q, q)), a), b));
}
/* VL interleaved pairs at p -> first and second members as f32 */
VFN void split(__m256i u, vf *lo, vf *hi)
{
    *lo = _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
    *hi = _mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32((int)0xffff0000)));
}
VFN void split_f32(vf a, vf b, vf *lo, vf *hi)
{
    vf c = _mm256_permute2f128_ps(a, b, 0x20), d = _mm256_permute2f128_ps(a, b, 0x31);
    *lo = _mm256_shuffle_ps(c, d, 0x88);
    *hi = _mm256_shuffle_ps(c, d, 0xdd);
}
VFN void v_pair(const uint8_t *p, bool bf16, vf *lo, vf *hi)
{
    const float *f = (const float *)(const void *)p;
    if (bf16)
        split(_mm256_loadu_si256((const __m256i *)(const void *)p), lo, hi);
    else
        split_f32(_mm256_loadu_ps(f), _mm256_loadu_ps(f + 8), lo, hi);
}
VFN void v_pair_n(const uint8_t *p, bool bf16, uint32_t n, vf *lo, vf *hi)
{
    const float *f = (const float *)(const void *)p;
    if (bf16)
        split(_mm256_castps_si256(v_load_n(f, n)), lo, hi);
    else
        split_f32(v_load_n(f, 2 * n), v_load_n(f + 8, n > 4 ? 2 * n - 8 : 0), lo, hi);
}

#include "kern/kern_simd.h"

void kern_fill_avx2(struct kern *k)
{
    k->isa = ISA_AVX2;
    fill_f32(k);
}
