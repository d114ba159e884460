/* kern_amx_attn.c: attention over BF16 keys and values on AMX tiles, for head sizes that are multiples of 32; others go to the
 * level below.
 *
 * Rows are (query, head) pairs, 16 to a tile, each on its own: what a row gets doesn't depend on which rows share its tile. Two
 * tiles at a time share the loads of K and V. One span:
 *   S = Q K^T      in powers of two: Q scaled by scale * log2(e) in f32, rounded to BF16; a block's K is [E/2][16][2] and so E/32
 *                  B tiles as it lies in the cache; f32 sums, k ascending by 32
 *   P = 2^(S - m)  f32, rounded to BF16 for the product; l sums the f32 values in 16 lanes over ascending positions, folded by a
 *                  fixed tree
 *   O = P V        32 positions at a time: two blocks' V [8][E][2] copied one after the other make the B tiles [16][E][2]
 * Positions that a row cannot see have S = -inf and so P = 0; blocks that no row of the tile can see are never read; V of
 * positions after the last query is replaced by zeros, since there may be anything. Values that are no numbers in a position seen
 * only by a later row of the tile would show in earlier rows as well: the sequence is lost then. Denormals count as zero. */
#include "kern/kern.h"
#include "kern/kern_amx.h"
#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { S_BYTES = 32 * KERN_SPAN * 4, P_BYTES = 32 * KERN_SPAN * 2 }; /* two row tiles */

typedef void span_fn(const struct attn_job *j, uint32_t span, float *part, void *scratch);
typedef size_t scratch_fn(uint32_t E);
/* Slots of the level below, set by every kern_init to the same values. */
static span_fn *lower_span;
static scratch_fn *lower_scratch;

static size_t attn_scratch(uint32_t E)
{
    size_t low = __atomic_load_n(&lower_scratch, __ATOMIC_RELAXED)(E);
    return MAX(low, (size_t)S_BYTES + P_BYTES + (size_t)E * (2 * KERN_SPAN + 64));
}

/* 2^t for t <= 0 by a polynomial on [0, 1), relative error 2.6e-6 (minimax, fitted by Remez' exchange), scaled by VSCALEFPS; -inf
 * gives 0. While tiles multiply, port 5 does no multiplication, so multiplications are what counts here. */
INLINE __m512 exp2_16(__m512 t)
{
    __m512 f = _mm512_reduce_ps(t, 0x09); /* t - floor(t) */
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0x1.bb7cd4p-7f), f, _mm512_set1_ps(0x1.aa13f0p-5f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ee798ap-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62d166p-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.00002cp+0f));
    return _mm512_scalef_ps(p, t);
}

/* Positions of the span that the query at pos sees: [lo, hi) from the span's start. */
INLINE void visible(const struct attn_job *j, uint32_t span, uint32_t pos, uint32_t *lo, uint32_t *hi)
{
    uint32_t base = span * KERN_SPAN, first = j->window && pos >= j->window ? pos + 1 - j->window : 0;
    *lo = first > base ? MIN(first - base, KERN_SPAN) : 0;
    *hi = pos + 1 > base ? MIN(pos + 1 - base, KERN_SPAN) : 0;
    if (*hi < *lo) *hi = *lo;
}

/* Tiles 2, 3: B [16][16][2]. First row tile: 0, 4, 5; second: 1, 6, 7. Scores: C 0, 1 and A 4..7; values: C 0, 5, 1, 6 and A
 * 4, 7. */
static void config(uint32_t nr0, uint32_t nr1)
{
    struct amx_cfg c = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        c.rows[t] = t == 2 || t == 3 ? 16 : (uint8_t)(t == 0 || t == 4 || t == 5 ? nr0 : nr1);
        c.colsb[t] = 64;
    }
    amx_config(&c);
}

/* Q of rows r..r+nr, scaled -> A tiles [E/32][nr][32]. */
static void load_q(uint16_t *dst, const struct attn_job *j, uint32_t r, uint32_t nr)
{
    __m512 sc = _mm512_set1_ps(j->scale * 1.44269504f) /* log2(e) */;
    for (uint32_t i = 0; i < nr; i++) {
        const float *q = j->q + (size_t)((r + i) / j->n_h) * j->ldq + (size_t)((r + i) % j->n_h) * j->E;
        for (uint32_t e = 0; e < j->E; e += 32) {
            __m512 lo = _mm512_mul_ps(_mm512_loadu_ps(q + e), sc), hi = _mm512_mul_ps(_mm512_loadu_ps(q + e + 16), sc);
            _mm512_store_si512(dst + (size_t)e * 16 + i * 32, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
        }
    }
}

/* One row's scores s[KERN_SPAN], of which blocks b0..b1 (even numbers) are there, [lo, hi) visible -> p [b1/2][16][32] bf16 (this
 * row's part), m and l. */
INLINE void softmax_row(uint16_t *p, float *m_out, float *l_out, float *s, uint32_t lo, uint32_t hi, uint32_t b0, uint32_t b1)
{
    const __m512 none = _mm512_set1_ps(-INFINITY);
    __m512 mx = none, sum = _mm512_setzero_ps();
    for (uint32_t b = b0; b < b1; b++) {
        __m512 x = _mm512_load_ps(s + 16 * b);
        if (16 * b < lo || 16 * b + 16 > hi) {
            uint32_t a = lo > 16 * b ? MIN(lo - 16 * b, 16u) : 0, z = hi > 16 * b ? MIN(hi - 16 * b, 16u) : 0;
            x = _mm512_mask_mov_ps(none, (__mmask16)(((1u << z) - 1) & ~((1u << a) - 1)), x);
            _mm512_store_ps(s + 16 * b, x);
        }
        mx = _mm512_max_ps(mx, x);
    }
    float m = lo < hi ? _mm512_reduce_max_ps(mx) : -INFINITY;
    __m512 mm = _mm512_set1_ps(lo < hi ? m : 0); /* nothing visible: exp(-inf - 0) */
    for (uint32_t b = b0; b < b1; b += 2) {
        __m512 x = exp2_16(_mm512_sub_ps(_mm512_load_ps(s + 16 * b), mm)),
               y = exp2_16(_mm512_sub_ps(_mm512_load_ps(s + 16 * b + 16), mm));
        sum = _mm512_add_ps(_mm512_add_ps(sum, x), y);
        _mm512_store_si512(p + b / 2 * 512, (__m512i)_mm512_cvtne2ps_pbh(y, x));
    }
    *m_out = m * 0.693147181f; /* ln 2 */
    *l_out = _mm512_reduce_add_ps(sum);
}

/* V of blocks b0..b1 of the span, one after the other; zero for positions outside [lo rounded down to a block, hi). */
static void copy_v(uint8_t *dst, const struct attn_job *j, const uint32_t *blk, uint32_t b0, uint32_t b1, uint32_t lo,
                   uint32_t hi)
{
    size_t bytes = (size_t)j->E * 32;
    for (uint32_t b = b0; b < b1; b++, dst += bytes) {
        uint32_t n = b >= lo / 16 && hi > 16 * b ? MIN(hi - 16 * b, 16u) : 0; /* positions to keep */
        const uint8_t *v = n ? j->v + (size_t)blk[b] * j->blk_bytes : dst;
        size_t whole = (size_t)(n / 2) * j->E * 4, half = whole + (n & 1) * (size_t)j->E * 4;
        for (size_t i = 0; i < whole; i += 64) _mm512_store_si512(dst + i, _mm512_loadu_si512(v + i));
        for (size_t i = whole; i < half; i += 64)
            _mm512_store_si512(dst + i, _mm512_and_si512(_mm512_loadu_si512(v + i), _mm512_set1_epi32(0xffff)));
        for (size_t i = half; i < bytes; i += 64) _mm512_store_si512(dst + i, _mm512_setzero_si512());
    }
}

/* Scores of blocks b0..b1 -> s: rows KERN_SPAN apart, the second row tile after 16 rows. q: A tiles [2][E/32]. */
INLINE void scores(float *s, const struct attn_job *j, const uint32_t *blk, const uint16_t *q, uint32_t b0, uint32_t b1,
                   const bool two)
{
    const uint32_t ke = j->E / 32;
    const uint16_t *q1 = q + (size_t)ke * 512;
    if (ke <= 2) {
        AMX_LOAD(4, q, 64);
        AMX_LOAD(5, q + (ke - 1) * 512, 64);
        if (two) {
            AMX_LOAD(6, q1, 64);
            AMX_LOAD(7, q1 + (ke - 1) * 512, 64);
        }
    }
    for (uint32_t b = b0; b < b1; b++) {
        const uint8_t *kb = j->k + (size_t)blk[b] * j->blk_bytes;
        AMX_ZERO(0);
        if (two) AMX_ZERO(1);
        if (ke <= 2) {
            AMX_LOAD(2, kb, 64);
            AMX_DP(0, 4, 2);
            if (two) AMX_DP(1, 6, 2);
            if (ke == 2) {
                AMX_LOAD(3, kb + 1024, 64);
                AMX_DP(0, 5, 3);
                if (two) AMX_DP(1, 7, 3);
            }
        } else {
            for (uint32_t k = 0; k < ke; k++) {
                AMX_LOAD(2, kb + 1024 * (size_t)k, 64);
                AMX_LOAD(4, q + (size_t)k * 512, 64);
                AMX_DP(0, 4, 2);
                if (two) {
                    AMX_LOAD(6, q1 + (size_t)k * 512, 64);
                    AMX_DP(1, 6, 2);
                }
            }
        }
        AMX_STORE(0, s + 16 * b, KERN_SPAN * 4);
        if (two) AMX_STORE(1, s + 16 * (KERN_SPAN + b), KERN_SPAN * 4);
    }
}

/* acc = P V over pairs of blocks t0..t1 (numbered from the span's start; v is pair t0) -> o, rows (E + 2) floats apart. */
INLINE void values(float *o, uint32_t E, const uint16_t *p, const uint8_t *v, uint32_t t0, uint32_t t1, const bool two)
{
    const size_t ldo = (size_t)(E + 2) * 4, ldv = (size_t)E * 4;
    for (uint32_t e = 0; e < E; e += 32, o += 32) {
        const uint8_t *b = v + (size_t)e * 4;
        AMX_ZERO(0);
        AMX_ZERO(5);
        if (two) {
            AMX_ZERO(1);
            AMX_ZERO(6);
        }
        for (uint32_t t = t0; t < t1; t++, b += 16 * ldv) {
            AMX_LOAD(2, b, ldv);
            AMX_LOAD(4, p + (size_t)t * 512, 64);
            AMX_DP(0, 4, 2);
            AMX_LOAD(3, b + 64, ldv);
            AMX_DP(5, 4, 3);
            if (two) {
                AMX_LOAD(7, p + P_BYTES / 4 + (size_t)t * 512, 64);
                AMX_DP(1, 7, 2);
                AMX_DP(6, 7, 3);
            }
        }
        AMX_STORE(0, o, ldo);
        AMX_STORE(5, o + 16, ldo);
        if (two) {
            AMX_STORE(1, o + 16 * (size_t)(E + 2), ldo);
            AMX_STORE(6, o + 16 * (size_t)(E + 2) + 16, ldo);
        }
    }
}

static void attn_span(const struct attn_job *j, uint32_t span, float *part, void *scratch)
{
    const uint32_t E = j->E, n = j->n_q * j->n_h;
    if (E % 32) {
        __atomic_load_n(&lower_span, __ATOMIC_RELAXED)(j, span, part, scratch);
        return;
    }
    float *s = scratch;
    uint16_t *p = (uint16_t *)((uint8_t *)scratch + S_BYTES), *q = p + P_BYTES / 2;
    uint8_t *v = (uint8_t *)(q + (size_t)32 * E);
    const uint32_t *blk = j->blk + (size_t)span * (KERN_SPAN / KERN_BLK);
    uint32_t lo, hi, d0, d1, configured = 0;
    visible(j, span, j->pos0, &lo, &d1);
    visible(j, span, j->pos0 + j->n_q - 1, &d0, &hi);
    const uint32_t v0 = lo / 16 & ~1u;
    if (lo < hi) copy_v(v, j, blk, v0, (ceil_div_u32(hi, 16) + 1) & ~1u, lo, hi);
    for (uint32_t r = 0; r < n; r += 32) {
        uint32_t nr = MIN(32u, n - r), nr0 = MIN(nr, 16u);
        float *o = part + (size_t)r * (E + 2);
        visible(j, span, j->pos0 + r / j->n_h, &lo, &d1);
        visible(j, span, j->pos0 + (r + nr - 1) / j->n_h, &d0, &hi);
        if (lo >= hi) {
            memset(o, 0, (size_t)nr * (E + 2) * 4);
            for (uint32_t i = 0; i < nr; i++) o[(size_t)i * (E + 2)] = -INFINITY;
            continue;
        }
        if (nr != configured) config(nr0, nr > 16 ? nr - 16 : 1);
        configured = nr;
        uint32_t b0 = lo / 16, b1 = ceil_div_u32(hi, 16), e0 = b0 & ~1u, e1 = (b1 + 1) & ~1u;
        load_q(q, j, r, nr0);
        if (nr > 16) {
            load_q(q + (size_t)16 * E, j, r + 16, nr - 16);
            scores(s, j, blk, q, b0, b1, true);
        } else {
            scores(s, j, blk, q, b0, b1, false);
        }
        for (uint32_t i = 0; i < nr; i++) {
            float *oi = o + (size_t)i * (E + 2);
            visible(j, span, j->pos0 + (r + i) / j->n_h, &lo, &hi);
            softmax_row(p + i / 16 * (P_BYTES / 4) + i % 16 * 32, &oi[0], &oi[1], s + i * KERN_SPAN, lo, hi, e0, e1);
        }
        const uint8_t *vt = v + (size_t)(e0 - v0) * E * 32;
        if (nr > 16)
            values(o + 2, E, p, vt, e0 / 2, e1 / 2, true);
        else
            values(o + 2, E, p, vt, e0 / 2, e1 / 2, false);
    }
    if (configured) amx_release();
}

void amx_fill_attn(struct kern *k)
{
    __atomic_store_n(&lower_span, k->attn_span[KV_BF16], __ATOMIC_RELAXED);
    __atomic_store_n(&lower_scratch, k->attn_scratch, __ATOMIC_RELAXED);
    k->attn_span[KV_BF16] = attn_span;
    k->attn_scratch = attn_scratch;
}
