#include "engine/kv.h"
#include "base/mem.h"

int kv_open(struct kv_pool *p, struct dev *d, uint32_t n_blk, enum kv_fmt fmt, struct err *e)
{
    const struct model_shape *m = d->m;
    *p = (struct kv_pool){.dev = d, .n_free = n_blk};
    p->view = (struct kv_view){.n_blk = n_blk, .fmt = fmt, .G = m->G, .E = m->E};
    size_t per = (size_t)KERN_BLK * m->E * kv_elem_bytes(fmt);
    p->view.head_bytes = per;
    p->view.blk_bytes = 2 * per * m->G;
    size_t b;
    if (!mul_ok(p->view.blk_bytes, n_blk, &b) || !mul_ok(b, m->L, &p->slab_bytes))
        return err_set(e, E_RANGE, "a KV cache of %u blocks overflows", n_blk);
    p->ref = mem_zalloc(n_blk, sizeof *p->ref);
    p->free = mem_alloc(n_blk, sizeof *p->free);
    if (!p->ref || !p->free) return err_set(e, E_NOMEM, "no memory for the tables of %u KV blocks", n_blk);
    /* lowest block first: a short run touches little of the slab */
    for (uint32_t i = 0; i < n_blk; i++) p->free[i] = n_blk - 1 - i;
    /* A short sequence touches the start of every layer's region: with huge pages that is 2 MiB a layer, a waste while regions are small. */
    bool sparse = p->view.blk_bytes * n_blk < ((size_t)16 << 20);
    return d->op->alloc(d, p->slab_bytes, sparse, (void **)&p->view.slab, e);
}

void kv_close(struct kv_pool *p)
{
    if (p->view.slab) p->dev->op->free(p->dev, p->view.slab, p->slab_bytes);
    mem_free(p->ref);
    mem_free(p->free);
    *p = (struct kv_pool){0};
}

int kv_take(struct kv_pool *p, blk_id *out)
{
    if (p->n_free == 0) return E_AGAIN;
    *out = p->free[--p->n_free];
    DCHECK(p->ref[*out] == 0);
    p->ref[*out] = 1;
    return OK;
}
void kv_ref(struct kv_pool *p, blk_id b)
{
    CHECK(b < p->view.n_blk && p->ref[b] > 0);
    p->ref[b]++;
}
void kv_unref(struct kv_pool *p, blk_id b)
{
    CHECK(b < p->view.n_blk && p->ref[b] > 0);
    if (--p->ref[b] == 0) p->free[p->n_free++] = b;
}
void kv_check(const struct kv_pool *p)
{
    uint32_t zero = 0;
    for (uint32_t i = 0; i < p->view.n_blk; i++) zero += p->ref[i] == 0;
    CHECK(zero == p->n_free);
    for (uint32_t i = 0; i < p->n_free; i++) CHECK(p->free[i] < p->view.n_blk && p->ref[p->free[i]] == 0);
}

int seq_init(struct seq *s, uint32_t max_tok, struct err *e)
{
    *s = (struct seq){.max_blk = ceil_div_u32(max_tok, KERN_BLK)};
    s->blk = mem_alloc(s->max_blk, sizeof *s->blk);
    return s->blk ? OK : err_set(e, E_NOMEM, "no memory for a sequence of %u tokens", max_tok);
}
int seq_reserve(struct seq *s, struct kv_pool *p, uint32_t n_tok, struct err *e)
{
    uint32_t need = ceil_div_u32(n_tok, KERN_BLK);
    if (need > s->max_blk) return err_set(e, E_RANGE, "%u tokens in a sequence of at most %u", n_tok, s->max_blk * KERN_BLK);
    while (s->n_blk < need) {
        if (kv_take(p, &s->blk[s->n_blk]) < 0)
            return err_set(e, E_AGAIN, "the KV cache of %u tokens is full", p->view.n_blk * KERN_BLK);
        s->n_blk++;
    }
    return OK;
}
void seq_cut(struct seq *s, struct kv_pool *p, uint32_t n_tok)
{
    CHECK(n_tok <= s->n_done);
    uint32_t keep = ceil_div_u32(n_tok, KERN_BLK);
    while (s->n_blk > keep) kv_unref(p, s->blk[--s->n_blk]);
    s->n_done = n_tok;
}
void seq_free(struct seq *s, struct kv_pool *p)
{
    while (s->n_blk) kv_unref(p, s->blk[--s->n_blk]);
    mem_free(s->blk);
    *s = (struct seq){0};
}
