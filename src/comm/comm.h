/* comm.h: groups of ranks and collectives over point-to-point messages. Every message is counted here, where it is handed to the wire, by the
 * sender; a group of one sends nothing and counts nothing (rules R7, R11). Engine thread only.
 *
 * The canonical sum: a binary tree over ranks in the group's order (a missing right child passes the left up), f32 adds. One-shot and two-shot receive all
 * contributions and apply exactly this tree, so the choice by size never changes a bit. */
#pragma once
#include "comm/ledger.h"
#include "comm/wire.h"

#define COMM_MAX_RANKS 64u
#define COMM_ONE_SHOT_BYTES 65536u /* payloads up to this go one-shot: one round instead of two */

struct group {
    struct wire *w;        /* borrowed */
    struct ledger *led;    /* borrowed */
    enum led_phase phase;  /* set by the forward pass for the step */
    uint32_t rank, size;   /* position in the group, ranks in it */
    const int *peer;       /* [size] wire ranks of the group's members */
    const enum led_dom *dom; /* [size] domain of the pair (this rank, member) */
    float *tmp;            /* work space for reductions, owned by the caller: size * n floats of the largest op; NULL on a dry wire */
};

/* x [n] f32, summed over the group in place, same bits on every rank. E_PEER from the wire. */
int comm_allreduce(struct group *g, float *x, uint32_t n, enum led_class c, struct err *e);
/* out [size][bytes] <- in [bytes] of every rank. out and in may be NULL on a dry wire. */
int comm_allgather(struct group *g, void *out, const void *in, size_t bytes, enum led_class c, struct err *e);
/* One message; the receiver counts the sync. */
int comm_send(struct group *g, uint32_t to, const void *p, size_t bytes, enum led_class c, struct err *e);
int comm_recv(struct group *g, uint32_t from, void *p, size_t bytes, enum led_class c, struct err *e);
