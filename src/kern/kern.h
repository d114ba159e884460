/* kern.h: CPU kernels behind one table. kern_ref fills every slot (f32, the executable specification); kern_avx2, kern_avx512,
 * kern_avx512vnni, kern_avx512bf16, kern_amx overwrite what they do better, ascending. A kernel that is not in the table cannot
 * be called; one that is gets tested against the reference on every level. Raw pointers only; no allocation; any thread; results
 * never depend on how rows are split over threads.
 *
 * Numerical contract (architecture): for one level an output element is summed in one stated order, the same for n = 1 and n =
 * 512 and for any [r0, r1). Activation scales are per row. Attention runs over fixed spans of KERN_SPAN positions counted from 0;
 * a span's partial result does not depend on how many queries are computed together; spans are merged in ascending order. */
#pragma once
#include "model/weights.h"

enum isa { ISA_REF, ISA_AVX2, ISA_AVX512, ISA_AVX512VNNI, ISA_AVX512BF16, ISA_AMX, ISA_N };
const char *isa_name(enum isa i);    /* "ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx" */
enum isa isa_by_name(const char *s); /* ISA_N: unknown */
/* Highest level this CPU and kernel (AMX permission asked for) can run. */
enum isa kern_cpu_isa(void);

/* How activations are laid out for a gemm. */
enum act_fmt {
    ACT_F32,  /* [n][ld] f32, ld = act_f32_ld(k): rows padded with zeros */
    ACT_BF16, /* bf16 (round to nearest even) in the layout of the level that prepares it; reference:
                 [ceil(n/16)][ceil(k/32)][16][32], padded with zeros */
    ACT_Q8,   /* struct act_q8; k is a multiple of 32 */
    ACT_N
};
#define KERN_ROWS 16u  /* activation rows are prepared in groups of 16 */
#define KERN_SPAN 256u /* positions per attention span */
#define KERN_BLK 16u   /* tokens per KV block */

static inline size_t act_f32_ld(uint32_t k) { return align_up(k, 16); }

/* ACT_Q8: int8 per row and 32 columns (a block): scale = max|x| / 127, q = nearest even of x * (127 / max|x|), -127..127; a block
 * whose max is below 2^-100 is zero. Rows lie in groups of 16, the last group has the rows that are left (h of them, else h =
 * 16): q[group][block][h][32], the other arrays [group][block][h]. Beside the values, what integer kernels add to a block's sum
 * for weights stored with an offset. */
struct act_q8 {
    int8_t *q;
    float *scale, *ssum;      /* ssum = scale * sum(q): for formats with a minimum */
    int32_t *n8, *n128, *n32; /* -8 * sum(q), -128 * sum(q); n32[..][2]: -32 * sum of each 16 */
    uint32_t nb;              /* k / 32 */
    size_t bytes;
};
static inline void act_q8_view(struct act_q8 *a, void *xa, uint32_t n, uint32_t k)
{
    a->nb = k / 32;
    size_t nq = align_up((size_t)n * a->nb * 32, 64), ns = align_up((size_t)n * a->nb * 4, 64);
    uint8_t *p = (uint8_t *)xa;
    a->q = (int8_t *)p;
    a->scale = (float *)(void *)(p + nq);
    a->ssum = (float *)(void *)(p + nq + ns);
    a->n8 = (int32_t *)(void *)(p + nq + 2 * ns);
    a->n128 = (int32_t *)(void *)(p + nq + 3 * ns);
    a->n32 = (int32_t *)(void *)(p + nq + 4 * ns);
    a->bytes = nq + 6 * ns;
}
/* Index of row i's block b in a group of h rows: times 32 into q, as it is into the others (n32: times 2). */
static inline size_t act_q8_at(const struct act_q8 *a, uint32_t i, uint32_t b, uint32_t h)
{
    return (size_t)(i / 16 * 16) * a->nb + (size_t)b * h + i % 16;
}

struct kern_gemm {
    enum act_fmt act;
    uint32_t unit;  /* r0 and r1 (except r1 == rows) are multiples of it; >= 1 */
    uint8_t layout; /* value for mat.layout after pack; 0: the file's rows are used in place and pack* are NULL */
    size_t (*pack_bytes)(uint32_t rows, uint32_t cols);
    /* Rows r0..r1 (multiples of unit) of the file -> dst, the whole matrix's packed memory (64-byte aligned). */
    void (*pack)(void *dst, const void *file, size_t row_bytes, uint32_t rows, uint32_t cols, uint32_t r0, uint32_t r1);
    /* One row back to the file's blocks, bit for bit (test of pack; conversion). */
    void (*unpack)(void *file_row, const void *packed, uint32_t rows, uint32_t cols, uint32_t r);
    size_t scratch; /* bytes of private memory per call, 64-byte aligned, independent of n; may depend on cols via scratch_col:
                       scratch + scratch_col*cols */
    size_t scratch_col;
    /* y[i*ldy + r] = sum_k x[i][k] w[r][k] + bias[r], i < n, r0 <= r < r1. xa: prepared by act_prep of `act` for all n rows. */
    void (*gemm)(float *y, size_t ldy, const void *xa, const struct mat *w, uint32_t n, uint32_t r0, uint32_t r1, void *scratch);
};

/* KV cache block of one layer and block: K of all heads, then V of all heads. One head: K [E/2][16 tokens][2], V [8 token
 * pairs][E][2], elements f32 or bf16. head bytes = 16*E*elem. */
enum kv_fmt { KV_F32, KV_BF16, KV_N };
static inline uint32_t kv_elem_bytes(enum kv_fmt f) { return f == KV_F32 ? 4 : 2; }

struct attn_job {
    const float *q; /* row i, head h of the group at q + i*ldq + h*E: rotated, normed, f32 */
    size_t ldq;
    uint32_t n_q, n_h;        /* query rows (consecutive positions pos0..pos0+n_q-1), query heads of this KV head */
    uint32_t E, pos0, window; /* window 0: none */
    float scale;
    const uint8_t *k, *v; /* this layer's and KV head's K and V inside block 0 of the slab */
    size_t blk_bytes;     /* distance of consecutive blocks of this layer */
    const uint32_t *blk;  /* the sequence's block table: position p lies in blk[p/16], slot p%16 */
};

/* The positions of a span that the query at pos sees: lo..hi-1, lo >= hi when none. */
static inline void attn_visible(const struct attn_job *j, uint32_t span, uint32_t pos, uint32_t *lo, uint32_t *hi)
{
    uint32_t s0 = span * KERN_SPAN, first = j->window && pos >= j->window ? pos + 1 - j->window : 0;
    *lo = MAX(s0, first);
    *hi = MIN(s0 + KERN_SPAN, pos + 1);
}

struct kern {
    enum isa isa;
    struct kern_gemm gemm[DT_N];

    /* bytes for n rows of k values; prepare rows i0..i1 (i0 a multiple of KERN_ROWS, i1 too or n) */
    size_t (*act_bytes[ACT_N])(uint32_t n, uint32_t k);
    void (*act_prep[ACT_N])(void *xa, const float *x, size_t ldx, uint32_t n, uint32_t k, uint32_t i0, uint32_t i1);

    /* y[i][j] = x[i][j] * g[j] / sqrt(mean_j(x^2) + eps); y may be x. ld: distance of rows. */
    void (*rmsnorm)(float *y, size_t ldy, const float *x, size_t ldx, const float *g, uint32_t n, uint32_t d, float eps);
    /* Rotates one head in place: x[E]; cs = [rope_dim/2][2] cos,sin of its position; adjacent: pairs (2i,2i+1) else (i,
     * i+rope_dim/2). */
    void (*rope)(float *x, const float *cs, uint32_t rope_dim, bool adjacent);
    /* Stores one token's K and V [E] of one head into slot 0..15 of a block. */
    void (*kv_put[KV_N])(void *kblk, void *vblk, const float *k, const float *v, uint32_t E, uint32_t slot);
    /* Partial attention over positions [KERN_SPAN*span, +KERN_SPAN) up to each query's own position. part: n_q*n_h rows of (E+2)
     * f32, row i*n_h+h = {m, l, acc[E]}: m = max score (scale applied; -inf when nothing is visible), l = sum exp(s-m), acc = sum
     * exp(s-m) v. scratch: attn_scratch(E) bytes. */
    void (*attn_span[KV_N])(const struct attn_job *j, uint32_t span, float *part, void *scratch);
    size_t (*attn_scratch)(uint32_t E); /* covers every attn_span slot of the table */
    /* a <- a merged with b (the later span), n rows of (E+2). */
    void (*attn_merge)(float *a, const float *b, uint32_t n, uint32_t E);
    /* y row i, head h at y + i*ldy + h*E = acc / l. */
    void (*attn_end)(float *y, size_t ldy, const float *part, uint32_t n_q, uint32_t n_h, uint32_t E);
    /* y[i][j] = silu(gu[i][j]) * gu[i][f+j]; y may start at gu. */
    void (*silu_mul)(float *y, size_t ldy, const float *gu, size_t ldgu, uint32_t n, uint32_t f);
    void (*add)(float *x, const float *y, size_t n); /* x += y */
    /* max and log-sum-exp over a row, and its k largest (value descending, then id ascending); NaN is never one of them; places
     * that cannot be filled (k > v) have id -1 and value -inf */
    void (*topk)(float *val, int32_t *id, uint32_t k, float *max, float *lse, const float *logits, uint32_t v);
};

/* Fills the table for a level <= kern_cpu_isa(). */
void kern_init(struct kern *k, enum isa level);
/* Each file's contribution (called by kern_init in ascending order). */
void kern_fill_ref(struct kern *k);
void kern_fill_avx2(struct kern *k);
void kern_fill_avx512(struct kern *k);
void kern_fill_avx512vnni(struct kern *k);
void kern_fill_avx512bf16(struct kern *k);
void kern_fill_amx(struct kern *k);

/* Machine limits, measured now (ms each), with n threads pinned: see limits.c. */
struct kern_limits {
    double read_gbs, f32_gflops, bf16_gflops, int8_gops;
};
