/* limits_avx512bf16.c: peak of VDPBF16PS. */
#include "kern/limits_unit.h"
#include <immintrin.h>

uint64_t lim_bf16_avx512bf16(uint64_t iters)
{
    __m512 c0 = _mm512_setzero_ps(), c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0, c8 = c0, c9 = c0, c10 = c0,
           c11 = c0;
    __m512i x = _mm512_set1_epi16(0x3f80), y = _mm512_set1_epi16(0x3380);
#define STEP(c) __asm__ volatile("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(x), "v"(y));
    for (uint64_t i = 0; i < iters; i++) {
        LIM_12(STEP)
    }
    return iters * 12 * 32 * 2;
}
