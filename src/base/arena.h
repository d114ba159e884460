/* arena.h: bump allocator freed as one. Not thread-safe. */
#pragma once
#include "base/base.h"

struct arena_chunk;
/* Zero-initialised is valid (max 0 = no cap on the total). */
struct arena {
    struct arena_chunk *head; /* owned */
    size_t used, max;
};
/* n*size zeroed bytes aligned to 16; NULL over the cap or without memory. Lives until arena_free. */
void *arena_alloc(struct arena *a, size_t n, size_t size) ATTR_MUST;
/* Copy of n bytes plus a NUL. */
char *arena_strndup(struct arena *a, const char *p, size_t n) ATTR_MUST;
void arena_free(struct arena *a);
