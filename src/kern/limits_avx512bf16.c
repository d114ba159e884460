/* limits_avx512bf16.c: peak of VDPBF16PS. */
#include "kern/limits_unit.h"
#include <immintrin.h>

uint64_t lim_bf16_avx512bf16(uint64_t iters)
{
    __m512 c[12];
    __m512i x = _mm512_set1_epi16(0x3f80), y = _mm512_set1_epi16(0x3380);
    for (int j = 0; j < 12; j++) c[j] = _mm512_setzero_ps();
    for (uint64_t i = 0; i < iters; i++)
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) __asm__ volatile("vdpbf16ps %2, %1, %0" : "+v"(c[j]) : "v"(x), "v"(y));
    return iters * 12 * 32 * 2;
}
