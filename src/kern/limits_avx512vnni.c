/* limits_avx512vnni.c: peak of VPDPBUSD. */
#include "kern/limits_unit.h"
#include <immintrin.h>

uint64_t lim_int8_avx512vnni(uint64_t iters)
{
    __m512i c[12], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5);
    for (int j = 0; j < 12; j++) c[j] = _mm512_setzero_si512();
    for (uint64_t i = 0; i < iters; i++)
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(c[j]) : "v"(x), "v"(y));
    return iters * 12 * 64 * 2;
}
