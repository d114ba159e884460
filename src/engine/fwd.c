/* fwd.c: the forward pass, straight from top to bottom. Every model family that hearth runs goes through fwd_step; what differs between families
 * is data in model_shape and NULL pointers in struct layer. Letters: N rows, D width, H heads, G KV heads, E head size, F ffn, V vocabulary. */
#include "engine/fwd.h"

int fwd_step(struct rank *r, const struct batch *b, struct err *e)
{
    const struct model_shape *m = r->m;
    const struct weights *w = r->w;
    struct dev *d = r->dev;
    struct acts *a = &r->a;
    uint32_t N = b->n_tok;

    r->tp.phase = b->n_dec ? LED_DECODE : LED_PREFILL;
    dev_step_begin(d, b);
    dev_embed(d, a->x, &w->embed);                                              /* x [N,D] */

    for (uint32_t l = 0; l < m->L; l++) {
        const struct layer *y = &w->layer[l];

        dev_site(d, LED_ATTN);
        dev_rmsnorm(d, a->h, a->x, y->attn_norm, N, m->D);                      /* h [N,D] */
        dev_matmul(d, a->qkv, a->h, (const struct mat *[]){&y->q, &y->k, &y->v}, 3, N); /* qkv [N,(H+2G)E] */
        dev_rope_kv(d, a->qkv, y->q_norm, y->k_norm, r->kv, l);                 /* rotates q,k; stores k,v */
        dev_attend(d, a->att, a->qkv, r->kv, l);                                /* att [N,HE] */
        dev_matmul(d, a->h, a->att, (const struct mat *[]){&y->o}, 1, N);       /* h [N,D] */
        TRY(comm_allreduce(&r->tp, a->h, N * m->D, LED_ACT, e));
        dev_add(d, a->x, a->h, N, m->D);

        dev_site(d, LED_FFN);
        dev_rmsnorm(d, a->h, a->x, y->ffn_norm, N, m->D);
        dev_matmul(d, a->gu, a->h, (const struct mat *[]){&y->gate, &y->up}, 2, N); /* gu [N,2F] */
        dev_glu(d, a->ff, a->gu, N);                                            /* ff [N,F] */
        dev_matmul(d, a->h, a->ff, (const struct mat *[]){&y->down}, 1, N);     /* h [N,D] */
        TRY(comm_allreduce(&r->tp, a->h, N * m->D, LED_ACT, e));
        dev_add(d, a->x, a->h, N, m->D);
    }

    dev_site(d, LED_HEAD);
    if (b->n_out) {                                                             /* only rows somebody asked for */
        dev_rows(d, a->att, a->x, b->out_row, b->n_out, m->D);
        dev_rmsnorm(d, a->h, a->att, w->out_norm, b->n_out, m->D);
        dev_matmul(d, a->logits, a->h, (const struct mat *[]){&w->out}, 1, b->n_out); /* logits [n_out,V] */
    }
    int rc = dev_sync(d, e);
    dev_step_end(d);
    return rc;
}

/* The buffers of the pass, one list for sizing, taking and giving back. att doubles as the gathered rows of the head, so it is as wide as the wider. */
#define N_ACTS 7u
struct act_buf {
    float **p;
    size_t rows, cols;
};
static void list_acts(struct act_buf out[N_ACTS], struct acts *a, const struct model_shape *m)
{
    size_t N = a->max_tok, head = MAX((size_t)m->H * m->E, (size_t)m->D);
    const struct act_buf all[N_ACTS] = {{&a->x, N, m->D}, {&a->h, N, m->D}, {&a->qkv, N, (size_t)(m->H + 2 * m->G) * m->E}, {&a->att, N, head},
                                        {&a->gu, N, 2 * (size_t)m->F}, {&a->ff, N, m->F}, {&a->logits, a->max_out, m->V}};
    for (uint32_t i = 0; i < N_ACTS; i++) out[i] = all[i];
}
static bool act_bytes(const struct act_buf *b, size_t *bytes)
{
    size_t n;
    return mul_ok(b->rows, b->cols, &n) && mul_ok(n, sizeof(float), bytes);
}

uint64_t acts_bytes(const struct model_shape *m, uint32_t max_tok, uint32_t max_out)
{
    struct acts a = {.max_tok = max_tok, .max_out = max_out};
    struct act_buf b[N_ACTS];
    uint64_t sum = 0;
    list_acts(b, &a, m);
    for (uint32_t i = 0; i < N_ACTS; i++) {
        size_t n;
        if (!act_bytes(&b[i], &n) || !add_ok(sum, n, &sum)) return UINT64_MAX;
    }
    return sum;
}

int acts_open(struct acts *a, struct dev *d, uint32_t max_tok, uint32_t max_out, struct err *e)
{
    *a = (struct acts){.max_tok = max_tok, .max_out = max_out};
    struct act_buf b[N_ACTS];
    list_acts(b, a, d->m);
    for (uint32_t i = 0; i < N_ACTS; i++) {
        size_t bytes;
        if (!act_bytes(&b[i], &bytes)) return err_set(e, E_RANGE, "activations of %u tokens overflow", max_tok);
        TRY(d->op->alloc(d, bytes, false, (void **)b[i].p, e));
        a->bytes += bytes;
    }
    return OK;
}

void acts_close(struct acts *a, struct dev *d)
{
    struct act_buf b[N_ACTS];
    list_acts(b, a, d->m);
    for (uint32_t i = 0; i < N_ACTS; i++) {
        size_t bytes;
        if (act_bytes(&b[i], &bytes)) d->op->free(d, *b[i].p, bytes);
    }
    *a = (struct acts){0};
}
