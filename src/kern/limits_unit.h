/* limits_unit.h: the loops that limits.c times, one per unit of the CPU; each file limits_<isa>.c holds those of its level.
 * Private to limits*.c. A compute loop runs `iters` times over independent accumulators in registers and returns the operations
 * done (a multiply-add is 2). */
#pragma once
#include "base/base.h"

typedef uint64_t lim_calc_fn(uint64_t iters);
lim_calc_fn lim_f32_base, lim_f32_avx2, lim_f32_avx512, lim_int8_avx512vnni, lim_bf16_avx512bf16, lim_bf16_amx, lim_int8_amx;

/* Reads n bytes (a multiple of LIM_CHUNK, 64-byte aligned) in the given order; returns something that depends on all of them. */
enum lim_order { LIM_PLAIN, LIM_AHEAD, LIM_TWO, LIM_ROWS, LIM_ROWS_AHEAD, LIM_ORDER_N };
enum { LIM_CHUNK = 1 << 20 };
typedef uint64_t lim_read_fn(const void *p, size_t n, enum lim_order o);
lim_read_fn lim_read_base, lim_read_avx512;

/* Twelve independent accumulators, each its own variable: an array in asm operands would live in memory. */
#define LIM_12(X) X(c0) X(c1) X(c2) X(c3) X(c4) X(c5) X(c6) X(c7) X(c8) X(c9) X(c10) X(c11)
