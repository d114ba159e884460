/* pool.c: one 64-bit ticket carries generation, piece count and the next piece, so that a worker that wakes late can never take a piece of a
 * job it has not seen: fn and ud are read only after a piece was won, and the job cannot end before that piece is done. */
#include "base/pool.h"
#include "base/mem.h"
#include "base/os.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE_BITS 20u
#define PIECE_MASK ((1u << PIECE_BITS) - 1)
#define SPIN_NS 50000u
#define CALM_NS 10000000u

struct worker {
    pthread_t th;
    struct pool *p;
    uint32_t id;
};

struct pool {
    _Alignas(64) _Atomic uint64_t ticket; /* gen << 40 | n << 20 | next */
    _Alignas(64) _Atomic uint32_t done;   /* pieces finished */
    _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t gen;    /* futex word of sleeping workers */
    _Atomic uint32_t sleepers, stop;
    pool_fn *fn; /* written before ticket is published, read after a piece was won */
    void *ud;
    uint64_t joins;
    uint32_t n_thread, n_started;
    bool pin;
    struct worker *w; /* owned, [n_thread], entry 0 unused */
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void futex_wait(_Atomic uint32_t *w, uint32_t seen) { syscall(SYS_futex, w, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0); }
static void futex_wake(_Atomic uint32_t *w, int n) { syscall(SYS_futex, w, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0); }

/* Take and run pieces until none is left. */
static void work(struct pool *p, uint32_t id)
{
    for (;;) {
        uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
        if ((t & PIECE_MASK) >= (t >> PIECE_BITS & PIECE_MASK)) return;
        t = atomic_fetch_add_explicit(&p->ticket, 1, memory_order_acq_rel);
        uint32_t i = (uint32_t)(t & PIECE_MASK), n = (uint32_t)(t >> PIECE_BITS & PIECE_MASK);
        if (i >= n) return;
        p->fn(p->ud, i, n, id);
        if (atomic_fetch_add_explicit(&p->done, 1, memory_order_acq_rel) + 1 == n &&
            atomic_load_explicit(&p->caller_sleeps, memory_order_seq_cst))
            futex_wake(&p->done, 1);
    }
}

/* A waiter's patience: spins at most SPIN_NS; after two spins that ran out within CALM_NS it gives up its core at once instead. */
struct patience {
    uint64_t miss[2];
};

static bool spin_until_gen(struct pool *p, struct patience *pa, uint32_t seen)
{
    uint64_t t0 = os_now_ns();
    if (pa->miss[0] && t0 - pa->miss[0] < CALM_NS) {
        sched_yield();
        return atomic_load_explicit(&p->gen, memory_order_acquire) != seen;
    }
    for (;;) {
        for (int k = 0; k < 64; k++) {
            if (atomic_load_explicit(&p->gen, memory_order_acquire) != seen) return true;
            relax();
        }
        uint64_t t = os_now_ns();
        if (t - t0 > SPIN_NS) {
            pa->miss[0] = pa->miss[1];
            pa->miss[1] = t;
            return false;
        }
    }
}

static void *worker_main(void *ud)
{
    struct worker *w = ud;
    struct pool *p = w->p;
    struct patience pa = {{0}};
    uint32_t seen = 0;
    if (p->pin) os_pin(w->id);
    for (;;) {
        if (!spin_until_gen(p, &pa, seen)) {
            atomic_fetch_add_explicit(&p->sleepers, 1, memory_order_seq_cst);
            while (atomic_load_explicit(&p->gen, memory_order_seq_cst) == seen) futex_wait(&p->gen, seen);
            atomic_fetch_sub_explicit(&p->sleepers, 1, memory_order_relaxed);
        }
        seen = atomic_load_explicit(&p->gen, memory_order_acquire);
        if (atomic_load_explicit(&p->stop, memory_order_acquire)) return NULL;
        work(p, w->id);
    }
}

void pool_run(struct pool *p, pool_fn *fn, void *ud, uint32_t n)
{
    CHECK(n <= PIECE_MASK / 2);
    if (!p || p->n_thread == 1 || n <= 1) {
        for (uint32_t i = 0; i < n; i++) fn(ud, i, n, 0);
        return;
    }
    p->fn = fn;
    p->ud = ud;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    uint32_t g = atomic_load_explicit(&p->gen, memory_order_relaxed) + 1;
    atomic_store_explicit(&p->ticket, (uint64_t)g << (2 * PIECE_BITS) | (uint64_t)n << PIECE_BITS, memory_order_release);
    atomic_store_explicit(&p->gen, g, memory_order_seq_cst);
    if (atomic_load_explicit(&p->sleepers, memory_order_seq_cst)) futex_wake(&p->gen, INT_MAX);
    p->joins++;
    work(p, 0);
    uint64_t t0 = 0;
    for (;;) {
        for (int k = 0; k < 64; k++) {
            if (atomic_load_explicit(&p->done, memory_order_acquire) == n) return;
            relax();
        }
        uint64_t t = os_now_ns();
        if (!t0) t0 = t;
        if (t - t0 < SPIN_NS) continue;
        atomic_store_explicit(&p->caller_sleeps, 1, memory_order_seq_cst);
        uint32_t d;
        while ((d = atomic_load_explicit(&p->done, memory_order_seq_cst)) != n) futex_wait(&p->done, d);
        atomic_store_explicit(&p->caller_sleeps, 0, memory_order_relaxed);
        return;
    }
}

int pool_open(struct pool **out, uint32_t n_thread, bool pin, struct err *e)
{
    *out = NULL;
    if (n_thread < 1 || n_thread > 1024) return err_set(e, E_RANGE, "%u threads, 1 to 1024 are possible", n_thread);
    char *raw = mem_zalloc(1, sizeof(struct pool) + 64 + sizeof(void *));
    struct worker *w = mem_zalloc(n_thread, sizeof *w);
    if (!raw || !w) {
        mem_free(raw);
        mem_free(w);
        return err_set(e, E_NOMEM, "no memory for %u threads", n_thread);
    }
    struct pool *p = (struct pool *)align_up((size_t)raw + sizeof(void *), 64);
    ((void **)p)[-1] = raw; /* what to free */
    p->n_thread = n_thread;
    p->pin = pin;
    p->w = w;
    p->n_started = 1;
    if (pin) os_pin(0);
    for (uint32_t i = 1; i < n_thread; i++) {
        w[i] = (struct worker){.p = p, .id = i};
        int k = pthread_create(&w[i].th, NULL, worker_main, &w[i]);
        if (k != 0) {
            err_set(e, E_NOMEM, "cannot start thread %u of %u: %s", i + 1, n_thread, strerror(k));
            pool_close(p);
            return E_NOMEM;
        }
        p->n_started++;
    }
    *out = p;
    return OK;
}

void pool_close(struct pool *p)
{
    if (!p) return;
    atomic_store_explicit(&p->stop, 1, memory_order_release);
    atomic_fetch_add_explicit(&p->gen, 1, memory_order_seq_cst);
    futex_wake(&p->gen, INT_MAX);
    for (uint32_t i = 1; i < p->n_started; i++) pthread_join(p->w[i].th, NULL);
    mem_free(p->w);
    mem_free(((void **)p)[-1]);
}

uint32_t pool_size(const struct pool *p) { return p ? p->n_thread : 1; }
uint64_t pool_joins(const struct pool *p) { return p ? p->joins : 0; }
