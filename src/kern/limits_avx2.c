/* limits_avx2.c: peak of f32 fused multiply-add, 8 lanes. */
#include "kern/limits_unit.h"
#include <immintrin.h>

uint64_t lim_f32_avx2(uint64_t iters)
{
    __m256 c0 = _mm256_setzero_ps(), c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0, c8 = c0, c9 = c0, c10 = c0,
           c11 = c0;
    __m256 x = _mm256_set1_ps(1.0001f), y = _mm256_set1_ps(1e-6f);
#define STEP(c) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(x), "x"(y));
    for (uint64_t i = 0; i < iters; i++) {
        LIM_12(STEP)
    }
    return iters * 12 * 8 * 2;
}
