/* half.h: 16-bit and 8-bit floating point by bit routines (IEEE 754 binary16; bfloat16; OCP 8-bit FP spec for E4M3/E5M2).
 * bf16 and f16 are uint16_t everywhere. Kernel files use instructions instead; these are the specification. */
#pragma once
#include "base/base.h"
#include <string.h>

static inline uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float f32_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline float bf16_to_f32(uint16_t h) { return f32_of_bits((uint32_t)h << 16); }
/* Round to nearest even; NaN stays a (quiet) NaN. */
static inline uint16_t f32_to_bf16(float f)
{
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}
static inline float f16_to_f32(uint16_t h)
{
    uint32_t s = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 0x3ff;
    if (e == 31) return f32_of_bits(s | 0x7f800000u | m << 13);
    if (e) return f32_of_bits(s | (e + 112) << 23 | m << 13);
    /* zero and denormals: m * 2^-24 is exact in f32 */
    float v = (float)m * 5.9604644775390625e-8f;
    return s ? -v : v;
}
static inline uint16_t f32_to_f16(float f)
{
    uint32_t u = f32_bits(f), s = (u >> 16) & 0x8000, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(s | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000u) return (uint16_t)(s | 0x7c00); /* rounds past 65504 */
    if (a < 0x38800000u) {                               /* below 2^-14: denormal or zero */
        if (a < 0x33000000u) return (uint16_t)s;
        uint32_t e = a >> 23, m = (a & 0x7fffff) | 0x800000, sh = 126 - e;
        uint32_t q = m >> sh, r = m & ((1u << sh) - 1), h = 1u << (sh - 1);
        return (uint16_t)(s | (q + (r > h || (r == h && (q & 1)))));
    }
    uint32_t q = (a >> 13) - (112u << 10), r = a & 0x1fff;
    return (uint16_t)(s | (q + (r > 0x1000 || (r == 0x1000 && (q & 1)))));
}
/* E4M3 (FN): bias 7, no infinity, NaN = S.1111.111. */
static inline float e4m3_to_f32(uint8_t c)
{
    uint32_t s = (uint32_t)(c & 0x80) << 24, e = (c >> 3) & 15, m = c & 7;
    if (e == 15 && m == 7) return f32_of_bits(s | 0x7fc00000u);
    if (e) return f32_of_bits(s | (e + 120) << 23 | m << 20);
    float v = (float)m * 0.001953125f; /* 2^-9 */
    return s ? -v : v;
}
/* E5M2: bias 15, IEEE-like infinities and NaNs: the top byte of a binary16. */
static inline float e5m2_to_f32(uint8_t c) { return f16_to_f32((uint16_t)(c << 8)); }
