/* dev_cpu.c: the CPU device: tensors in host memory, kernels from the table of kern.h, work cut over the pool. Cutting never changes a result
 * (contract in kern.h), so pieces are taken dynamically. Small row counts (decode) do element-wise ops on the calling thread: a join costs more. */
#include "base/mem.h"
#include "base/os.h"
#include "dev/dev.h"
#include <math.h>
#include <string.h>

#define PIECES_PER_THREAD 6u
#define INLINE_ROWS 8u       /* up to so many rows element-wise ops run without a join */
#define SPLIT_SPANS 4u       /* a decode row with at least so many spans is cut over the workers by spans */
#define TILE_ROWS 256u       /* query rows x heads of one attention piece: K and V of a span are read once per piece */
#define WIDE_ROWS 256u       /* weight rows of a piece that are worth sweeping many activation rows past */

/* Packed matrices lie one behind the other in large chunks, so that small ones share huge pages. */
#define CHUNK_BYTES ((size_t)256 << 20)
struct chunk {
    struct chunk *next;
    uint8_t *p;
    size_t used, cap;
};

/* Row-local ops that wait for their reader: add, then rmsnorm or glu. A matmul that reads the result does them row by row on the way to its own
 * activation format (one pass over memory and one join instead of three); any other op makes them happen first. */
struct pending {
    enum { PEND_NONE, PEND_NORM, PEND_GLU } kind;
    float *y; /* where the result would go */
    const float *x, *g;
    uint32_t n, d;
    float eps;
    float *add_x; /* x += add_y comes before; NULL: no add */
    const float *add_y;
};

struct cpu {
    struct pool *pool;
    struct pending pend;
    struct chunk *chunk;     /* owned, the one being filled first */
    struct kern k;
    uint32_t n_thread;
    uint32_t max_tok, max_seq;
    uint8_t *act;            /* prepared activations, act_bytes */
    size_t act_bytes;
    uint8_t *scratch;        /* n_thread pieces of scratch_bytes */
    size_t scratch_bytes;
    float *part;             /* attention partials of split spans */
    size_t part_n;           /* floats */
    float *inv_freq;         /* [rope_dim/2] */
    uint32_t *tile0;         /* [max_seq+1] first attention tile of each sequence of this step */
    float *cs;               /* [max_tok][rope_dim/2][2] of this step's rows */
};

static struct cpu *cpu_of(struct dev *d) { return d->impl; }
static void flush(struct dev *d);

/* ---- memory */

static int cpu_alloc(struct dev *d, size_t bytes, bool sparse, void **out, struct err *e)
{
    (void)d;
    *out = sparse ? mem_sparse(bytes) : mem_big(bytes);
    return *out ? OK : err_set(e, E_NOMEM, "cannot get %zu MB of memory", bytes >> 20);
}
static void cpu_free(struct dev *d, void *p, size_t bytes)
{
    (void)d;
    mem_big_free(p, bytes);
}
static void cpu_get(struct dev *d, void *host, const void *p, size_t bytes)
{
    (void)d;
    memcpy(host, p, bytes);
}

static int cpu_open(struct dev *d, const struct dev_opt *o, struct err *e)
{
    struct cpu *c = mem_zalloc(1, sizeof *c);
    if (!c) return err_set(e, E_NOMEM, "no memory for the CPU device");
    d->impl = c;
    c->n_thread = o->n_thread;
    c->max_tok = o->max_tok;
    c->max_seq = o->max_seq;
    kern_init(&c->k, o->isa);
    const struct model_shape *m = d->m;
    uint32_t widest = MAX(MAX(m->D, m->F), m->H * m->E);
    for (int f = 0; f < ACT_N; f++)
        if (c->k.act_bytes[f]) c->act_bytes = MAX(c->act_bytes, c->k.act_bytes[f](o->max_tok, widest));
    c->scratch_bytes = MAX(c->k.attn_scratch(m->E), (size_t)0);
    for (int t = 0; t < DT_N; t++) {
        const struct kern_gemm *g = &c->k.gemm[t];
        if (g->gemm) c->scratch_bytes = MAX(c->scratch_bytes, g->scratch + g->scratch_col * widest);
    }
    /* attention pieces keep two partials of their own: the running one and the span's */
    size_t tile = (size_t)MAX(TILE_ROWS, m->H / m->G) * (m->E + 2) * sizeof(float);
    c->scratch_bytes = align_up(c->scratch_bytes, 64) + 2 * align_up(tile, 64) + 4096;
    c->scratch_bytes = MAX(c->scratch_bytes, (size_t)KERN_ROWS * widest * sizeof(float) + 4096); /* rows of a pending op */
    /* spans of split decode rows: never more than the pool's blocks hold plus one begun span per sequence */
    c->part_n = ((size_t)o->max_blk * KERN_BLK / KERN_SPAN + o->max_seq) * m->H * (m->E + 2);
    c->act = mem_big(c->act_bytes);
    c->scratch = mem_big(c->scratch_bytes * c->n_thread);
    c->part = mem_big(c->part_n * sizeof(float));
    c->inv_freq = mem_zalloc(m->rope_dim / 2 + 1, sizeof(float));
    c->cs = mem_big((size_t)c->max_tok * m->rope_dim * sizeof(float));
    c->tile0 = mem_alloc((size_t)o->max_seq + 1, sizeof *c->tile0);
    if (!c->tile0 || !c->act || !c->scratch || !c->part || !c->inv_freq || !c->cs)
        return err_set(e, E_NOMEM, "no memory for activations of %u tokens a step", o->max_tok);
    return pool_open(&c->pool, o->n_thread, true, e);
}

static void cpu_close(struct dev *d)
{
    struct cpu *c = cpu_of(d);
    if (!c) return;
    pool_close(c->pool);
    for (struct chunk *k = c->chunk, *next; k; k = next) {
        next = k->next;
        mem_big_free(k->p, k->cap);
        mem_free(k);
    }
    mem_big_free(c->act, c->act_bytes);
    mem_big_free(c->scratch, c->scratch_bytes * c->n_thread);
    mem_big_free(c->part, c->part_n * sizeof(float));
    mem_big_free(c->cs, (size_t)c->max_tok * d->m->rope_dim * sizeof(float));
    mem_free(c->inv_freq);
    mem_free(c->tile0);
    mem_free(c);
    d->impl = NULL;
}

struct pool *dev_pool(struct dev *d) { return d->op == &dev_cpu ? cpu_of(d)->pool : NULL; }
const struct kern *dev_kern(struct dev *d) { return d->op == &dev_cpu ? &cpu_of(d)->k : NULL; }

/* ---- matrices */

struct pack_job {
    const struct kern_gemm *g;
    struct mat *m;
    void *dst;
    uint32_t step; /* rows a piece */
};
static void pack_piece(void *ud, uint32_t i, uint32_t n, uint32_t w)
{
    (void)n, (void)w;
    const struct pack_job *j = ud;
    uint32_t r0 = i * j->step, r1 = MIN(r0 + j->step, j->m->rows);
    j->g->pack(j->dst, j->m->file, j->m->row_bytes, j->m->rows, j->m->cols, r0, r1);
}

static void *chunk_take(struct cpu *c, size_t bytes)
{
    bytes = align_up(bytes, 4096);
    if (!c->chunk || c->chunk->cap - c->chunk->used < bytes) {
        struct chunk *k = mem_zalloc(1, sizeof *k);
        if (!k) return NULL;
        k->cap = MAX(bytes, CHUNK_BYTES); /* untouched pages cost nothing */
        k->p = mem_big(k->cap);
        if (!k->p) {
            mem_free(k);
            return NULL;
        }
        k->next = c->chunk;
        c->chunk = k;
    }
    void *p = c->chunk->p + c->chunk->used;
    c->chunk->used += bytes;
    return p;
}

static int cpu_mat_load(struct dev *d, struct mat *m, struct err *e)
{
    struct cpu *c = cpu_of(d);
    const struct kern_gemm *g = &c->k.gemm[m->dt];
    CHECK(g->gemm);
    if (!g->layout) return OK;
    size_t bytes = g->pack_bytes(m->rows, m->cols);
    void *p = chunk_take(c, bytes);
    if (!p) return err_set(e, E_NOMEM, "cannot get %zu MB for repacked weights", bytes >> 20);
    uint32_t step = ceil_div_u32(ceil_div_u32(m->rows, c->n_thread * 8), g->unit) * g->unit;
    struct pack_job j = {g, m, p, step};
    pool_run(c->pool, pack_piece, &j, ceil_div_u32(m->rows, step));
    m->w = p;
    m->layout = g->layout;
    d->w_bytes += bytes;
    return OK;
}

/* Inverse frequencies theta^(-2i/rope_dim) in f32, as the reference implementations hold them, divided by the file's factors. */
static int cpu_model(struct dev *d, const struct model_shape *m, const float *factors, struct err *e)
{
    (void)e;
    struct cpu *c = cpu_of(d);
    for (uint32_t i = 0; i < m->rope_dim / 2; i++) {
        float f = 1.0f / powf(m->rope_theta, (float)(2 * i) / (float)m->rope_dim);
        if (factors) f /= factors[i];
        if (m->rope == ROPE_LINEAR) f /= m->rope_factor;
        c->inv_freq[i] = f;
    }
    return OK;
}

/* ---- pieces over rows */

struct row_job {
    struct dev *d;
    struct cpu *c;
    float *y;
    const float *x, *g, *g2;
    const struct mat *m;
    const struct kv_view *kv;
    const uint32_t *row;
    struct cand *cand;
    uint32_t n, d1, layer, step;
    float eps;
    enum act_fmt act;
};
typedef void row_fn(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t worker);
struct row_call {
    struct row_job *j;
    row_fn *fn;
};
static void row_piece(void *ud, uint32_t i, uint32_t n, uint32_t w)
{
    (void)n;
    const struct row_call *rc = ud;
    uint32_t i0 = i * rc->j->step, i1 = MIN(i0 + rc->j->step, rc->j->n);
    rc->fn(rc->j, i0, i1, w);
}
/* Rows in pieces of a multiple of `unit`; without a join up to INLINE_ROWS. */
static void over_rows(struct row_job *j, row_fn *fn, uint32_t unit)
{
    if (j->n <= MAX(INLINE_ROWS, unit)) {
        fn(j, 0, j->n, 0);
        return;
    }
    j->step = ceil_div_u32(ceil_div_u32(j->n, j->c->n_thread * 4), unit) * unit;
    struct row_call rc = {j, fn};
    pool_run(j->c->pool, row_piece, &rc, ceil_div_u32(j->n, j->step));
}

static void cs_rows(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t w)
{
    (void)w;
    uint32_t half = j->d->m->rope_dim / 2;
    for (uint32_t i = i0; i < i1; i++)
        for (uint32_t k = 0; k < half; k++) {
            float a = (float)j->d->batch->pos[i] * j->c->inv_freq[k], *cs = j->y + ((size_t)i * half + k) * 2;
            cs[0] = cosf(a);
            cs[1] = sinf(a);
        }
}

static void cpu_step(struct dev *d, const struct batch *b)
{
    struct cpu *c = cpu_of(d);
    CHECK(b->n_tok <= c->max_tok && b->n_seq <= c->max_seq);
    c->pend = (struct pending){0}; /* a step that failed half-way leaves nothing behind */
    struct row_job j = {.d = d, .c = c, .y = c->cs, .n = b->n_tok};
    over_rows(&j, cs_rows, 1);
}

static void embed_rows(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t w)
{
    (void)w;
    for (uint32_t i = i0; i < i1; i++) {
        int32_t t = j->d->batch->tok[i];
        CHECK(t >= 0 && (uint32_t)t < j->m->rows);
        dtype_table[j->m->dt].dequant(j->y + (size_t)i * j->m->cols, (const uint8_t *)j->m->file + (size_t)t * j->m->row_bytes, j->m->cols);
    }
}
static void cpu_embed(struct dev *d, float *y, const struct mat *m)
{
    flush(d);
    struct row_job j = {.d = d, .c = cpu_of(d), .y = y, .m = m, .n = d->batch->n_tok};
    over_rows(&j, embed_rows, 1);
}

static void norm_rows(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t w)
{
    (void)w;
    size_t o = (size_t)i0 * j->d1;
    j->c->k.rmsnorm(j->y + o, j->d1, j->x + o, j->d1, j->g, i1 - i0, j->d1, j->eps);
}
static void glu_rows(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t w)
{
    (void)w;
    size_t f = j->d1;
    j->c->k.silu_mul(j->y + i0 * f, f, j->x + i0 * 2 * f, 2 * f, i1 - i0, j->d1);
}
static void add_rows(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t w)
{
    (void)w;
    size_t o = (size_t)i0 * j->d1;
    j->c->k.add(j->y + o, j->x + o, (size_t)(i1 - i0) * j->d1);
}

/* Makes what is pending happen, into the buffers it was meant for. */
static void flush(struct dev *d)
{
    struct cpu *c = cpu_of(d);
    struct pending p = c->pend;
    c->pend = (struct pending){0};
    if (p.add_x) {
        struct row_job j = {.d = d, .c = c, .y = p.add_x, .x = p.add_y, .n = p.n, .d1 = p.d};
        over_rows(&j, add_rows, 1);
    }
    if (p.kind == PEND_NONE) return;
    struct row_job j = {.d = d, .c = c, .y = p.y, .x = p.x, .g = p.g, .n = p.n, .d1 = p.d, .eps = p.eps};
    over_rows(&j, p.kind == PEND_NORM ? norm_rows : glu_rows, 1);
}

static void cpu_add(struct dev *d, float *x, const float *y, uint32_t n, uint32_t dim)
{
    flush(d);
    cpu_of(d)->pend = (struct pending){.add_x = x, .add_y = y, .n = n, .d = dim};
}
static void cpu_rmsnorm(struct dev *d, float *y, const float *x, const float *g, uint32_t n, uint32_t dim, float eps)
{
    struct pending *p = &cpu_of(d)->pend;
    if (p->kind != PEND_NONE || p->add_x != x || p->n != n || p->d != dim) flush(d);
    *p = (struct pending){PEND_NORM, y, x, g, n, dim, eps, p->add_x, p->add_y};
}
static void cpu_glu(struct dev *d, float *y, const float *gu, uint32_t n, uint32_t f)
{
    flush(d);
    cpu_of(d)->pend = (struct pending){.kind = PEND_GLU, .y = y, .x = gu, .n = n, .d = f};
}

static void copy_rows(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t w)
{
    (void)w;
    for (uint32_t i = i0; i < i1; i++) memmove(j->y + (size_t)i * j->d1, j->x + (size_t)j->row[i] * j->d1, j->d1 * sizeof(float));
}
static void cpu_rows(struct dev *d, float *y, const float *x, const uint32_t *row, uint32_t n, uint32_t dim)
{
    flush(d);
    struct row_job j = {.d = d, .c = cpu_of(d), .y = y, .x = x, .row = row, .n = n, .d1 = dim};
    over_rows(&j, copy_rows, 1);
}

static void topk_rows(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t w)
{
    (void)w;
    for (uint32_t i = i0; i < i1; i++) {
        struct cand *c = &j->cand[i];
        j->c->k.topk(c->val, c->id, c->n, &c->max, &c->lse, j->x + (size_t)i * j->d1, j->d1);
    }
}
static void cpu_topk(struct dev *d, struct cand *cand, const float *logits, uint32_t n, uint32_t v, uint32_t k)
{
    flush(d);
    for (uint32_t i = 0; i < n; i++) cand[i].n = MIN(k, v);
    struct row_job j = {.d = d, .c = cpu_of(d), .x = logits, .cand = cand, .n = n, .d1 = v};
    over_rows(&j, topk_rows, 1);
}

/* ---- matrix products */

#define MAX_MATS 4u
struct mm_job {
    struct cpu *c;
    float *y;
    size_t ldy;
    const struct mat *const *w;
    uint32_t n_w, n;
    uint32_t piece0[MAX_MATS + 1]; /* first piece of each matrix */
    uint32_t step[MAX_MATS];       /* rows a piece */
    uint32_t y0[MAX_MATS];         /* first output column of each matrix */
    const void *act[MAX_MATS];
};

static void mm_piece(void *ud, uint32_t i, uint32_t n, uint32_t worker)
{
    (void)n;
    const struct mm_job *j = ud;
    uint32_t k = 0;
    while (i >= j->piece0[k + 1]) k++;
    const struct mat *m = j->w[k];
    uint32_t r0 = (i - j->piece0[k]) * j->step[k], r1 = MIN(r0 + j->step[k], m->rows);
    j->c->k.gemm[m->dt].gemm(j->y + j->y0[k], j->ldy, j->act[k], m, j->n, r0, r1, j->c->scratch + j->c->scratch_bytes * worker);
}

static void act_rows(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t w)
{
    (void)w;
    j->c->k.act_prep[j->act](j->c->act, j->x, j->d1, j->n, j->d1, i0, i1);
}

/* The same from a pending op: 16 rows at a time are made in the worker's own memory, which its caches hold. */
static void pend_rows(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t w)
{
    const struct pending *p = &j->c->pend;
    const struct kern *k = &j->c->k;
    float *t = (float *)(j->c->scratch + j->c->scratch_bytes * w);
    size_t d = p->d;
    for (uint32_t i = i0; i < i1; i += KERN_ROWS) {
        uint32_t m = MIN(KERN_ROWS, i1 - i);
        if (p->add_x) k->add(p->add_x + i * d, p->add_y + i * d, m * d);
        if (p->kind == PEND_NORM)
            k->rmsnorm(t, d, p->x + i * d, d, p->g, m, p->d, p->eps);
        else
            k->silu_mul(t, d, p->x + i * 2 * d, 2 * d, m, p->d);
        /* act_prep reads row i of its x: the base is where row 0 would be */
        const float *base = (const float *)((uintptr_t)t - i * d * sizeof(float));
        k->act_prep[j->act](j->c->act, base, d, j->n, p->d, i, i + m);
    }
}

static void cpu_matmul(struct dev *d, float *y, const float *x, const struct mat *const *w, uint32_t n_w, uint32_t n)
{
    struct cpu *c = cpu_of(d);
    CHECK(n_w > 0 && n_w <= MAX_MATS);
    struct mm_job j = {.c = c, .y = y, .w = w, .n_w = n_w, .n = n};
    for (uint32_t i = 0; i < n_w; i++) {
        j.y0[i] = (uint32_t)j.ldy;
        j.ldy += w[i]->rows;
    }
    bool lazy = c->pend.kind != PEND_NONE && c->pend.y == x && c->pend.n == n && c->pend.d == w[0]->cols;
    if (!lazy) flush(d);
    /* The matrices of one call may want different activation formats (a q6_k beside a q4_k does not, an f32 beside a q8_0 does): one pass each. */
    uint32_t done = 0;
    for (uint32_t first = 0; first < n_w; first++) {
        if (done >> first & 1) continue;
        enum act_fmt act = c->k.gemm[w[first]->dt].act;
        struct row_job rj = {.d = d, .c = c, .x = x, .n = n, .d1 = w[0]->cols, .act = act};
        over_rows(&rj, lazy ? pend_rows : act_rows, KERN_ROWS);
        c->pend.add_x = NULL; /* once */
        uint32_t total = 0, pieces = 0;
        for (uint32_t i = first; i < n_w; i++)
            if (c->k.gemm[w[i]->dt].act == act) total += w[i]->rows;
        uint32_t want = ceil_div_u32(total, c->n_thread * PIECES_PER_THREAD);
        if (n > 64 && total >= 2 * WIDE_ROWS * c->n_thread) want = ceil_div_u32(want, WIDE_ROWS) * WIDE_ROWS;
        const struct mat *sub[MAX_MATS];
        struct mm_job s = j;
        s.n_w = 0;
        s.w = sub;
        for (uint32_t i = first; i < n_w; i++) {
            const struct kern_gemm *g = &c->k.gemm[w[i]->dt];
            if (g->act != act) continue;
            done |= 1u << i;
            sub[s.n_w] = w[i];
            s.y0[s.n_w] = j.y0[i];
            s.act[s.n_w] = c->act;
            s.step[s.n_w] = ceil_div_u32(want, g->unit) * g->unit;
            s.piece0[s.n_w] = pieces;
            pieces += ceil_div_u32(w[i]->rows, s.step[s.n_w]);
            s.piece0[++s.n_w] = pieces;
        }
        pool_run(c->pool, mm_piece, &s, pieces);
    }
    c->pend = (struct pending){0};
}

/* ---- attention */

static const uint8_t *kv_layer(const struct kv_view *kv, uint32_t layer) { return kv->slab + (size_t)layer * kv->n_blk * kv->blk_bytes; }

/* The k with off[k] <= x < off[k+1]; off ascending, off[0] <= x < off[n]. */
static uint32_t run_of(const uint32_t *off, uint32_t n, uint32_t x)
{
    uint32_t lo = 0, hi = n;
    while (hi - lo > 1) {
        uint32_t mid = (lo + hi) / 2;
        if (off[mid] <= x)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void rope_rows(struct row_job *j, uint32_t i0, uint32_t i1, uint32_t w)
{
    (void)w;
    const struct model_shape *m = j->d->m;
    const struct batch *b = j->d->batch;
    const struct kern *k = &j->c->k;
    uint32_t H = m->H, G = m->G, E = m->E, ld = (H + 2 * G) * E;
    uint8_t *base = (uint8_t *)(uintptr_t)kv_layer(j->kv, j->layer);
    for (uint32_t i = i0; i < i1; i++) {
        float *q = j->y + (size_t)i * ld, *kk = q + (size_t)H * E, *v = kk + (size_t)G * E;
        if (j->g) k->rmsnorm(q, E, q, E, j->g, H, E, m->norm_eps);
        if (j->g2) k->rmsnorm(kk, E, kk, E, j->g2, G, E, m->norm_eps);
        const float *cs = j->c->cs + (size_t)i * m->rope_dim;
        for (uint32_t h = 0; h < H + G; h++) k->rope(q + (size_t)h * E, cs, m->rope_dim, m->rope_adjacent);
        uint32_t s = run_of(b->q_off, b->n_seq, i), p = b->pos[i];
        uint8_t *blk = base + (size_t)b->blk[b->blk_off[s] + p / KERN_BLK] * j->kv->blk_bytes;
        for (uint32_t h = 0; h < G; h++)
            k->kv_put[j->kv->fmt](blk + h * j->kv->head_bytes, blk + (G + h) * j->kv->head_bytes, kk + (size_t)h * E, v + (size_t)h * E, E, p % KERN_BLK);
    }
}
static void cpu_rope_kv(struct dev *d, float *qkv, const float *qn, const float *kn, const struct kv_view *kv, uint32_t layer)
{
    flush(d);
    struct row_job j = {.d = d, .c = cpu_of(d), .y = qkv, .g = qn, .g2 = kn, .kv = kv, .layer = layer, .n = d->batch->n_tok};
    over_rows(&j, rope_rows, 1);
}

struct at_job {
    struct dev *d;
    struct cpu *c;
    float *y;
    const float *qkv;
    const struct kv_view *kv;
    uint32_t layer, tile;
    const uint32_t *tile0; /* [n_seq+1] first tile of each sequence (tiles x G pieces) */
};

static struct attn_job make_job(const struct at_job *j, uint32_t s, uint32_t g, uint32_t r0, uint32_t n_q)
{
    const struct model_shape *m = j->d->m;
    const struct batch *b = j->d->batch;
    uint32_t R = m->H / m->G, ld = (m->H + 2 * m->G) * m->E;
    const uint8_t *base = kv_layer(j->kv, j->layer);
    return (struct attn_job){.q = j->qkv + (size_t)r0 * ld + (size_t)g * R * m->E, .ldq = ld, .n_q = n_q, .n_h = R, .E = m->E,
                             .pos0 = b->pos[r0], .window = m->window, .scale = m->attn_scale,
                             .k = base + g * j->kv->head_bytes, .v = base + (m->G + g) * j->kv->head_bytes,
                             .blk_bytes = j->kv->blk_bytes, .blk = b->blk + b->blk_off[s]};
}

/* First and last span that rows at positions p0..p1 can see. */
static void span_range(const struct model_shape *m, uint32_t p0, uint32_t p1, uint32_t *s0, uint32_t *s1)
{
    *s0 = m->window && p0 + 1 > m->window ? (p0 + 1 - m->window) / KERN_SPAN : 0;
    *s1 = p1 / KERN_SPAN;
}

/* One tile of query rows of one KV head over all its spans, merged in ascending order. */
static void attend_tile(struct at_job *j, uint32_t s, uint32_t g, uint32_t r0, uint32_t r1, uint32_t worker)
{
    const struct model_shape *m = j->d->m;
    uint32_t R = m->H / m->G, n = (r1 - r0) * R, s0, s1;
    uint8_t *sc = j->c->scratch + j->c->scratch_bytes * worker;
    size_t tile = align_up((size_t)MAX(TILE_ROWS, R) * (m->E + 2) * sizeof(float), 64);
    float *acc = (float *)sc, *part = (float *)(sc + tile);
    void *rest = sc + 2 * tile;
    struct attn_job a = make_job(j, s, g, r0, r1 - r0);
    span_range(m, a.pos0, a.pos0 + r1 - r0 - 1, &s0, &s1);
    j->c->k.attn_span[j->kv->fmt](&a, s0, acc, rest);
    for (uint32_t sp = s0 + 1; sp <= s1; sp++) {
        j->c->k.attn_span[j->kv->fmt](&a, sp, part, rest);
        j->c->k.attn_merge(acc, part, n, m->E);
    }
    j->c->k.attn_end(j->y + (size_t)r0 * m->H * m->E + (size_t)g * R * m->E, (size_t)m->H * m->E, acc, r1 - r0, R, m->E);
}

static void attend_piece(void *ud, uint32_t i, uint32_t n, uint32_t worker)
{
    (void)n;
    struct at_job *j = ud;
    const struct batch *b = j->d->batch;
    uint32_t G = j->d->m->G, t = i / G, g = i % G, s = run_of(j->tile0, b->n_seq, t);
    uint32_t r0 = b->q_off[s] + (t - j->tile0[s]) * j->tile, r1 = MIN(r0 + j->tile, b->q_off[s + 1]);
    attend_tile(j, s, g, r0, r1, worker);
}

/* One decode row: pieces are (KV head, span); the partials are merged afterwards in span order, so bits equal attend_tile's. */
struct split_job {
    struct at_job *j;
    uint32_t s, s0, n_span;
};
static void split_piece(void *ud, uint32_t i, uint32_t n, uint32_t worker)
{
    (void)n;
    const struct split_job *sj = ud;
    struct at_job *j = sj->j;
    const struct model_shape *m = j->d->m;
    uint32_t g = i / sj->n_span, k = i % sj->n_span, R = m->H / m->G;
    struct attn_job a = make_job(j, sj->s, g, j->d->batch->q_off[sj->s], 1);
    j->c->k.attn_span[j->kv->fmt](&a, sj->s0 + k, j->c->part + (size_t)i * R * (m->E + 2), j->c->scratch + j->c->scratch_bytes * worker);
}
static void attend_split(struct at_job *j, uint32_t s, uint32_t s0, uint32_t s1)
{
    const struct model_shape *m = j->d->m;
    uint32_t R = m->H / m->G, n_span = s1 - s0 + 1;
    size_t one = (size_t)R * (m->E + 2), row = j->d->batch->q_off[s];
    CHECK(one * n_span * m->G <= j->c->part_n);
    struct split_job sj = {j, s, s0, n_span};
    pool_run(j->c->pool, split_piece, &sj, n_span * m->G);
    for (uint32_t g = 0; g < m->G; g++) {
        float *p = j->c->part + one * n_span * g;
        for (uint32_t k = 1; k < n_span; k++) j->c->k.attn_merge(p, p + one * k, R, m->E);
        j->c->k.attn_end(j->y + row * m->H * m->E + (size_t)g * R * m->E, (size_t)m->H * m->E, p, 1, R, m->E);
    }
}

static void cpu_attend(struct dev *d, float *y, const float *qkv, const struct kv_view *kv, uint32_t layer)
{
    struct cpu *c = cpu_of(d);
    flush(d);
    const struct model_shape *m = d->m;
    const struct batch *b = d->batch;
    uint32_t R = m->H / m->G, t = 0;
    struct at_job j = {.d = d, .c = c, .y = y, .qkv = qkv, .kv = kv, .layer = layer, .tile = MAX(TILE_ROWS / R, 1u), .tile0 = c->tile0};
    /* A lone decode row over a long context has too few (sequence, head) pieces for all workers: cut it by spans too. */
    if (b->n_seq == 1 && b->n_tok == 1 && c->n_thread > 1) {
        uint32_t s0, s1;
        span_range(m, b->pos[0], b->pos[0], &s0, &s1);
        if (s1 - s0 + 1 >= SPLIT_SPANS) {
            attend_split(&j, 0, s0, s1);
            return;
        }
    }
    for (uint32_t s = 0; s < b->n_seq; s++) {
        c->tile0[s] = t;
        t += ceil_div_u32(b->q_off[s + 1] - b->q_off[s], j.tile);
    }
    c->tile0[b->n_seq] = t;
    pool_run(c->pool, attend_piece, &j, t * m->G);
}

static int cpu_sync(struct dev *d, struct err *e)
{
    (void)e;
    flush(d);
    return OK;
}
static uint64_t cpu_joins(struct dev *d) { return pool_joins(cpu_of(d)->pool); }

const struct dev_ops dev_cpu = {
    .name = "cpu", .open = cpu_open, .close = cpu_close, .alloc = cpu_alloc, .free = cpu_free, .get = cpu_get,
    .mat_load = cpu_mat_load, .model = cpu_model, .step_begin = cpu_step, .embed = cpu_embed, .rmsnorm = cpu_rmsnorm, .matmul = cpu_matmul,
    .rope_kv = cpu_rope_kv, .attend = cpu_attend, .glu = cpu_glu, .add = cpu_add, .rows = cpu_rows, .topk = cpu_topk, .sync = cpu_sync,
    .joins = cpu_joins,
};
