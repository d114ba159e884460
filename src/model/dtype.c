/* dtype.c: the table of element types and the exact meaning of their blocks.
 * Layouts: ggml's block_* structures (ggml repository, src/ggml-common.h; the GGUF specification numbers the types in
 * docs/gguf.md). Each value is computed with the same float operations in the same order as ggml's reference, so the results are
 * equal bit for bit; tests/data/quants holds what gguf-py computes. These routines are the specification: fast kernels read
 * blocks on their own. */
#include "model/dtype.h"
#include "base/half.h"
#include <string.h>

static float rd_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return f16_to_f32(h);
}

static uint32_t rd_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static void deq_f32(float *y, const void *x, size_t n) { memcpy(y, x, n * 4); }

static void deq_f16(float *y, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t i = 0; i < n; i++) y[i] = rd_f16(p + 2 * i);
}

static void deq_bf16(float *y, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, 2);
        y[i] = bf16_to_f32(h);
    }
}

/* {f16 d; int8 q[32]}: d*q */
static void deq_q8_0(float *y, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t b = 0; b < n / 32; b++, p += 34, y += 32) {
        float d = rd_f16(p);
        for (int i = 0; i < 32; i++) y[i] = (float)(int8_t)p[2 + i] * d;
    }
}

/* {f16 d; u8 q[16]}: low nibbles are values 0..15, high ones 16..31; d*(q - 8) */
static void deq_q4_0(float *y, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t b = 0; b < n / 32; b++, p += 18, y += 32) {
        float d = rd_f16(p);
        for (int i = 0; i < 16; i++) {
            y[i] = (float)((p[2 + i] & 15) - 8) * d;
            y[i + 16] = (float)((p[2 + i] >> 4) - 8) * d;
        }
    }
}

/* {f16 d, m; u8 q[16]}: d*q + m */
static void deq_q4_1(float *y, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t b = 0; b < n / 32; b++, p += 20, y += 32) {
        float d = rd_f16(p), m = rd_f16(p + 2);
        for (int i = 0; i < 16; i++) {
            y[i] = (float)(p[4 + i] & 15) * d + m;
            y[i + 16] = (float)(p[4 + i] >> 4) * d + m;
        }
    }
}

/* {f16 d; u32 h; u8 q[16]}: bit i of h is the fifth bit of value i; d*(q - 16) */
static void deq_q5_0(float *y, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t b = 0; b < n / 32; b++, p += 22, y += 32) {
        float d = rd_f16(p);
        uint32_t h = rd_u32(p + 2);
        for (int i = 0; i < 16; i++) {
            int lo = (p[6 + i] & 15) | (int)(h >> i & 1) << 4;
            int hi = p[6 + i] >> 4 | (int)(h >> (i + 16) & 1) << 4;
            y[i] = (float)(lo - 16) * d;
            y[i + 16] = (float)(hi - 16) * d;
        }
    }
}

/* {f16 d, m; u32 h; u8 q[16]}: d*q + m */
static void deq_q5_1(float *y, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t b = 0; b < n / 32; b++, p += 24, y += 32) {
        float d = rd_f16(p), m = rd_f16(p + 2);
        uint32_t h = rd_u32(p + 4);
        for (int i = 0; i < 16; i++) {
            int lo = (p[8 + i] & 15) | (int)(h >> i & 1) << 4;
            int hi = p[8 + i] >> 4 | (int)(h >> (i + 16) & 1) << 4;
            y[i] = (float)lo * d + m;
            y[i + 16] = (float)hi * d + m;
        }
    }
}

/* Scale and minimum of group g (0..7) of a Q4_K or Q5_K block, six bits each, packed in 12 bytes: groups 0..3 lie whole in bytes
 * 0..3 (scales) and 4..7 (minima); groups 4..7 have their low four bits in bytes 8..11 and their high two in the top bits of
 * bytes 0..7. */
static void k_scale_min(const uint8_t *s, int g, uint8_t *sc, uint8_t *mn)
{
    if (g < 4) {
        *sc = s[g] & 63;
        *mn = s[g + 4] & 63;
    } else {
        *sc = (uint8_t)((s[g + 4] & 15) | (s[g - 4] >> 6) << 4);
        *mn = (uint8_t)(s[g + 4] >> 4 | (s[g] >> 6) << 4);
    }
}

/* {f16 d, dmin; u8 s[12]; u8 q[128]}: 8 groups of 32; two groups share 32 bytes (low, high nibbles); d*sc*q - dmin*mn */
static void deq_q4_k(float *y, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t b = 0; b < n / 256; b++, p += 144) {
        float d = rd_f16(p), dmin = rd_f16(p + 2);
        const uint8_t *q = p + 16;
        for (int g = 0; g < 8; g++, y += 32) {
            uint8_t sc, mn;
            k_scale_min(p + 4, g, &sc, &mn);
            float d1 = d * (float)sc, m1 = dmin * (float)mn;
            const uint8_t *r = q + g / 2 * 32;
            for (int i = 0; i < 32; i++) y[i] = d1 * (float)(r[i] >> (g & 1) * 4 & 15) - m1;
        }
    }
}

/* {f16 d, dmin; u8 s[12]; u8 h[32]; u8 q[128]}: as Q4_K; bit g of h[i] is the fifth bit of value i of group g */
static void deq_q5_k(float *y, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t b = 0; b < n / 256; b++, p += 176) {
        float d = rd_f16(p), dmin = rd_f16(p + 2);
        const uint8_t *h = p + 16, *q = p + 48;
        for (int g = 0; g < 8; g++, y += 32) {
            uint8_t sc, mn;
            k_scale_min(p + 4, g, &sc, &mn);
            float d1 = d * (float)sc, m1 = dmin * (float)mn;
            const uint8_t *r = q + g / 2 * 32;
            for (int i = 0; i < 32; i++) y[i] = d1 * (float)((r[i] >> (g & 1) * 4 & 15) + (h[i] >> g & 1) * 16) - m1;
        }
    }
}

/* {u8 ql[128], qh[64]; i8 s[16]; f16 d}: two halves of 128 values; in a half, value 32*j + i has its low nibble in ql[32*(j&1) +
 * i] (high half of the byte for j >= 2) and its two high bits in qh[i] at 2*j; a scale per 16 values; d*s*(q - 32) */
static void deq_q6_k(float *y, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t b = 0; b < n / 256; b++, p += 210) {
        float d = rd_f16(p + 208);
        for (int half = 0; half < 2; half++, y += 128) {
            const uint8_t *ql = p + half * 64, *qh = p + 128 + half * 32, *s = p + 192 + half * 8;
            for (int v = 0; v < 128; v++) {
                int j = v / 32, i = v % 32;
                int q = (ql[(j & 1) * 32 + i] >> (j >> 1) * 4 & 15) | (qh[i] >> 2 * j & 3) << 4;
                y[v] = d * (float)(int8_t)s[v / 16] * (float)(q - 32);
            }
        }
    }
}

const struct dtype_info dtype_table[DT_N] = {
    /* clang-format off */
    [DT_F32]  = {"f32",   0,   1,   4, deq_f32},
    [DT_F16]  = {"f16",   1,   1,   2, deq_f16},
    [DT_BF16] = {"bf16", 30,   1,   2, deq_bf16},
    [DT_Q8_0] = {"q8_0",  8,  32,  34, deq_q8_0},
    [DT_Q4_0] = {"q4_0",  2,  32,  18, deq_q4_0},
    [DT_Q4_1] = {"q4_1",  3,  32,  20, deq_q4_1},
    [DT_Q5_0] = {"q5_0",  6,  32,  22, deq_q5_0},
    [DT_Q5_1] = {"q5_1",  7,  32,  24, deq_q5_1},
    [DT_Q4_K] = {"q4_k", 12, 256, 144, deq_q4_k},
    [DT_Q5_K] = {"q5_k", 13, 256, 176, deq_q5_k},
    [DT_Q6_K] = {"q6_k", 14, 256, 210, deq_q6_k},
    /* clang-format on */
};

/* Numbers 4, 5, 31-33 and 36-38 were given up; the names stay, so that a message about an old file can say what it holds. */
static const char *const gguf_names[] = {
    "F32",      "F16",    "Q4_0",  "Q4_1",       "Q4_2",       "Q4_3",       "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",     "Q2_K",
    "Q3_K",     "Q4_K",   "Q5_K",  "Q6_K",       "Q8_K",       "IQ2_XXS",    "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL",   "IQ3_S",
    "IQ2_S",    "IQ4_XS", "I8",    "I16",        "I32",        "I64",        "F64",    "IQ1_M",   "BF16",  "Q4_0_4_4", "Q4_0_4_8",
    "Q4_0_8_8", "TQ1_0",  "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",  "NVFP4",   "Q1_0",
};

enum dtype dtype_of_gguf(uint32_t id)
{
    for (unsigned t = 0; t < DT_N; t++)
        if (dtype_table[t].gguf_id == id) return (enum dtype)t;
    return DT_NONE;
}

const char *dtype_gguf_name(uint32_t id) { return id < ARRAY_LEN(gguf_names) ? gguf_names[id] : NULL; }

enum dtype dtype_by_name(const char *name)
{
    for (unsigned t = 0; t < DT_N; t++)
        if (strcmp(dtype_table[t].name, name) == 0) return (enum dtype)t;
    return DT_NONE;
}
