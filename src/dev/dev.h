/* dev.h: where tensors live and operations run. dev_ops is the whole contract of a device (CPU, dry, CUDA to come); the dev_* wrappers check
 * sizes, count into the ledger and call the op. Activations are f32 on the CPU device, rows `ld` elements apart. All of it belongs to the engine thread.
 * Ops on the hot path cannot fail (everything was sized at open); device faults surface at dev_sync. */
#pragma once
#include "base/err.h"
#include "base/pool.h"
#include "comm/ledger.h"
#include "dev/batch.h"
#include "kern/kern.h"
#include "model/weights.h"

struct dev;

/* KV slab in order [layer][block]; a block holds K of all heads, then V of all heads (layout: kern.h). */
struct kv_view {
    uint8_t *slab;    /* device memory */
    uint32_t n_blk;
    enum kv_fmt fmt;
    uint32_t G, E;
    size_t head_bytes; /* K (or V) of one head of one block: 16*E*elem */
    size_t blk_bytes;  /* 2*G*head_bytes */
};

struct cand { /* a row's best tokens and its normaliser */
    float max, lse; /* lse: log(sum(exp(logit))) */
    uint32_t n;
    float *val;     /* [k] descending */
    int32_t *id;
};

struct dev_opt {
    enum isa isa;
    uint32_t n_thread;
    uint32_t max_tok, max_seq;      /* rows and sequences of the largest step */
    uint32_t max_blk;               /* KV blocks of the pool */
};

struct dev_ops {
    const char *name;
    int (*open)(struct dev *, const struct dev_opt *, struct err *);
    void (*close)(struct dev *);
    /* Device memory, zeroed, 64-byte aligned at least. sparse: touched here and there (a KV slab mostly empty), so no huge pages. */
    int (*alloc)(struct dev *, size_t bytes, bool sparse, void **out, struct err *);
    void (*free)(struct dev *, void *, size_t bytes);
    void (*get)(struct dev *, void *host, const void *d, size_t bytes); /* device -> host */
    /* Brings a matrix into the device's own form (repack, upload) until the device is closed; m->w and m->layout change, m->file stays. */
    int (*mat_load)(struct dev *, struct mat *m, struct err *);
    /* Rotary tables and the like; called once after the shape is known. factors: [rope_dim/2] divisors or NULL. */
    int (*model)(struct dev *, const struct model_shape *, const float *factors, struct err *);

    void (*step_begin)(struct dev *, const struct batch *);
    void (*embed)(struct dev *, float *y, const struct mat *w);                                              /* y [n_tok,D] = rows batch->tok of w */
    void (*rmsnorm)(struct dev *, float *y, const float *x, const float *g, uint32_t n, uint32_t d, float eps);
    void (*matmul)(struct dev *, float *y, const float *x, const struct mat *const *w, uint32_t n_w, uint32_t n); /* y [n, sum rows] = x [n, cols] w^T + bias */
    void (*rope_kv)(struct dev *, float *qkv, const float *q_norm, const float *k_norm, const struct kv_view *, uint32_t layer);
    void (*attend)(struct dev *, float *y, const float *qkv, const struct kv_view *, uint32_t layer);        /* y [n_tok, H*E] */
    void (*glu)(struct dev *, float *y, const float *gate_up, uint32_t n, uint32_t f);                       /* y [n,F] of [n,2F] */
    void (*add)(struct dev *, float *x, const float *y, uint32_t n, uint32_t d);                             /* x += y */
    void (*rows)(struct dev *, float *y, const float *x, const uint32_t *row, uint32_t n, uint32_t d);       /* y[i] = x[row[i]] */
    void (*topk)(struct dev *, struct cand *, const float *logits, uint32_t n, uint32_t v, uint32_t k);
    int (*sync)(struct dev *, struct err *);
    uint64_t (*joins)(struct dev *); /* device syncs so far */
};
extern const struct dev_ops dev_cpu, dev_dry;

struct dev {
    const struct dev_ops *op;
    const struct model_shape *m;  /* borrowed */
    struct ledger *led;           /* borrowed; set phase and site through dev_site only */
    const struct batch *batch;    /* during a step */
    enum led_site site;
    void *impl;                   /* owned by the device */
    uint64_t w_bytes;             /* device memory of matrices made by mat_load */
    uint64_t t_site, j_site;      /* when the current site began: ns, joins */
};

int dev_open(struct dev *d, const struct dev_ops *op, const struct dev_opt *o, const struct model_shape *m, struct ledger *led, struct err *e);
void dev_close(struct dev *d);
struct pool *dev_pool(struct dev *d);   /* the CPU device's workers, NULL for others */
const struct kern *dev_kern(struct dev *d);

/* A step: begin, ops with dev_site before each group of ops, end. */
void dev_step_begin(struct dev *d, const struct batch *b);
void dev_site(struct dev *d, enum led_site s);
void dev_step_end(struct dev *d);

void dev_embed(struct dev *d, float *y, const struct mat *w);
void dev_rmsnorm(struct dev *d, float *y, const float *x, const float *g, uint32_t n, uint32_t dim);
void dev_matmul(struct dev *d, float *y, const float *x, const struct mat *const *w, uint32_t n_w, uint32_t n);
void dev_rope_kv(struct dev *d, float *qkv, const float *q_norm, const float *k_norm, const struct kv_view *kv, uint32_t layer);
void dev_attend(struct dev *d, float *y, const float *qkv, const struct kv_view *kv, uint32_t layer);
void dev_glu(struct dev *d, float *y, const float *gate_up, uint32_t n);
void dev_add(struct dev *d, float *x, const float *y, uint32_t n, uint32_t dim);
void dev_rows(struct dev *d, float *y, const float *x, const uint32_t *row, uint32_t n, uint32_t dim);
void dev_topk(struct dev *d, struct cand *c, const float *logits, uint32_t n, uint32_t k);
int dev_sync(struct dev *d, struct err *e);
