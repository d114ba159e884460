/* jinja_value.c: values while rendering: making them, truth, equality, order, membership, iteration, sorting. Python's rules;
 * what Python's unbounded integers could hold and 64 bits cannot is an error. */
#include "model/jinja_impl.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static int set_err(struct rt *r, int code, const char *fmt, va_list ap)
{
    char m[220];
    vsnprintf(m, sizeof m, fmt, ap);
    return err_set(r->e, code, "line %u: %s", r->line, m);
}

int jinja_fail(struct rt *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = set_err(r, E_FORMAT, fmt, ap);
    va_end(ap);
    return rc;
}

int jinja_bound(struct rt *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = set_err(r, E_RANGE, fmt, ap);
    va_end(ap);
    return rc;
}

int jinja_nomem(struct rt *r)
{
    return jinja_bound(r, "the rendering needs more memory than its bound of %zu bytes, or than there is", r->a.max);
}

int jinja_steps_over(struct rt *r)
{
    return jinja_bound(r, "the rendering takes more than %llu steps", (unsigned long long)r->max_steps);
}

/* One level deeper in nested data. */
static int deeper(struct rt *r)
{
    if (++r->data_depth > JINJA_MAX_DATA_DEPTH)
        return jinja_bound(r, "values nested more than %d levels deep", JINJA_MAX_DATA_DEPTH);
    return jinja_work(r, 0);
}

/* ---- undefined */

struct val jinja_undef(struct str name)
{
    return (struct val){.t = V_UNDEF, .sub = UNDEF_NAME, .n = (uint32_t)name.n, .u.s = name.p};
}

struct val jinja_undef_hint(const char *hint)
{
    return (struct val){.t = V_UNDEF, .sub = UNDEF_HINT, .n = (uint32_t)strlen(hint), .u.s = hint};
}

struct val jinja_undef_attr(struct val obj, struct str name)
{
    return (struct val){
        .t = V_UNDEF, .sub = UNDEF_ATTR, .aux = (uint16_t)(obj.t | obj.sub << 8), .n = (uint32_t)name.n, .u.s = name.p};
}

const char *jinja_type_name(struct val v)
{
    switch (v.t) {
    case V_UNDEF: return "Undefined";
    case V_NONE: return "NoneType";
    case V_BOOL: return "bool";
    case V_INT: return "int";
    case V_FLOAT: return "float";
    case V_STR: return v.sub & STR_MARKUP ? "Markup" : "str";
    case V_LIST: return "list";
    case V_TUPLE: return "tuple";
    case V_DICT: return "dict";
    case V_RANGE: return "range";
    case V_VIEW: return v.sub == 0 ? "dict_keys" : v.sub == 1 ? "dict_values" : "dict_items";
    case V_GEN: return "generator";
    case V_NS: return "Namespace";
    case V_MACRO: return "Macro";
    case V_LOOP: return "LoopContext";
    case V_FUNC: return "function";
    case V_METHOD: return "builtin_function_or_method";
    case V_CYCLER: return "Cycler";
    case V_JOINER: return "Joiner";
    default: return "missing";
    }
}

int jinja_undef_error(struct rt *r, struct val v)
{
    int n = (int)MIN(v.n, 100u);
    struct val obj = {.t = (uint8_t)(v.aux & 255), .sub = (uint8_t)(v.aux >> 8)};
    switch (v.sub) {
    case UNDEF_NAME: return jinja_fail(r, "'%.*s' is undefined", n, v.u.s);
    case UNDEF_ATTR: return jinja_fail(r, "'%s object' has no attribute '%.*s'", jinja_type_name(obj), n, v.u.s);
    case UNDEF_UNSAFE:
        return jinja_fail(r, "access to attribute '%.*s' of '%s' object is unsafe", n, v.u.s, jinja_type_name(obj));
    default: return jinja_fail(r, "%.*s", n, v.u.s);
    }
}

/* ---- small questions */

bool jinja_truth(struct val v)
{
    switch (v.t) {
    case V_MISSING:
    case V_UNDEF:
    case V_NONE: return false;
    case V_BOOL: return v.u.b;
    case V_INT: return v.u.i != 0;
    case V_FLOAT: return v.u.d != 0;
    case V_STR: return v.n > 0;
    case V_LIST:
    case V_TUPLE: return v.u.l->n > 0;
    case V_DICT:
    case V_VIEW: return v.u.o->n > 0;
    case V_RANGE: return v.u.r->n > 0;
    default: return true;
    }
}

bool jinja_is_num(struct val v) { return v.t == V_BOOL || v.t == V_INT || v.t == V_FLOAT; }

bool jinja_as_int(struct val v, int64_t *i)
{
    if (v.t != V_INT && v.t != V_BOOL) return false;
    *i = v.t == V_INT ? v.u.i : v.u.b;
    return true;
}

int jinja_need_int(struct rt *r, struct val v, int64_t *i)
{
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (!jinja_as_int(v, i)) return jinja_fail(r, "'%s' object cannot be interpreted as an integer", jinja_type_name(v));
    return OK;
}

int jinja_need_str(struct rt *r, struct val v, const char *what)
{
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (v.t != V_STR) return jinja_fail(r, "%s must be str, not %s", what, jinja_type_name(v));
    return OK;
}

double jinja_as_double(struct val v) { return v.t == V_FLOAT ? v.u.d : v.t == V_INT ? (double)v.u.i : v.u.b; }

/* ---- memory */

static void *get(struct rt *r, size_t n, size_t size)
{
    void *p = arena_alloc(&r->a, n, size);
    if (!p) jinja_nomem(r);
    return p;
}

int jinja_list_new(struct rt *r, uint32_t cap, struct list **out)
{
    struct list *l = get(r, 1, sizeof *l);
    if (!l) return E_RANGE;
    if (cap && !(l->v = get(r, cap, sizeof *l->v))) return E_RANGE;
    l->cap = cap;
    *out = l;
    return OK;
}

int jinja_list_push(struct rt *r, struct list *l, struct val v)
{
    if (l->n == l->cap) {
        if (l->cap > UINT32_MAX / 4) return jinja_nomem(r);
        uint32_t cap = l->cap ? 2 * l->cap : 8;
        struct val *m = get(r, cap, sizeof *m);
        if (!m) return E_RANGE;
        if (l->n) memcpy(m, l->v, l->n * sizeof *m);
        l->v = m;
        l->cap = cap;
    }
    l->v[l->n++] = v;
    return OK;
}

int jinja_gen_new(struct rt *r, struct list *l, struct val *out)
{
    struct gen *g = get(r, 1, sizeof *g);
    if (!g) return E_RANGE;
    g->l = l;
    *out = (struct val){.t = V_GEN, .u.g = g};
    return OK;
}

char *jinja_str_mem(struct rt *r, size_t n)
{
    if (n > INT32_MAX) {
        jinja_nomem(r);
        return NULL;
    }
    if (!r->sp || (size_t)(r->sp_end - r->sp) < n) {
        size_t block = n > 2048 ? n + n / 2 : 8192; /* room to grow in place: see jinja_str_cat */
        char *p = arena_alloc(&r->a, block, 1);
        if (!p) p = get(r, block = n, 1);
        if (!p) return NULL;
        r->sp = p;
        r->sp_end = p + block;
    }
    char *p = r->sp;
    r->sp += n;
    return p;
}

int jinja_str_copy(struct rt *r, const char *p, size_t n, struct val *out)
{
    char *m = jinja_str_mem(r, n);
    if (!m) return E_RANGE;
    if (n) memcpy(m, p, n);
    *out = v_str(m, n);
    return OK;
}

void jinja_buf_init(struct rt *r, struct buf *b) { buf_init(b, r->a.max - MIN(r->a.used, r->a.max - 1)); }

int jinja_buf_check(struct rt *r, const struct buf *b) { return buf_ok(b) ? OK : jinja_nomem(r); }

int jinja_str_take(struct rt *r, struct buf *b, struct val *out)
{
    int rc = jinja_buf_check(r, b);
    if (rc == OK) rc = jinja_work(r, b->n);
    if (rc == OK) rc = jinja_str_copy(r, b->p ? b->p : "", b->n, out);
    buf_free(b);
    return rc;
}

/* a + b. When a is the piece of string memory made last it grows in place, so that building a text piece by piece stays linear; a
 * itself, a prefix of the result, does not change. */
int jinja_str_cat(struct rt *r, struct val a, struct val b, struct val *out)
{
    if (a.n > INT32_MAX - b.n) return jinja_nomem(r);
    TRY(jinja_work(r, b.n));
    if (a.n && a.u.s + a.n == r->sp && (size_t)(r->sp_end - r->sp) >= b.n) {
        if (b.n) memcpy(r->sp, b.u.s, b.n);
        r->sp += b.n;
        *out = v_str(a.u.s, (size_t)a.n + b.n);
        return OK;
    }
    TRY(jinja_work(r, a.n));
    char *m = jinja_str_mem(r, (size_t)a.n + b.n);
    if (!m) return E_RANGE;
    if (a.n) memcpy(m, a.u.s, a.n);
    if (b.n) memcpy(m + a.n, b.u.s, b.n);
    *out = v_str(m, (size_t)a.n + b.n);
    return OK;
}

/* ---- equality and order */

static int cmp_double(double a, double b) { return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2; }

/* Exact, also where int64 does not fit a double. */
static int cmp_num(struct val a, struct val b)
{
    int64_t i, k;
    if (jinja_as_int(a, &i)) {
        if (jinja_as_int(b, &k)) return (i > k) - (i < k);
        double d = b.u.d;
        if (isnan(d)) return 2;
        if (d >= 0x1p63) return -1;
        if (d < -0x1p63) return 1;
        int64_t t = (int64_t)d; /* towards zero: the fraction decides a tie */
        if (i != t) return i < t ? -1 : 1;
        return cmp_double(0, d - (double)t);
    }
    if (jinja_as_int(b, &k)) {
        int c = cmp_num(b, a);
        return c == 2 ? 2 : -c;
    }
    return cmp_double(a.u.d, b.u.d);
}

static int cmp_str(struct val a, struct val b)
{
    uint32_t n = MIN(a.n, b.n);
    int c = n ? memcmp(a.u.s, b.u.s, n) : 0; /* order of UTF-8 bytes = order of code points */
    return c ? (c > 0) - (c < 0) : (a.n > b.n) - (a.n < b.n);
}

static int eq_lists(struct rt *r, const struct list *a, const struct list *b, bool *out)
{
    *out = a->n == b->n;
    for (uint32_t i = 0; *out && i < a->n; i++) TRY(jinja_eq(r, a->v[i], b->v[i], out));
    return OK;
}

static int eq_dicts(struct rt *r, const struct dict *a, const struct dict *b, bool *out)
{
    *out = a->n == b->n;
    for (uint32_t i = 0; *out && i < a->n; i++) {
        struct val v;
        int rc = jinja_dict_get(r, b, a->e[i].k, &v);
        if (rc < 0) return rc;
        *out = rc > 0;
        if (rc) TRY(jinja_eq(r, a->e[i].v, v, out));
    }
    return OK;
}

int jinja_eq(struct rt *r, struct val a, struct val b, bool *out)
{
    TRY(jinja_work(r, 0));
    *out = false;
    if (jinja_is_num(a) && jinja_is_num(b)) {
        *out = cmp_num(a, b) == 0;
        return OK;
    }
    if (a.t != b.t) return OK;
    switch (a.t) {
    case V_UNDEF:
    case V_NONE: *out = true; return OK;
    case V_STR:
        TRY(jinja_work(r, a.n));
        *out = a.n == b.n && (a.n == 0 || memcmp(a.u.s, b.u.s, a.n) == 0);
        return OK;
    case V_LIST:
    case V_TUPLE:
        TRY(deeper(r));
        TRY(eq_lists(r, a.u.l, b.u.l, out));
        r->data_depth--;
        return OK;
    case V_DICT:
        TRY(deeper(r));
        TRY(eq_dicts(r, a.u.o, b.u.o, out));
        r->data_depth--;
        return OK;
    case V_RANGE: {
        const struct range *x = a.u.r, *y = b.u.r;
        *out = x->n == y->n && (x->n == 0 || (x->start == y->start && (x->n == 1 || x->step == y->step)));
        return OK;
    }
    case V_METHOD: *out = a.u.me->fn == b.u.me->fn && a.u.me->self.u.s == b.u.me->self.u.s; return OK;
    default: *out = a.u.s == b.u.s; return OK; /* the same object */
    }
}

int jinja_cmp(struct rt *r, struct val a, struct val b, const char *op, int *out)
{
    TRY(jinja_work(r, 0));
    if (jinja_is_num(a) && jinja_is_num(b)) {
        *out = cmp_num(a, b);
        return OK;
    }
    if (a.t == V_STR && b.t == V_STR) {
        TRY(jinja_work(r, MIN(a.n, b.n)));
        *out = cmp_str(a, b);
        return OK;
    }
    if (a.t == V_UNDEF || b.t == V_UNDEF) return jinja_undef_error(r, a.t == V_UNDEF ? a : b);
    if (a.t != b.t || (a.t != V_LIST && a.t != V_TUPLE))
        return jinja_fail(r, "'%s' not supported between instances of '%s' and '%s'", op, jinja_type_name(a), jinja_type_name(b));
    TRY(deeper(r));
    const struct list *x = a.u.l, *y = b.u.l;
    for (uint32_t i = 0; i < x->n && i < y->n; i++) {
        bool eq;
        TRY(jinja_eq(r, x->v[i], y->v[i], &eq));
        if (eq) continue;
        TRY(jinja_cmp(r, x->v[i], y->v[i], op, out));
        r->data_depth--;
        return OK;
    }
    r->data_depth--;
    *out = (x->n > y->n) - (x->n < y->n);
    return OK;
}

/* ---- dicts */

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

static uint64_t hash_str(uint64_t seed, const char *p, size_t n)
{
    uint64_t h = seed ^ n * 0x9e3779b97f4a7c15u;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = mix(h ^ w) * 0x9e3779b97f4a7c15u;
    }
    uint64_t w = 0;
    if (n) memcpy(&w, p, n);
    return mix(h ^ w);
}

/* Equal values have equal hashes (1, 1.0, true). */
static int hash(struct rt *r, struct val v, uint64_t *h)
{
    int64_t i;
    switch (v.t) {
    case V_STR:
        TRY(jinja_work(r, v.n));
        *h = hash_str(r->seed, v.u.s, v.n);
        return OK;
    case V_BOOL:
    case V_INT:
        jinja_as_int(v, &i);
        *h = mix(r->seed + (uint64_t)i);
        return OK;
    case V_FLOAT: {
        double d = v.u.d;
        if (d == floor(d) && fabs(d) < 0x1p63) {
            *h = mix(r->seed + (uint64_t)(int64_t)d);
        } else {
            uint64_t u;
            memcpy(&u, &d, 8);
            *h = mix(r->seed ^ u);
        }
        return OK;
    }
    case V_TUPLE:
        TRY(deeper(r));
        *h = v.u.l->n;
        for (uint32_t k = 0; k < v.u.l->n; k++) {
            uint64_t x;
            TRY(hash(r, v.u.l->v[k], &x));
            *h = mix(*h * 31 + x);
        }
        r->data_depth--;
        return OK;
    case V_LIST:
    case V_DICT:
    case V_VIEW: return jinja_fail(r, "unhashable type: '%s'", jinja_type_name(v));
    case V_UNDEF:
    case V_NONE: *h = mix(r->seed + v.t); return OK;
    case V_RANGE: *h = v.u.r->n; return OK;
    case V_METHOD: *h = 1; return OK;
    default: *h = mix((uint64_t)(uintptr_t)v.u.s); return OK;
    }
}

int jinja_dict_new(struct rt *r, struct dict **out)
{
    *out = get(r, 1, sizeof **out);
    return *out ? OK : E_RANGE;
}

/* Entry of the key with hash h, or n. */
static int lookup(struct rt *r, const struct dict *d, struct val k, uint64_t h, uint32_t *at)
{
    bool eq;
    if (!d->idx) {
        for (uint32_t i = 0; i < d->n; i++) {
            if (d->e[i].h != h) continue;
            TRY(jinja_eq(r, d->e[i].k, k, &eq));
            if (eq) {
                *at = i;
                return OK;
            }
        }
        *at = d->n;
        return OK;
    }
    for (uint64_t s = h;; s++) {
        uint32_t i = d->idx[s & (d->n_idx - 1)];
        if (!i) break;
        if (d->e[i - 1].h != h) continue;
        TRY(jinja_eq(r, d->e[i - 1].k, k, &eq));
        if (eq) {
            *at = i - 1;
            return OK;
        }
    }
    *at = d->n;
    return OK;
}

static int reindex(struct rt *r, struct dict *d)
{
    uint32_t n = 4 * d->cap;
    uint32_t *x = get(r, n, sizeof *x);
    if (!x) return E_RANGE;
    for (uint32_t i = 0; i < d->n; i++) {
        uint64_t s = d->e[i].h;
        while (x[s & (n - 1)]) s++;
        x[s & (n - 1)] = i + 1;
    }
    d->idx = x;
    d->n_idx = n;
    return jinja_work(r, 64 * (size_t)n);
}

int jinja_dict_set(struct rt *r, struct dict *d, struct val k, struct val v)
{
    uint64_t h = 0;
    uint32_t at = 0;
    TRY(hash(r, k, &h));
    TRY(lookup(r, d, k, h, &at));
    if (at < d->n) {
        d->e[at].v = v;
        return OK;
    }
    if (d->n == d->cap) {
        if (d->cap > UINT32_MAX / 16) return jinja_nomem(r);
        uint32_t cap = d->cap ? 2 * d->cap : 4;
        struct pair *m = get(r, cap, sizeof *m);
        if (!m) return E_RANGE;
        if (d->n) memcpy(m, d->e, d->n * sizeof *m);
        d->e = m;
        d->cap = cap;
        if (cap > 8) TRY(reindex(r, d));
    }
    d->e[d->n] = (struct pair){k, v, h};
    d->n++;
    if (d->idx) {
        uint64_t s = h;
        while (d->idx[s & (d->n_idx - 1)]) s++;
        d->idx[s & (d->n_idx - 1)] = d->n;
    }
    return OK;
}

int jinja_dict_get(struct rt *r, const struct dict *d, struct val k, struct val *v)
{
    uint64_t h = 0;
    uint32_t at = 0;
    TRY(hash(r, k, &h));
    TRY(lookup(r, d, k, h, &at));
    if (at == d->n) return 0;
    *v = d->e[at].v;
    return 1;
}

struct val *jinja_dict_str(const struct rt *r, const struct dict *d, struct str k)
{
    if (!d->idx) {
        for (uint32_t i = 0; i < d->n; i++)
            if (d->e[i].k.t == V_STR && d->e[i].k.n == k.n && (k.n == 0 || memcmp(d->e[i].k.u.s, k.p, k.n) == 0))
                return &d->e[i].v;
        return NULL;
    }
    uint64_t h = hash_str(r->seed, k.p, k.n);
    for (uint64_t s = h;; s++) {
        uint32_t i = d->idx[s & (d->n_idx - 1)];
        if (!i) return NULL;
        struct pair *p = &d->e[i - 1];
        if (p->h == h && p->k.t == V_STR && p->k.n == k.n && (k.n == 0 || memcmp(p->k.u.s, k.p, k.n) == 0)) return &p->v;
    }
}

int jinja_from_json(struct rt *r, const json_t *o, struct val *out)
{
    switch (json_typeof(o)) {
    case JSON_NULL: *out = v_none(); return OK;
    case JSON_TRUE:
    case JSON_FALSE: *out = v_bool(json_is_true(o)); return OK;
    case JSON_INTEGER: *out = v_int(json_integer_value(o)); return OK;
    case JSON_REAL: *out = v_float(json_real_value(o)); return OK;
    case JSON_STRING:
        if (json_string_length(o) > INT32_MAX) return jinja_nomem(r);
        *out = v_str(json_string_value(o), json_string_length(o));
        return OK;
    case JSON_ARRAY: {
        struct list *l;
        size_t n = json_array_size(o);
        if (n > UINT32_MAX / 4) return jinja_nomem(r);
        TRY(deeper(r));
        TRY(jinja_list_new(r, (uint32_t)n, &l));
        for (l->n = 0; l->n < n; l->n++) TRY(jinja_from_json(r, json_array_get(o, l->n), &l->v[l->n]));
        r->data_depth--;
        *out = v_list(l);
        return OK;
    }
    default: break;
    }
    struct dict *d;
    TRY(deeper(r));
    TRY(jinja_dict_new(r, &d));
    json_t *me = json_incref((json_t *)(uintptr_t)o); /* jansson's iterators take no const */
    int rc = OK;
    for (void *it = json_object_iter(me); it && rc == OK; it = json_object_iter_next(me, it)) {
        struct val v;
        rc = jinja_from_json(r, json_object_iter_value(it), &v);
        const char *key = json_object_iter_key(it); /* jansson refuses NUL in keys; their length can be asked for only since 2.14 */
        if (rc == OK) rc = jinja_dict_set(r, d, v_str(key, strlen(key)), v);
    }
    json_decref(me);
    r->data_depth--;
    *out = (struct val){.t = V_DICT, .u.o = d};
    return rc;
}

/* ---- iteration */

bool jinja_iterable(struct val v)
{
    switch (v.t) {
    case V_UNDEF:
    case V_STR:
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_RANGE:
    case V_VIEW:
    case V_GEN:
    case V_LOOP: return true;
    default: return false;
    }
}

int jinja_iter(struct rt *r, struct val v, struct iter *it)
{
    *it = (struct iter){.v = v};
    switch (v.t) {
    case V_UNDEF: return OK;
    case V_STR: it->n = v.n; return OK;
    case V_LIST:
    case V_TUPLE: it->n = v.u.l->n; return OK;
    case V_DICT:
    case V_VIEW: it->n = v.u.o->n; return OK;
    case V_RANGE: it->n = v.u.r->n; return OK;
    case V_GEN:
        if (v.u.g->fail) return err_set(r->e, E_FORMAT, "%s", v.u.g->fail);
        it->n = v.u.g->l->n;
        return OK;
    case V_LOOP: return jinja_fail(r, "iterating over 'loop' itself is not supported");
    default: return jinja_fail(r, "'%s' object is not iterable", jinja_type_name(v));
    }
}

static int pair_tuple(struct rt *r, const struct pair *p, struct val *out)
{
    struct list *l;
    TRY(jinja_list_new(r, 2, &l));
    l->v[0] = p->k;
    l->v[1] = p->v;
    l->n = 2;
    *out = v_tuple(l);
    return OK;
}

int jinja_iter_next(struct rt *r, struct iter *it, struct val *v)
{
    if (it->v.t == V_GEN) it->i = it->v.u.g->pos; /* others may read it too */
    if (it->i >= it->n) return 0;
    uint32_t i = it->i++;
    switch (it->v.t) {
    case V_STR: {
        uint32_t cp, k = jinja_cp_at((struct str){it->v.u.s, it->v.n}, i, &cp);
        *v = v_str(it->v.u.s + i, k);
        it->i = i + k;
        break;
    }
    case V_LIST:
    case V_TUPLE: *v = it->v.u.l->v[i]; break;
    case V_DICT: *v = it->v.u.o->e[i].k; break;
    case V_VIEW:
        if (it->v.sub == 2)
            TRY(pair_tuple(r, &it->v.u.o->e[i], v));
        else
            *v = it->v.sub == 0 ? it->v.u.o->e[i].k : it->v.u.o->e[i].v;
        break;
    case V_RANGE: *v = v_int(it->v.u.r->start + (int64_t)i * it->v.u.r->step); break;
    default:
        it->v.u.g->pos = it->i;
        *v = it->v.u.g->l->v[i];
        break;
    }
    TRY(jinja_work(r, 0));
    return 1;
}

int jinja_to_list(struct rt *r, struct val v, struct list **out)
{
    struct iter it;
    struct val x;
    int rc;
    TRY(jinja_iter(r, v, &it));
    TRY(jinja_list_new(r, it.n, out));
    while ((rc = jinja_iter_next(r, &it, &x)) > 0) TRY(jinja_list_push(r, *out, x));
    return rc;
}

int jinja_len(struct rt *r, struct val v, uint64_t *n)
{
    switch (v.t) {
    case V_UNDEF: *n = 0; return OK;
    case V_STR: *n = jinja_cp_count(v_slice(v)); return jinja_work(r, v.n);
    case V_LIST:
    case V_TUPLE: *n = v.u.l->n; return OK;
    case V_DICT:
    case V_VIEW: *n = v.u.o->n; return OK;
    case V_RANGE: *n = v.u.r->n; return OK;
    default: return jinja_fail(r, "object of type '%s' has no len()", jinja_type_name(v));
    }
}

int jinja_contains(struct rt *r, struct val seq, struct val x, bool *out)
{
    *out = false;
    struct iter it;
    struct val y;
    int rc;
    if (seq.t == V_STR) {
        TRY(jinja_need_str(r, x, "'in <string>': the left operand"));
        TRY(jinja_work(r, seq.n));
        *out = jinja_find(v_slice(seq), 0, v_slice(x)) != SIZE_MAX;
        return OK;
    }
    if (seq.t == V_DICT || (seq.t == V_VIEW && seq.sub == 0)) {
        rc = jinja_dict_get(r, seq.u.o, x, &y);
        *out = rc > 0;
        return MIN(rc, OK);
    }
    if (!jinja_iterable(seq)) return jinja_fail(r, "argument of type '%s' is not iterable", jinja_type_name(seq));
    TRY(jinja_iter(r, seq, &it));
    while ((rc = jinja_iter_next(r, &it, &y)) > 0) {
        /* identity first, as Python: a NaN is in the list that holds it */
        if (y.t == V_FLOAT && x.t == V_FLOAT && memcmp(&y.u.d, &x.u.d, 8) == 0 && isnan(x.u.d))
            *out = true;
        else
            TRY(jinja_eq(r, y, x, out));
        if (*out) return OK;
    }
    return rc;
}

/* ---- sorting: bottom-up merge sort of indices, stable */

int jinja_sort(struct rt *r, struct list *keys, struct list *vals, bool reverse)
{
    uint32_t n = keys->n;
    if (n < 2) return OK;
    uint32_t *a = get(r, n, sizeof *a), *b = get(r, n, sizeof *b);
    struct val *v = get(r, 2 * (size_t)n, sizeof *v);
    if (!a || !b || !v) return E_RANGE;
    for (uint32_t i = 0; i < n; i++) a[i] = i;
    for (uint32_t w = 1; w<n; w = w> n / 2 ? n : 2 * w) {
        for (uint32_t lo = 0; lo<n; lo = n - lo> 2 * w ? lo + 2 * w : n) {
            uint32_t mid = n - lo > w ? lo + w : n, hi = n - mid > w ? mid + w : n, i = lo, k = mid;
            for (uint32_t o = lo; o < hi; o++) {
                bool second = i == mid;
                if (i < mid &&
                    k < hi) { /* the later one first only when it is less (reverse: greater), so equals keep their order */
                    int c;
                    TRY(reverse ? jinja_cmp(r, keys->v[a[i]], keys->v[a[k]], "<", &c)
                                : jinja_cmp(r, keys->v[a[k]], keys->v[a[i]], "<", &c));
                    second = c == -1;
                }
                b[o] = second ? a[k++] : a[i++];
            }
        }
        uint32_t *t = a;
        a = b;
        b = t;
    }
    for (uint32_t i = 0; i < n; i++) {
        v[i] = keys->v[a[i]];
        v[n + i] = vals->v[a[i]];
    }
    memcpy(keys->v, v, n * sizeof *v);
    memcpy(vals->v, v + n, n * sizeof *v);
    return OK;
}
