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

/* Buffers of the pass. att doubles as the gathered rows of the head, so it is as wide as the wider of the two. */
int acts_open(struct acts *a, struct dev *d, uint32_t max_tok, uint32_t max_out, struct err *e)
{
    const struct model_shape *m = d->m;
    *a = (struct acts){.max_tok = max_tok, .max_out = max_out};
    size_t N = max_tok, head = MAX((size_t)m->H * m->E, (size_t)m->D);
    struct {
        float **p;
        size_t rows, cols;
    } want[] = {{&a->x, N, m->D},         {&a->h, N, m->D},          {&a->qkv, N, (size_t)(m->H + 2 * m->G) * m->E}, {&a->att, N, head},
                {&a->gu, N, 2 * (size_t)m->F}, {&a->ff, N, m->F}, {&a->logits, max_out, m->V}};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        size_t n, bytes;
        if (!mul_ok(want[i].rows, want[i].cols, &n) || !mul_ok(n, sizeof(float), &bytes))
            return err_set(e, E_RANGE, "activations of %u tokens overflow", max_tok);
        TRY(d->op->alloc(d, bytes, false, (void **)want[i].p, e));
        a->bytes += bytes;
    }
    return OK;
}

void acts_close(struct acts *a, struct dev *d)
{
    const struct model_shape *m = d->m;
    size_t N = a->max_tok, f = sizeof(float), head = MAX((size_t)m->H * m->E, (size_t)m->D);
    d->op->free(d, a->x, N * m->D * f);
    d->op->free(d, a->h, N * m->D * f);
    d->op->free(d, a->qkv, N * (m->H + 2 * m->G) * m->E * f);
    d->op->free(d, a->att, N * head * f);
    d->op->free(d, a->gu, N * 2 * m->F * f);
    d->op->free(d, a->ff, N * m->F * f);
    d->op->free(d, a->logits, (size_t)a->max_out * m->V * f);
    *a = (struct acts){0};
}
