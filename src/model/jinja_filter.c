/* jinja_filter.c: filters over sequences and mappings, numbers, and the tests. What Jinja2 gives as a generator is made at once
 * here, but can be read only once too. Text filters are in jinja_filter_text.c. */
#include "model/jinja_impl.h"
#include <math.h>
#include <string.h>

#define F(name) static int name(struct rt *r, struct val v, struct val *a, struct val *out)

static bool given(struct val v) { return v.t != V_MISSING && v.t != V_NONE; }
static bool flag(struct val v) { return v.t != V_MISSING && jinja_truth(v); }

/* ---- attribute getters */

/* One step of make_attrgetter: item[part], digits as an index. */
static int step(struct rt *r, struct val v, struct str part, struct val *out)
{
    int64_t i;
    bool digits = jinja_is_class(part, "isdigit") && jinja_parse_int(part, 10, &i) == 0;
    return jinja_getitem(r, v, digits ? v_int(i) : v_str(part.p, part.n), out);
}

int jinja_attr_path(struct rt *r, struct val v, struct val attr, struct val def, struct val *out)
{
    if (attr.t == V_STR) {
        for (struct str s = v_slice(attr);;) {
            const char *dot = memchr(s.p, '.', s.n);
            size_t n = dot ? (size_t)(dot - s.p) : s.n;
            TRY(step(r, v, (struct str){s.p, n}, &v));
            if (def.t != V_MISSING && def.t != V_NONE && v.t == V_UNDEF) v = def;
            if (!dot) break;
            s.p += n + 1;
            s.n -= n + 1;
        }
    } else if (given(attr)) {
        TRY(jinja_getitem(r, v, attr, &v));
        if (def.t != V_MISSING && def.t != V_NONE && v.t == V_UNDEF) v = def;
    }
    *out = v;
    return OK;
}

/* What sorting, grouping and unique compare: the attribute, lower case unless case counts. */
static int sort_key(struct rt *r, struct val v, struct val attr, struct val def, bool case_sensitive, struct val *out)
{
    TRY(jinja_attr_path(r, v, attr, def, out));
    return !case_sensitive && out->t == V_STR ? jinja_case_of(r, v_slice(*out), CASE_LOWER, out) : OK;
}

/* ---- sequences */

F(f_list)
{
    (void)a;
    struct list *l;
    TRY(jinja_to_list(r, v, &l));
    *out = v_list(l);
    return OK;
}

F(f_length)
{
    (void)a;
    uint64_t n;
    if (v.t == V_LOOP) {
        int rc = jinja_loop_attr(r, v.u.loop, str_of("length"), out);
        return MIN(rc, OK);
    }
    TRY(jinja_len(r, v, &n));
    *out = v_int((int64_t)n);
    return OK;
}

F(f_first)
{
    (void)a;
    struct iter it;
    TRY(jinja_iter(r, v, &it));
    int rc = jinja_iter_next(r, &it, out);
    if (rc == 0) *out = jinja_undef_hint("No first item, sequence was empty.");
    return MIN(rc, OK);
}

/* reversed(v) as a new list; only what Python can reverse. */
static int reversed(struct rt *r, struct val v, struct list **l)
{
    if (v.t == V_GEN || !jinja_iterable(v)) return jinja_fail(r, "'%s' object is not reversible", jinja_type_name(v));
    TRY(jinja_to_list(r, v, l));
    for (uint32_t i = 0; i < (*l)->n / 2; i++) {
        struct val t = (*l)->v[i];
        (*l)->v[i] = (*l)->v[(*l)->n - 1 - i];
        (*l)->v[(*l)->n - 1 - i] = t;
    }
    return OK;
}

F(f_last)
{
    (void)a;
    struct list *l;
    TRY(reversed(r, v, &l));
    *out = l->n ? l->v[0] : jinja_undef_hint("No last item, sequence was empty.");
    return OK;
}

F(f_reverse)
{
    (void)a;
    struct list *l;
    if (v.t == V_STR) return jinja_slice(r, v, v_none(), v_none(), v_int(-1), out);
    if (v.t == V_GEN) { /* list(value).reverse() */
        TRY(jinja_to_list(r, v, &l));
        TRY(reversed(r, v_list(l), &l));
        *out = v_list(l);
        return OK;
    }
    TRY(reversed(r, v, &l));
    return jinja_gen_new(r, l, out);
}

F(f_join)
{
    struct iter it;
    struct val x, d = a[0].t == V_MISSING ? v_str("", 0) : a[0];
    struct buf b;
    int rc;
    TRY(jinja_str(r, d, &d));
    TRY(jinja_iter(r, v, &it));
    jinja_buf_init(r, &b);
    for (uint32_t i = 0; (rc = jinja_iter_next(r, &it, &x)) > 0; i++) {
        if (i) buf_put(&b, d.u.s, d.n);
        if ((rc = jinja_attr_path(r, x, a[1], v_missing(), &x)) < 0) break;
        if ((rc = jinja_work(r, d.n)) < 0 || (rc = jinja_put_str(r, &b, x)) < 0) break;
    }
    if (rc < 0) {
        buf_free(&b);
        return rc;
    }
    return jinja_str_take(r, &b, out);
}

static int keys_of(struct rt *r, const struct list *l, struct val attr, struct val def, bool cs, struct list **keys)
{
    TRY(jinja_list_new(r, l->n, keys));
    for (uint32_t i = 0; i < l->n; i++) {
        struct val k;
        TRY(sort_key(r, l->v[i], attr, def, cs, &k));
        TRY(jinja_list_push(r, *keys, k));
    }
    return OK;
}

/* Python compares lists of keys, one for each attribute of "a,b": that asks == before <, so equal values without an order are no
 * error. */
static int multi_keys(struct rt *r, const struct list *l, struct val attr, bool cs, struct list **keys)
{
    bool several = attr.t == V_STR && memchr(attr.u.s, ',', attr.n);
    TRY(jinja_list_new(r, l->n, keys));
    for (uint32_t i = 0; i < l->n; i++) {
        struct list *parts;
        struct str s = attr.t == V_STR ? v_slice(attr) : (struct str){0};
        TRY(jinja_list_new(r, 1, &parts));
        for (bool more = true; more;) {
            const char *c = several ? memchr(s.p, ',', s.n) : NULL;
            size_t n = c ? (size_t)(c - s.p) : s.n;
            struct val k;
            TRY(sort_key(r, l->v[i], attr.t == V_STR ? v_str(s.p, n) : attr, v_missing(), cs, &k));
            TRY(jinja_list_push(r, parts, k));
            more = c != NULL;
            s = more ? (struct str){s.p + n + 1, s.n - n - 1} : s;
        }
        TRY(jinja_list_push(r, *keys, v_list(parts)));
    }
    return OK;
}

/* sorted() wants an integer for reverse. */
static int reverse_arg(struct rt *r, struct val v, bool *out)
{
    int64_t i = 0;
    if (v.t == V_UNDEF) return jinja_fail(r, "'Undefined' object cannot be interpreted as an integer");
    if (v.t != V_MISSING) TRY(jinja_need_int(r, v, &i));
    *out = i != 0;
    return OK;
}

F(f_sort)
{
    struct list *l, *keys;
    bool rev = false;
    TRY(reverse_arg(r, a[0], &rev));
    TRY(jinja_to_list(r, v, &l));
    TRY(multi_keys(r, l, a[2], flag(a[1]), &keys));
    TRY(jinja_sort(r, keys, l, rev));
    *out = v_list(l);
    return OK;
}

F(f_unique)
{
    struct iter it;
    struct val x, k, seen;
    struct list *l;
    struct dict *d;
    int rc;
    TRY(jinja_iter(r, v, &it));
    TRY(jinja_list_new(r, 0, &l));
    TRY(jinja_dict_new(r, &d));
    while ((rc = jinja_iter_next(r, &it, &x)) > 0) {
        TRY(sort_key(r, x, a[1], v_missing(), flag(a[0]), &k));
        TRY(rc = jinja_dict_get(r, d, k, &seen));
        if (rc) continue;
        TRY(jinja_dict_set(r, d, k, v_none()));
        TRY(jinja_list_push(r, l, x));
    }
    return rc < 0 ? rc : jinja_gen_new(r, l, out);
}

static int extreme(struct rt *r, struct val v, struct val *a, bool max, struct val *out)
{
    struct iter it;
    struct val x, k, best = v_missing();
    int rc, c;
    TRY(jinja_iter(r, v, &it));
    *out = jinja_undef_hint("No aggregated item, sequence was empty.");
    while ((rc = jinja_iter_next(r, &it, &x)) > 0) {
        TRY(sort_key(r, x, a[1], v_missing(), flag(a[0]), &k));
        if (best.t != V_MISSING) {
            TRY(jinja_cmp(r, k, best, max ? ">" : "<", &c));
            if (c != (max ? 1 : -1)) continue;
        }
        best = k;
        *out = x;
    }
    return rc;
}
F(f_min) { return extreme(r, v, a, false, out); }
F(f_max) { return extreme(r, v, a, true, out); }

F(f_sum)
{
    struct iter it;
    struct val x, s = a[1].t == V_MISSING ? v_int(0) : a[1];
    int rc;
    if (s.t == V_STR) return jinja_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    TRY(jinja_iter(r, v, &it));
    while ((rc = jinja_iter_next(r, &it, &x)) > 0) {
        TRY(jinja_attr_path(r, x, a[0], v_missing(), &x));
        TRY(jinja_binop(r, T_ADD, s, x, &s));
    }
    *out = s;
    return rc;
}

F(f_groupby)
{
    struct list *l, *keys, *res;
    TRY(jinja_to_list(r, v, &l));
    TRY(keys_of(r, l, a[0], a[1], flag(a[2]), &keys));
    TRY(jinja_sort(r, keys, l, false));
    TRY(jinja_list_new(r, 0, &res));
    for (uint32_t i = 0; i < l->n;) {
        struct list *g, *t;
        uint32_t k = i;
        TRY(jinja_list_new(r, 0, &g));
        for (bool eq = true; k < l->n; k++) {
            if (k > i) TRY(jinja_eq(r, keys->v[i], keys->v[k], &eq));
            if (!eq) break;
            TRY(jinja_list_push(r, g, l->v[k]));
        }
        TRY(jinja_list_new(r, 2, &t));
        TRY(jinja_attr_path(r, l->v[i], a[0], a[1], &t->v[0])); /* the first one's own spelling */
        t->v[1] = v_list(g);
        t->n = 2;
        TRY(jinja_list_push(r, res, (struct val){.t = V_TUPLE, .sub = TUPLE_GROUP, .u.l = t}));
        i = k;
    }
    *out = v_list(res);
    return OK;
}

F(f_slice)
{
    struct list *l, *res;
    int64_t n;
    TRY(jinja_need_int(r, a[0], &n));
    TRY(jinja_to_list(r, v, &l));
    if (n == 0) return jinja_fail(r, "integer division or modulo by zero");
    if (n > JINJA_MAX_RANGE) return jinja_bound(r, "more than %d slices", JINJA_MAX_RANGE);
    TRY(jinja_list_new(r, 0, &res));
    uint32_t each = n > 0 ? l->n / (uint32_t)n : 0, extra = n > 0 ? l->n % (uint32_t)n : 0, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct list *s;
        uint32_t k = each + (i < extra);
        TRY(jinja_list_new(r, k + 1, &s));
        if (k) memcpy(s->v, l->v + at, k * sizeof *s->v);
        s->n = k;
        at += k;
        if (given(a[1]) && i >= extra) TRY(jinja_list_push(r, s, a[1]));
        TRY(jinja_list_push(r, res, v_list(s)));
    }
    return jinja_gen_new(r, res, out);
}

F(f_batch)
{
    struct iter it;
    struct val x;
    struct list *res, *tmp;
    int64_t n;
    int rc;
    bool is_int = jinja_as_int(a[0], &n);
    if (!is_int) n = -1; /* never equal to a length */
    TRY(jinja_iter(r, v, &it));
    TRY(jinja_list_new(r, 0, &res));
    TRY(jinja_list_new(r, 0, &tmp));
    while ((rc = jinja_iter_next(r, &it, &x)) > 0) {
        if (tmp->n == n) {
            TRY(jinja_list_push(r, res, v_list(tmp)));
            TRY(jinja_list_new(r, 0, &tmp));
        }
        TRY(jinja_list_push(r, tmp, x));
    }
    if (rc < 0) return rc;
    if (tmp->n) {
        if (given(a[1]) && !is_int) return jinja_fail(r, "'%s' is no batch size", jinja_type_name(a[0]));
        if (given(a[1]) && n > JINJA_MAX_RANGE) return jinja_bound(r, "batches of more than %d items", JINJA_MAX_RANGE);
        while (given(a[1]) && tmp->n < n) TRY(jinja_list_push(r, tmp, a[1]));
        TRY(jinja_list_push(r, res, v_list(tmp)));
    }
    return jinja_gen_new(r, res, out);
}

/* ---- mappings */

F(f_items)
{
    (void)a;
    struct list *l;
    if (v.t == V_UNDEF) {
        TRY(jinja_list_new(r, 0, &l));
    } else {
        if (v.t != V_DICT) return jinja_fail(r, "Can only get item pairs from a mapping.");
        TRY(jinja_to_list(r, (struct val){.t = V_VIEW, .sub = 2, .u.o = v.u.o}, &l));
    }
    return jinja_gen_new(r, l, out);
}

F(f_dictsort)
{
    struct list *l, *keys;
    bool by_value = false, rev = false;
    TRY(reverse_arg(r, a[2], &rev));
    if (a[1].t != V_MISSING) {
        if (a[1].t == V_STR && str_eq(v_slice(a[1]), "value"))
            by_value = true;
        else if (a[1].t != V_STR || !str_eq(v_slice(a[1]), "key"))
            return jinja_fail(r, "You can only sort by either \"key\" or \"value\"");
    }
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (v.t != V_DICT) return jinja_fail(r, "'%s object' has no attribute 'items'", jinja_type_name(v));
    TRY(jinja_to_list(r, (struct val){.t = V_VIEW, .sub = 2, .u.o = v.u.o}, &l));
    TRY(keys_of(r, l, v_int(by_value), v_missing(), flag(a[0]), &keys));
    TRY(jinja_sort(r, keys, l, rev));
    *out = v_list(l);
    return OK;
}

F(f_attr)
{
    if (a[0].t != V_STR) return jinja_fail(r, "attribute name must be string, not '%s'", jinja_type_name(a[0]));
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (v.t != V_DICT) return jinja_getattr(r, v, v_slice(a[0]), out);
    /* no fall back to items: an empty dict in place of this one */
    struct dict none = {0};
    TRY(jinja_getattr(r, (struct val){.t = V_DICT, .u.o = &none}, v_slice(a[0]), out));
    if (out->t == V_METHOD) out->u.me->self = v;
    return OK;
}

/* ---- map, select, reject */

static int named(struct rt *r, const struct args *g, uint32_t at, bool filter, const struct jinja_fn **fn)
{
    *fn = NULL;
    if (at >= g->n) return OK;
    if (g->v[at].t == V_STR) *fn = filter ? jinja_find_filter(v_slice(g->v[at])) : jinja_find_test(v_slice(g->v[at]));
    if (*fn) return OK;
    if (g->v[at].t == V_UNDEF) return jinja_undef_error(r, g->v[at]);
    return jinja_fail(r, "No %s named '%.*s'", filter ? "filter" : "test", g->v[at].t == V_STR ? (int)MIN(g->v[at].n, 60u) : 0,
                      g->v[at].t == V_STR ? g->v[at].u.s : "");
}

static int f_map(struct rt *r, struct val v, const struct args *g, struct val *out)
{
    struct iter it;
    struct val x, attr = v_missing(), def = v_none();
    struct list *l;
    const struct jinja_fn *fn = NULL;
    int rc;
    TRY(jinja_list_new(r, 0, &l));
    if (jinja_truth(v)) {
        for (uint32_t i = 0; i < g->n_kw; i++) {
            if (str_eq(g->kw[i], "attribute")) attr = g->kv[i];
            if (str_eq(g->kw[i], "default")) def = g->kv[i];
        }
        if (!g->n && attr.t != V_MISSING) {
            for (uint32_t i = 0; i < g->n_kw; i++)
                if (!str_eq(g->kw[i], "attribute") && !str_eq(g->kw[i], "default"))
                    return jinja_fail(r, "Unexpected keyword argument of map");
        } else {
            if (!g->n) return jinja_fail(r, "map requires a filter argument");
            attr = v_missing();
            TRY(named(r, g, 0, true, &fn));
        }
        struct args rest = {g->v + 1, g->n - 1, g->n_kw, g->kw, g->kv};
        TRY(jinja_iter(r, v, &it));
        while ((rc = jinja_iter_next(r, &it, &x)) > 0) {
            TRY(fn ? jinja_call_fn(r, fn, x, &rest, "|", &x) : jinja_attr_path(r, x, attr, def, &x));
            TRY(jinja_list_push(r, l, x));
        }
        if (rc < 0) return rc;
    }
    return jinja_gen_new(r, l, out);
}

static int choose(struct rt *r, struct val v, const struct args *g, bool attr, bool keep, struct val *out)
{
    struct iter it;
    struct val x, y;
    struct list *l;
    const struct jinja_fn *fn;
    int rc;
    TRY(jinja_list_new(r, 0, &l));
    if (jinja_truth(v)) {
        if (attr && !g->n) return jinja_fail(r, "Missing parameter for attribute name");
        TRY(named(r, g, attr, false, &fn));
        struct args rest = {g->v + attr + 1, g->n > attr + 1u ? g->n - attr - 1 : 0, g->n_kw, g->kw, g->kv};
        TRY(jinja_iter(r, v, &it));
        while ((rc = jinja_iter_next(r, &it, &x)) > 0) {
            y = x;
            if (attr) TRY(jinja_attr_path(r, x, g->v[0], v_missing(), &y));
            if (fn) TRY(jinja_call_fn(r, fn, y, &rest, "is ", &y));
            if (jinja_truth(y) == keep) TRY(jinja_list_push(r, l, x));
        }
        if (rc < 0) return rc;
    }
    return jinja_gen_new(r, l, out);
}
static int f_select(struct rt *r, struct val v, const struct args *g, struct val *out)
{
    return choose(r, v, g, false, true, out);
}
static int f_reject(struct rt *r, struct val v, const struct args *g, struct val *out)
{
    return choose(r, v, g, false, false, out);
}
static int f_selectattr(struct rt *r, struct val v, const struct args *g, struct val *out)
{
    return choose(r, v, g, true, true, out);
}
static int f_rejectattr(struct rt *r, struct val v, const struct args *g, struct val *out)
{
    return choose(r, v, g, true, false, out);
}

/* ---- numbers and others */

F(f_default)
{
    (void)r;
    *out = v.t == V_UNDEF || (flag(a[1]) && !jinja_truth(v)) ? (a[0].t == V_MISSING ? v_str("", 0) : a[0]) : v;
    return OK;
}

F(f_abs)
{
    (void)a;
    int64_t i;
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (v.t == V_FLOAT) {
        *out = v_float(fabs(v.u.d));
        return OK;
    }
    if (!jinja_as_int(v, &i)) return jinja_fail(r, "bad operand type for abs(): '%s'", jinja_type_name(v));
    *out = v_int(i);
    return i < 0 ? jinja_unary(r, true, *out, out) : OK;
}

static int trunc_int(struct rt *r, double d, struct val *out)
{
    if (fabs(d) >= 0x1p63) return jinja_bound(r, "integer beyond 64 bits");
    *out = v_int((int64_t)d);
    return OK;
}

F(f_int)
{
    int64_t base = 10, i;
    double d;
    if (a[1].t != V_MISSING) TRY(jinja_need_int(r, a[1], &base));
    *out = a[0].t == V_MISSING ? v_int(0) : a[0];
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (jinja_as_int(v, &i)) {
        *out = v_int(i);
        return OK;
    }
    if (v.t == V_FLOAT) {
        if (isinf(v.u.d)) return jinja_fail(r, "cannot convert float infinity to integer");
        return isnan(v.u.d) ? OK : trunc_int(r, v.u.d, out);
    }
    if (v.t != V_STR) return OK;
    int rc = base == 0 || (base >= 2 && base <= 36) ? jinja_parse_int(v_slice(v), (int)base, &i) : -1;
    if (rc == -2) return jinja_bound(r, "integer beyond 64 bits");
    if (rc == 0)
        *out = v_int(i);
    else if (jinja_parse_float(v_slice(v), &d) && !isnan(d) && !isinf(d))
        return trunc_int(r, d, out);
    return OK;
}

F(f_float)
{
    double d;
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (jinja_is_num(v))
        *out = v_float(jinja_as_double(v));
    else if (v.t == V_STR && jinja_parse_float(v_slice(v), &d))
        *out = v_float(d);
    else
        *out = a[0].t == V_MISSING ? v_float(0) : a[0];
    return OK;
}

F(f_round)
{
    int64_t digits = 0;
    struct str m = str_of("common");
    if (a[1].t != V_MISSING) {
        if (a[1].t != V_STR) return jinja_fail(r, "method must be common, ceil or floor");
        m = v_slice(a[1]);
    }
    bool ceil_it = str_eq(m, "ceil"), common = str_eq(m, "common");
    if (!common && !ceil_it && !str_eq(m, "floor")) return jinja_fail(r, "method must be common, ceil or floor");
    if (common && a[0].t == V_NONE) return jinja_round(r, v, 0, out); /* round(x, None): an integer */
    if (a[0].t != V_MISSING) TRY(jinja_need_int(r, a[0], &digits));
    if (common) return jinja_round(r, v, digits, out);
    struct val p;
    TRY(jinja_binop(r, T_POW, v_int(10), v_int(digits), &p));
    TRY(jinja_binop(r, T_MUL, v, p, &v));
    if (!jinja_is_num(v)) return jinja_fail(r, "must be real number, not %s", jinja_type_name(v));
    if (v.t == V_FLOAT) {
        if (isnan(v.u.d) || isinf(v.u.d)) return jinja_fail(r, "cannot convert float NaN or infinity to integer");
        TRY(trunc_int(r, ceil_it ? ceil(v.u.d) : floor(v.u.d), &v));
    }
    return jinja_binop(r, T_DIV, v, p, out);
}

F(f_random)
{
    (void)a;
    uint64_t n;
    TRY(jinja_len(r, v, &n));
    if (!n) {
        *out = jinja_undef_hint("No random item, sequence was empty.");
        return OK;
    }
    r->rnd = r->rnd * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    return jinja_getitem(r, v, v_int((int64_t)((r->rnd >> 33) % n)), out);
}

/* ---- tests */

#define T(name, expr)                                                                                                            \
    static int name(struct rt *r, struct val v, struct val *a, struct val *out)                                                  \
    {                                                                                                                            \
        (void)r, (void)a;                                                                                                        \
        *out = v_bool(expr);                                                                                                     \
        return OK;                                                                                                               \
    }
T(t_defined, v.t != V_UNDEF)
T(t_undefined, v.t == V_UNDEF)
T(t_none, v.t == V_NONE)
T(t_boolean, v.t == V_BOOL)
T(t_true, v.t == V_BOOL && v.u.b)
T(t_false, v.t == V_BOOL && !v.u.b)
T(t_integer, v.t == V_INT)
T(t_float, v.t == V_FLOAT)
T(t_number, jinja_is_num(v))
T(t_string, v.t == V_STR)
T(t_mapping, v.t == V_DICT)
T(t_iterable, jinja_iterable(v))
T(t_sequence, v.t == V_STR || v.t == V_LIST || v.t == V_TUPLE || v.t == V_DICT || v.t == V_RANGE || v.t == V_UNDEF)
T(t_callable, v.t == V_FUNC || v.t == V_METHOD || v.t == V_MACRO || v.t == V_LOOP || v.t == V_JOINER || v.t == V_UNDEF)
T(t_escaped, v.t == V_STR && v.sub & STR_MARKUP)

static int known(struct rt *r, struct val v, const struct jinja_fn *(*find)(struct str), struct val *out)
{
    if (v.t == V_LIST || v.t == V_DICT || v.t == V_VIEW) return jinja_fail(r, "unhashable type: '%s'", jinja_type_name(v));
    *out = v_bool(v.t == V_STR && find(v_slice(v)));
    return OK;
}
F(t_filter)
{
    (void)a;
    return known(r, v, jinja_find_filter, out);
}
F(t_test)
{
    (void)a;
    return known(r, v, jinja_find_test, out);
}

/* identity: exact for None, booleans and small values, by object for the rest (Python's small strings and numbers are one object
 * mostly) */
T(t_sameas,
  v.t == a[0].t && (v.t == V_NONE || (v.t == V_BOOL && v.u.b == a[0].u.b) || (v.t == V_INT && v.u.i == a[0].u.i) ||
                    (v.t == V_STR && v.n == a[0].n && (v.n == 0 || v.u.s == a[0].u.s)) || (v.t > V_STR && v.u.s == a[0].u.s)))

static int mod_is(struct rt *r, struct val v, struct val num, int64_t want, struct val *out)
{
    struct val m;
    bool eq;
    TRY(jinja_binop(r, T_MOD, v, num, &m));
    TRY(jinja_eq(r, m, v_int(want), &eq));
    *out = v_bool(eq);
    return OK;
}
F(t_odd)
{
    (void)a;
    return mod_is(r, v, v_int(2), 1, out);
}
F(t_even)
{
    (void)a;
    return mod_is(r, v, v_int(2), 0, out);
}
F(t_divisibleby) { return mod_is(r, v, a[0], 0, out); }

static int is_case(struct rt *r, struct val v, const char *c, struct val *out)
{
    TRY(jinja_str(r, v, &v));
    *out = v_bool(jinja_is_class(v_slice(v), c));
    return OK;
}
F(t_lower)
{
    (void)a;
    return is_case(r, v, "islower", out);
}
F(t_upper)
{
    (void)a;
    return is_case(r, v, "isupper", out);
}

static int order(struct rt *r, struct val v, struct val w, const char *op, struct val *out)
{
    int c;
    TRY(jinja_cmp(r, v, w, op, &c));
    bool lt = op[0] == '<', eq = op[1] == '=';
    *out = v_bool(c != 2 && ((eq && c == 0) || c == (lt ? -1 : 1)));
    return OK;
}
F(t_lt) { return order(r, v, a[0], "<", out); }
F(t_le) { return order(r, v, a[0], "<=", out); }
F(t_gt) { return order(r, v, a[0], ">", out); }
F(t_ge) { return order(r, v, a[0], ">=", out); }
F(t_eq)
{
    bool b;
    TRY(jinja_eq(r, v, a[0], &b));
    *out = v_bool(b);
    return OK;
}
F(t_ne)
{
    TRY(t_eq(r, v, a, out));
    out->u.b = !out->u.b;
    return OK;
}
F(t_in)
{
    bool b;
    TRY(jinja_contains(r, a[0], v, &b));
    *out = v_bool(b);
    return OK;
}

static const struct jinja_fn tests[] = {
    {"!=", t_ne, NULL, "other", 1, true, false},          {"<", t_lt, NULL, "other", 1, true, false},
    {"<=", t_le, NULL, "other", 1, true, false},          {"==", t_eq, NULL, "other", 1, true, false},
    {">", t_gt, NULL, "other", 1, true, false},           {">=", t_ge, NULL, "other", 1, true, false},
    {"boolean", t_boolean, NULL, "", 0, false, false},    {"callable", t_callable, NULL, "", 0, true, false},
    {"defined", t_defined, NULL, "", 0, false, false},    {"divisibleby", t_divisibleby, NULL, "num", 1, false, false},
    {"eq", t_eq, NULL, "other", 1, true, false},          {"equalto", t_eq, NULL, "other", 1, true, false},
    {"escaped", t_escaped, NULL, "", 0, false, false},    {"even", t_even, NULL, "", 0, false, false},
    {"false", t_false, NULL, "", 0, false, false},        {"filter", t_filter, NULL, "", 0, false, false},
    {"float", t_float, NULL, "", 0, false, false},        {"ge", t_ge, NULL, "other", 1, true, false},
    {"greaterthan", t_gt, NULL, "other", 1, true, false}, {"gt", t_gt, NULL, "other", 1, true, false},
    {"in", t_in, NULL, "seq", 1, false, false},           {"integer", t_integer, NULL, "", 0, false, false},
    {"iterable", t_iterable, NULL, "", 0, false, false},  {"le", t_le, NULL, "other", 1, true, false},
    {"lessthan", t_lt, NULL, "other", 1, true, false},    {"lower", t_lower, NULL, "", 0, false, false},
    {"lt", t_lt, NULL, "other", 1, true, false},          {"mapping", t_mapping, NULL, "", 0, false, false},
    {"ne", t_ne, NULL, "other", 1, true, false},          {"none", t_none, NULL, "", 0, false, false},
    {"number", t_number, NULL, "", 0, false, false},      {"odd", t_odd, NULL, "", 0, false, false},
    {"sameas", t_sameas, NULL, "other", 1, false, false}, {"sequence", t_sequence, NULL, "", 0, false, false},
    {"string", t_string, NULL, "", 0, false, false},      {"test", t_test, NULL, "", 0, false, false},
    {"true", t_true, NULL, "", 0, false, false},          {"undefined", t_undefined, NULL, "", 0, false, false},
    {"upper", t_upper, NULL, "", 0, false, false},
};

static const struct jinja_fn filters[] = {
    {"abs", f_abs, NULL, "", 0, false, false},
    {"attr", f_attr, NULL, "name", 1, false, false},
    {"batch", f_batch, NULL, "linecount,fill_with", 1, false, true},
    {"count", f_length, NULL, "", 0, false, false},
    {"d", f_default, NULL, "default_value,boolean", 0, false, false},
    {"default", f_default, NULL, "default_value,boolean", 0, false, false},
    {"dictsort", f_dictsort, NULL, "case_sensitive,by,reverse", 0, false, false},
    {"first", f_first, NULL, "", 0, false, false},
    {"float", f_float, NULL, "default", 0, false, false},
    {"groupby", f_groupby, NULL, "attribute,default,case_sensitive", 1, false, false},
    {"int", f_int, NULL, "default,base", 0, false, false},
    {"items", f_items, NULL, "", 0, false, true},
    {"join", f_join, NULL, "d,attribute", 0, false, false},
    {"last", f_last, NULL, "", 0, false, false},
    {"length", f_length, NULL, "", 0, false, false},
    {"list", f_list, NULL, "", 0, false, false},
    {"map", NULL, f_map, NULL, 0, false, true},
    {"max", f_max, NULL, "case_sensitive,attribute", 0, false, false},
    {"min", f_min, NULL, "case_sensitive,attribute", 0, false, false},
    {"random", f_random, NULL, "", 0, false, false},
    {"reject", NULL, f_reject, NULL, 0, false, true},
    {"rejectattr", NULL, f_rejectattr, NULL, 0, false, true},
    {"reverse", f_reverse, NULL, "", 0, false, false},
    {"round", f_round, NULL, "precision,method", 0, false, false},
    {"select", NULL, f_select, NULL, 0, false, true},
    {"selectattr", NULL, f_selectattr, NULL, 0, false, true},
    {"slice", f_slice, NULL, "slices,fill_with", 1, false, true},
    {"sort", f_sort, NULL, "reverse,case_sensitive,attribute", 0, false, false},
    {"sum", f_sum, NULL, "attribute,start", 0, false, false},
    {"unique", f_unique, NULL, "case_sensitive,attribute", 0, false, true},
};

const struct jinja_fn *jinja_find_fn(const struct jinja_fn *t, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(name, t[i].name)) return t + i;
    return NULL;
}

const struct jinja_fn *jinja_find_filter(struct str name)
{
    const struct jinja_fn *f = jinja_find_fn(filters, ARRAY_LEN(filters), name);
    return f ? f : jinja_find_text_filter(name);
}

const struct jinja_fn *jinja_find_test(struct str name) { return jinja_find_fn(tests, ARRAY_LEN(tests), name); }
