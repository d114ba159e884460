/* kv.h: the KV cache: one slab cut into blocks of 16 tokens, reference counts, and per-sequence block tables. Engine thread only. */
#pragma once
#include "dev/dev.h"

struct kv_pool {
    struct kv_view view;
    struct dev *dev;      /* borrowed */
    size_t slab_bytes;
    uint32_t n_free;
    uint32_t *ref;        /* [n_blk] owned; 0 <=> on the free list */
    blk_id *free;         /* [n_blk] owned, stack of free blocks */
};
/* n_blk blocks for all layers of d->m. */
int kv_open(struct kv_pool *p, struct dev *d, uint32_t n_blk, enum kv_fmt fmt, struct err *e);
void kv_close(struct kv_pool *p);
/* One block with one reference; E_AGAIN when none is free. */
int kv_take(struct kv_pool *p, blk_id *out);
void kv_ref(struct kv_pool *p, blk_id b);
void kv_unref(struct kv_pool *p, blk_id b);
/* Proves the invariants: every block either free (once) or referenced. */
void kv_check(const struct kv_pool *p);

/* A sequence's tokens and where its KV lies. */
struct seq {
    blk_id *blk;          /* owned, [max_blk] */
    uint32_t n_blk, max_blk;
    uint32_t n_done;      /* tokens whose KV is written */
};
int seq_init(struct seq *s, uint32_t max_tok, struct err *e);
/* Makes room for positions up to n_tok-1. E_AGAIN: pool exhausted; E_RANGE: over max_tok. */
int seq_reserve(struct seq *s, struct kv_pool *p, uint32_t n_tok, struct err *e);
/* Forgets all KV from position n_tok on and gives whole blocks back. */
void seq_cut(struct seq *s, struct kv_pool *p, uint32_t n_tok);
void seq_free(struct seq *s, struct kv_pool *p);
