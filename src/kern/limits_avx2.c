/* limits_avx2.c: peak of f32 fused multiply-add, 8 lanes. */
#include "kern/limits_unit.h"
#include <immintrin.h>

uint64_t lim_f32_avx2(uint64_t iters)
{
    __m256 c[12], x = _mm256_set1_ps(1.0001f), y = _mm256_set1_ps(1e-6f);
    for (int j = 0; j < 12; j++) c[j] = _mm256_setzero_ps();
    for (uint64_t i = 0; i < iters; i++)
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(c[j]) : "x"(x), "x"(y));
    return iters * 12 * 8 * 2;
}
