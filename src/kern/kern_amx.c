/* kern_amx.c: matrix multiplication on AMX tiles (Sapphire Rapids on): y = w x^T, BF16 products, f32 sums, all weight types.
 *
 * A tiles are 16 rows of w x 32 k, B tiles the activations (ACT_BF16, kern_avx512bf16.c), C tiles [16 rows of w][16 rows of x].
 * BF16 weights are tile rows as they lie in the file; quantised ones are expanded on the way: code * scale (+ minimum), exact in
 * f32 (Q6_K: as dtype.c), rounded to the nearest BF16; denormals count as zero. Codes of at most five bits go through a table of
 * the row's 16 or 32 values (VPERMW), wider ones through f32.
 * Sum: tiles of 32 k ascending into one f32 accumulator, whatever n, r0 and r1 are (order inside a tile: kern_amx.h); spilling
 * and reloading an accumulator is exact. So there may be two ways through the matrix:
 *   n <= 32: stream: every tile is expanded into an L1 ring and multiplied at once; speed of memory.
 *   n > 32:  panel: a part of w (PANEL values) is expanded into scratch in L2, then all of x passes by in blocks of 32 rows.
 * F32 and F16 weights keep the slots of the lower levels, where they are exact. */
#include "kern/kern_amx.h"
#include "kern/kern.h"
#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define ALIGNED __attribute__((aligned(64)))
enum {
    PANEL = 1 << 19,  /* values of w expanded at a time: 1 MiB of BF16, half of the L2 cache */
    PANEL_ROWS = 256, /* enough rows that x, coming from L3, is used often */
    KC = 512,         /* 32 rows of x by KC fill two thirds of L1 */
    CBUF_BYTES = 2 * PANEL_ROWS * 16 * 4,
};

/* ---- expanding one superblock (kern_amx.h) */

struct sb {
    ALIGNED float a[16][16]; /* [tile][row] scale; Q6_K: [half tile][row] */
    ALIGNED float b[8][16];  /* [tile][row] addend */
    const uint8_t *q;
};
typedef void prep_fn(struct sb *s, const uint8_t *p, uint32_t nt);   /* decode scales; find the codes */
typedef void tile_fn(uint16_t *dst, const struct sb *s, uint32_t j); /* tile j -> bf16 [16][32] */

INLINE __m512 f16_16(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
INLINE __m512i cvt2(__m512 hi, __m512 lo) { return (__m512i)_mm512_cvtne2ps_pbh(hi, lo); }

INLINE void prep_0(struct sb *s, const uint8_t *p, uint32_t nt, float zero)
{
    for (uint32_t j = 0; j < nt; j++) {
        __m512 d = f16_16(p + 32 * j);
        _mm512_store_ps(s->a[j], d);
        _mm512_store_ps(s->b[j], _mm512_mul_ps(d, _mm512_set1_ps(zero))); /* exact: a power of two */
    }
    s->q = p + 32 * nt;
}
INLINE void prep_q8(struct sb *s, const uint8_t *p, uint32_t nt)
{
    for (uint32_t j = 0; j < nt; j++) _mm512_store_ps(s->a[j], f16_16(p + 32 * j));
    s->q = p + 32 * nt;
}
INLINE void prep_1(struct sb *s, const uint8_t *p, uint32_t nt)
{
    for (uint32_t j = 0; j < nt; j++) {
        _mm512_store_ps(s->a[j], f16_16(p + 32 * j));
        _mm512_store_ps(s->b[j], f16_16(p + 32 * (nt + j)));
    }
    s->q = p + 64 * nt;
}
INLINE void prep_q4_0(struct sb *s, const uint8_t *p, uint32_t nt) { prep_0(s, p, nt, -8.0f); }
INLINE void prep_q5_0(struct sb *s, const uint8_t *p, uint32_t nt) { prep_0(s, p, nt, -16.0f); }

/* Scales and minima of 8 groups, 16 rows at a time: the 6-bit numbers of dtype.c's k_scale_min, four groups per register. */
INLINE void prep_k(struct sb *s, const uint8_t *p, uint32_t nt)
{
    (void)nt;
    ALIGNED uint8_t sc[128], mn[128];
    const __m512i m6 = _mm512_set1_epi8(63), m4 = _mm512_set1_epi8(15), m2 = _mm512_set1_epi8(0x30);
    __m512i z0 = _mm512_loadu_si512(p + 64), z1 = _mm512_loadu_si512(p + 128), z2 = _mm512_loadu_si512(p + 192);
    _mm512_store_si512(sc, _mm512_and_si512(z0, m6));
    _mm512_store_si512(mn, _mm512_and_si512(z1, m6));
    _mm512_store_si512(sc + 64, _mm512_or_si512(_mm512_and_si512(z2, m4), _mm512_and_si512(_mm512_srli_epi16(z0, 2), m2)));
    _mm512_store_si512(
        mn + 64, _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(z2, 4), m4), _mm512_and_si512(_mm512_srli_epi16(z1, 2), m2)));
    __m512 d = f16_16(p), dm = _mm512_sub_ps(_mm512_setzero_ps(), f16_16(p + 32));
    for (int g = 0; g < 8; g++) {
        _mm512_store_ps(s->a[g],
                        _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128((const void *)(sc + 16 * g))))));
        _mm512_store_ps(s->b[g],
                        _mm512_mul_ps(dm, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128((const void *)(mn + 16 * g))))));
    }
    s->q = p + 256;
}
INLINE void prep_q6_k(struct sb *s, const uint8_t *p, uint32_t nt)
{
    (void)nt;
    __m512 d = f16_16(p);
    for (int g = 0; g < 16; g++)
        _mm512_store_ps(s->a[g], _mm512_mul_ps(d, _mm512_cvtepi32_ps(
                                                      _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p + 32 + 16 * g))))));
    s->q = p + 288;
}

/* code * a + b for codes 0..15: exact before the rounding to BF16 (at most 22 significant bits). */
INLINE __m512 lut(const struct sb *s, uint32_t j, int r)
{
    const __m512 c = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_fmadd_ps(c, _mm512_set1_ps(s->a[j][r]), _mm512_set1_ps(s->b[j][r]));
}

/* What counts here are the two vector ports, and port 0 most: it alone shifts and, while tiles multiply, it alone multiplies;
 * VPERMW takes both ports once, VCVTNE2PS2BF16 twice. */
INLINE void tile_q4(uint16_t *dst, const struct sb *s, uint32_t j)
{
    /* one table for two rows: the second row's index has bit 4 set; VPERMW reads five bits */
    const __m512i m4 = _mm512_set1_epi16(15), hi = _mm512_set1_epi16(16);
    const __m512i down = _mm512_set4_epi32(0x0f0f0d0d, 0x0b0b0909, 0x07070505, 0x03030101); /* a shift by 8, on port 5 */
#pragma GCC unroll 4
    for (int z = 0; z < 4; z++, dst += 128) {
        __m512i x = _mm512_loadu_si512(s->q + j * 256 + z * 64);
        __m512i y = _mm512_shuffle_epi8(x, down);
        __m512i t0 = cvt2(lut(s, j, 4 * z + 1), lut(s, j, 4 * z)), t1 = cvt2(lut(s, j, 4 * z + 3), lut(s, j, 4 * z + 2));
        _mm512_store_si512(dst, _mm512_permutexvar_epi16(_mm512_and_si512(x, m4), t0));
        /* 0xea: (shifted & m4) | hi */
        _mm512_store_si512(dst + 32,
                           _mm512_permutexvar_epi16(_mm512_ternarylogic_epi32(_mm512_srli_epi16(x, 4), m4, hi, 0xea), t0));
        _mm512_store_si512(dst + 64, _mm512_permutexvar_epi16(_mm512_and_si512(y, m4), t1));
        _mm512_store_si512(dst + 96, _mm512_permutexvar_epi16(_mm512_or_si512(_mm512_srli_epi16(x, 12), hi), t1));
    }
}

/* Two vectors of f32 -> pairs of BF16 (even, odd), rounded to the nearest, ties away from zero: one shift against
 * VCVTNE2PS2BF16's two uses of each port. */
INLINE __m512i pair(__m512 even, __m512 odd)
{
    const __m512i half = _mm512_set1_epi32(0x8000);
    __m512i e = _mm512_add_epi32((__m512i)even, half), o = _mm512_add_epi32((__m512i)odd, half);
    return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(e, 16), o);
}

INLINE void tile_q5(uint16_t *dst, const struct sb *s, uint32_t j)
{
    const __m512 c = _mm512_setr_ps(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i w[5], ix;
#pragma GCC unroll 5
    for (int z = 0; z < 5; z++) w[z] = _mm512_loadu_si512(s->q + j * 320 + z * 64);
#pragma GCC unroll 16
    for (int r = 0; r < 16; r++) {
        if (r < 15) {
            ix = r % 3 ? _mm512_srli_epi16(w[r / 3], 5 * (r % 3)) : w[r / 3];
        } else { /* 0xca: mask ? first : second */
            ix = _mm512_ternarylogic_epi32(_mm512_set1_epi16(2), _mm512_srli_epi16(w[1], 14), _mm512_srli_epi16(w[0], 15), 0xca);
            ix = _mm512_ternarylogic_epi32(_mm512_set1_epi16(4), _mm512_srli_epi16(w[2], 13), ix, 0xca);
            ix = _mm512_ternarylogic_epi32(_mm512_set1_epi16(8), _mm512_srli_epi16(w[3], 12), ix, 0xca);
            ix = _mm512_ternarylogic_epi32(_mm512_set1_epi16(16), _mm512_srli_epi16(w[4], 11), ix, 0xca);
        }
        __m512 a = _mm512_set1_ps(s->a[j][r]), e = _mm512_fmadd_ps(c, a, _mm512_set1_ps(s->b[j][r]));
        _mm512_store_si512(dst + 32 * r, _mm512_permutexvar_epi16(ix, pair(e, _mm512_add_ps(e, a)))); /* exact sum */
    }
}

INLINE __m512 i8_16(const void *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p))); }

INLINE void tile_q8(uint16_t *dst, const struct sb *s, uint32_t j)
{
#pragma GCC unroll 16
    for (int r = 0; r < 16; r++) {
        const uint8_t *q = s->q + j * 512 + r * 32;
        __m512 a = _mm512_set1_ps(s->a[j][r]);
        _mm512_store_si512(dst + 32 * r, pair(_mm512_mul_ps(i8_16(q), a), _mm512_mul_ps(i8_16(q + 16), a)));
    }
}

INLINE void tile_q6(uint16_t *dst, const struct sb *s, uint32_t j)
{
    ALIGNED int8_t v[16][32];
    const __m512i m4 = _mm512_set1_epi8(15), m6 = _mm512_set1_epi8(63), zero = _mm512_set1_epi8(32);
    const uint8_t *q = s->q + j * 384;
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) { /* rows 2i, 2i+1: half i&1 of nibbles, field i&3 of the high bits */
        __m512i x = _mm512_loadu_si512(q + i / 2 * 64), y = _mm512_loadu_si512(q + 256 + i / 4 * 64);
        int f = i & 3;
        x = i & 1 ? _mm512_srli_epi16(x, 4) : x;
        y = f == 0 ? _mm512_slli_epi16(y, 4) : f == 1 ? _mm512_slli_epi16(y, 2) : f == 3 ? _mm512_srli_epi16(y, 2) : y;
        _mm512_store_si512(v[2 * i], _mm512_sub_epi8(_mm512_and_si512(_mm512_ternarylogic_epi32(m4, x, y, 0xca), m6), zero));
    }
#pragma GCC unroll 16
    for (int r = 0; r < 16; r++) { /* lanes 0..7 are k < 16, lanes 8..15 the others */
        __m512 a = _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(s->a[2 * j][r]), _mm512_set1_ps(s->a[2 * j + 1][r]));
        _mm512_store_si512(dst + 32 * r, pair(_mm512_mul_ps(i8_16(v[r]), a), _mm512_mul_ps(i8_16(v[r] + 16), a)));
    }
}

/* ---- results */

INLINE void transpose16(__m512 x[16])
{
    __m512i *r = (__m512i *)x, t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m512i a = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x44), b = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xee);
        __m512i c = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x44), d = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xee);
        t[j] = _mm512_shuffle_i32x4(a, c, 0x88);
        t[4 + j] = _mm512_shuffle_i32x4(a, c, 0xdd);
        t[8 + j] = _mm512_shuffle_i32x4(b, d, 0x88);
        t[12 + j] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = t[i];
}

/* A stored C tile c[16 rows][g], rows cs apart -> y[i*ldy + r], i < g, r < nr, with bias unless NULL. */
static void put_y(float *y, size_t ldy, const float *c, uint32_t cs, uint32_t g, uint32_t nr, const float *bias)
{
    __mmask16 mr = (__mmask16)((1u << nr) - 1), mg = (__mmask16)((1u << g) - 1);
    __m512 b = bias ? _mm512_maskz_loadu_ps(mr, bias) : _mm512_setzero_ps(), x[16];
    if (cs == 1) {
        x[0] = _mm512_load_ps(c);
        _mm512_mask_storeu_ps(y, mr, bias ? _mm512_add_ps(x[0], b) : x[0]);
        return;
    }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < 16; r++) x[r] = _mm512_maskz_loadu_ps(mg, c + r * cs);
    transpose16(x);
    for (uint32_t i = 0; i < g; i++, y += ldy) _mm512_mask_storeu_ps(y, mr, bias ? _mm512_add_ps(x[i], b) : x[i]);
}

static void config(uint32_t g0, uint32_t g1)
{
    /* C: 0, 1 with g0 columns, 2, 3 with g1; A: 4, 5; B: 6 with g0, 7 with g1 */
    struct amx_cfg c = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        c.rows[t] = 16;
        c.colsb[t] = 64;
    }
    c.colsb[0] = c.colsb[1] = c.colsb[6] = (uint16_t)(4 * g0);
    c.colsb[2] = c.colsb[3] = c.colsb[7] = (uint16_t)(4 * MAX(g1, 1u));
    amx_config(&c);
}

/* ---- few rows of x: stream the weights */

struct ring {
    ALIGNED uint16_t w[2][4][16 * 32];
};
/* Tile t of one panel in the ring x B tile t. */
INLINE void step0(const struct ring *r, uint32_t t, const uint8_t *b0, const uint8_t *b1, uint32_t s0, uint32_t s1,
                  const bool two)
{
    AMX_LOAD(6, b0 + (size_t)t * 16 * s0, s0);
    AMX_LOAD(4, r->w[0][t & 3], 64);
    AMX_DP(0, 4, 6);
    if (two) {
        AMX_LOAD(7, b1 + (size_t)t * 16 * s1, s1);
        AMX_DP(2, 4, 7);
    }
}
INLINE void step1(const struct ring *r, uint32_t t, const bool two) /* after step0 of the same t */
{
    AMX_LOAD(5, r->w[1][t & 3], 64);
    AMX_DP(1, 5, 6);
    if (two) AMX_DP(3, 5, 7);
}

/* C tiles of the row panels at r and r+16 -> y. */
static void stream_end(float *y, size_t ldy, const struct mat *w, uint32_t n, uint32_t r, uint32_t r1)
{
    ALIGNED float c[256];
    uint32_t g0 = MIN(n, 16u), g1 = n - g0;
    const float *b0 = w->bias ? w->bias + r : NULL, *b1 = w->bias ? w->bias + r + 16 : NULL;
    uint32_t nr0 = MIN(16u, r1 - r), nr1 = r1 - r > 16 ? MIN(16u, r1 - r - 16) : 0;
    AMX_STORE(0, c, 4 * g0);
    put_y(y + r, ldy, c, g0, g0, nr0, b0);
    if (nr1) {
        AMX_STORE(1, c, 4 * g0);
        put_y(y + r + 16, ldy, c, g0, g0, nr1, b1);
    }
    if (!g1) return;
    AMX_STORE(2, c, 4 * g1);
    put_y(y + r + 16 * ldy, ldy, c, g1, g1, nr0, b0);
    if (nr1) {
        AMX_STORE(3, c, 4 * g1);
        put_y(y + r + 16 + 16 * ldy, ldy, c, g1, g1, nr1, b1);
    }
}

INLINE void zero_c(void)
{
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
}

enum { PF = 4096 }; /* bytes read ahead in each of the two streams */
/* Products follow two tiles behind the expansion. Spaced, one after each expanded tile, they cost the vector work around them
 * little; but work full of multiplications (heavy), which port 5 refuses while a product runs, does better with two products on
 * end (all measured on Sapphire Rapids). */
INLINE void stream(float *y, size_t ldy, const uint8_t *xa, const struct mat *w, uint32_t n, uint32_t r0, uint32_t r1,
                   prep_fn *prep, tile_fn *tile, const size_t tb, const bool heavy, const bool two)
{
    struct ring ring;
    struct sb s[2];
    uint32_t T = w->cols / 32, g0 = MIN(n, 16u), g1 = n - g0;
    const uint8_t *b1 = xa + (size_t)16 * 64 * T;
    for (uint32_t r = r0; r < r1; r += 32) {
        const uint8_t *p0 = (const uint8_t *)w->w + (size_t)(r / 16) * tb * T, *p1 = r + 16 < r1 ? p0 + tb * T : p0;
        const size_t skip = 2 * tb * T - PF; /* past the end of a panel the next but one follows */
        zero_c();
        for (uint32_t t0 = 0; t0 < T; t0 += 8) {
            uint32_t nt = MIN(8u, T - t0);
            size_t ahead = (size_t)(T - t0) * tb > PF ? PF : skip;
            prep(&s[0], p0, nt);
            prep(&s[1], p1, nt);
            for (uint32_t j = 0; j < nt; j++) {
                uint32_t t = t0 + j;
                for (size_t i = 0; i < tb; i += 64) {
                    _mm_prefetch((const char *)(p0 + j * tb + ahead + i), _MM_HINT_T0);
                    _mm_prefetch((const char *)(p1 + j * tb + ahead + i), _MM_HINT_T0);
                }
                tile(ring.w[0][t & 3], &s[0], j);
                if (!heavy && t >= 2) step0(&ring, t - 2, xa, b1, 4 * g0, 4 * g1, two);
                tile(ring.w[1][t & 3], &s[1], j);
                if (heavy && t >= 2) step0(&ring, t - 2, xa, b1, 4 * g0, 4 * g1, two);
                if (t >= 2) step1(&ring, t - 2, two);
            }
            p0 += nt * tb;
            p1 += nt * tb;
        }
        for (uint32_t t = T < 2 ? 0 : T - 2; t < T; t++) {
            step0(&ring, t, xa, b1, 4 * g0, 4 * g1, two);
            step1(&ring, t, two);
        }
        stream_end(y, ldy, w, n, r, r1);
    }
}

/* ---- BF16: the file's rows are A tile rows */

/* Tiles t0..t0+nt of the panel at row r, copied; rows past the matrix and k past the end are zero. */
static void copy_bf16(uint16_t *dst, const struct mat *w, uint32_t r, uint32_t t0, uint32_t nt)
{
    uint32_t nr = MIN(16u, w->rows - r), full = MIN(nt, w->cols / 32 > t0 ? w->cols / 32 - t0 : 0);
    for (uint32_t i = 0; i < 16; i++, dst += 32) {
        const uint8_t *p = (const uint8_t *)w->w + (r + MIN(i, nr - 1)) * w->row_bytes + t0 * 64;
        for (uint32_t t = 0; t < full; t++) _mm512_store_si512(dst + t * 512, _mm512_loadu_si512(p + t * 64));
        if (full < nt) {
            __mmask32 m = (1u << (w->cols & 31)) - 1;
            _mm512_store_si512(dst + full * 512, _mm512_maskz_loadu_epi16(m, p + full * 64));
        }
        if (i >= nr)
            for (uint32_t t = 0; t < nt; t++) _mm512_store_si512(dst + t * 512, _mm512_setzero_si512());
    }
}

INLINE void stream_bf16(float *y, size_t ldy, const uint8_t *xa, const struct mat *w, uint32_t n, uint32_t r0, uint32_t r1,
                        const bool two)
{
    enum { AHEAD = 512 };
    struct ring ring;
    uint32_t T = ceil_div_u32(w->cols, 32), g0 = MIN(n, 16u), g1 = n - g0, s0 = 4 * g0, s1 = 4 * g1;
    size_t ld = w->row_bytes;
    const uint8_t *b1 = xa + (size_t)16 * 64 * T;
    for (uint32_t r = r0; r < r1; r += 32) {
        const uint8_t *p = (const uint8_t *)w->w + r * ld;
        zero_c();
        uint32_t full = r + 32 <= w->rows ? w->cols / 32 : 0; /* tiles read in place */
        for (uint32_t t = 0; t < full; t++) {
            const uint8_t *q = p + (size_t)t * 64, *a = q + ((size_t)t * 64 + AHEAD < ld ? AHEAD : 31 * ld + AHEAD);
            for (uint32_t i = 0; i < 32; i++) _mm_prefetch((const char *)(a + i * ld), _MM_HINT_T0);
            AMX_LOAD(4, q, ld);
            AMX_LOAD(5, q + 16 * ld, ld);
            AMX_LOAD(6, xa + (size_t)t * 16 * s0, s0);
            AMX_DP(0, 4, 6);
            AMX_DP(1, 5, 6);
            if (two) {
                AMX_LOAD(7, b1 + (size_t)t * 16 * s1, s1);
                AMX_DP(2, 4, 7);
                AMX_DP(3, 5, 7);
            }
        }
        for (uint32_t t = full; t < T; t++) {
            copy_bf16(ring.w[0][t & 3], w, r, t, 1);
            copy_bf16(ring.w[1][t & 3], w, r + 16 < r1 ? r + 16 : r, t, 1);
            step0(&ring, t, xa, b1, s0, s1, two);
            step1(&ring, t, two);
        }
        stream_end(y, ldy, w, n, r, r1);
    }
}

/* ---- many rows of x: panels */

typedef void expand_fn(uint16_t *dst, const struct mat *w, uint32_t r, uint32_t t0, uint32_t nt); /* t0 a multiple of 8 */

/* What a block fetches into L2 while it multiplies: `lines` lines per tile of each stream of x that the next pass needs, and the
 * part of y, 32 rows of two lines, that it will store itself (NULL: none). */
struct ahead {
    const uint8_t *x0, *x1;
    uint32_t lines;
    const float *y;
    size_t ldy;
};
/* C += A B over nt tiles of k. a0, a1: the A tiles of two row panels; b0, b1: the B tiles of one or two groups, their rows s0, s1
 * bytes. B stays in L1 for the row panels to come: A is loaded with the hint that it won't be wanted again soon. */
INLINE void block(const uint8_t *a0, const uint8_t *a1, const uint8_t *b0, const uint8_t *b1, uint32_t nt, uint32_t s0,
                  uint32_t s1, const struct ahead *pf, const bool two)
{
    for (uint32_t t = 0; t < nt; t++) {
        for (uint32_t i = t * pf->lines; i < (t + 1) * pf->lines; i++) {
            _mm_prefetch((const char *)pf->x0 + i * 64, _MM_HINT_T1);
            _mm_prefetch((const char *)pf->x1 + i * 64, _MM_HINT_T1);
        }
        if (pf->y && t < 16) {
            const float *y0 = pf->y + t * pf->ldy, *y1 = y0 + 16 * pf->ldy;
            _mm_prefetch((const char *)y0, _MM_HINT_T1);
            _mm_prefetch((const char *)(y0 + 16), _MM_HINT_T1);
            _mm_prefetch((const char *)y1, _MM_HINT_T1);
            _mm_prefetch((const char *)(y1 + 16), _MM_HINT_T1);
        }
        AMX_LOAD(6, b0, s0);
        AMX_LOAD_ONCE(4, a0, 64);
        AMX_DP(0, 4, 6);
        AMX_LOAD_ONCE(5, a1, 64);
        AMX_DP(1, 5, 6);
        if (two) {
            AMX_LOAD(7, b1, s1);
            AMX_DP(2, 4, 7);
            AMX_DP(3, 5, 7);
            b1 += 16 * s1;
        }
        a0 += 1024;
        a1 += 1024;
        b0 += 16 * s0;
    }
}

/* A C tile between two parts of k. Inside a part it waits in its buffer c [16][16]. Between parts it waits in y, whole 16x16
 * pieces as the tile is (so transposed within the piece), others in their final order. */
struct c_tile {
    float *c, *y;
    uint32_t g, nr; /* columns and rows in use; nr 0: a stand-in, not part of y */
};
static const float *c_in(const struct c_tile *t, size_t ldy, bool from_y, size_t *stride)
{
    *stride = 64;
    if (!from_y || t->nr == 0) return t->c;
    if (t->g == 16 && t->nr == 16) {
        *stride = 4 * ldy;
        return t->y;
    }
    __m512 x[16];
    __mmask16 m = (__mmask16)((1u << t->nr) - 1);
#pragma GCC unroll 16
    for (uint32_t i = 0; i < 16; i++) x[i] = i < t->g ? _mm512_maskz_loadu_ps(m, t->y + i * ldy) : _mm512_setzero_ps();
    transpose16(x);
#pragma GCC unroll 16
    for (uint32_t i = 0; i < 16; i++) _mm512_store_ps(t->c + 16 * i, x[i]);
    return t->c;
}
static float *c_out(const struct c_tile *t, size_t ldy, bool to_y, size_t *stride)
{
    *stride = 64;
    if (!to_y || t->g < 16 || t->nr < 16) return t->c;
    *stride = 4 * ldy;
    return t->y;
}

enum { C_ZERO, C_BUF, C_Y };
/* One block of C, 32 rows of w x 16 or 32 of x, over one part of k. in, out: where C comes from and goes to; done: out with bias.
 */
INLINE void block_c(struct c_tile ct[4], size_t ldy, const float *bias, const uint8_t *a0, const uint8_t *a1, const uint8_t *b0,
                    const uint8_t *b1, uint32_t nt, int in, int out, bool done, const struct ahead *pf, const bool two)
{
    size_t st;
    const float *src;
    float *dst;
    if (in == C_ZERO) {
        zero_c();
    } else {
        src = c_in(&ct[0], ldy, in == C_Y, &st);
        AMX_LOAD(0, src, st);
        src = c_in(&ct[1], ldy, in == C_Y, &st);
        AMX_LOAD(1, src, st);
        if (two) {
            src = c_in(&ct[2], ldy, in == C_Y, &st);
            AMX_LOAD(2, src, st);
            src = c_in(&ct[3], ldy, in == C_Y, &st);
            AMX_LOAD(3, src, st);
        }
    }
    block(a0, a1, b0, b1, nt, 4 * ct[0].g, 4 * ct[2].g, pf, two);
    bool raw = out == C_Y && !done;
    dst = c_out(&ct[0], ldy, raw, &st);
    AMX_STORE(0, dst, st);
    dst = c_out(&ct[1], ldy, raw, &st);
    AMX_STORE(1, dst, st);
    if (two) {
        dst = c_out(&ct[2], ldy, raw, &st);
        AMX_STORE(2, dst, st);
        dst = c_out(&ct[3], ldy, raw, &st);
        AMX_STORE(3, dst, st);
    }
    if (out != C_Y) return;
    for (int i = 0; i < (two ? 4 : 2); i++) {
        const struct c_tile *t = &ct[i];
        if (t->nr && (done || t->g < 16 || t->nr < 16))
            put_y(t->y, ldy, t->c, 16, t->g, t->nr, done && bias ? bias + (i & 1) * 16 : NULL);
    }
}

static void panel(float *y, size_t ldy, const uint8_t *xa, const struct mat *w, uint32_t n, uint32_t r0, uint32_t r1,
                  uint8_t *scratch, expand_fn *expand)
{
    uint32_t T = ceil_div_u32(w->cols, 32);
    float *cbuf = (float *)scratch; /* [2 groups][PANEL_ROWS/16][256] */
    uint8_t *wp = scratch + CBUF_BYTES;
    for (uint32_t r = r0; r < r1; r += PANEL_ROWS) {
        uint32_t R = MIN((uint32_t)PANEL_ROWS, r1 - r), np = ceil_div_u32(R, 16);
        uint32_t TB = MIN(T, PANEL / 512 / np & ~7u); /* tiles of k per part */
        for (uint32_t tb = 0; tb < T; tb += TB) {
            uint32_t nk = MIN(TB, T - tb);
            for (uint32_t p = 0; p < np; p++) expand((uint16_t *)(wp + (size_t)p * nk * 1024), w, r + 16 * p, tb, nk);
            config(16, 16);
            for (uint32_t i = 0; i < n; i += 32) {
                uint32_t g0 = MIN(16u, n - i), g1 = n - i > 16 ? MIN(16u, n - i - 16) : 0;
                if (n - i < 32) config(g0, g1);
                const uint8_t *x0 = xa + (size_t)i * T * 64, *x1 = x0 + (size_t)T * 64 * 16;
                for (uint32_t kc = 0; kc < nk; kc += KC / 32) {
                    uint32_t nt = MIN((uint32_t)KC / 32, nk - kc);
                    bool done = tb + kc + nt == T;
                    int in = kc ? C_BUF : tb ? C_Y : C_ZERO, out = kc + nt == nk ? C_Y : C_BUF;
                    const uint8_t *b0 = x0 + (size_t)(tb + kc) * 64 * g0, *b1 = x1 + (size_t)(tb + kc) * 64 * g1;
                    /* next: the next part of k of these rows of x, or this one of the next 32; fetching past the end of x does no
                     * harm */
                    const uint32_t lines = ceil_div_u32(32, np);
                    const uint8_t *n0 = b0 + nt * 1024, *n1 = b1 + nt * 1024;
                    if (kc + nt == nk) {
                        n0 = x0 + (size_t)(T * 32 + tb) * 1024;
                        n1 = n0 + (size_t)T * 1024;
                    }
                    for (uint32_t p = 0; p < np; p += 2) {
                        const uint8_t *a0 = wp + ((size_t)p * nk + kc) * 1024, *a1 = p + 1 < np ? a0 + (size_t)nk * 1024 : a0;
                        uint32_t nr0 = MIN(16u, R - 16 * p), nr1 = R > 16 * (p + 1) ? MIN(16u, R - 16 * (p + 1)) : 0;
                        float *c = cbuf + p * 256, *yy = y + (size_t)i * ldy + r + 16 * p;
                        float *c2 = c + PANEL_ROWS * 16, *y2 = yy + 16 * ldy;
                        struct c_tile ct[4] = {
                            {c, yy, g0, nr0}, {c + 256, yy + 16, g0, nr1}, {c2, y2, g1, nr0}, {c2 + 256, y2 + 16, g1, nr1}};
                        const float *bias = w->bias ? w->bias + r + 16 * p : NULL;
                        size_t part = (size_t)(p / 2) * nt * lines * 64;
                        struct ahead pf = {n0 + part, n1 + part, lines, out == C_Y ? yy : NULL, ldy};
                        if (g1)
                            block_c(ct, ldy, bias, a0, a1, b0, b1, nt, in, out, done, &pf, true);
                        else
                            block_c(ct, ldy, bias, a0, a1, b0, b1, nt, in, out, done, &pf, false);
                    }
                }
            }
        }
    }
}

/* ---- one set of entry points per weight type */

#define QUANT(T, t, TB, prep, tile, heavy)                                                                                       \
    static void expand_##t(uint16_t *dst, const struct mat *w, uint32_t r, uint32_t t0, uint32_t nt)                             \
    {                                                                                                                            \
        struct sb s;                                                                                                             \
        const uint8_t *p = (const uint8_t *)w->w + ((size_t)(r / 16) * (w->cols / 32) + t0) * (TB);                              \
        for (uint32_t i = 0; i < nt; i += 8, p += 8 * (TB)) {                                                                    \
            uint32_t m = MIN(8u, nt - i);                                                                                        \
            prep(&s, p, MIN(8u, w->cols / 32 - t0 - i));                                                                         \
            for (uint32_t j = 0; j < m; j++) tile(dst + (size_t)(i + j) * 512, &s, j);                                           \
        }                                                                                                                        \
    }                                                                                                                            \
    static void gemm_##t(float *y, size_t ldy, const void *xa, const struct mat *w, uint32_t n, uint32_t r0, uint32_t r1,        \
                         void *scratch)                                                                                          \
    {                                                                                                                            \
        config(MIN(n, 16u), n > 16 ? MIN(n - 16, 16u) : 0);                                                                      \
        if (n > 32)                                                                                                              \
            panel(y, ldy, xa, w, n, r0, r1, scratch, expand_##t);                                                                \
        else if (n > 16)                                                                                                         \
            stream(y, ldy, xa, w, n, r0, r1, prep, tile, TB, heavy, true);                                                       \
        else                                                                                                                     \
            stream(y, ldy, xa, w, n, r0, r1, prep, tile, TB, heavy, false);                                                      \
        amx_release();                                                                                                           \
    }                                                                                                                            \
    static size_t bytes_##t(uint32_t rows, uint32_t cols) { return amx_pack_bytes(T, rows, cols); }                              \
    static void pack_##t(void *dst, const void *file, size_t row_bytes, uint32_t rows, uint32_t cols, uint32_t r0, uint32_t r1)  \
    {                                                                                                                            \
        amx_pack(T, dst, file, row_bytes, rows, cols, r0, r1);                                                                   \
    }                                                                                                                            \
    static void unpack_##t(void *file_row, const void *packed, uint32_t rows, uint32_t cols, uint32_t r)                         \
    {                                                                                                                            \
        (void)rows;                                                                                                              \
        amx_unpack(T, file_row, packed, cols, r);                                                                                \
    }
QUANT(DT_Q8_0, q8_0, 544, prep_q8, tile_q8, true)
QUANT(DT_Q4_0, q4_0, 288, prep_q4_0, tile_q4, false)
QUANT(DT_Q4_1, q4_1, 320, prep_1, tile_q4, false)
QUANT(DT_Q5_0, q5_0, 352, prep_q5_0, tile_q5, false)
QUANT(DT_Q5_1, q5_1, 384, prep_1, tile_q5, false)
QUANT(DT_Q4_K, q4_k, 288, prep_k, tile_q4, false)
QUANT(DT_Q5_K, q5_k, 352, prep_k, tile_q5, false)
QUANT(DT_Q6_K, q6_k, 420, prep_q6_k, tile_q6, true)

static void gemm_bf16(float *y, size_t ldy, const void *xa, const struct mat *w, uint32_t n, uint32_t r0, uint32_t r1,
                      void *scratch)
{
    config(MIN(n, 16u), n > 16 ? MIN(n - 16, 16u) : 0);
    if (n > 32)
        panel(y, ldy, xa, w, n, r0, r1, scratch, copy_bf16);
    else if (n > 16)
        stream_bf16(y, ldy, xa, w, n, r0, r1, true);
    else
        stream_bf16(y, ldy, xa, w, n, r0, r1, false);
    amx_release();
}

void kern_fill_amx(struct kern *k)
{
    k->isa = ISA_AMX;
    const struct kern_gemm base = {.act = ACT_BF16, .unit = 16, .scratch = CBUF_BYTES + PANEL * 2};
    k->gemm[DT_BF16] = base; /* layout 0: in place */
    k->gemm[DT_BF16].gemm = gemm_bf16;
#define SLOT(T, t)                                                                                                               \
    k->gemm[T] = base;                                                                                                           \
    k->gemm[T].layout = AMX_LAYOUT;                                                                                              \
    k->gemm[T].pack_bytes = bytes_##t;                                                                                           \
    k->gemm[T].pack = pack_##t;                                                                                                  \
    k->gemm[T].unpack = unpack_##t;                                                                                              \
    k->gemm[T].gemm = gemm_##t
    SLOT(DT_Q8_0, q8_0);
    SLOT(DT_Q4_0, q4_0);
    SLOT(DT_Q4_1, q4_1);
    SLOT(DT_Q5_0, q5_0);
    SLOT(DT_Q5_1, q5_1);
    SLOT(DT_Q4_K, q4_k);
    SLOT(DT_Q5_K, q5_k);
    SLOT(DT_Q6_K, q6_k);
    amx_fill_attn(k);
}
