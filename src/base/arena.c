#include "base/arena.h"
#include "base/mem.h"
#include <string.h>

struct arena_chunk {
    struct arena_chunk *next;
    size_t n, cap;
    _Alignas(16) char data[];
};

void *arena_alloc(struct arena *a, size_t n, size_t size)
{
    size_t b;
    if (!mul_ok(n, size, &b) || b > SIZE_MAX / 2) return NULL;
    b = align_up(MAX(b, (size_t)1), 16);
    if (a->max && (b > a->max || a->used > a->max - b)) return NULL;
    struct arena_chunk *c = a->head;
    if (!c || c->cap - c->n < b) {
        size_t cap = MAX(b, (size_t)16384);
        c = mem_zalloc(1, sizeof *c + cap);
        if (!c) return NULL;
        c->cap = cap;
        if (a->head && b > 4096) { /* a big piece of its own: keep filling the current chunk */
            c->next = a->head->next;
            a->head->next = c;
        } else {
            c->next = a->head;
            a->head = c;
        }
    }
    void *p = c->data + c->n;
    c->n += b;
    a->used += b;
    return p;
}

char *arena_strndup(struct arena *a, const char *p, size_t n)
{
    char *s = n < SIZE_MAX ? arena_alloc(a, n + 1, 1) : NULL;
    if (s && n) memcpy(s, p, n);
    return s;
}

void arena_free(struct arena *a)
{
    for (struct arena_chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        mem_free(c);
    }
    *a = (struct arena){.max = a->max};
}
