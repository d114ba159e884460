/* limits_avx512.c: peak of f32 fused multiply-add, 16 lanes, and reading memory a cache line at a time. */
#include "kern/limits_unit.h"
#include <immintrin.h>

uint64_t lim_f32_avx512(uint64_t iters)
{
    __m512 c0 = _mm512_setzero_ps(), c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0, c8 = c0, c9 = c0, c10 = c0,
           c11 = c0;
    __m512 x = _mm512_set1_ps(1.0001f), y = _mm512_set1_ps(1e-6f);
#define STEP(c) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(x), "v"(y));
    for (uint64_t i = 0; i < iters; i++) {
        LIM_12(STEP)
    }
    return iters * 12 * 16 * 2;
}

#define INLINE static inline __attribute__((always_inline))
/* `streams` streams side by side, `burst` lines of each in turn, `ahead` bytes prefetched ahead (0: none). */
INLINE uint64_t read_streams(const uint8_t *p, size_t n, const int streams, const int burst, const size_t ahead)
{
    __m512i s[4];
    for (int i = 0; i < 4; i++) s[i] = _mm512_setzero_si512();
    size_t part = n / streams;
    for (size_t i = 0; i < part; i += 64 * burst)
        for (int r = 0; r < streams; r++) {
            const uint8_t *q = p + r * part + i;
#pragma GCC unroll 8
            for (int j = 0; j < burst; j++) {
                if (ahead) _mm_prefetch((const char *)(q + 64 * j + ahead), _MM_HINT_T0);
                s[j & 3] = _mm512_add_epi32(s[j & 3], _mm512_load_si512(q + 64 * j));
            }
        }
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_xor_si512(_mm512_xor_si512(s[0], s[1]), _mm512_xor_si512(s[2], s[3])));
}

uint64_t lim_read_avx512(const void *p, size_t n, enum lim_order o)
{
    uint64_t x = 0;
    /* rows: 16 of 4 KiB, as a row-major BF16 matrix of 2,048 columns is read */
    const size_t rows = 16 * 4096;
    switch (o) {
    case LIM_PLAIN: return read_streams(p, n, 1, 8, 0);
    case LIM_AHEAD: return read_streams(p, n, 1, 8, 4096);
    case LIM_TWO: return read_streams(p, n, 2, 8, 0);
    case LIM_ROWS:
        for (size_t i = 0; i < n; i += rows) x ^= read_streams((const uint8_t *)p + i, rows, 16, 1, 0);
        return x;
    default:
        for (size_t i = 0; i < n; i += rows) x ^= read_streams((const uint8_t *)p + i, rows, 16, 1, 512);
        return x;
    }
}
