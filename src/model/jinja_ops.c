/* jinja_ops.c: operators, subscripts and attributes with Python's meaning and the sandbox's refusals. Integers have 64 bits; a
 * result beyond them is an error, not another number. */
#include "model/jinja_impl.h"
#include <math.h>
#include <string.h>

static int bad_types(struct rt *r, const char *op, struct val a, struct val b)
{
    if (a.t == V_UNDEF || b.t == V_UNDEF) return jinja_undef_error(r, a.t == V_UNDEF ? a : b);
    if (op[0] == '+' && a.t == V_STR) return jinja_fail(r, "can only concatenate str (not \"%s\") to str", jinja_type_name(b));
    return jinja_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op, jinja_type_name(a), jinja_type_name(b));
}

static int big(struct rt *r) { return jinja_bound(r, "integer beyond 64 bits"); }

static int repeat(struct rt *r, struct val a, int64_t n, struct val *out)
{
    if (n < 0) n = 0;
    size_t len = a.t == V_STR ? a.n : a.u.l->n, total;
    if (!mul_ok(len, (size_t)n, &total) || total > INT32_MAX || total > r->a.max) return jinja_nomem(r);
    TRY(jinja_work(r, total));
    if (a.t == V_STR) {
        char *m = jinja_str_mem(r, total);
        if (!m) return E_RANGE;
        for (size_t i = 0; i < total; i += len) memcpy(m + i, a.u.s, len);
        *out = v_str(m, total);
        out->sub = a.sub;
        return OK;
    }
    struct list *l;
    TRY(jinja_list_new(r, (uint32_t)total, &l));
    for (; l->n < total; l->n += (uint32_t)len) memcpy(l->v + l->n, a.u.l->v, len * sizeof *l->v);
    *out = (struct val){.t = a.t, .u.l = l};
    return OK;
}

static int concat_lists(struct rt *r, struct val a, struct val b, struct val *out)
{
    struct list *l, *x = a.u.l, *y = b.u.l;
    if (x->n > UINT32_MAX / 4 || y->n > UINT32_MAX / 4) return jinja_nomem(r);
    TRY(jinja_work(r, (size_t)x->n + y->n));
    TRY(jinja_list_new(r, x->n + y->n, &l));
    if (x->n) memcpy(l->v, x->v, x->n * sizeof *l->v);
    if (y->n) memcpy(l->v + x->n, y->v, y->n * sizeof *l->v);
    l->n = x->n + y->n;
    *out = (struct val){.t = a.t, .u.l = l};
    return OK;
}

static int add_other(struct rt *r, struct val a, struct val b, struct val *out)
{
    if (a.t == V_STR && b.t == V_STR) {
        bool safe = (a.sub | b.sub) & STR_MARKUP;
        if (safe) {
            TRY(jinja_escape(r, a, &a));
            TRY(jinja_escape(r, b, &b));
        }
        TRY(jinja_str_cat(r, a, b, out));
        out->sub = safe ? STR_MARKUP : 0;
        return OK;
    }
    if ((a.t == V_LIST || a.t == V_TUPLE) && a.t == b.t) return concat_lists(r, a, b, out);
    return bad_types(r, "+", a, b);
}

static int power(struct rt *r, struct val a, struct val b, struct val *out)
{
    int64_t x, n, v = 1;
    if (jinja_as_int(a, &x) && jinja_as_int(b, &n) && n >= 0) {
        if (x == 0 || x == 1 || x == -1) {
            *out = v_int(n == 0 ? 1 : x == -1 && n % 2 == 0 ? 1 : x);
            return OK;
        }
        if (n > 63) return big(r);
        for (; n > 0; n--)
            if (__builtin_mul_overflow(v, x, &v)) return big(r);
        *out = v_int(v);
        return OK;
    }
    double p = jinja_as_double(a), q = jinja_as_double(b), d;
    if (p == 0 && q < 0) return jinja_fail(r, "0.0 cannot be raised to a negative power");
    if (p < 0 && isfinite(p) && isfinite(q) && q != floor(q))
        return jinja_fail(r, "a negative number to a fractional power is complex");
    d = pow(p, q);
    if (isinf(d) && isfinite(p) && isfinite(q)) return jinja_bound(r, "Result too large");
    *out = v_float(d);
    return OK;
}

static int divide(struct rt *r, uint8_t op, struct val a, struct val b, struct val *out)
{
    int64_t x, y;
    double q = jinja_as_double(b), p = jinja_as_double(a);
    if (q == 0) return jinja_fail(r, op == T_DIV ? "division by zero" : "integer division or modulo by zero");
    if (op != T_DIV && jinja_as_int(a, &x) && jinja_as_int(b, &y)) {
        if (y == -1) { /* INT64_MIN / -1 */
            if (op == T_MOD)
                *out = v_int(0);
            else if (x == INT64_MIN)
                return big(r);
            else
                *out = v_int(-x);
            return OK;
        }
        int64_t d = x / y, m = x % y;
        if (m && (m < 0) != (y < 0)) {
            d--;
            m += y;
        }
        *out = v_int(op == T_MOD ? m : d);
        return OK;
    }
    if (op == T_DIV) {
        /* of integers: the quotient of the exact values, rounded (a long double holds all 64 bits) */
        bool ints = jinja_as_int(a, &x) && jinja_as_int(b, &y);
        *out = v_float(ints ? (double)((long double)x / (long double)y) : p / q);
        return OK;
    }
    double m = fmod(p, q);
    if (m != 0) {
        if ((q < 0) != (m < 0)) m += q;
    } else {
        m = copysign(0.0, q);
    }
    if (op == T_MOD) {
        *out = v_float(m);
        return OK;
    }
    /* Python's float_divmod: (p - m) / q is nearly a whole number */
    double d = (p - m) / q, f = 0;
    if (fmod(p, q) != 0 || d != 0) {
        f = floor(d);
        if (d - f > 0.5) f += 1;
    }
    if (d == 0) f = copysign(0.0, p / q);
    *out = v_float(f);
    return OK;
}

int jinja_binop(struct rt *r, uint8_t op, struct val a, struct val b, struct val *out)
{
    static const char *const names[] = {
        [T_ADD] = "+", [T_SUB] = "-", [T_MUL] = "*", [T_DIV] = "/", [T_FLOORDIV] = "//", [T_MOD] = "%", [T_POW] = "**"};
    int64_t x, y, v;
    TRY(jinja_work(r, 0));
    if (op == T_MOD && a.t == V_STR) return jinja_percent(r, a, b, out);
    if (!jinja_is_num(a) || !jinja_is_num(b)) {
        if (op == T_ADD) return add_other(r, a, b, out);
        if (op == T_MUL) {
            if ((a.t == V_STR || a.t == V_LIST || a.t == V_TUPLE) && jinja_as_int(b, &y)) return repeat(r, a, y, out);
            if ((b.t == V_STR || b.t == V_LIST || b.t == V_TUPLE) && jinja_as_int(a, &x)) return repeat(r, b, x, out);
        }
        return bad_types(r, names[op], a, b);
    }
    if (op == T_POW) return power(r, a, b, out);
    if (op == T_DIV || op == T_FLOORDIV || op == T_MOD) return divide(r, op, a, b, out);
    if (jinja_as_int(a, &x) && jinja_as_int(b, &y)) {
        bool over = op == T_ADD   ? __builtin_add_overflow(x, y, &v)
                    : op == T_SUB ? __builtin_sub_overflow(x, y, &v)
                                  : __builtin_mul_overflow(x, y, &v);
        if (over) return big(r);
        *out = v_int(v);
        return OK;
    }
    double p = jinja_as_double(a), q = jinja_as_double(b);
    *out = v_float(op == T_ADD ? p + q : op == T_SUB ? p - q : p * q);
    return OK;
}

int jinja_unary(struct rt *r, bool neg, struct val a, struct val *out)
{
    int64_t i;
    if (a.t == V_UNDEF) return jinja_undef_error(r, a);
    if (a.t == V_FLOAT) {
        *out = v_float(neg ? -a.u.d : a.u.d);
        return OK;
    }
    if (!jinja_as_int(a, &i)) return jinja_fail(r, "bad operand type for unary %s: '%s'", neg ? "-" : "+", jinja_type_name(a));
    if (neg && i == INT64_MIN) return big(r);
    *out = v_int(neg ? -i : i);
    return OK;
}

/* ---- slices */

static int slice_index(struct rt *r, struct val v, bool *given, int64_t *i)
{
    *given = v.t != V_MISSING && v.t != V_NONE;
    if (!*given) return OK;
    if (!jinja_as_int(v, i)) return jinja_fail(r, "slice indices must be integers or None");
    return OK;
}

/* PySlice_AdjustIndices: first index, the index not reached, step, number of items. */
static int slice_bounds(struct rt *r, struct val lo, struct val hi, struct val step, int64_t n, int64_t *start, int64_t *stop,
                        int64_t *by, uint32_t *count)
{
    bool has_lo, has_hi, has_step;
    int64_t a = 0, b = 0;
    *by = 1;
    TRY(slice_index(r, lo, &has_lo, &a));
    TRY(slice_index(r, hi, &has_hi, &b));
    TRY(slice_index(r, step, &has_step, by));
    if (*by == 0) return jinja_fail(r, "slice step cannot be zero");
    if (*by < -INT64_MAX) *by = -INT64_MAX;
    bool back = *by < 0;
    if (!has_lo)
        a = back ? n - 1 : 0;
    else if (a < 0)
        a = a + n < 0 ? (back ? -1 : 0) : a + n;
    else if (a >= n)
        a = back ? n - 1 : n;
    if (!has_hi)
        b = back ? -1 : n;
    else if (b < 0)
        b = b + n < 0 ? (back ? -1 : 0) : b + n;
    else if (b >= n)
        b = back ? n - 1 : n;
    *start = a;
    *stop = b;
    *count = 0;
    if (back ? b < a : a < b) *count = (uint32_t)(back ? (a - b - 1) / -*by + 1 : (b - a - 1) / *by + 1);
    return OK;
}

static int slice_str(struct rt *r, struct val v, int64_t start, int64_t by, uint32_t count, bool ascii, struct val *out)
{
    struct str s = v_slice(v);
    TRY(jinja_work(r, s.n));
    if (by == 1) {
        size_t a = ascii ? (size_t)start : jinja_cp_off(s, (size_t)start);
        struct str rest = {s.p + a, s.n - a};
        *out = v_str(rest.p, ascii ? count : jinja_cp_off(rest, count));
        out->sub = v.sub;
        return OK;
    }
    /* offsets of all characters, then pick */
    uint32_t n = (uint32_t)jinja_cp_count(s), k = 0;
    uint32_t *off = arena_alloc(&r->a, (size_t)n + 1, sizeof *off);
    if (!off) return jinja_nomem(r);
    for (size_t i = 0; i < s.n; i++)
        if (((unsigned char)s.p[i] & 0xc0) != 0x80) off[k++] = (uint32_t)i;
    off[n] = (uint32_t)s.n;
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += off[start + by * i + 1] - off[start + by * i];
    char *m = jinja_str_mem(r, total), *q = m;
    if (!m) return E_RANGE;
    for (uint32_t i = 0; i < count; i++) {
        int64_t c = start + by * i;
        memcpy(q, s.p + off[c], off[c + 1] - off[c]);
        q += off[c + 1] - off[c];
    }
    *out = v_str(m, total);
    out->sub = v.sub;
    return OK;
}

int jinja_slice(struct rt *r, struct val v, struct val lo, struct val hi, struct val step, struct val *out)
{
    int64_t n, start = 0, stop = 0, by = 1;
    uint32_t count = 0;
    uint64_t len;
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (v.t != V_STR && v.t != V_LIST && v.t != V_TUPLE && v.t != V_RANGE)
        return v.t == V_DICT ? jinja_fail(r, "unhashable type: 'slice'")
                             : jinja_fail(r, "'%s' object is not subscriptable", jinja_type_name(v));
    TRY(jinja_len(r, v, &len));
    n = (int64_t)len;
    TRY(slice_bounds(r, lo, hi, step, n, &start, &stop, &by, &count));
    if (v.t == V_STR) return slice_str(r, v, start, by, count, len == v.n, out);
    if (v.t == V_RANGE) {
        struct range *g = arena_alloc(&r->a, 1, sizeof *g);
        if (!g) return jinja_nomem(r);
        const struct range *o = v.u.r;
        g->start = o->start + start * o->step;
        if (__builtin_mul_overflow(o->step, by, &g->step)) return big(r);
        g->n = count;
        g->stop = o->start + stop * o->step;
        *out = (struct val){.t = V_RANGE, .u.r = g};
        return OK;
    }
    struct list *l;
    TRY(jinja_work(r, count));
    TRY(jinja_list_new(r, count, &l));
    for (; l->n < count; l->n++) l->v[l->n] = v.u.l->v[start + by * l->n];
    *out = (struct val){.t = v.t, .u.l = l};
    return OK;
}

/* ---- attributes and items */

/* Methods that change a list or dict, and dunders: reachable in Python, refused by the sandbox when used. */
static bool unsafe_attr(struct val obj, struct str name)
{
    static const char *const list_no[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
    static const char *const dict_no[] = {"clear", "pop", "popitem", "setdefault", "update"};
    if (obj.t == V_LIST)
        for (size_t i = 0; i < ARRAY_LEN(list_no); i++)
            if (str_eq(name, list_no[i])) return true;
    if (obj.t == V_DICT)
        for (size_t i = 0; i < ARRAY_LEN(dict_no); i++)
            if (str_eq(name, dict_no[i])) return true;
    static const char *const dunder[] = {"__class__",   "__init__",         "__doc__",     "__dict__",    "__getattribute__",
                                         "__eq__",      "__hash__",         "__len__",     "__iter__",    "__repr__",
                                         "__str__",     "__subclasshook__", "__new__",     "__reduce__",  "__reduce_ex__",
                                         "__dir__",     "__format__",       "__ne__",      "__sizeof__",  "__init_subclass__",
                                         "__getitem__", "__contains__",     "__setattr__", "__delattr__", "__lt__",
                                         "__gt__",      "__le__",           "__ge__"};
    if (name.n < 5 || memcmp(name.p, "__", 2) != 0 || obj.t == V_NS) return false;
    for (size_t i = 0; i < ARRAY_LEN(dunder); i++)
        if (str_eq(name, dunder[i])) return true;
    return false;
}

/* Python attributes: methods and the fields of our own objects. 1 found, 0 not. */
static int attribute(struct rt *r, struct val obj, struct str name, struct val *out)
{
    const struct jinja_fn *f = jinja_find_method(obj.t, name);
    if (f) {
        struct method *m = arena_alloc(&r->a, 1, sizeof *m);
        if (!m) return jinja_nomem(r);
        *m = (struct method){obj, f};
        *out = (struct val){.t = V_METHOD, .u.me = m};
        return 1;
    }
    switch (obj.t) {
    case V_NS: {
        const struct val *v = jinja_dict_str(r, obj.u.ns->d, name);
        if (v) *out = *v;
        return v != NULL;
    }
    case V_LOOP: return jinja_loop_attr(r, obj.u.loop, name, out);
    case V_TUPLE:
        if (!(obj.sub & TUPLE_GROUP)) break;
        if (str_eq(name, "grouper") || str_eq(name, "list")) {
            *out = obj.u.l->v[name.p[0] == 'l'];
            return 1;
        }
        break;
    case V_RANGE:
        if (str_eq(name, "start") || str_eq(name, "stop") || str_eq(name, "step")) {
            *out = v_int(name.n == 5 ? obj.u.r->start : name.p[2] == 'o' ? obj.u.r->stop : obj.u.r->step);
            return 1;
        }
        break;
    case V_CYCLER:
        if (str_eq(name, "current")) {
            *out = obj.u.cy->l->v[obj.u.cy->pos];
            return 1;
        }
        if (str_eq(name, "pos")) {
            *out = v_int(obj.u.cy->pos);
            return 1;
        }
        if (str_eq(name, "items")) {
            *out = v_tuple(obj.u.cy->l);
            return 1;
        }
        break;
    case V_MACRO:
        if (str_eq(name, "name")) {
            *out = obj.u.m->def->store ? v_str(obj.u.m->def->name.p, obj.u.m->def->name.n) : v_none();
            return 1;
        }
        if (str_eq(name, "caller") || str_eq(name, "catch_kwargs") || str_eq(name, "catch_varargs")) {
            *out = v_bool(name.n == 6 ? obj.u.m->def->caller : name.p[6] == 'k' ? obj.u.m->def->kwargs : obj.u.m->def->varargs);
            return 1;
        }
        break;
    case V_INT:
    case V_BOOL:
        if (str_eq(name, "real") || str_eq(name, "numerator")) {
            *out = v_int(obj.t == V_INT ? obj.u.i : obj.u.b);
            return 1;
        }
        break;
    default: break;
    }
    return 0;
}

static struct val unsafe(struct val obj, struct str name)
{
    struct val u = jinja_undef_attr(obj, name);
    u.sub = UNDEF_UNSAFE;
    return u;
}

int jinja_getattr(struct rt *r, struct val obj, struct str name, struct val *out)
{
    if (obj.t == V_DICT) { /* the common case first: a key that is no method's name */
        const struct val *v = jinja_dict_str(r, obj.u.o, name);
        if (v && !jinja_find_method(V_DICT, name) && !unsafe_attr(obj, name)) {
            *out = *v;
            return OK;
        }
    }
    if (obj.t == V_UNDEF && !unsafe_attr(obj, name)) return jinja_undef_error(r, obj);
    int rc = attribute(r, obj, name, out);
    if (rc < 0) return rc;
    if (rc) return OK;
    *out = unsafe_attr(obj, name) ? unsafe(obj, name) : jinja_undef_attr(obj, name);
    return OK;
}

/* obj[key] alone: 1 found, 0 not (which Python tells by TypeError or LookupError). */
static int item(struct rt *r, struct val obj, struct val key, struct val *out)
{
    int64_t i;
    uint64_t n;
    switch (obj.t) {
    case V_DICT:
        if (key.t == V_STR) {
            const struct val *v = jinja_dict_str(r, obj.u.o, v_slice(key));
            if (v) *out = *v;
            return v != NULL;
        }
        if (key.t == V_LIST || key.t == V_DICT || key.t == V_VIEW) return 0; /* unhashable */
        return jinja_dict_get(r, obj.u.o, key, out);
    case V_STR:
    case V_LIST:
    case V_TUPLE:
    case V_RANGE:
        if (!jinja_as_int(key, &i)) return 0;
        TRY(jinja_len(r, obj, &n));
        if (i < 0) i += (int64_t)n;
        if (i < 0 || (uint64_t)i >= n) return 0;
        if (obj.t == V_STR) return slice_str(r, obj, i, 1, 1, n == obj.n, out) < 0 ? E_RANGE : 1;
        *out = obj.t == V_RANGE ? v_int(obj.u.r->start + i * obj.u.r->step) : obj.u.l->v[i];
        return 1;
    default: return 0;
    }
}

int jinja_getitem(struct rt *r, struct val obj, struct val key, struct val *out)
{
    TRY(jinja_work(r, 0));
    if (obj.t == V_UNDEF) return jinja_undef_error(r, obj);
    int rc = item(r, obj, key, out);
    if (rc < 0) return rc;
    if (rc) return OK;
    if (key.t == V_STR) {
        rc = attribute(r, obj, v_slice(key), out);
        if (rc < 0) return rc;
        if (rc) return OK;
        *out = unsafe_attr(obj, v_slice(key)) ? unsafe(obj, v_slice(key)) : jinja_undef_attr(obj, v_slice(key));
        return OK;
    }
    *out = jinja_undef_hint("no such element");
    return OK;
}
