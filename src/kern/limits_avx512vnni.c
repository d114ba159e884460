/* limits_avx512vnni.c: peak of VPDPBUSD. */
#include "kern/limits_unit.h"
#include <immintrin.h>

uint64_t lim_int8_avx512vnni(uint64_t iters)
{
    __m512i c0 = _mm512_setzero_si512(), c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0, c8 = c0, c9 = c0,
            c10 = c0, c11 = c0;
    __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5);
#define STEP(c) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(x), "v"(y));
    for (uint64_t i = 0; i < iters; i++) {
        LIM_12(STEP)
    }
    return iters * 12 * 64 * 2;
}
