#include "base/buf.h"
#include "base/mem.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct str str_of(const char *z) { return (struct str){z, strlen(z)}; }
bool str_eq(struct str a, const char *z)
{
    size_t n = strlen(z);
    return a.n == n && (n == 0 || memcmp(a.p, z, n) == 0);
}
bool str_same(struct str a, struct str b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }

void buf_init(struct buf *b, size_t max) { *b = (struct buf){.max = max}; }
void buf_free(struct buf *b)
{
    mem_free(b->p);
    *b = (struct buf){.max = b->max};
}
void buf_clear(struct buf *b)
{
    b->n = 0;
    b->bad = false;
    if (b->p) b->p[0] = 0;
}

bool buf_reserve(struct buf *b, size_t more)
{
    size_t need;
    if (b->bad) return false;
    if (!add_ok(b->n, more, &need) || need == SIZE_MAX || (b->max && need > b->max)) {
        b->bad = true;
        return false;
    }
    if (need + 1 <= b->cap) return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need + 1) cap = cap > SIZE_MAX / 2 ? need + 1 : cap * 2;
    char *p = mem_realloc(b->p, cap, 1);
    if (!p) {
        b->bad = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
    if (!buf_reserve(b, n)) return;
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = 0;
}
void buf_putc(struct buf *b, char c) { buf_put(b, &c, 1); }
void buf_puts(struct buf *b, const char *z) { buf_put(b, z, strlen(z)); }

void buf_printf(struct buf *b, const char *fmt, ...)
{
    char small[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->bad = true;
    } else if ((size_t)n < sizeof small) {
        buf_put(b, small, (size_t)n);
    } else if (buf_reserve(b, (size_t)n)) {
        va_start(ap, fmt);
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap);
        va_end(ap);
        b->n += (size_t)n;
    }
}

uint32_t utf8_put(char *out, uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 63));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 63));
        out[2] = (char)(0x80 | (cp & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 63));
    out[2] = (char)(0x80 | (cp >> 6 & 63));
    out[3] = (char)(0x80 | (cp & 63));
    return 4;
}

void buf_utf8(struct buf *b, uint32_t cp)
{
    char c[4];
    uint32_t n = utf8_put(c, cp <= 0x10FFFF ? cp : 0xFFFD);
    buf_put(b, c, n);
}

/* Bytes that a sequence starting with c needs, 0 when c can't start one; lo/hi bound the second byte (RFC 3629, section 4). */
static uint32_t utf8_need(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (c < 0x80) return 1;
    if (c >= 0xC2 && c <= 0xDF) return 2;
    if (c >= 0xE0 && c <= 0xEF) {
        if (c == 0xE0) *lo = 0xA0;
        if (c == 0xED) *hi = 0x9F;
        return 3;
    }
    if (c >= 0xF0 && c <= 0xF4) {
        if (c == 0xF0) *lo = 0x90;
        if (c == 0xF4) *hi = 0x8F;
        return 4;
    }
    return 0;
}

uint32_t utf8_next(const char *p, size_t n, uint32_t *cp)
{
    const unsigned char *s = (const unsigned char *)p;
    unsigned char lo, hi;
    if (LIKELY(s[0] < 0x80)) {
        *cp = s[0];
        return 1;
    }
    uint32_t need = utf8_need(s[0], &lo, &hi);
    if (need == 0 || need > n || s[1] < lo || s[1] > hi) goto bad;
    for (uint32_t i = 2; i < need; i++)
        if ((s[i] & 0xC0) != 0x80) goto bad;
    switch (need) {
    case 2: *cp = (uint32_t)(s[0] & 0x1F) << 6 | (s[1] & 0x3Fu); break;
    case 3: *cp = (uint32_t)(s[0] & 0x0F) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu); break;
    default: *cp = (uint32_t)(s[0] & 0x07) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu); break;
    }
    return need;
bad:
    *cp = UINT32_MAX;
    return 1;
}

size_t utf8_check(const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp, k = utf8_next(p + i, n - i, &cp);
        if (cp == UINT32_MAX) return i;
        i += k;
    }
    return n;
}

size_t utf8_whole(const char *p, size_t n)
{
    /* Only the last three bytes can start an unfinished character. */
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char *s = (const unsigned char *)p + n - back;
        unsigned char lo, hi;
        uint32_t need = utf8_need(s[0], &lo, &hi);
        if (need == 0) continue; /* a continuation byte (or junk): look further back */
        if (need <= back) return n;
        if (back > 1 && (s[1] < lo || s[1] > hi)) return n;
        return n - back;
    }
    return n;
}

void buf_json_str(struct buf *b, const char *p, size_t n)
{
    buf_putc(b, '"');
    size_t from = 0, i = 0;
    while (i < n) {
        uint32_t cp, k = utf8_next(p + i, n - i, &cp);
        if (cp >= 0x20 && cp != '"' && cp != '\\' && cp != 0x7f && cp != UINT32_MAX) {
            i += k;
            continue;
        }
        buf_put(b, p + from, i - from);
        switch (cp) {
        case '"': buf_puts(b, "\\\""); break;
        case '\\': buf_puts(b, "\\\\"); break;
        case '\n': buf_puts(b, "\\n"); break;
        case '\r': buf_puts(b, "\\r"); break;
        case '\t': buf_puts(b, "\\t"); break;
        case UINT32_MAX: buf_puts(b, "\xEF\xBF\xBD"); break;
        default: buf_printf(b, "\\u%04x", cp); break;
        }
        i += k;
        from = i;
    }
    buf_put(b, p + from, n - from);
    buf_putc(b, '"');
}

/* Levenshtein distance with adjacent swaps, of strings up to 63 bytes; longer ones count as far. */
static unsigned distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > 63 || m > 63) return 1000;
    unsigned d[3][64];
    unsigned *pp = d[0], *p = d[1], *c = d[2];
    for (size_t j = 0; j <= m; j++) p[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        c[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned v = p[j - 1] + (a[i - 1] != b[j - 1]);
            v = MIN(v, p[j] + 1);
            v = MIN(v, c[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) v = MIN(v, pp[j - 2] + 1);
            c[j] = v;
        }
        unsigned *t = pp;
        pp = p;
        p = c;
        c = t;
    }
    return p[m];
}

const char *near_name(const char *got, const char *(*name)(const void *ud, size_t i), const void *ud, size_t n)
{
    const char *best = NULL;
    unsigned bd = 1000;
    size_t len = strlen(got);
    for (size_t i = 0; i < n; i++) {
        const char *s = name(ud, i);
        if (!s) continue;
        unsigned d = distance(got, s);
        /* a prefix of at least 3 letters counts as one slip */
        if (len >= 3 && strncmp(got, s, len) == 0) d = MIN(d, 1u);
        if (d < bd) {
            bd = d;
            best = s;
        }
    }
    return bd <= 1 + len / 3 ? best : NULL;
}
