/* dev.c: the one place where compute and memory are counted. Counting rules: a matrix is read once per op whatever the rows (file size, also
 * when repacked); KV read by a row is what its own position can see; activations count once read and once written at 4 bytes. In a mixed step
 * weights and ops go to decode (decode rows wait for them); flops, KV and activation bytes are split by rows (rule R3). */
#include "dev/dev.h"
#include "base/os.h"

int dev_open(struct dev *d, const struct dev_ops *op, const struct dev_opt *o, const struct model_shape *m, struct ledger *led, struct err *e)
{
    *d = (struct dev){.op = op, .m = m, .led = led};
    return op->open(d, o, e);
}

void dev_close(struct dev *d)
{
    if (d->op) d->op->close(d);
    *d = (struct dev){0};
}

static enum led_phase main_phase(const struct dev *d) { return d->batch->n_dec ? LED_DECODE : LED_PREFILL; }

/* Closes the time and joins of the site so far. */
static void site_close(struct dev *d)
{
    uint64_t t = os_now_ns(), j = d->op->joins(d);
    struct led_work *w = &d->led->work[main_phase(d)][d->site];
    w->ns += t - d->t_site;
    w->dev_syncs += j - d->j_site;
    d->t_site = t;
    d->j_site = j;
}

void dev_step_begin(struct dev *d, const struct batch *b)
{
    CHECK(b->n_tok > 0 && b->n_dec <= b->n_seq && b->q_off[b->n_seq] == b->n_tok);
    d->batch = b;
    d->site = LED_EMBED;
    d->t_site = os_now_ns();
    d->j_site = d->op->joins(d);
    d->led->steps++;
    d->led->mixed_steps += b->n_dec > 0 && b->n_dec < b->n_tok;
    d->led->tok_in += b->n_tok - b->n_dec;
    d->op->step_begin(d, b);
}

void dev_site(struct dev *d, enum led_site s)
{
    site_close(d);
    d->site = s;
}

void dev_step_end(struct dev *d)
{
    site_close(d);
    d->batch = NULL;
}

/* One op over n rows; per-row amounts. Rows of an op that runs over fewer rows than the batch (the head) are decode rows first. */
static void count(struct dev *d, uint32_t n, uint64_t flops_row, uint64_t act_row, uint64_t w_bytes)
{
    const struct batch *b = d->batch;
    uint32_t nd = MIN(b->n_dec, n);
    struct led_work *m = &d->led->work[main_phase(d)][d->site];
    m->ops++;
    m->w_bytes += w_bytes;
    struct led_work *wd = &d->led->work[LED_DECODE][d->site], *wp = &d->led->work[LED_PREFILL][d->site];
    wd->flops += flops_row * nd;
    wd->act_bytes += act_row * nd;
    wp->flops += flops_row * (n - nd);
    wp->act_bytes += act_row * (n - nd);
}

void dev_embed(struct dev *d, float *y, const struct mat *w)
{
    CHECK(w->cols == d->m->D);
    /* rows looked up are weights read */
    count(d, d->batch->n_tok, 0, 4ull * w->cols, (uint64_t)d->batch->n_tok * w->row_bytes);
    d->op->embed(d, y, w);
}

void dev_rmsnorm(struct dev *d, float *y, const float *x, const float *g, uint32_t n, uint32_t dim)
{
    count(d, n, 4ull * dim, 8ull * dim, 4ull * dim);
    d->op->rmsnorm(d, y, x, g, n, dim, d->m->norm_eps);
}

void dev_matmul(struct dev *d, float *y, const float *x, const struct mat *const *w, uint32_t n_w, uint32_t n)
{
    uint64_t rows = 0, bytes = 0;
    for (uint32_t i = 0; i < n_w; i++) {
        CHECK(w[i]->cols == w[0]->cols);
        rows += w[i]->rows;
        bytes += mat_file_bytes(w[i]) + (w[i]->bias ? 4ull * w[i]->rows : 0);
    }
    count(d, n, 2 * rows * w[0]->cols, 4 * (rows + w[0]->cols), bytes);
    d->op->matmul(d, y, x, w, n_w, n);
}

void dev_rope_kv(struct dev *d, float *qkv, const float *q_norm, const float *k_norm, const struct kv_view *kv, uint32_t layer)
{
    const struct model_shape *m = d->m;
    const struct batch *b = d->batch;
    uint64_t hd = (uint64_t)(m->H + m->G) * m->E, kvb = 2ull * m->G * m->E * kv_elem_bytes(kv->fmt);
    count(d, b->n_tok, 6 * hd, 8 * hd, 0);
    d->led->work[LED_DECODE][d->site].kv_wbytes += kvb * b->n_dec;
    d->led->work[LED_PREFILL][d->site].kv_wbytes += kvb * (b->n_tok - b->n_dec);
    d->op->rope_kv(d, qkv, q_norm, k_norm, kv, layer);
}

void dev_attend(struct dev *d, float *y, const float *qkv, const struct kv_view *kv, uint32_t layer)
{
    const struct model_shape *m = d->m;
    const struct batch *b = d->batch;
    uint64_t kvb = 2ull * m->G * m->E * kv_elem_bytes(kv->fmt), fl = 4ull * m->H * m->E;
    count(d, b->n_tok, 0, 8ull * m->H * m->E, 0);
    for (uint32_t s = 0; s < b->n_seq; s++) {
        uint32_t r0 = b->q_off[s], r1 = b->q_off[s + 1];
        struct led_work *w = &d->led->work[r0 < b->n_dec ? LED_DECODE : LED_PREFILL][d->site];
        uint64_t sum = 0;
        for (uint32_t r = r0; r < r1; r++) sum += m->window ? MIN(b->pos[r] + 1, m->window) : b->pos[r] + 1;
        w->flops += fl * sum;
        /* the rows of a sequence share one pass over its KV */
        uint64_t seen = b->pos[r1 - 1] + 1, first = m->window && b->pos[r0] + 1 > m->window ? b->pos[r0] + 1 - m->window : 0;
        w->kv_bytes += kvb * (seen - first);
    }
    d->op->attend(d, y, qkv, kv, layer);
}

void dev_glu(struct dev *d, float *y, const float *gate_up, uint32_t n)
{
    uint32_t f = d->m->F;
    count(d, n, 5ull * f, 12ull * f, 0);
    d->op->glu(d, y, gate_up, n, f);
}

void dev_add(struct dev *d, float *x, const float *y, uint32_t n, uint32_t dim)
{
    count(d, n, dim, 12ull * dim, 0);
    d->op->add(d, x, y, n, dim);
}

void dev_rows(struct dev *d, float *y, const float *x, const uint32_t *row, uint32_t n, uint32_t dim)
{
    count(d, n, 0, 8ull * dim, 0);
    d->op->rows(d, y, x, row, n, dim);
}

void dev_topk(struct dev *d, struct cand *c, const float *logits, uint32_t n, uint32_t k)
{
    count(d, n, 2ull * d->m->V, 4ull * d->m->V, 0);
    d->op->topk(d, c, logits, n, d->m->V, k);
}

int dev_sync(struct dev *d, struct err *e) { return d->op->sync(d, e); }
