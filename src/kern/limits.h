/* limits.h: what this machine can do, measured in this process beside the work: memory reading and the arithmetic peaks of the
 * units that a kernel level uses. Short rounds, so that they can be interleaved with the work (A B A B); the best round of each
 * is the limit. Engine thread. */
#pragma once
#include "base/err.h"
#include "base/pool.h"
#include "kern/kern.h"

struct limits {
    double read_gbs;    /* reading memory larger than any cache: best of several access patterns */
    double f32_gflops;  /* FMA at the level's vector width */
    double bf16_gflops; /* AMX tiles, else the better of VDPBF16PS and the f32 figure (bf16 weights are expanded to it) */
    double int8_gops;   /* AMX tiles, else VPDPBUSD, else the f32 figure */
    double vnni_gops, vbf16_gflops; /* of VPDPBUSD and VDPBF16PS themselves, 0 where absent */
    double join_ns;                 /* one pool_run over all workers, warm */
};
struct limits_run;
/* bytes: memory to read over (0: 1 GiB), taken for as long as the run is open. */
int limits_open(struct limits_run **out, struct pool *pool, enum isa level, size_t bytes, struct err *e);
void limits_round(struct limits_run *r); /* about 0.2 s */
void limits_get(const struct limits_run *r, struct limits *best);  /* of all rounds */
void limits_last(const struct limits_run *r, struct limits *last); /* of the latest round: what the machine could do just then */
void limits_close(struct limits_run *r);
