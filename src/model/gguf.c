/* gguf.c: reading GGUF. The file is outside input from the first byte on: one cursor (struct rd) does all reading and checks each
 * step against the end of the map; counts are held against the bytes left before anything is allocated for them; look-up tables
 * are sorted arrays, so that no choice of names makes them slow. Byte order is little-endian (docs/gguf.md; the big-endian
 * variant is refused), as is the host. */
#include "model/gguf.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the mapped file is read in place");

enum {
    MAX_KV = 1 << 20,     /* real files have tens */
    MAX_TENSOR = 1 << 20, /* the largest public model has some thousands */
    MAX_SPLIT = 9999,
    MAX_KEY = 65535, /* docs/gguf.md */
    MAX_NAME = 256,  /* docs/gguf.md says 64; some converters write longer ones */
    MIN_ALIGN = 8,   /* docs/gguf.md: a multiple of 8 */
    MAX_ALIGN = 1 << 24,
    MIN_KV_BYTES = 8 + 1 + 4 + 1,             /* length, one byte of key, type, one byte of value */
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8, /* length, one byte of name, n_dim, one dim, type, offset */
    SPLIT_TAIL = 20,                          /* "-00001-of-00002.gguf" */
};

static const struct {
    const char *name;
    uint32_t bytes; /* 0: not of fixed size */
} types[GGUF_TYPE_N] = {
    [GGUF_U8] = {"u8", 1},      [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2}, [GGUF_I16] = {"i16", 2},
    [GGUF_U32] = {"u32", 4},    [GGUF_I32] = {"i32", 4},   [GGUF_F32] = {"f32", 4}, [GGUF_BOOL] = {"bool", 1},
    [GGUF_STR] = {"string", 0}, [GGUF_ARR] = {"array", 0}, [GGUF_U64] = {"u64", 8}, [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

const char *gguf_type_name(enum gguf_type t) { return (unsigned)t < GGUF_TYPE_N ? types[t].name : "unknown"; }

const char *gguf_show_path(const char *path, char buf[96])
{
    size_t n = strlen(path);
    if (n <= 93) return path;
    const char *p = path + n - 90;
    while ((*p & 0xC0) == 0x80) p++; /* not inside a character */
    snprintf(buf, 96, "...%s", p);
    return buf;
}

/* Message arguments "%.*s" of a name of any length: at most 64 bytes, whole characters. */
static int cut(struct str s) { return (int)utf8_whole(s.p, MIN(s.n, (size_t)64)); }

#define LLU(x) ((unsigned long long)(x)) /* for %llu */
/* Sets the message "PATH: ..." in the `e` in scope. */
#define FAIL(path, code, fmt, ...)                                                                                               \
    ({                                                                                                                           \
        char show_[96];                                                                                                          \
        err_set(e, code, "%s: " fmt, gguf_show_path(path, show_), ##__VA_ARGS__);                                                \
        code; /* a constant: the compiler sees that it is negative */                                                            \
    })

int gguf_fail(const struct gguf *g, struct err *e, int code, const char *fmt, ...)
{
    char what[240];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return FAIL(g->path, code, "%s", what);
}

/* ---- cursor */

struct rd {
    const uint8_t *p;
    size_t n, at;
    const char *path;
    struct err *e;
};

static size_t left(const struct rd *r) { return r->n - r->at; }

static int rd_take(struct rd *r, const uint8_t **p, size_t n, const char *what)
{
    struct err *e = r->e;
    if (n > left(r))
        return FAIL(r->path, E_FORMAT, "ends inside %s (%zu bytes wanted at byte %zu, %zu there)", what, n, r->at, left(r));
    *p = r->p + r->at;
    r->at += n;
    return OK;
}

static int rd_u32(struct rd *r, uint32_t *v, const char *what)
{
    const uint8_t *p;
    TRY(rd_take(r, &p, 4, what));
    memcpy(v, p, 4);
    return OK;
}

static int rd_u64(struct rd *r, uint64_t *v, const char *what)
{
    const uint8_t *p;
    TRY(rd_take(r, &p, 8, what));
    memcpy(v, p, 8);
    return OK;
}

static int rd_str(struct rd *r, struct str *s, const char *what)
{
    struct err *e = r->e;
    uint64_t n;
    const uint8_t *p;
    TRY(rd_u64(r, &n, what));
    if (n > left(r)) return FAIL(r->path, E_FORMAT, "%s of %llu bytes, %zu left in the file", what, LLU(n), left(r));
    TRY(rd_take(r, &p, (size_t)n, what));
    *s = (struct str){(const char *)p, (size_t)n};
    return OK;
}

/* A key or tensor name: something that can be printed and compared. */
static int rd_name(struct rd *r, struct str *s, size_t max, const char *what)
{
    struct err *e = r->e;
    size_t at = r->at;
    TRY(rd_str(r, s, what));
    if (s->n == 0 || s->n > max)
        return FAIL(r->path, E_FORMAT, "%s of %zu bytes at byte %zu (1 to %zu allowed)", what, s->n, at, max);
    if (utf8_check(s->p, s->n) != s->n) return FAIL(r->path, E_FORMAT, "%s at byte %zu is not UTF-8", what, at);
    for (size_t i = 0; i < s->n; i++)
        if ((unsigned char)s->p[i] < 0x20 || s->p[i] == 0x7f)
            return FAIL(r->path, E_FORMAT, "control character in %s at byte %zu", what, at);
    return OK;
}

/* ---- sorted look-up */

static int str_order(struct str a, struct str b)
{
    if (a.n != b.n) return a.n < b.n ? -1 : 1;
    return memcmp(a.p, b.p, a.n);
}
static int kv_order(const void *a, const void *b, void *kv)
{
    const struct gguf_kv *k = kv;
    return str_order(k[*(const uint32_t *)a].key, k[*(const uint32_t *)b].key);
}
static int t_order(const void *a, const void *b, void *t)
{
    const struct gguf_tensor *k = t;
    return str_order(k[*(const uint32_t *)a].name, k[*(const uint32_t *)b].name);
}
/* by file, then place in it */
static int place_order(const void *a, const void *b, void *t)
{
    const struct gguf_tensor *x = (struct gguf_tensor *)t + *(const uint32_t *)a,
                             *y = (struct gguf_tensor *)t + *(const uint32_t *)b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return x->data < y->data ? -1 : x->data > y->data;
}

static uint32_t *sorted(struct arena *a, uint32_t n, int (*order)(const void *, const void *, void *), void *ud)
{
    uint32_t *ix = arena_alloc(a, n, sizeof *ix);
    if (!ix) return NULL;
    for (uint32_t i = 0; i < n; i++) ix[i] = i;
    if (n > 1) qsort_r(ix, n, sizeof *ix, order, ud);
    return ix;
}

typedef struct str name_fn(const struct gguf *g, uint32_t i);
static struct str kv_name(const struct gguf *g, uint32_t i) { return g->kv[i].key; }
static struct str t_name(const struct gguf *g, uint32_t i) { return g->t[i].name; }

/* Index of the entry of that name, n when there is none. ix: indices by rising name. */
static uint32_t find_sorted(const struct gguf *g, const uint32_t *ix, uint32_t n, name_fn *name, struct str k)
{
    for (uint32_t lo = 0, hi = n; lo < hi;) {
        uint32_t m = lo + (hi - lo) / 2;
        int c = str_order(k, name(g, ix[m]));
        if (c == 0) return ix[m];
        if (c < 0)
            hi = m;
        else
            lo = m + 1;
    }
    return n;
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
    uint32_t i = find_sorted(g, g->kv_sorted, g->n_kv, kv_name, str_of(key));
    return i < g->n_kv ? &g->kv[i] : NULL;
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
    uint32_t i = find_sorted(g, g->t_sorted, g->n_t, t_name, str_of(name));
    return i < g->n_t ? &g->t[i] : NULL;
}

/* ---- header and metadata */

static int rd_header(struct rd *r, uint32_t *version, uint64_t *n_t, uint64_t *n_kv)
{
    struct err *e = r->e;
    if (r->n == 0) return FAIL(r->path, E_FORMAT, "empty file");
    const uint8_t *m;
    TRY(rd_take(r, &m, 4, "the magic"));
    if (memcmp(m, "GGUF", 4) != 0)
        return FAIL(r->path, E_FORMAT, "not a GGUF file (starts with %02x %02x %02x %02x)", m[0], m[1], m[2], m[3]);
    TRY(rd_u32(r, version, "the version"));
    if (__builtin_bswap32(*version) <= 0xffff && *version > 0xffff)
        return FAIL(r->path, E_UNSUP, "big-endian GGUF (version %u byte-swapped); only little-endian files are read",
                    __builtin_bswap32(*version));
    if (*version != 2 && *version != 3) return FAIL(r->path, E_UNSUP, "GGUF version %u; versions 2 and 3 are read", *version);
    TRY(rd_u64(r, n_t, "the tensor count"));
    TRY(rd_u64(r, n_kv, "the metadata count"));
    if (*n_kv > MAX_KV || *n_kv > left(r) / MIN_KV_BYTES)
        return FAIL(r->path, E_FORMAT, "%llu metadata pairs announced, the file's %zu bytes cannot hold them", LLU(*n_kv), r->n);
    if (*n_t > MAX_TENSOR || *n_t > left(r) / MIN_TENSOR_BYTES)
        return FAIL(r->path, E_FORMAT, "%llu tensors announced, the file's %zu bytes cannot hold them", LLU(*n_t), r->n);
    return OK;
}

static int bad_value(const struct rd *r, const struct gguf_kv *kv, const char *fmt, ...) ATTR_PRINTF(3, 4);
static int bad_value(const struct rd *r, const struct gguf_kv *kv, const char *fmt, ...)
{
    struct err *e = r->e;
    char what[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return FAIL(r->path, E_FORMAT, "key %.*s: %s", cut(kv->key), kv->key.p, what);
}

static int check_bools(const struct rd *r, const struct gguf_kv *kv, const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i] > 1) return bad_value(r, kv, "bool of value %u", p[i]);
    return OK;
}

static int rd_array(struct rd *r, struct gguf_kv *kv)
{
    uint32_t et;
    if (left(r) < 12) return bad_value(r, kv, "the file ends inside the array's header");
    TRY(rd_u32(r, &et, "an array"));
    TRY(rd_u64(r, &kv->n, "an array"));
    if (et == GGUF_ARR) return bad_value(r, kv, "array of arrays (no key that models use has one)");
    if (et >= GGUF_TYPE_N) return bad_value(r, kv, "array of unknown type %u", et);
    kv->elem = (enum gguf_type)et;
    kv->p = r->p + r->at;
    uint32_t size = types[et].bytes;
    if (kv->n > left(r) / (size ? size : 8))
        return bad_value(r, kv, "array of %llu x %s, %zu bytes left in the file", LLU(kv->n), types[et].name, left(r));
    if (size) {
        r->at += (size_t)kv->n * size;
        return et == GGUF_BOOL ? check_bools(r, kv, kv->p, kv->n) : OK;
    }
    for (uint64_t i = 0; i < kv->n; i++) {
        uint64_t len = 0;
        if (left(r) >= 8) memcpy(&len, r->p + r->at, 8);
        if (left(r) < 8 || len > left(r) - 8)
            return bad_value(r, kv, "string %llu of %llu goes past the end of the file", LLU(i), LLU(kv->n));
        r->at += 8 + (size_t)len;
    }
    return OK;
}

static int rd_kv(struct rd *r, struct gguf_kv *kv)
{
    uint32_t t;
    TRY(rd_name(r, &kv->key, MAX_KEY, "a metadata key"));
    if (left(r) < 4) return bad_value(r, kv, "the file ends before its value");
    TRY(rd_u32(r, &t, "a value type"));
    if (t >= GGUF_TYPE_N) return bad_value(r, kv, "unknown value type %u", t);
    kv->type = kv->elem = (enum gguf_type)t;
    kv->n = 1;
    if (t == GGUF_ARR) return rd_array(r, kv);
    if (t == GGUF_STR) {
        if (left(r) < 8) return bad_value(r, kv, "the file ends before its value");
        TRY(rd_u64(r, &kv->n, "a string"));
        if (kv->n > left(r)) return bad_value(r, kv, "string of %llu bytes, %zu left in the file", LLU(kv->n), left(r));
        kv->p = r->p + r->at;
        r->at += (size_t)kv->n;
        return OK;
    }
    if (left(r) < types[t].bytes) return bad_value(r, kv, "the file ends before its value");
    kv->p = r->p + r->at;
    r->at += types[t].bytes;
    return t == GGUF_BOOL ? check_bools(r, kv, kv->p, 1) : OK;
}

/* All pairs of one file into g (whose arena it uses), sorted, free of duplicates, alignment known. */
static int rd_all_kv(struct rd *r, struct gguf *g, uint32_t n)
{
    struct err *e = r->e;
    g->kv = arena_alloc(&g->arena, n, sizeof *g->kv);
    if (!g->kv) return FAIL(r->path, E_NOMEM, "no memory for %u metadata pairs", n);
    for (uint32_t i = 0; i < n; i++) TRY(rd_kv(r, &g->kv[i]));
    g->n_kv = n;
    g->kv_sorted = sorted(&g->arena, n, kv_order, g->kv);
    if (!g->kv_sorted) return FAIL(r->path, E_NOMEM, "no memory for %u metadata pairs", n);
    for (uint32_t i = 1; i < n; i++) {
        const struct gguf_kv *a = &g->kv[g->kv_sorted[i]];
        if (str_same(a->key, g->kv[g->kv_sorted[i - 1]].key)) return bad_value(r, a, "given twice");
    }
    uint64_t align = 32;
    TRY(gguf_u64(g, "general.alignment", 0, UINT64_MAX, &align, e));
    if (align < MIN_ALIGN || align > MAX_ALIGN || (align & (align - 1)))
        return FAIL(r->path, E_FORMAT, "general.alignment is %llu; a power of two from %d to %d is wanted", LLU(align), MIN_ALIGN,
                    MAX_ALIGN);
    g->alignment = (uint32_t)align;
    return OK;
}

/* ---- tensors */

static int bad_tensor(const struct rd *r, int code, const struct gguf_tensor *t, const char *fmt, ...) ATTR_PRINTF(4, 5);
static int bad_tensor(const struct rd *r, int code, const struct gguf_tensor *t, const char *fmt, ...)
{
    struct err *e = r->e;
    char what[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return FAIL(r->path, code, "tensor %.*s: %s", cut(t->name), t->name.p, what);
}

/* One entry of the tensor list. `off` is its place relative to the data section, whose start is only known after the list. */
static int rd_tensor(struct rd *r, struct gguf_tensor *t, uint64_t *off, uint32_t align)
{
    uint32_t type;
    TRY(rd_name(r, &t->name, MAX_NAME, "a tensor name"));
    TRY(rd_u32(r, &t->n_dim, "the tensor list"));
    if (t->n_dim < 1 || t->n_dim > 4) return bad_tensor(r, E_FORMAT, t, "%u dimensions; 1 to 4 are allowed", t->n_dim);
    size_t n = 1;
    for (uint32_t i = 0; i < 4; i++) t->dim[i] = 1;
    for (uint32_t i = 0; i < t->n_dim; i++) {
        TRY(rd_u64(r, &t->dim[i], "the tensor list"));
        if (t->dim[i] == 0) return bad_tensor(r, E_FORMAT, t, "dimension %u is 0", i);
        /* a signed count everywhere else: keep the product below 2^63 */
        if (!mul_ok(n, t->dim[i], &n) || n > INT64_MAX)
            return bad_tensor(r, E_FORMAT, t, "dimension %u of %llu makes the size overflow", i, LLU(t->dim[i]));
    }
    t->n_elem = n;
    TRY(rd_u32(r, &type, "the tensor list"));
    TRY(rd_u64(r, off, "the tensor list"));
    t->dt = dtype_of_gguf(type);
    if (t->dt == DT_NONE) {
        const char *name = dtype_gguf_name(type);
        if (name) return bad_tensor(r, E_UNSUP, t, "type %s is not supported", name);
        return bad_tensor(r, E_UNSUP, t, "unknown type number %u", type);
    }
    const struct dtype_info *d = &dtype_table[t->dt];
    if (t->dim[0] % d->block)
        return bad_tensor(r, E_FORMAT, t, "rows of %llu values, %s needs a multiple of %u", LLU(t->dim[0]), d->name, d->block);
    size_t bytes;
    if (!mul_ok(n / d->block, d->bytes, &bytes)) return bad_tensor(r, E_FORMAT, t, "%llu values of %s overflow", LLU(n), d->name);
    t->bytes = bytes;
    if (*off % align) return bad_tensor(r, E_FORMAT, t, "offset %llu is not a multiple of the alignment %u", LLU(*off), align);
    return OK;
}

/* The tensor list of file number `file`, into g->t[g->n_t...]; the offsets find their place once the end of the list is known. */
static int rd_all_tensors(struct rd *r, struct gguf *g, uint32_t n, uint32_t file, uint32_t align)
{
    struct err *e = r->e;
    int rc = OK;
    struct arena tmp = {0};
    uint64_t *off = arena_alloc(&tmp, n, sizeof *off);
    struct gguf_tensor *t = g->t + g->n_t;
    if (!off) return FAIL(r->path, E_NOMEM, "no memory for %u tensors", n);
    for (uint32_t i = 0; i < n; i++) TRYG(rd_tensor(r, &t[i], &off[i], align));
    /* align_up cannot overflow: at is at most the file's size, far from SIZE_MAX */
    size_t base = align_up(r->at, align);
    for (uint32_t i = 0; i < n; i++) {
        size_t room = base < r->n ? r->n - base : 0;
        if (off[i] > room || t[i].bytes > room - off[i]) {
            rc = bad_tensor(r, E_FORMAT, &t[i], "%llu bytes at offset %llu go past the end of the file (%zu bytes of data)",
                            LLU(t[i].bytes), LLU(off[i]), room);
            goto out;
        }
        t[i].data = r->p + base + off[i];
        t[i].file = (uint16_t)file;
        g->tensor_bytes += t[i].bytes;
    }
    g->n_t += n;
out:
    arena_free(&tmp);
    return rc;
}

/* After all files: no name twice, no byte in two tensors. */
static int check_tensors(struct gguf *g, struct err *e)
{
    if (g->n_t == 0) return OK;
    uint32_t *ix = sorted(&g->arena, g->n_t, place_order, g->t);
    g->t_sorted = sorted(&g->arena, g->n_t, t_order, g->t);
    if (!ix || !g->t_sorted) return FAIL(g->path, E_NOMEM, "no memory for %u tensors", g->n_t);
    for (uint32_t i = 1; i < g->n_t; i++) {
        const struct gguf_tensor *a = &g->t[g->t_sorted[i - 1]], *b = &g->t[g->t_sorted[i]];
        if (str_same(a->name, b->name))
            return FAIL(g->file_path[b->file], E_FORMAT, "tensor %.*s: given twice", cut(a->name), a->name.p);
    }
    for (uint32_t i = 1; i < g->n_t; i++) {
        const struct gguf_tensor *a = &g->t[ix[i - 1]], *b = &g->t[ix[i]];
        if (a->file == b->file && b->data < a->data + a->bytes)
            return FAIL(g->file_path[b->file], E_FORMAT, "tensors %.*s and %.*s share bytes", cut(a->name), a->name.p,
                        cut(b->name), b->name.p);
    }
    return OK;
}

/* ---- files */

/* What a part says about the split it belongs to: no < count; count 1 for a file that is whole. */
static int split_of(const struct gguf *g, uint64_t *no, uint64_t *count, struct err *e)
{
    *no = 0;
    *count = 1;
    TRY(gguf_u64(g, "split.count", 0, UINT16_MAX, count, e));
    if (*count <= 1) {
        *count = 1;
        return OK;
    }
    if (*count > MAX_SPLIT)
        return FAIL(g->path, E_FORMAT, "split.count is %llu; at most %d parts are read", LLU(*count), MAX_SPLIT);
    int rc = gguf_u64(g, "split.no", 0, *count - 1, no, e);
    if (rc == 0) return FAIL(g->path, E_FORMAT, "split.count is %llu but split.no is missing", LLU(*count));
    return rc;
}

/* The path of part i (from 0) of n, made from the path of part `no`: PREFIX-00001-of-00002.gguf, counted from 1 (llama.cpp's
 * gguf-split). */
static char *part_path(struct arena *a, const char *path, uint64_t no, uint64_t i, uint64_t n)
{
    size_t len = strlen(path);
    char tail[64];
    snprintf(tail, sizeof tail, "-%05llu-of-%05llu.gguf", LLU(no + 1), LLU(n));
    if (len < SPLIT_TAIL || strcmp(path + len - SPLIT_TAIL, tail) != 0) return NULL;
    char *p = arena_strndup(a, path, len);
    if (p) {
        snprintf(tail, sizeof tail, "-%05llu-of-%05llu.gguf", LLU(i + 1), LLU(n));
        memcpy(p + len - SPLIT_TAIL, tail, SPLIT_TAIL);
    }
    return p;
}

/* The second and later parts: their metadata says which part they are and is not kept. */
static int open_part(struct gguf *g, uint32_t i, uint64_t count, struct rd *r, uint64_t *n_t, uint32_t *align, struct err *e)
{
    const char *path = g->file_path[i];
    struct gguf part = {.path = path};
    uint64_t n_kv, no, n;
    uint32_t version;
    int rc = os_map(&g->map[i], path, e);
    if (rc < 0) return err_prefix(e, "part %u of %llu", i + 1, LLU(count));
    *r = (struct rd){g->map[i].p, g->map[i].n, 0, path, e};
    TRYG(rd_header(r, &version, n_t, &n_kv));
    TRYG(rd_all_kv(r, &part, (uint32_t)n_kv));
    TRYG(split_of(&part, &no, &n, e));
    if (no != i || n != count) {
        rc = FAIL(path, E_FORMAT, "says that it is part %llu of %llu, its name says %u of %llu", LLU(no + 1), LLU(n), i + 1,
                  LLU(count));
        goto out;
    }
    *align = part.alignment;
out:
    arena_free(&part.arena);
    return rc;
}

/* All of a split's parts after the first, whose cursor is r0 (behind its metadata). Lists are read in a second pass, when their
 * total is known. */
static int open_parts(struct gguf *g, struct rd *r0, uint64_t n_t0, uint64_t count, struct err *e)
{
    struct arena tmp = {0};
    int rc = OK;
    struct rd *r = arena_alloc(&tmp, count, sizeof *r);
    uint64_t *n_t = arena_alloc(&tmp, count, sizeof *n_t), total = n_t0, said = 0;
    uint32_t *align = arena_alloc(&tmp, count, sizeof *align);
    if (!r || !n_t || !align) TRYG(FAIL(g->path, E_NOMEM, "no memory for %llu parts", LLU(count)));
    r[0] = *r0;
    n_t[0] = n_t0;
    align[0] = g->alignment;
    for (uint32_t i = 1; i < count; i++) {
        g->n_file = i + 1;
        TRYG(open_part(g, i, count, &r[i], &n_t[i], &align[i], e));
        total += n_t[i];
    }
    if (total > MAX_TENSOR) TRYG(FAIL(g->path, E_FORMAT, "%llu tensors in all parts", LLU(total)));
    TRYG(gguf_u64(g, "split.tensors.count", 0, UINT64_MAX, &said, e));
    if (rc == 1 && said != total)
        TRYG(FAIL(g->path, E_FORMAT, "split.tensors.count is %llu, the parts hold %llu", LLU(said), LLU(total)));
    g->t = arena_alloc(&g->arena, total, sizeof *g->t);
    if (!g->t) TRYG(FAIL(g->path, E_NOMEM, "no memory for %llu tensors", LLU(total)));
    for (uint32_t i = 0; i < count; i++) TRYG(rd_all_tensors(&r[i], g, (uint32_t)n_t[i], i, align[i]));
    rc = OK;
out:
    arena_free(&tmp);
    return rc;
}

/* g->map[0] and g->path are set. Returns 1 when the file is a later part of a split: *first is then the path of the first part.
 */
static int open_first(struct gguf *g, const char **first, struct err *e)
{
    uint64_t n_t, n_kv, no, count;
    struct rd r = {g->map[0].p, g->map[0].n, 0, g->path, e};
    TRY(rd_header(&r, &g->version, &n_t, &n_kv));
    TRY(rd_all_kv(&r, g, (uint32_t)n_kv));
    TRY(split_of(g, &no, &count, e));
    if (count == 1) {
        g->t = arena_alloc(&g->arena, (size_t)n_t, sizeof *g->t);
        if (!g->t) return FAIL(g->path, E_NOMEM, "no memory for %llu tensors", LLU(n_t));
        TRY(rd_all_tensors(&r, g, (uint32_t)n_t, 0, g->alignment));
        return check_tensors(g, e);
    }
    if (g->borrowed) return FAIL(g->path, E_UNSUP, "part %llu of %llu of a split file", LLU(no + 1), LLU(count));
    const char **paths = arena_alloc(&g->arena, count, sizeof *paths);
    struct os_map *maps = arena_alloc(&g->arena, count, sizeof *maps);
    if (!paths || !maps) return FAIL(g->path, E_NOMEM, "no memory for %llu parts", LLU(count));
    for (uint32_t i = 0; i < count; i++) {
        paths[i] = part_path(&g->arena, g->path, no, i, count);
        if (!paths[i])
            return FAIL(g->path, E_FORMAT, "says that it is part %llu of %llu; its name must end in -%05llu-of-%05llu.gguf",
                        LLU(no + 1), LLU(count), LLU(no + 1), LLU(count));
    }
    if (no != 0) {
        *first = paths[0];
        return 1;
    }
    maps[0] = g->map[0];
    g->map = maps;
    g->file_path = paths;
    TRY(open_parts(g, &r, n_t, count, e));
    return check_tensors(g, e);
}

static int init(struct gguf *g, const char *path, struct err *e)
{
    *g = (struct gguf){0};
    g->path = arena_strndup(&g->arena, path, strlen(path));
    g->map = arena_alloc(&g->arena, 1, sizeof *g->map);
    g->file_path = arena_alloc(&g->arena, 1, sizeof *g->file_path);
    if (!g->path || !g->map || !g->file_path) {
        arena_free(&g->arena);
        *g = (struct gguf){0};
        return FAIL(path, E_NOMEM, "no memory");
    }
    g->file_path[0] = g->path;
    g->n_file = 1;
    return OK;
}

int gguf_open(struct gguf *g, const char *path, struct err *e)
{
    const char *first = NULL;
    int rc;
    TRY(init(g, path, e));
    TRYG(os_map(&g->map[0], path, e));
    TRYG(open_first(g, &first, e));
    if (rc == 1) { /* a later part was named: start again from the first one */
        struct arena keep = {0};
        char *p = arena_strndup(&keep, first, strlen(first));
        gguf_close(g);
        rc = p ? init(g, p, e) : FAIL(path, E_NOMEM, "no memory");
        if (rc == OK) rc = os_map(&g->map[0], p, e);
        if (rc == OK) rc = open_first(g, &first, e);
        if (rc == 1) rc = FAIL(p, E_FORMAT, "its name says part 1, its metadata another one");
        arena_free(&keep);
    }
out:
    if (rc < 0) gguf_close(g);
    return rc;
}

int gguf_open_mem(struct gguf *g, const char *name, const void *p, size_t n, struct err *e)
{
    const char *first;
    *g = (struct gguf){0};
    if ((uintptr_t)p % MIN_ALIGN) return FAIL(name, E_ARG, "memory is not aligned to %d bytes", MIN_ALIGN);
    TRY(init(g, name, e));
    g->borrowed = true;
    g->map[0] = (struct os_map){p, n};
    int rc = open_first(g, &first, e);
    if (rc < 0) gguf_close(g);
    return rc;
}

void gguf_close(struct gguf *g)
{
    for (uint32_t i = 0; i < g->n_file && !g->borrowed; i++) os_unmap(&g->map[i]);
    arena_free(&g->arena);
    *g = (struct gguf){0};
}

/* ---- typed values */

/* An integer as sign and magnitude; false when kv is no integer. */
static bool kv_int(const struct gguf_kv *kv, const uint8_t *p, uint64_t *mag, bool *neg)
{
    int64_t s;
    switch (kv->elem) {
    case GGUF_U8: *mag = *p; break;
    case GGUF_U16: {
        uint16_t v;
        memcpy(&v, p, 2);
        *mag = v;
        break;
    }
    case GGUF_U32: {
        uint32_t v;
        memcpy(&v, p, 4);
        *mag = v;
        break;
    }
    case GGUF_U64: memcpy(mag, p, 8); break;
    case GGUF_I8: s = (int8_t)*p; goto sign;
    case GGUF_I16: {
        int16_t v;
        memcpy(&v, p, 2);
        s = v;
        goto sign;
    }
    case GGUF_I32: {
        int32_t v;
        memcpy(&v, p, 4);
        s = v;
        goto sign;
    }
    case GGUF_I64: memcpy(&s, p, 8); goto sign;
    default: return false;
    }
    *neg = false;
    return true;
sign:
    *neg = s < 0;
    *mag = s < 0 ? -(uint64_t)s : (uint64_t)s;
    return true;
}

void gguf_put_number(struct buf *out, const struct gguf_kv *kv, uint64_t i)
{
    if (kv->type == GGUF_ARR && i >= kv->n) return;
    const uint8_t *p = kv->p + (kv->type == GGUF_ARR ? i * types[kv->elem].bytes : 0);
    uint64_t mag;
    bool neg;
    if (kv_int(kv, p, &mag, &neg)) {
        buf_printf(out, "%s%llu", neg ? "-" : "", LLU(mag));
    } else if (kv->elem == GGUF_F32) {
        float f;
        memcpy(&f, p, 4);
        buf_printf(out, "%.9g", (double)f);
    } else if (kv->elem == GGUF_F64) {
        double d;
        memcpy(&d, p, 8);
        buf_printf(out, "%.17g", d);
    } else if (kv->elem == GGUF_BOOL) {
        buf_puts(out, *p ? "true" : "false");
    }
}

static int wrong_type(const struct gguf *g, const struct gguf_kv *kv, const char *want, struct err *e)
{
    if (kv->type == GGUF_ARR)
        return FAIL(g->path, E_FORMAT, "key %.*s: array of %s where %s is wanted", cut(kv->key), kv->key.p,
                    gguf_type_name(kv->elem), want);
    return FAIL(g->path, E_FORMAT, "key %.*s: %s where %s is wanted", cut(kv->key), kv->key.p, gguf_type_name(kv->type), want);
}

int gguf_u64(const struct gguf *g, const char *key, uint64_t lo, uint64_t hi, uint64_t *v, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    uint64_t mag;
    bool neg;
    if (!kv) return 0;
    if (kv->type == GGUF_ARR || !kv_int(kv, kv->p, &mag, &neg)) return wrong_type(g, kv, "an integer", e);
    if (neg || mag < lo || mag > hi)
        return FAIL(g->path, E_FORMAT, "key %s: %s%llu; %llu to %llu is wanted", key, neg ? "-" : "", LLU(mag), LLU(lo), LLU(hi));
    *v = mag;
    return 1;
}

int gguf_f64(const struct gguf *g, const char *key, double *v, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    double d;
    if (!kv) return 0;
    if (kv->type == GGUF_F32) {
        float f;
        memcpy(&f, kv->p, 4);
        d = (double)f;
    } else if (kv->type == GGUF_F64) {
        memcpy(&d, kv->p, 8);
    } else {
        return wrong_type(g, kv, "a floating-point number", e);
    }
    if (!isfinite(d)) return FAIL(g->path, E_FORMAT, "key %s: %f where a finite number is wanted", key, d);
    *v = d;
    return 1;
}

int gguf_bool(const struct gguf *g, const char *key, bool *v, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_BOOL) return wrong_type(g, kv, "a bool", e);
    *v = *kv->p != 0;
    return 1;
}

int gguf_str(const struct gguf *g, const char *key, struct str *v, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_STR) return wrong_type(g, kv, "a string", e);
    *v = (struct str){(const char *)kv->p, (size_t)kv->n};
    return 1;
}

int gguf_arr(const struct gguf *g, const char *key, enum gguf_type elem, const struct gguf_kv **v, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_ARR || !(kv->elem == elem || (elem == GGUF_I32 && kv->elem == GGUF_U32))) {
        char want[32];
        snprintf(want, sizeof want, "an array of %s", gguf_type_name(elem));
        return wrong_type(g, kv, want, e);
    }
    *v = kv;
    return 1;
}

struct str gguf_next_str(const uint8_t **cur)
{
    uint64_t n;
    memcpy(&n, *cur, 8);
    struct str s = {(const char *)*cur + 8, (size_t)n};
    *cur += 8 + n;
    return s;
}

float gguf_arr_f32(const struct gguf_kv *kv, uint64_t i)
{
    float f;
    memcpy(&f, kv->p + 4 * i, 4);
    return f;
}

int32_t gguf_arr_i32(const struct gguf_kv *kv, uint64_t i)
{
    int32_t v;
    memcpy(&v, kv->p + 4 * i, 4);
    return v;
}
