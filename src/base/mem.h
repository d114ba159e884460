/* mem.h: all heap memory goes through here (checked sizes, counters, failure injection for tests). Any thread. */
#pragma once
#include "base/base.h"

/* n*size bytes, uninitialised / zeroed / resized (old contents kept); NULL when it cannot be had or n*size overflows. n*size == 0
 * gives a unique pointer. Free with mem_free. */
void *mem_alloc(size_t n, size_t size) ATTR_MUST;
void *mem_zalloc(size_t n, size_t size) ATTR_MUST;
void *mem_realloc(void *p, size_t n, size_t size) ATTR_MUST;
void mem_free(void *p);
/* Copy of n bytes plus a NUL. */
char *mem_strndup(const char *p, size_t n) ATTR_MUST;

/* Big, zeroed, page-aligned memory for weights, KV and activations: huge pages asked for; pages appear when first touched.
 * NULL when the address space cannot be had. */
void *mem_big(size_t bytes) ATTR_MUST;
/* The same in ordinary pages: for memory touched here and there, where a huge page would make 2 MiB of every touch. */
void *mem_sparse(size_t bytes) ATTR_MUST;
void mem_big_free(void *p, size_t bytes);

/* Number of mem_alloc/zalloc/realloc/big calls so far: a steady decode must not move it. */
uint64_t mem_calls(void);
/* Tests: the n-th following call (1 = next) returns NULL, once; 0 switches it off. */
void mem_fail_after(uint64_t n);
