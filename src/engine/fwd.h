/* fwd.h: THE forward pass. One function for every family, device and rank count; the planner runs it over dry devices and wires. Engine thread only. */
#pragma once
#include "comm/comm.h"
#include "engine/kv.h"

/* Activation buffers on the device, sized once for max_tok rows and max_out logit rows. */
struct acts {
    float *x;      /* [N,D] residual stream */
    float *h;      /* [N,D] normed, or a block's output before it is added */
    float *qkv;    /* [N,(H+2G)*E] */
    float *att;    /* [N,H*E] */
    float *gu;     /* [N,2F] gate, up */
    float *ff;     /* [N,F] */
    float *logits; /* [max_out,V] */
    uint32_t max_tok, max_out;
    uint64_t bytes;
};
struct rank { /* one per process */
    const struct model_shape *m; /* borrowed */
    struct weights *w;           /* borrowed */
    struct dev *dev;             /* borrowed */
    struct group tp;             /* tensor-parallel group */
    struct kv_view *kv;          /* borrowed */
    struct acts a;
};
/* Bytes that acts_open takes; UINT64_MAX when they overflow. */
uint64_t acts_bytes(const struct model_shape *m, uint32_t max_tok, uint32_t max_out);
int acts_open(struct acts *a, struct dev *d, uint32_t max_tok, uint32_t max_out, struct err *e);
void acts_close(struct acts *a, struct dev *d);

/* Runs batch b: writes KV of all rows, leaves logits [b->n_out,V] of the rows b->out_row in r->a.logits. Fails only with E_PEER / E_DEV. */
int fwd_step(struct rank *r, const struct batch *b, struct err *e);
