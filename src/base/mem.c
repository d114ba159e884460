#include "base/mem.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Atomic uint64_t n_calls, fail_in;

static bool refuse(void)
{
    atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
    uint64_t f = atomic_load_explicit(&fail_in, memory_order_relaxed);
    if (LIKELY(f == 0)) return false;
    atomic_store_explicit(&fail_in, f - 1, memory_order_relaxed);
    return f == 1;
}

void *mem_alloc(size_t n, size_t size)
{
    size_t b;
    if (refuse() || !mul_ok(n, size, &b) || b > PTRDIFF_MAX) return NULL;
    return malloc(b ? b : 1);
}

void *mem_zalloc(size_t n, size_t size)
{
    size_t b;
    if (refuse() || !mul_ok(n, size, &b) || b > PTRDIFF_MAX) return NULL;
    return calloc(b ? b : 1, 1);
}

void *mem_realloc(void *p, size_t n, size_t size)
{
    size_t b;
    if (refuse() || !mul_ok(n, size, &b) || b > PTRDIFF_MAX) return NULL;
    return realloc(p, b ? b : 1);
}

void mem_free(void *p) { free(p); }

char *mem_strndup(const char *p, size_t n)
{
    char *s = n < SIZE_MAX ? mem_alloc(n + 1, 1) : NULL;
    if (!s) return NULL;
    if (n) memcpy(s, p, n);
    s[n] = 0;
    return s;
}

#define HUGE_PAGE ((size_t)2 << 20)

void *mem_big(size_t bytes)
{
    if (refuse() || bytes > PTRDIFF_MAX - HUGE_PAGE) return NULL;
    bytes = align_up(MAX(bytes, (size_t)1), 4096);
    /* Over-reserve to start on a huge-page border; the slack is given back at once. */
    size_t want = bytes >= HUGE_PAGE ? bytes + HUGE_PAGE : bytes;
    char *p = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (want == bytes) return p;
    char *a = (char *)align_up((size_t)p, HUGE_PAGE);
    if (a > p) munmap(p, (size_t)(a - p));
    if (a + bytes < p + want) munmap(a + bytes, (size_t)(p + want - (a + bytes)));
    madvise(a, bytes, MADV_HUGEPAGE); /* a wish: failure costs speed only */
    return a;
}

void *mem_sparse(size_t bytes)
{
    void *p = mem_big(bytes);
    if (p) madvise(p, align_up(MAX(bytes, (size_t)1), 4096), MADV_NOHUGEPAGE);
    return p;
}

void mem_big_free(void *p, size_t bytes)
{
    if (p) munmap(p, align_up(MAX(bytes, (size_t)1), 4096));
}

uint64_t mem_calls(void) { return atomic_load_explicit(&n_calls, memory_order_relaxed); }
void mem_fail_after(uint64_t n) { atomic_store_explicit(&fail_in, n, memory_order_relaxed); }
