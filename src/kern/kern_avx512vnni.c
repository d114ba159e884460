/* kern_avx512vnni.c: integer matrix multiplication for the block formats on CPUs with AVX512_VNNI: weights as they are coded,
 * activations as ACT_Q8.
 *
 * Packed weights: groups of 16 rows (the last one padded with zero rows). A file block is `nw` 32-bit words and `nh` f16 numbers;
 * a group holds [block][nw][16 rows] words, then [block][nh][16 rows] f16, then up to 63 bytes to a 64-byte border. One load thus
 * brings one word of 16 rows: 4 codes of 8 bits (stored + 128: VPDPBUSD takes unsigned by signed) or twice 4 of 4 bits, as the
 * file pairs them. The fifth bits of Q5_0 and Q5_1 are reordered inside their word: bit 4i + l of the file is bit 8l + i here, so
 * that byte l has the bits of words i = 0..7. All of it can be undone exactly.
 *
 * Sum: per block of 32 (Q6_K: 16) an exact integer sum, the offset included; blocks ascending into one f32 accumulator by FMA:
 * sum * (scale_w * scale_x), then minimum * ssum. Any tile of activation rows does the same per row. */
#include "kern/kern.h"
#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
enum { LAYOUT_ROWS16 = 1, AHEAD = 6144 /* bytes of prefetch distance */ };

/* Where a file block keeps its words and its f16 numbers. */
struct form {
    uint8_t block_bytes, nw, nh, w_at, h_at;
    uint16_t block;
};
static const struct form forms[DT_N] = {
    /* clang-format off */
    [DT_Q8_0] = {34,   8, 1, 2,   0,  32},
    [DT_Q4_0] = {18,   4, 1, 2,   0,  32},
    [DT_Q4_1] = {20,   4, 2, 4,   0,  32},
    [DT_Q5_0] = {22,   5, 1, 2,   0,  32}, /* bits, 4 words of nibbles */
    [DT_Q5_1] = {24,   5, 2, 4,   0,  32},
    [DT_Q4_K] = {144, 35, 2, 4,   0, 256}, /* 3 words of scales, 32 of nibbles */
    [DT_Q5_K] = {176, 43, 2, 4,   0, 256}, /* 3 of scales, 8 of bits, 32 of nibbles */
    [DT_Q6_K] = {210, 52, 1, 0, 208, 256}, /* 32 of nibbles, 16 of bit pairs, 4 of scales */
    /* clang-format on */
};

INLINE size_t group_bytes(enum dtype dt, uint32_t cols)
{
    return align_up((size_t)(cols / forms[dt].block) * (forms[dt].nw * 64u + forms[dt].nh * 32u), 64);
}

/* ---- packing */

/* Bit 8l + i -> bit 4i + l. */
static uint32_t bits_out(uint32_t h)
{
    uint32_t o = 0;
    for (uint32_t b = 0; b < 32; b++) o |= (h >> (b % 4 * 8 + b / 4) & 1) << b;
    return o;
}
/* Bit 4i + l -> bit 8l + i of 16 words: the eight bits l, l+4, .. fold into byte l by shifts. */
INLINE __m512i bits_in16(__m512i h)
{
    __m512i o = _mm512_setzero_si512();
    UNROLL
    for (int l = 0; l < 4; l++) {
        __m512i x = _mm512_and_si512(_mm512_srli_epi32(h, (unsigned)l), _mm512_set1_epi32(0x11111111));
        x = _mm512_and_si512(_mm512_or_si512(x, _mm512_srli_epi32(x, 3)), _mm512_set1_epi32(0x03030303));
        x = _mm512_and_si512(_mm512_or_si512(x, _mm512_srli_epi32(x, 6)), _mm512_set1_epi32(0x000f000f));
        x = _mm512_and_si512(_mm512_or_si512(x, _mm512_srli_epi32(x, 12)), _mm512_set1_epi32(0x000000ff));
        o = _mm512_or_si512(o, _mm512_slli_epi32(x, (unsigned)(8 * l)));
    }
    return o;
}

INLINE void pack_as(enum dtype dt, void *dst, const void *file, size_t row_bytes, uint32_t rows, uint32_t cols, uint32_t r0,
                    uint32_t r1)
{
    const struct form f = forms[dt];
    const size_t gb = group_bytes(dt, cols);
    const uint32_t nb = cols / f.block;
    /* the last block's f16 pair is read from two bytes before it, never past the row */
    const uint32_t h_at = f.nh == 1 && f.h_at ? f.h_at - 2u : f.h_at;
    for (uint32_t r = r0; r < r1; r += 16) {
        uint8_t *g = (uint8_t *)dst + r / 16 * gb, *hp = g + (size_t)nb * f.nw * 64;
        const uint8_t *p = (const uint8_t *)file + r * row_bytes;
        const __mmask16 m = (__mmask16)(rows - r >= 16 ? 0xffff : (1u << (rows - r)) - 1);
        __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        __m512i lo =
            _mm512_mullo_epi64(_mm512_cvtepu32_epi64(_mm512_castsi512_si256(lane)), _mm512_set1_epi64((long long)row_bytes));
        __m512i hi = _mm512_mullo_epi64(_mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(lane, 1)),
                                        _mm512_set1_epi64((long long)row_bytes));
        const __m256i z = _mm256_setzero_si256();
        for (uint32_t b = 0; b < nb; b++, p += f.block_bytes) {
            for (uint32_t i = 0; i <= f.nw; i++) {
                const uint8_t *at = p + (i < f.nw ? f.w_at + 4 * i : h_at);
                __m512i v = _mm512_castsi256_si512(_mm512_mask_i64gather_epi32(z, (__mmask8)m, lo, at, 1));
                v = _mm512_inserti64x4(v, _mm512_mask_i64gather_epi32(z, (__mmask8)(m >> 8), hi, at, 1), 1);
                if (i < f.nw) {
                    if (dt == DT_Q8_0) v = _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80));
                    if ((dt == DT_Q5_0 || dt == DT_Q5_1) && i == 0) v = bits_in16(v);
                    _mm512_store_si512(g, v);
                    g += 64;
                } else {
                    if (h_at != f.h_at) v = _mm512_srli_epi32(v, 16);
                    _mm256_store_si256((__m256i *)(void *)hp, _mm512_cvtepi32_epi16(v));
                    if (f.nh == 2)
                        _mm256_store_si256((__m256i *)(void *)(hp + 32), _mm512_cvtepi32_epi16(_mm512_srli_epi32(v, 16)));
                    hp += 32u * f.nh;
                }
            }
        }
    }
}

INLINE void unpack_as(enum dtype dt, void *row, const void *packed, uint32_t cols, uint32_t r)
{
    const struct form f = forms[dt];
    const uint32_t nb = cols / f.block;
    const uint8_t *g = (const uint8_t *)packed + r / 16 * group_bytes(dt, cols), *hp = g + (size_t)nb * f.nw * 64;
    uint8_t *o = row;
    for (uint32_t b = 0; b < nb; b++, o += f.block_bytes) {
        for (uint32_t i = 0; i < f.nw; i++) {
            uint32_t v;
            memcpy(&v, g + ((size_t)b * f.nw + i) * 64 + r % 16 * 4, 4);
            if (dt == DT_Q8_0) v ^= 0x80808080;
            if ((dt == DT_Q5_0 || dt == DT_Q5_1) && i == 0) v = bits_out(v);
            memcpy(o + f.w_at + 4 * i, &v, 4);
        }
        for (uint32_t i = 0; i < f.nh; i++) memcpy(o + f.h_at + 2 * i, hp + ((size_t)b * f.nh + i) * 32 + r % 16 * 2, 2);
    }
}

/* ---- activations */

static void act_prep_q8(void *xa, const float *x, size_t ldx, uint32_t n, uint32_t k, uint32_t i0, uint32_t i1)
{
    struct act_q8 a;
    act_q8_view(&a, xa, n, k);
    const __m512 top = _mm512_set1_ps(127.0f), bot = _mm512_set1_ps(-127.0f);
    for (uint32_t i = i0; i < i1; i++) {
        uint32_t h = MIN(16, n - i / 16 * 16);
        for (uint32_t b = 0; b < a.nb; b++) {
            const float *p = x + i * ldx + b * 32;
            size_t at = act_q8_at(&a, i, b, h);
            __m512 u = _mm512_loadu_ps(p), v = _mm512_loadu_ps(p + 16), z = _mm512_setzero_ps();
            /* operand order: not-a-number is passed over here and becomes 127 below, as in the reference */
            float m = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(v), _mm512_max_ps(_mm512_abs_ps(u), z)));
            float inv = m >= 0x1p-100f ? 127.0f / m : 0, sc = m >= 0x1p-100f ? m / 127.0f : 0;
            u = _mm512_max_ps(_mm512_min_ps(_mm512_mul_ps(u, _mm512_set1_ps(inv)), top), bot);
            v = _mm512_max_ps(_mm512_min_ps(_mm512_mul_ps(v, _mm512_set1_ps(inv)), top), bot);
            __m256i q =
                _mm256_set_m128i(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(u)));
            _mm256_storeu_si256((__m256i *)(void *)(a.q + at * 32), q);
            __m256i s4 = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
            s4 = _mm256_add_epi32(s4, _mm256_shuffle_epi32(s4, 0x4e));
            s4 = _mm256_add_epi32(s4, _mm256_shuffle_epi32(s4, 0xb1));
            int32_t s0 = _mm256_extract_epi32(s4, 0), s1 = _mm256_extract_epi32(s4, 4);
            a.scale[at] = sc;
            a.ssum[at] = sc * (float)(s0 + s1);
            a.n8[at] = -8 * (s0 + s1);
            a.n128[at] = -128 * (s0 + s1);
            a.n32[at * 2] = -32 * s0;
            a.n32[at * 2 + 1] = -32 * s1;
        }
    }
}

/* ---- gemm: 16 weight rows by MR activation rows */

/* One tile's view of the activations: row m of block b at q + (b*h + m)*32 and so on. */
struct xt {
    const int8_t *q;
    const float *scale, *ssum;
    const int32_t *n8, *n128, *n32;
    uint32_t h;
};

INLINE __m512i ldw(const uint8_t *p) { return _mm512_load_si512(p); }
INLINE __m512 ldh(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p)); }
INLINE void ahead(const uint8_t *p) { _mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0); }
/* a | (b & c) */
INLINE __m512i or_and(__m512i a, __m512i b, __m512i c) { return _mm512_ternarylogic_epi32(a, b, c, 0xf8); }

/* Sum of a block of 32 for one activation row, from its start value. */
INLINE __m512i dot32(__m512i s, const __m512i *w, const int8_t *q, int from, int to)
{
    UNROLL
    for (int i = from; i < to; i++) {
        int32_t x;
        memcpy(&x, q + 4 * i, 4);
        s = _mm512_dpbusd_epi32(s, w[i], _mm512_set1_epi32(x));
    }
    return s;
}

/* Adds block b (unsigned codes w, 16 rows' scale d, minimum mn) to the sums of MR rows. */
INLINE void block32(enum dtype dt, int MR, __m512 *f, const __m512i *w, __m512 d, __m512 mn, const struct xt *x, size_t b)
{
    const size_t at = b * x->h;
    UNROLL
    for (int m = 0; m < MR; m++) {
        const size_t a = at + (size_t)m;
        __m512i s = _mm512_setzero_si512();
        if (dt == DT_Q8_0) s = _mm512_set1_epi32(x->n128[a]);
        if (dt == DT_Q4_0) s = _mm512_set1_epi32(x->n8[a]);
        if (dt == DT_Q5_0) s = _mm512_slli_epi32(_mm512_set1_epi32(x->n8[a]), 1);
        s = dot32(s, w, x->q + a * 32, 0, 8);
        f[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s), _mm512_mul_ps(d, _mm512_set1_ps(x->scale[a])), f[m]);
        if (dt == DT_Q4_1 || dt == DT_Q5_1 || dt == DT_Q4_K || dt == DT_Q5_K)
            f[m] = _mm512_fmadd_ps(mn, _mm512_set1_ps(x->ssum[a]), f[m]);
    }
}

/* Q6_K: two scales of 16. */
INLINE void block6(int MR, __m512 *f, const __m512i *w, __m512 d0, __m512 d1, const struct xt *x, size_t b)
{
    const size_t at = b * x->h;
    UNROLL
    for (int m = 0; m < MR; m++) {
        const size_t a = at + (size_t)m;
        __m512i s0 = dot32(_mm512_set1_epi32(x->n32[2 * a]), w, x->q + a * 32, 0, 4);
        __m512i s1 = dot32(_mm512_set1_epi32(x->n32[2 * a + 1]), w, x->q + a * 32, 4, 8);
        __m512 t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s1), d1, _mm512_mul_ps(_mm512_cvtepi32_ps(s0), d0));
        f[m] = _mm512_fmadd_ps(t, _mm512_set1_ps(x->scale[a]), f[m]);
    }
}

/* Blocks of 32. */
INLINE void group32(enum dtype dt, int MR, __m512 *f, const uint8_t *g, uint32_t nb, const struct xt *x)
{
    const struct form fm = forms[dt];
    const uint8_t *hp = g + (size_t)nb * fm.nw * 64;
    const __m512i lo = _mm512_set1_epi8(15), top = _mm512_set1_epi8(16);
    for (uint32_t b = 0; b < nb; b++, hp += fm.nh * 32) {
        __m512i w[8];
        if (dt == DT_Q8_0) {
            UNROLL
            for (int i = 0; i < 8; i++) {
                w[i] = ldw(g + 64 * i);
                ahead(g + 64 * i);
            }
        } else {
            const bool five = dt == DT_Q5_0 || dt == DT_Q5_1;
            const uint8_t *q = g + (five ? 64 : 0);
            UNROLL
            for (int i = 0; i < 4; i++) {
                __m512i v = ldw(q + 64 * i);
                ahead(q + 64 * i);
                w[i] = _mm512_and_si512(v, lo);
                w[i + 4] = _mm512_and_si512(_mm512_srli_epi16(v, 4), lo);
            }
            if (five) {
                __m512i h = ldw(g);
                ahead(g);
                UNROLL
                for (int i = 0; i < 8; i++) w[i] = or_and(w[i], _mm512_rolv_epi32(h, _mm512_set1_epi32((4 - i) & 31)), top);
            }
        }
        ahead(hp);
        block32(dt, MR, f, w, ldh(hp), fm.nh == 2 ? ldh(hp + 32) : _mm512_setzero_ps(), x, b);
        g += fm.nw * 64;
    }
}

/* Super-blocks of 256 with 6-bit scales and minima (bit layout: dtype.c). */
INLINE void group_k(enum dtype dt, int MR, __m512 *f, const uint8_t *g, uint32_t nb, const struct xt *x)
{
    const struct form fm = forms[dt];
    const uint8_t *hp = g + (size_t)nb * fm.nw * 64;
    const __m512i lo = _mm512_set1_epi8(15), top = _mm512_set1_epi8(16), six = _mm512_set1_epi8(63), up = _mm512_set1_epi8(0x30),
                  byte = _mm512_set1_epi32(255);
    for (uint32_t b = 0; b < nb; b++, g += fm.nw * 64, hp += 64) {
        __m512 d = ldh(hp), dm = _mm512_sub_ps(_mm512_setzero_ps(), ldh(hp + 32)), sc[8], mn[8];
        __m512i a = ldw(g), m = ldw(g + 64), c = ldw(g + 128);
        __m512i v[4] = {_mm512_and_si512(a, six), or_and(_mm512_and_si512(c, lo), _mm512_srli_epi32(a, 2), up),
                        _mm512_and_si512(m, six),
                        or_and(_mm512_and_si512(_mm512_srli_epi32(c, 4), lo), _mm512_srli_epi32(m, 2), up)};
        UNROLL
        for (int j = 0; j < 8; j++) {
            sc[j] =
                _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(v[j / 4], (unsigned)(j % 4 * 8)), byte)));
            mn[j] = _mm512_mul_ps(
                dm, _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(v[2 + j / 4], (unsigned)(j % 4 * 8)), byte)));
        }
        ahead(g);
        ahead(g + 64);
        ahead(g + 128);
        ahead(hp);
        const uint8_t *h = g + 192, *q = h + (dt == DT_Q5_K ? 512 : 0);
#pragma GCC unroll 1
        for (int j = 0; j < 8; j += 2, q += 512) { /* two blocks share words: low nibbles, high nibbles */
            __m512i w[8];
            UNROLL
            for (int i = 0; i < 8; i++) {
                w[i] = _mm512_and_si512(ldw(q + 64 * i), lo);
                if (dt == DT_Q5_K) w[i] = or_and(w[i], _mm512_rolv_epi32(ldw(h + 64 * i), _mm512_set1_epi32((4 - j) & 31)), top);
                ahead(q + 64 * i);
            }
            block32(dt, MR, f, w, sc[j], mn[j], x, (size_t)b * 8 + (size_t)j);
            UNROLL
            for (int i = 0; i < 8; i++) {
                w[i] = _mm512_and_si512(_mm512_srli_epi32(ldw(q + 64 * i), 4), lo);
                if (dt == DT_Q5_K) w[i] = or_and(w[i], _mm512_rolv_epi32(ldw(h + 64 * i), _mm512_set1_epi32((3 - j) & 31)), top);
            }
            if (dt == DT_Q5_K) {
                ahead(h + 64 * j);
                ahead(h + 64 * (j + 1));
            }
            block32(dt, MR, f, w, sc[j + 1], mn[j + 1], x, (size_t)b * 8 + (size_t)j + 1);
        }
    }
}

INLINE void group_6k(int MR, __m512 *f, const uint8_t *g, uint32_t nb, const struct xt *x)
{
    const uint8_t *hp = g + (size_t)nb * 52 * 64;
    const __m512i lo = _mm512_set1_epi8(15), top = _mm512_set1_epi8(0x30);
    for (uint32_t b = 0; b < nb; b++, g += 52 * 64, hp += 32) {
        __m512 d = ldh(hp), sc[16];
        UNROLL
        for (int j = 0; j < 16; j++) {
            __m512i v = _mm512_slli_epi32(ldw(g + (48 + j / 4) * 64), (unsigned)(24 - j % 4 * 8));
            sc[j] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_srai_epi32(v, 24)));
        }
        ahead(hp);
        UNROLL
        for (int i = 0; i < 4; i++) ahead(g + (48 + i) * 64);
#pragma GCC unroll 1
        for (int j = 0; j < 8; j++) {
            __m512i w[8], right = _mm512_set1_epi32((j & 2) * 2), left = _mm512_set1_epi32((4 - j % 4 * 2) & 31);
            const uint8_t *p = g + (j / 4 * 16 + j % 2 * 8) * 64, *h = g + (32 + j / 4 * 8) * 64;
            UNROLL
            for (int i = 0; i < 8; i++)
                w[i] = or_and(_mm512_and_si512(_mm512_srlv_epi32(ldw(p + 64 * i), right), lo),
                              _mm512_rolv_epi32(ldw(h + 64 * i), left), top);
            UNROLL
            for (int i = 0; i < 6; i++) ahead(g + (j * 6 + i) * 64);
            block6(MR, f, w, sc[2 * j], sc[2 * j + 1], x, (size_t)b * 8 + (size_t)j);
        }
    }
}

INLINE void tile(enum dtype dt, int MR, float *y, size_t ldy, const uint8_t *g, uint32_t nb, const struct xt *x, __m512 bias,
                 __mmask16 mask)
{
    __m512 f[16];
    UNROLL
    for (int m = 0; m < MR; m++) f[m] = _mm512_setzero_ps();
    if (dt == DT_Q6_K)
        group_6k(MR, f, g, nb, x);
    else if (dt == DT_Q4_K || dt == DT_Q5_K)
        group_k(dt, MR, f, g, nb, x);
    else
        group32(dt, MR, f, g, nb, x);
    UNROLL
    for (int m = 0; m < MR; m++) _mm512_mask_storeu_ps(y + (size_t)m * ldy, mask, _mm512_add_ps(f[m], bias));
}

typedef void tile_fn(float *y, size_t ldy, const uint8_t *g, uint32_t nb, const struct xt *x, __m512 bias, __mmask16 mask);

static void gemm_any(enum dtype dt, tile_fn *const *tiles, float *y, size_t ldy, const void *xa, const struct mat *w, uint32_t n,
                     uint32_t r0, uint32_t r1)
{
    struct act_q8 a;
    /* a view only: nothing is written through it */
    union {
        const void *c;
        void *v;
    } un = {.c = xa};
    act_q8_view(&a, un.v, n, w->cols);
    const size_t gb = group_bytes(dt, w->cols);
    const uint32_t nb = w->cols / forms[dt].block;
    /* activation rows per pass over the weights: their codes stay in the second cache */
    const uint32_t pass = MAX(16, (768u << 10) / w->cols / 16 * 16);
    for (uint32_t i0 = 0; i0 < n; i0 += pass) {
        uint32_t i1 = MIN(n, i0 + pass);
        for (uint32_t r = r0; r < r1; r += 16) {
            const uint8_t *g = (const uint8_t *)w->w + r / 16 * gb;
            __mmask16 mask = (__mmask16)(r1 - r >= 16 ? 0xffff : (1u << (r1 - r)) - 1);
            __m512 bias = w->bias ? _mm512_maskz_loadu_ps(mask, w->bias + r) : _mm512_setzero_ps();
            for (uint32_t i = i0; i < i1;) {
                uint32_t h = MIN(16, n - i / 16 * 16), left = h - i % 16,
                         lg = left >= 16 ? 4 : 31 - (uint32_t)__builtin_clz(left);
                size_t at = act_q8_at(&a, i, 0, h);
                struct xt x = {a.q + at * 32, a.scale + at, a.ssum + at, a.n8 + at, a.n128 + at, a.n32 + 2 * at, h};
                tiles[lg](y + (size_t)i * ldy + r, ldy, g, nb, &x, bias, mask);
                i += 1u << lg;
            }
        }
    }
}

#define TILE(dt, mr)                                                                                                             \
    static void tile_##dt##_##mr(float *y, size_t ldy, const uint8_t *g, uint32_t nb, const struct xt *x, __m512 bias,           \
                                 __mmask16 mask)                                                                                 \
    {                                                                                                                            \
        tile(DT_##dt, mr, y, ldy, g, nb, x, bias, mask);                                                                         \
    }
#define TYPE(dt)                                                                                                                 \
    TILE(dt, 1)                                                                                                                  \
    TILE(dt, 2) TILE(dt, 4) TILE(dt, 8) TILE(dt, 16) static tile_fn *const tiles_##dt[] = {                                      \
        tile_##dt##_1, tile_##dt##_2, tile_##dt##_4, tile_##dt##_8, tile_##dt##_16};                                             \
    static size_t bytes_##dt(uint32_t rows, uint32_t cols) { return ceil_div_u32(rows, 16) * group_bytes(DT_##dt, cols); }       \
    static void pack_##dt(void *dst, const void *file, size_t row_bytes, uint32_t rows, uint32_t cols, uint32_t r0, uint32_t r1) \
    {                                                                                                                            \
        pack_as(DT_##dt, dst, file, row_bytes, rows, cols, r0, r1);                                                              \
    }                                                                                                                            \
    static void unpack_##dt(void *row, const void *packed, uint32_t rows, uint32_t cols, uint32_t r)                             \
    {                                                                                                                            \
        (void)rows;                                                                                                              \
        unpack_as(DT_##dt, row, packed, cols, r);                                                                                \
    }                                                                                                                            \
    static void gemm_##dt(float *y, size_t ldy, const void *xa, const struct mat *w, uint32_t n, uint32_t r0, uint32_t r1,       \
                          void *scratch)                                                                                         \
    {                                                                                                                            \
        (void)scratch;                                                                                                           \
        gemm_any(DT_##dt, tiles_##dt, y, ldy, xa, w, n, r0, r1);                                                                 \
    }
TYPE(Q8_0)
TYPE(Q4_0)
TYPE(Q4_1)
TYPE(Q5_0)
TYPE(Q5_1)
TYPE(Q4_K)
TYPE(Q5_K)
TYPE(Q6_K)

#define ROW(dt)                                                                                                                  \
    k->gemm[DT_##dt] = (struct kern_gemm)                                                                                        \
    {                                                                                                                            \
        .act = ACT_Q8, .unit = 16, .layout = LAYOUT_ROWS16, .pack_bytes = bytes_##dt, .pack = pack_##dt, .unpack = unpack_##dt,  \
        .scratch = 64, .gemm = gemm_##dt                                                                                         \
    }
void kern_fill_avx512vnni(struct kern *k)
{
    k->isa = ISA_AVX512VNNI;
    k->act_prep[ACT_Q8] = act_prep_q8;
    ROW(Q8_0);
    ROW(Q4_0);
    ROW(Q4_1);
    ROW(Q5_0);
    ROW(Q5_1);
    ROW(Q4_K);
    ROW(Q5_K);
    ROW(Q6_K);
}
