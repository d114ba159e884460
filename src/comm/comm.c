#include "comm/comm.h"
#include <string.h>

/* An op is a sync of the farthest domain that any of its messages crosses. */
static enum led_dom far_dom(const struct group *g)
{
    enum led_dom d = LED_NODE;
    for (uint32_t r = 0; r < g->size; r++)
        if (r != g->rank && g->dom[r] > d) d = g->dom[r];
    return d;
}

static struct led_comm *row(struct group *g, enum led_class c, enum led_kind k, enum led_dom d) { return &g->led->comm[g->phase][c][k][d]; }

static int put(struct group *g, uint32_t to, const void *p, size_t bytes, enum led_class c, enum led_kind k, struct wreq *r)
{
    struct led_comm *l = row(g, c, k, g->dom[to]);
    l->msgs++;
    l->bytes += bytes;
    return g->w->op->isend(g->w, g->peer[to], p, bytes, (uint32_t)k, r);
}
static int take(struct group *g, uint32_t from, void *p, size_t bytes, enum led_kind k, struct wreq *r)
{
    return g->w->op->irecv(g->w, g->peer[from], p, bytes, (uint32_t)k, r);
}

/* In one process with rank 0 counting for the group, calls and syncs are kept once per op: each rank counts its own share of messages, rank 0 of the
 * group the op itself, so that a merge over ranks gives the totals of communication-density section 3. */
static void op_done(struct group *g, enum led_class c, enum led_kind k, uint64_t payload, uint32_t rounds)
{
    if (g->rank != 0) return;
    struct led_comm *l = row(g, c, k, far_dom(g));
    l->calls++;
    l->payload += payload;
    l->syncs++;
    l->rounds += rounds;
}

/* Canonical tree over t contributions, at + r*stride, result in at[0..n). */
static void tree_sum(float *at, size_t stride, uint32_t t, uint32_t n)
{
    for (uint32_t step = 1; step < t; step *= 2)
        for (uint32_t r = 0; r + step < t; r += 2 * step) {
            float *a = at + r * stride;
            const float *b = at + (r + step) * stride;
            for (uint32_t i = 0; i < n; i++) a[i] += b[i];
        }
}

static void cut(uint32_t n, uint32_t t, uint32_t r, uint32_t *i0, uint32_t *i1)
{
    *i0 = (uint32_t)((uint64_t)n * r / t);
    *i1 = (uint32_t)((uint64_t)n * (r + 1) / t);
}

int comm_allreduce(struct group *g, float *x, uint32_t n, enum led_class c, struct err *e)
{
    uint32_t t = g->size, q = 0;
    if (t == 1 || n == 0) return OK;
    CHECK(t <= COMM_MAX_RANKS);
    struct wreq req[2 * COMM_MAX_RANKS];
    bool one = (uint64_t)n * 4 <= COMM_ONE_SHOT_BYTES, dry = x == NULL;
    uint32_t m0, m1, a0, a1;
    cut(n, t, g->rank, &m0, &m1);
    if (one) {
        m0 = 0;
        m1 = n;
    }
    uint32_t own = m1 - m0;
    /* everyone's contribution to the part this rank sums, side by side in rank order */
    for (uint32_t r = 0; r < t; r++) {
        if (r == g->rank) {
            if (!dry) memcpy(g->tmp + (size_t)r * own, x + m0, own * sizeof(float));
            continue;
        }
        cut(n, t, r, &a0, &a1);
        if (one) {
            a0 = 0;
            a1 = n;
        }
        if (own) TRY(take(g, r, dry ? NULL : g->tmp + (size_t)r * own, own * sizeof(float), LED_ALLREDUCE, &req[q++]));
        if (a1 > a0) TRY(put(g, r, dry ? NULL : x + a0, (a1 - a0) * sizeof(float), c, LED_ALLREDUCE, &req[q++]));
    }
    TRY(g->w->op->wait(g->w, req, q, e));
    if (!dry) {
        tree_sum(g->tmp, own, t, own);
        memcpy(x + m0, g->tmp, own * sizeof(float));
    }
    if (!one) {
        q = 0;
        for (uint32_t r = 0; r < t; r++) {
            if (r == g->rank) continue;
            cut(n, t, r, &a0, &a1);
            if (a1 > a0) TRY(take(g, r, dry ? NULL : x + a0, (a1 - a0) * sizeof(float), LED_ALLREDUCE, &req[q++]));
            if (own) TRY(put(g, r, dry ? NULL : x + m0, own * sizeof(float), c, LED_ALLREDUCE, &req[q++]));
        }
        TRY(g->w->op->wait(g->w, req, q, e));
    }
    op_done(g, c, LED_ALLREDUCE, (uint64_t)n * 4, one ? 1 : 2);
    return OK;
}

int comm_allgather(struct group *g, void *out, const void *in, size_t bytes, enum led_class c, struct err *e)
{
    uint32_t t = g->size, q = 0;
    if (out && in) memmove((uint8_t *)out + g->rank * bytes, in, bytes);
    if (t == 1 || bytes == 0) return OK;
    CHECK(t <= COMM_MAX_RANKS);
    struct wreq req[2 * COMM_MAX_RANKS];
    for (uint32_t r = 0; r < t; r++) {
        if (r == g->rank) continue;
        TRY(take(g, r, out ? (uint8_t *)out + r * bytes : NULL, bytes, LED_ALLGATHER, &req[q++]));
        TRY(put(g, r, in, bytes, c, LED_ALLGATHER, &req[q++]));
    }
    TRY(g->w->op->wait(g->w, req, q, e));
    op_done(g, c, LED_ALLGATHER, bytes, 1);
    return OK;
}

int comm_send(struct group *g, uint32_t to, const void *p, size_t bytes, enum led_class c, struct err *e)
{
    struct wreq r;
    CHECK(to < g->size && to != g->rank);
    if (bytes == 0) return OK;
    TRY(put(g, to, p, bytes, c, LED_P2P, &r));
    return g->w->op->wait(g->w, &r, 1, e);
}

int comm_recv(struct group *g, uint32_t from, void *p, size_t bytes, enum led_class c, struct err *e)
{
    struct wreq r;
    CHECK(from < g->size && from != g->rank);
    if (bytes == 0) return OK;
    TRY(take(g, from, p, bytes, LED_P2P, &r));
    TRY(g->w->op->wait(g->w, &r, 1, e));
    struct led_comm *l = row(g, c, LED_P2P, g->dom[from]);
    l->calls++;
    l->payload += bytes;
    l->syncs++;
    l->rounds++;
    return OK;
}
