/* pool.h: fork-join worker threads for CPU kernels. The calling thread is worker 0. Workers are pinned; a waiting worker spins at most
 * 50 us, then sleeps (futex); after two spins that ran out within 10 ms it sleeps sooner, so a busy neighbour costs little.
 * One caller at a time (the engine thread). */
#pragma once
#include "base/err.h"

struct pool;
/* piece `i` of `n`, run by worker `w`: results must not depend on w. */
typedef void pool_fn(void *ud, uint32_t i, uint32_t n, uint32_t w);

/* n_thread >= 1 (1 = no extra thread). pin: workers and the caller are pinned one per core. */
int pool_open(struct pool **out, uint32_t n_thread, bool pin, struct err *e);
void pool_close(struct pool *p);
uint32_t pool_size(const struct pool *p);
/* Runs fn for pieces 0..n-1, each once, taken from an atomic counter by whoever is free; returns when all are done. n <= 1 runs inline
 * without waking anybody. p may be NULL (all inline). */
void pool_run(struct pool *p, pool_fn *fn, void *ud, uint32_t n);
/* Number of pool_run calls that woke the workers so far (ledger: joins). */
uint64_t pool_joins(const struct pool *p);
