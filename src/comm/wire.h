/* wire.h: moves bytes between ranks and knows no tensors. One struct of pointers a transport; wires are registered in wire.c. Engine thread only. */
#pragma once
#include "base/err.h"

struct wire;
struct wreq { /* one pending transfer; owned by the caller until wait returns */
    int peer;
    uint32_t tag;
    size_t bytes;
    void *impl;
};
struct wire_ops {
    const char *name;
    int (*isend)(struct wire *, int peer, const void *p, size_t bytes, uint32_t tag, struct wreq *r);
    int (*irecv)(struct wire *, int peer, void *p, size_t bytes, uint32_t tag, struct wreq *r);
    int (*wait)(struct wire *, struct wreq *r, uint32_t n, struct err *e); /* E_PEER on loss or deadline */
    void (*close)(struct wire *);
};
struct wire {
    const struct wire_ops *op;
    int rank, size;
    uint64_t sent_msgs, sent_bytes, recv_msgs, recv_bytes; /* fact, counted by the wire itself (test T2: sums are equal) */
    void *impl;
};
/* One rank: any transfer is a programmer's error. */
void wire_self_open(struct wire *w);
/* Counts and moves nothing: the planner's wire. rank of size ranks. */
void wire_dry_open(struct wire *w, int rank, int size);
void wire_close(struct wire *w);
