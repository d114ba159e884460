/* buf.h: slices, a growable byte buffer with a cap, UTF-8, and names close to a misspelt one. Any thread (one at a time per object). */
#pragma once
#include "base/base.h"

/* A borrowed run of bytes, not NUL-terminated. */
struct str {
    const char *p;
    size_t n;
};
struct str str_of(const char *z); /* z's bytes without the NUL */
bool str_eq(struct str a, const char *z);
bool str_same(struct str a, struct str b);

/* Growable bytes, owned. Zero-initialised is empty and valid (max 0 = no cap). After an append fails (memory, cap), `bad` stays set and
 * later appends do nothing: check once at the end with buf_ok. p is NUL-terminated whenever n > 0 was ever appended; may be NULL when empty. */
struct buf {
    char *p;
    size_t n, cap, max;
    bool bad;
};
void buf_init(struct buf *b, size_t max);
void buf_free(struct buf *b);
void buf_clear(struct buf *b); /* keeps memory, clears bad */
bool buf_reserve(struct buf *b, size_t more);
void buf_put(struct buf *b, const void *p, size_t n);
void buf_putc(struct buf *b, char c);
void buf_puts(struct buf *b, const char *z);
void buf_printf(struct buf *b, const char *fmt, ...) ATTR_PRINTF(2, 3);
void buf_utf8(struct buf *b, uint32_t cp);
static inline bool buf_ok(const struct buf *b) { return !b->bad; }
/* "..." with JSON escapes; invalid UTF-8 becomes U+FFFD, so that the result is always valid JSON. */
void buf_json_str(struct buf *b, const char *p, size_t n);

/* UTF-8 (RFC 3629: no surrogates, no overlong forms, up to U+10FFFF).
 * utf8_next: reads one code point at p (n > 0), stores it, returns its length 1..4; an invalid sequence stores 0xFFFFFFFF and returns 1. */
uint32_t utf8_next(const char *p, size_t n, uint32_t *cp);
/* Encodes cp (<= 0x10FFFF) to out[4], returns 1..4. */
uint32_t utf8_put(char *out, uint32_t cp);
/* Offset of the first invalid byte, or n when all is valid. */
size_t utf8_check(const char *p, size_t n);
/* Length of the longest prefix that does not end inside a still possible character. */
size_t utf8_whole(const char *p, size_t n);

/* Of `n` names (i -> name(ud, i), NULL entries skipped) the one nearest to `got` by edit distance, or NULL when none is near enough to be meant. */
const char *near_name(const char *got, const char *(*name)(const void *ud, size_t i), const void *ud, size_t n);
