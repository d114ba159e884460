/* test_comm.c: collectives: the canonical sum as bits over a real (in-process) wire, and counts against the closed formulas over the dry one. */
#include "base/half.h"
#include "base/mem.h"
#include "comm/comm.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* ---- a wire of mailboxes between threads */

struct letter {
    struct letter *next;
    size_t n;
    uint32_t tag;
    char data[];
};
struct post {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    struct letter *box[8][8]; /* from, to: oldest first */
};
struct slot {
    void *to;
};
static int mem_isend(struct wire *w, int peer, const void *p, size_t bytes, uint32_t tag, struct wreq *r)
{
    struct post *o = w->impl;
    struct letter *l = mem_alloc(1, sizeof *l + bytes);
    assert_non_null(l);
    *l = (struct letter){.n = bytes, .tag = tag};
    memcpy(l->data, p, bytes);
    pthread_mutex_lock(&o->mu);
    struct letter **at = &o->box[w->rank][peer];
    while (*at) at = &(*at)->next;
    *at = l;
    pthread_cond_broadcast(&o->cv);
    pthread_mutex_unlock(&o->mu);
    w->sent_msgs++;
    w->sent_bytes += bytes;
    *r = (struct wreq){.peer = -1};
    return OK;
}
static int mem_irecv(struct wire *w, int peer, void *p, size_t bytes, uint32_t tag, struct wreq *r)
{
    (void)w;
    *r = (struct wreq){peer, tag, bytes, p};
    return OK;
}
static int mem_wait(struct wire *w, struct wreq *r, uint32_t n, struct err *e)
{
    (void)e;
    struct post *o = w->impl;
    for (uint32_t i = 0; i < n; i++) {
        if (r[i].peer < 0) continue;
        pthread_mutex_lock(&o->mu);
        while (!o->box[r[i].peer][w->rank]) pthread_cond_wait(&o->cv, &o->mu);
        struct letter *l = o->box[r[i].peer][w->rank];
        o->box[r[i].peer][w->rank] = l->next;
        pthread_mutex_unlock(&o->mu);
        assert_int_equal(l->n, r[i].bytes);
        assert_int_equal(l->tag, r[i].tag);
        memcpy(r[i].impl, l->data, l->n);
        w->recv_msgs++;
        w->recv_bytes += l->n;
        mem_free(l);
    }
    return OK;
}
static void mem_close(struct wire *w) { (void)w; }
static const struct wire_ops wire_mem = {"mem", mem_isend, mem_irecv, mem_wait, mem_close};

struct member {
    pthread_t th;
    struct group g;
    struct wire w;
    struct ledger led;
    float *x;
    uint32_t n;
    uint8_t gather[8 * 12];
    int got;
};
static const int peers[] = {0, 1, 2, 3, 4, 5, 6, 7};

static void *member_main(void *ud)
{
    struct member *m = ud;
    struct err e;
    char mine[12];
    memset(mine, 'a' + (int)m->g.rank, sizeof mine);
    assert_int_equal(comm_allreduce(&m->g, m->x, m->n, LED_ACT, &e), OK);
    assert_int_equal(comm_allgather(&m->g, m->gather, mine, sizeof mine, LED_LOGIT, &e), OK);
    if (m->g.size > 1) { /* a hop from the first to the last */
        int v = 77;
        if (m->g.rank == 0) assert_int_equal(comm_send(&m->g, m->g.size - 1, &v, sizeof v, LED_CTL, &e), OK);
        if (m->g.rank == m->g.size - 1) assert_int_equal(comm_recv(&m->g, 0, &m->got, sizeof v, LED_CTL, &e), OK);
    }
    return NULL;
}

static float value(uint32_t r, uint32_t i) { return (float)((r * 7919 + i * 104729) % 1000003) * 1.1920929e-7f + (i % 5 == 0 ? 1e4f : 0.0f); }
/* The canonical tree written another way: recursion over the binary tree of strides. */
static float tree(uint32_t r, uint32_t step, uint32_t t, uint32_t i)
{
    if (step == 1) return value(r, i);
    uint32_t half = step / 2;
    float a = tree(r, half, t, i);
    return r + half < t ? a + tree(r + half, half, t, i) : a;
}

static void run_group(uint32_t t, uint32_t n, const enum led_dom *dom, struct ledger *sum)
{
    static struct member m[8];
    struct post post = {.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};
    memset(m, 0, sizeof m);
    for (uint32_t r = 0; r < t; r++) {
        m[r].w = (struct wire){.op = &wire_mem, .rank = (int)r, .size = (int)t, .impl = &post};
        m[r].g = (struct group){.w = &m[r].w, .led = &m[r].led, .phase = LED_DECODE, .rank = r, .size = t, .peer = peers, .dom = dom};
        m[r].g.tmp = mem_alloc((size_t)t * n + 1, sizeof(float));
        m[r].x = mem_alloc(n, sizeof(float));
        m[r].n = n;
        for (uint32_t i = 0; i < n; i++) m[r].x[i] = value(r, i);
    }
    for (uint32_t r = 0; r < t; r++) assert_int_equal(pthread_create(&m[r].th, NULL, member_main, &m[r]), 0);
    uint64_t sent = 0, got = 0;
    *sum = (struct ledger){0};
    uint32_t top = 1;
    while (top < t) top *= 2;
    for (uint32_t r = 0; r < t; r++) pthread_join(m[r].th, NULL);
    for (uint32_t r = 0; r < t; r++) {
        for (uint32_t i = 0; i < n; i++)
            if (f32_bits(m[r].x[i]) != f32_bits(tree(0, top, t, i))) fail_msg("rank %u of %u, element %u of %u", r, t, i, n);
        for (uint32_t k = 0; k < t; k++)
            for (uint32_t b = 0; b < 12; b++) assert_int_equal(m[r].gather[k * 12 + b], 'a' + (int)k);
        sent += m[r].w.sent_bytes;
        got += m[r].w.recv_bytes;
        led_merge(sum, &m[r].led);
        mem_free(m[r].g.tmp);
        mem_free(m[r].x);
    }
    if (t > 1) assert_int_equal(m[t - 1].got, 77);
    assert_int_equal(sent, got);
    uint64_t bytes = 0;
    for (int k = 0; k < LED_KIND_N; k++)
        for (int c = 0; c < LED_CLASS_N; c++)
            for (int d = 0; d < LED_DOM_N; d++) bytes += sum->comm[LED_DECODE][c][k][d].bytes;
    assert_int_equal(bytes, sent); /* the ledger is what the wire saw */
}

static const enum led_dom one_node[8] = {LED_NODE, LED_NODE, LED_NODE, LED_NODE, LED_NODE, LED_NODE, LED_NODE, LED_NODE};

static void canonical_sum(void **st)
{
    (void)st;
    struct ledger l;
    static const uint32_t sizes[] = {1, 2, 3, 5, 100, 16384, 16385, 50000}; /* 16384 floats: the largest one-shot payload */
    for (uint32_t t = 1; t <= 8; t++)
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) run_group(t, sizes[i], one_node, &l);
}

static void counts_follow_the_formulas(void **st)
{
    (void)st;
    struct err e;
    for (uint32_t t = 1; t <= 8; t++) {
        struct ledger sum = {0};
        uint64_t small = 1000, large = 1 << 20; /* floats: one-shot, two-shot */
        for (uint32_t r = 0; r < t; r++) {
            struct ledger l = {0};
            struct wire w;
            wire_dry_open(&w, (int)r, (int)t);
            struct group g = {.w = &w, .led = &l, .phase = LED_DECODE, .rank = r, .size = t, .peer = peers, .dom = one_node};
            assert_int_equal(comm_allreduce(&g, NULL, (uint32_t)small, LED_ACT, &e), OK);
            g.phase = LED_PREFILL;
            assert_int_equal(comm_allreduce(&g, NULL, (uint32_t)large, LED_ACT, &e), OK);
            assert_int_equal(w.sent_bytes, l.comm[LED_DECODE][LED_ACT][LED_ALLREDUCE][LED_NODE].bytes + l.comm[LED_PREFILL][LED_ACT][LED_ALLREDUCE][LED_NODE].bytes);
            wire_close(&w);
            led_merge(&sum, &l);
        }
        const struct led_comm *a = &sum.comm[LED_DECODE][LED_ACT][LED_ALLREDUCE][LED_NODE], *b = &sum.comm[LED_PREFILL][LED_ACT][LED_ALLREDUCE][LED_NODE];
        uint64_t one = t > 1;
        assert_int_equal(a->syncs, one); /* communication-density 3.1: one-shot */
        assert_int_equal(a->rounds, one);
        assert_int_equal(a->msgs, t * (t - 1));
        assert_int_equal(a->bytes, t * (t - 1) * small * 4);
        assert_int_equal(b->syncs, one); /* two-shot */
        assert_int_equal(b->rounds, 2 * one);
        assert_int_equal(b->msgs, 2 * t * (t - 1));
        assert_int_equal(b->bytes, 2 * (t - 1) * large * 4);
    }
}

static void a_far_message_makes_a_net_sync(void **st)
{
    (void)st;
    struct ledger l;
    /* four ranks that all see the pair's domain by the peer alone: 0 and 1 near, 2 and 3 far (as rank 0 sees it) */
    static const enum led_dom two[8] = {LED_NODE, LED_NODE, LED_NET, LED_NET};
    run_group(4, 10, two, &l);
    assert_int_equal(l.comm[LED_DECODE][LED_ACT][LED_ALLREDUCE][LED_NET].syncs, 1);
    assert_int_equal(l.comm[LED_DECODE][LED_ACT][LED_ALLREDUCE][LED_NODE].syncs, 0);
    assert_true(l.comm[LED_DECODE][LED_ACT][LED_ALLREDUCE][LED_NODE].msgs > 0);
    assert_true(l.comm[LED_DECODE][LED_ACT][LED_ALLREDUCE][LED_NET].msgs > 0);
}

static void sums_differences_and_lines(void **st)
{
    (void)st;
    struct ledger a = {0}, b = {0};
    a.steps = 3;
    a.tok_out = 2;
    a.bytes_max_rank = 10;
    a.work[LED_DECODE][LED_FFN].w_bytes = 12600000ull * 2;
    a.work[LED_DECODE][LED_ATTN].kv_wbytes = 800000;
    a.work[LED_DECODE][LED_ATTN].dev_syncs = 54;
    a.comm[LED_DECODE][LED_ACT][LED_ALLREDUCE][LED_NODE] = (struct led_comm){.calls = 1, .payload = 8, .syncs = 10, .rounds = 2, .msgs = 30, .bytes = 4000, .ns = 5};
    b.bytes_max_rank = 20;
    b.steps = 1;
    struct ledger ab = a, ba = b;
    led_merge(&ab, &b);
    led_merge(&ba, &a);
    assert_int_equal(led_diff(&ab, &ba, NULL), 0);
    assert_int_equal(ab.bytes_max_rank, 20);
    assert_int_equal(ab.steps, 4);
    struct buf o = {0};
    assert_int_equal(led_diff(&a, &b, &o), 12);
    assert_non_null(strstr(o.p, "decode ffn w_bytes: 25200000 against 0"));
    buf_clear(&o);
    struct ledger c = a;
    c.comm[LED_DECODE][LED_ACT][LED_ALLREDUCE][LED_NODE].ns = 999; /* times never differ */
    assert_int_equal(led_diff(&a, &c, NULL), 0);
    led_line(&a, 1, 300, &o);
    assert_string_equal(o.p, "density B=1 ctx=300 | dev 12.6 MB read 400 kB written 27 joins | node 5 sync 15 msg 2000 B | net 0 per output token");
    struct ledger d = ab;
    led_since(&d, &b);
    assert_int_equal(d.steps, 3);
    buf_free(&o);
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(canonical_sum), cmocka_unit_test(counts_follow_the_formulas), cmocka_unit_test(a_far_message_makes_a_net_sync),
                                   cmocka_unit_test(sums_differences_and_lines)};
    return cmocka_run_group_tests_name("comm", t, NULL, NULL);
}
