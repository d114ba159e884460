/* jinja_method.c: methods of str, list, tuple, dict, range, and of cycler; and the global functions. */
#include "base/os.h"
#include "model/jinja_impl.h"
#include <limits.h>
#include <string.h>
#include <time.h>

#define M(name) static int name(struct rt *r, struct val self, struct val *a, struct val *out)

static bool given(struct val v) { return v.t != V_MISSING && v.t != V_NONE; }

/* A piece of self: Markup stays Markup. */
static struct val piece(struct val self, const char *p, size_t n)
{
    struct val v = v_str(p, n);
    v.sub = self.sub;
    return v;
}

static int opt_int(struct rt *r, struct val v, int64_t def, int64_t *i)
{
    *i = def;
    return v.t == V_MISSING ? OK : jinja_need_int(r, v, i);
}

static int cased(struct rt *r, struct val self, enum jinja_case c, struct val *out)
{
    TRY(jinja_case_of(r, v_slice(self), c, out));
    out->sub = self.sub;
    return OK;
}
M(m_upper)
{
    (void)a;
    return cased(r, self, CASE_UPPER, out);
}
M(m_lower)
{
    (void)a;
    return cased(r, self, CASE_LOWER, out);
}
M(m_title)
{
    (void)a;
    return cased(r, self, CASE_TITLE, out);
}
M(m_casefold)
{
    (void)a;
    return cased(r, self, CASE_FOLD, out);
}

M(m_capitalize)
{
    (void)a;
    struct str s = v_slice(self);
    uint32_t cp;
    size_t k = s.n ? jinja_cp_at(s, 0, &cp) : 0;
    struct val rest;
    struct buf b;
    if (!s.n) {
        *out = self;
        return OK;
    }
    TRY(jinja_case_of(r, s, CASE_LOWER, &rest)); /* of the whole: a final sigma looks back */
    uint32_t low;
    size_t first = jinja_cp_at(v_slice(rest), 0, &low);
    if (cp == 0x130) first += 2; /* i and a combining dot */
    (void)k;
    jinja_buf_init(r, &b);
    jinja_put_case(&b, cp, CASE_TITLE);
    buf_put(&b, rest.u.s + first, rest.n - first);
    TRY(jinja_str_take(r, &b, out));
    out->sub = self.sub;
    return OK;
}

M(m_swapcase)
{
    (void)a;
    struct str s = v_slice(self);
    struct buf b;
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < s.n;) {
        uint32_t c;
        size_t k = jinja_cp_at(s, i, &c);
        if (jinja_is_class((struct str){s.p + i, k}, "isupper"))
            jinja_put_case(&b, c, CASE_LOWER);
        else if (jinja_is_class((struct str){s.p + i, k}, "islower"))
            jinja_put_case(&b, c, CASE_UPPER);
        else
            buf_put(&b, s.p + i, k); /* title case letters stay */
        i += k;
    }
    TRY(jinja_str_take(r, &b, out));
    out->sub = self.sub;
    return OK;
}

static int strip(struct rt *r, struct val self, struct val chars, bool left, bool right, struct val *out)
{
    bool def = !given(chars);
    if (!def) TRY(jinja_need_str(r, chars, "strip arg"));
    TRY(jinja_work(r, self.n));
    if (!def)
        TRY(jinja_work(r, chars.n > 16 ? (size_t)chars.n * MIN(self.n, 1u << 20) : 0)); /* each character is looked up in chars */
    struct str set = {0};
    if (!def) set = v_slice(chars);
    struct str s = jinja_strip(v_slice(self), set, def, left, right);
    *out = piece(self, s.p, s.n);
    return OK;
}
M(m_strip) { return strip(r, self, a[0], true, true, out); }
M(m_lstrip) { return strip(r, self, a[0], true, false, out); }
M(m_rstrip) { return strip(r, self, a[0], false, true, out); }

/* start and end of find, count, startswith...: byte range of self; false: an empty range that not even "" is found in. */
static int range_of(struct rt *r, struct val self, struct val lo, struct val hi, struct str *s, size_t *skipped, bool *ok)
{
    int64_t n = (int64_t)jinja_cp_count(v_slice(self)), x = 0, y = n;
    *s = v_slice(self);
    *skipped = 0;
    *ok = true;
    TRY(jinja_work(r, self.n));
    if (given(lo)) TRY(jinja_need_int(r, lo, &x));
    if (given(hi)) TRY(jinja_need_int(r, hi, &y));
    if (x < 0) x = MAX(x + n, 0);
    if (y < 0) y = MAX(y + n, 0);
    if (y > n) y = n;
    if (x > y) {
        *ok = false;
        return OK;
    }
    size_t p = jinja_cp_off(*s, (size_t)x), q = jinja_cp_off(*s, (size_t)y);
    *s = (struct str){s->p + p, q - p};
    *skipped = (size_t)x;
    return OK;
}

static int finds(struct rt *r, struct val self, struct val *a, bool back, bool must, struct val *out)
{
    struct str s;
    size_t skipped;
    bool ok;
    TRY(jinja_need_str(r, a[0], "argument"));
    TRY(range_of(r, self, a[1], a[2], &s, &skipped, &ok));
    if (back) TRY(jinja_work(r, (size_t)s.n * MIN(a[0].n, 256u))); /* plain search from the end */
    size_t at = !ok ? SIZE_MAX : back ? jinja_rfind(s, v_slice(a[0])) : jinja_find(s, 0, v_slice(a[0]));
    if (at == SIZE_MAX && must) return jinja_fail(r, "substring not found");
    *out = v_int(at == SIZE_MAX ? -1 : (int64_t)(skipped + jinja_cp_count((struct str){s.p, at})));
    return OK;
}
M(m_find) { return finds(r, self, a, false, false, out); }
M(m_rfind) { return finds(r, self, a, true, false, out); }
M(m_sindex) { return finds(r, self, a, false, true, out); }
M(m_rindex) { return finds(r, self, a, true, true, out); }

M(m_scount)
{
    struct str s, x;
    size_t skipped;
    bool ok;
    int64_t n = 0;
    TRY(jinja_need_str(r, a[0], "argument"));
    TRY(range_of(r, self, a[1], a[2], &s, &skipped, &ok));
    x = v_slice(a[0]);
    if (ok && !x.n) n = (int64_t)jinja_cp_count(s) + 1;
    for (size_t i = 0; ok && x.n && (i = jinja_find(s, i, x)) != SIZE_MAX; i += x.n) n++;
    *out = v_int(n);
    return OK;
}

static int affix(struct rt *r, struct val self, struct val *a, bool end, struct val *out)
{
    struct str s;
    size_t skipped;
    bool ok;
    struct val one = a[0];
    const struct val *v = &one;
    uint32_t n = 1;
    if (one.t == V_TUPLE) {
        v = one.u.l->v;
        n = one.u.l->n;
    }
    TRY(range_of(r, self, a[1], a[2], &s, &skipped, &ok));
    *out = v_bool(false);
    for (uint32_t i = 0; i < n; i++) {
        TRY(jinja_need_str(r, v[i], "startswith/endswith first arg"));
        struct str x = v_slice(v[i]);
        if (ok && x.n <= s.n && (x.n == 0 || memcmp(end ? s.p + s.n - x.n : s.p, x.p, x.n) == 0)) *out = v_bool(true);
    }
    return OK;
}
M(m_startswith) { return affix(r, self, a, false, out); }
M(m_endswith) { return affix(r, self, a, true, out); }

M(m_removeprefix)
{
    TRY(jinja_need_str(r, a[0], "argument"));
    bool has = a[0].n <= self.n && (a[0].n == 0 || memcmp(self.u.s, a[0].u.s, a[0].n) == 0);
    *out = has ? piece(self, self.u.s + a[0].n, self.n - a[0].n) : self;
    return OK;
}
M(m_removesuffix)
{
    TRY(jinja_need_str(r, a[0], "argument"));
    bool has = a[0].n <= self.n && a[0].n && memcmp(self.u.s + self.n - a[0].n, a[0].u.s, a[0].n) == 0;
    *out = has ? piece(self, self.u.s, self.n - a[0].n) : self;
    return OK;
}

/* white space pieces, at most max cuts */
static int split_space(struct rt *r, struct val self, int64_t max, bool back, struct list *l)
{
    struct str s = v_slice(self), none = {0};
    for (;; max--) {
        uint32_t c;
        s = jinja_strip(s, none, true, !back, back);
        if (!s.n) return OK;
        size_t from = 0, n = s.n;
        if (max == 0) {
            s = jinja_strip(s, none, true, back, !back);
            return jinja_list_push(r, l, piece(self, s.p, s.n));
        }
        if (back) {
            for (from = s.n; from > 0;) {
                size_t i = from - 1;
                while (i > 0 && ((unsigned char)s.p[i] & 0xc0) == 0x80) i--;
                jinja_cp_at(s, i, &c);
                if (jinja_space(c)) break;
                from = i;
            }
            TRY(jinja_list_push(r, l, piece(self, s.p + from, s.n - from)));
            s.n = from;
            continue;
        }
        for (n = 0; n < s.n;) {
            size_t k = jinja_cp_at(s, n, &c);
            if (jinja_space(c)) break;
            n += k;
        }
        TRY(jinja_list_push(r, l, piece(self, s.p, n)));
        s.p += n;
        s.n -= n;
    }
}

static void turn(struct list *l)
{
    for (uint32_t i = 0; i < l->n / 2; i++) {
        struct val t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
}

static int split(struct rt *r, struct val self, struct val *a, bool back, struct val *out)
{
    struct list *l;
    int64_t max;
    TRY(opt_int(r, a[1], -1, &max));
    TRY(jinja_list_new(r, 0, &l));
    TRY(jinja_work(r, self.n));
    *out = v_list(l);
    if (!given(a[0])) {
        TRY(split_space(r, self, max, back, l));
        if (back) turn(l);
        return OK;
    }
    TRY(jinja_need_str(r, a[0], "sep"));
    struct str s = v_slice(self), x = v_slice(a[0]);
    if (!x.n) return jinja_fail(r, "empty separator");
    for (size_t at; max != 0; max--) {
        if (back) TRY(jinja_work(r, x.n));
        at = back ? jinja_rfind(s, x) : jinja_find(s, 0, x);
        if (at == SIZE_MAX) break;
        if (back) {
            TRY(jinja_work(r, (s.n - at) * MIN(x.n, (size_t)256)));
            TRY(jinja_list_push(r, l, piece(self, s.p + at + x.n, s.n - at - x.n)));
            s.n = at;
        } else {
            TRY(jinja_list_push(r, l, piece(self, s.p, at)));
            s.p += at + x.n;
            s.n -= at + x.n;
        }
    }
    TRY(jinja_list_push(r, l, piece(self, s.p, s.n)));
    if (back) turn(l);
    return OK;
}
M(m_split) { return split(r, self, a, false, out); }
M(m_rsplit) { return split(r, self, a, true, out); }

static int partition(struct rt *r, struct val self, struct val *a, bool back, struct val *out)
{
    struct list *l;
    TRY(jinja_need_str(r, a[0], "argument"));
    if (!a[0].n) return jinja_fail(r, "empty separator");
    TRY(jinja_work(r, (size_t)self.n * (back ? MIN(a[0].n, 256u) : 1)));
    TRY(jinja_list_new(r, 3, &l));
    size_t at = back ? jinja_rfind(v_slice(self), v_slice(a[0])) : jinja_find(v_slice(self), 0, v_slice(a[0]));
    l->n = 3;
    if (at == SIZE_MAX) {
        l->v[0] = back ? piece(self, "", 0) : self;
        l->v[1] = piece(self, "", 0);
        l->v[2] = back ? self : piece(self, "", 0);
    } else {
        l->v[0] = piece(self, self.u.s, at);
        l->v[1] = piece(self, self.u.s + at, a[0].n);
        l->v[2] = piece(self, self.u.s + at + a[0].n, self.n - at - a[0].n);
    }
    *out = v_tuple(l);
    return OK;
}
M(m_partition) { return partition(r, self, a, false, out); }
M(m_rpartition) { return partition(r, self, a, true, out); }

M(m_splitlines)
{
    struct list *l;
    TRY(jinja_splitlines(r, v_slice(self), a[0].t != V_MISSING && jinja_truth(a[0]), &l));
    for (uint32_t i = 0; i < l->n; i++) l->v[i].sub = self.sub;
    *out = v_list(l);
    return OK;
}

M(m_replace)
{
    int64_t max;
    TRY(jinja_need_str(r, a[0], "replace() argument 1"));
    TRY(jinja_need_str(r, a[1], "replace() argument 2"));
    TRY(opt_int(r, a[2], -1, &max));
    struct str s = v_slice(self), old = v_slice(a[0]), new = v_slice(a[1]);
    struct buf b;
    jinja_buf_init(r, &b);
    int rc = jinja_work(r, s.n);
    size_t i = 0;
    if (!old.n) { /* between all characters */
        for (uint32_t cp; rc == OK && max != 0; max--) {
            buf_put(&b, new.p, new.n);
            if (i >= s.n) break;
            size_t k = jinja_cp_at(s, i, &cp);
            buf_put(&b, s.p + i, k);
            i += k;
            rc = jinja_work(r, new.n);
        }
    }
    for (size_t at; old.n && rc == OK && max != 0 && (at = jinja_find(s, i, old)) != SIZE_MAX; max--) {
        buf_put(&b, s.p + i, at - i);
        buf_put(&b, new.p, new.n);
        i = at + old.n;
        rc = buf_ok(&b) ? jinja_work(r, new.n) : OK;
        if (!buf_ok(&b)) break;
    }
    buf_put(&b, s.p + i, s.n - i);
    if (rc < 0) {
        buf_free(&b);
        return rc;
    }
    TRY(jinja_str_take(r, &b, out));
    out->sub = self.sub;
    return OK;
}

int jinja_str_method_list(struct rt *r, struct val sep, struct val seq, struct val *out)
{
    struct list *l;
    struct buf b;
    TRY(jinja_to_list(r, seq, &l));
    jinja_buf_init(r, &b);
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->v[i].t != V_STR) {
            buf_free(&b);
            return jinja_fail(r, "sequence item %u: expected str instance, %s found", i, jinja_type_name(l->v[i]));
        }
        if (i) buf_put(&b, sep.u.s, sep.n);
        buf_put(&b, l->v[i].u.s, l->v[i].n);
    }
    TRY(jinja_str_take(r, &b, out));
    out->sub = sep.sub;
    return OK;
}
M(m_join) { return jinja_str_method_list(r, self, a[0], out); }

static int justify(struct rt *r, struct val self, struct val *a, char how, struct val *out)
{
    int64_t w;
    TRY(jinja_need_int(r, a[0], &w));
    struct str fill = {" ", 1}, s = v_slice(self);
    if (a[1].t != V_MISSING) {
        TRY(jinja_need_str(r, a[1], "the fill character"));
        fill = v_slice(a[1]);
        if (jinja_cp_count(fill) != 1) return jinja_fail(r, "The fill character must be exactly one character long");
    }
    int64_t n = (int64_t)jinja_cp_count(s), pad = MAX(w - n, 0);
    /* CPython's str.center puts the odd one left when width is odd */
    int64_t left = how == 'r' ? pad : how == 'c' ? pad / 2 + (pad & w & 1) : 0;
    struct buf b;
    size_t total;
    if (!mul_ok((size_t)pad, fill.n, &total) || total > r->a.max) return jinja_nomem(r);
    TRY(jinja_work(r, total));
    jinja_buf_init(r, &b);
    if (how == 'z' && s.n && (*s.p == '-' || *s.p == '+')) {
        buf_putc(&b, *s.p++);
        s.n--;
    }
    if (how == 'z') {
        fill = (struct str){"0", 1};
        left = pad;
    }
    for (int64_t i = 0; i < left && buf_ok(&b); i++) buf_put(&b, fill.p, fill.n);
    buf_put(&b, s.p, s.n);
    for (int64_t i = left; i < pad && buf_ok(&b); i++) buf_put(&b, fill.p, fill.n);
    TRY(jinja_str_take(r, &b, out));
    out->sub = self.sub;
    return OK;
}
M(m_ljust) { return justify(r, self, a, 'l', out); }
M(m_rjust) { return justify(r, self, a, 'r', out); }
M(m_center) { return justify(r, self, a, 'c', out); }
M(m_zfill)
{
    struct val two[2] = {a[0], v_missing()};
    return justify(r, self, two, 'z', out);
}

M(m_expandtabs)
{
    int64_t w, col = 0;
    struct str s = v_slice(self);
    struct buf b;
    TRY(opt_int(r, a[0], 8, &w));
    if (w > 4096) return jinja_bound(r, "tab size over 4096");
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < s.n && buf_ok(&b);) {
        uint32_t c;
        size_t k = jinja_cp_at(s, i, &c);
        if (c == '\t') {
            for (int64_t n = w > 0 ? w - col % w : 0; n > 0; n--, col++) buf_putc(&b, ' ');
        } else {
            col = c == '\n' || c == '\r' ? 0 : col + 1;
            buf_put(&b, s.p + i, k);
        }
        i += k;
    }
    return jinja_str_take(r, &b, out);
}

static int raw_format(struct rt *r, struct val self, const struct args *g, struct val *out)
{
    return jinja_format(r, self, g, out);
}

static int raw_format_map(struct rt *r, struct val self, const struct args *g, struct val *out)
{
    if (g->n_kw || g->n != 1 || g->v[0].t != V_DICT) return jinja_fail(r, "format_map() takes exactly one mapping");
    const struct dict *d = g->v[0].u.o;
    struct str *k = arena_alloc(&r->a, d->n, sizeof *k);
    struct val *v = arena_alloc(&r->a, d->n, sizeof *v);
    if (!k || !v) return jinja_nomem(r);
    struct args x = {.kw = k, .kv = v};
    for (uint32_t i = 0; i < d->n; i++)
        if (d->e[i].k.t == V_STR) {
            k[x.n_kw] = v_slice(d->e[i].k);
            v[x.n_kw++] = d->e[i].v;
        }
    return jinja_format(r, self, &x, out);
}

static int raw_unsupported(struct rt *r, struct val self, const struct args *g, struct val *out)
{
    (void)self, (void)g, (void)out;
    return jinja_fail(r, "this function is not supported in chat templates");
}

#define IS(name)                                                                                                                 \
    M(m_##name)                                                                                                                  \
    {                                                                                                                            \
        (void)a;                                                                                                                 \
        TRY(jinja_work(r, self.n));                                                                                              \
        *out = v_bool(jinja_is_class(v_slice(self), #name));                                                                     \
        return OK;                                                                                                               \
    }
IS(isalnum)
IS(isalpha)
IS(isascii)
IS(isdecimal)
IS(isdigit)
IS(isidentifier)
IS(islower)
IS(isnumeric)
IS(isprintable)
IS(isspace)
IS(istitle)
IS(isupper)

/* ---- list, tuple, range */

M(m_lindex)
{
    struct iter it;
    struct val v;
    int rc;
    int64_t from, to, i = 0;
    uint64_t n;
    TRY(jinja_len(r, self, &n));
    TRY(opt_int(r, a[1], 0, &from));
    TRY(opt_int(r, a[2], INT64_MAX, &to));
    if (from < 0) from += (int64_t)n;
    if (to < 0) to += (int64_t)n;
    TRY(jinja_iter(r, self, &it));
    for (; (rc = jinja_iter_next(r, &it, &v)) > 0; i++) {
        bool eq;
        if (i < from || i >= to) continue;
        TRY(jinja_eq(r, v, a[0], &eq));
        if (eq) {
            *out = v_int(i);
            return OK;
        }
    }
    return rc < 0 ? rc : jinja_fail(r, "value is not in %s", jinja_type_name(self));
}

M(m_lcount)
{
    struct iter it;
    struct val v;
    int rc;
    int64_t n = 0;
    TRY(jinja_iter(r, self, &it));
    while ((rc = jinja_iter_next(r, &it, &v)) > 0) {
        bool eq;
        TRY(jinja_eq(r, v, a[0], &eq));
        n += eq;
    }
    *out = v_int(n);
    return rc;
}

M(m_lcopy)
{
    (void)a;
    struct list *l;
    TRY(jinja_to_list(r, self, &l));
    *out = v_list(l);
    return OK;
}

/* ---- dict */

M(m_get)
{
    int rc = jinja_dict_get(r, self.u.o, a[0], out);
    if (rc == 0) *out = a[1].t == V_MISSING ? v_none() : a[1];
    return MIN(rc, OK);
}
static int view(struct val self, uint8_t kind, struct val *out)
{
    *out = (struct val){.t = V_VIEW, .sub = kind, .u.o = self.u.o};
    return OK;
}
M(m_keys)
{
    (void)r, (void)a;
    return view(self, 0, out);
}
M(m_values)
{
    (void)r, (void)a;
    return view(self, 1, out);
}
M(m_items)
{
    (void)r, (void)a;
    return view(self, 2, out);
}

static int copy_dict(struct rt *r, const struct dict *from, struct dict *to)
{
    for (uint32_t i = 0; i < from->n; i++) TRY(jinja_dict_set(r, to, from->e[i].k, from->e[i].v));
    return OK;
}

M(m_dcopy)
{
    (void)a;
    struct dict *d;
    TRY(jinja_dict_new(r, &d));
    TRY(copy_dict(r, self.u.o, d));
    *out = (struct val){.t = V_DICT, .u.o = d};
    return OK;
}

/* ---- cycler */

M(m_cycle_next)
{
    (void)r, (void)a;
    struct cycler *c = self.u.cy;
    *out = c->l->v[c->pos];
    c->pos = (c->pos + 1) % c->l->n;
    return OK;
}
M(m_cycle_reset)
{
    (void)r, (void)a;
    self.u.cy->pos = 0;
    *out = v_none();
    return OK;
}

/* ---- globals */

M(g_range)
{
    (void)self;
    int64_t lo, hi, step;
    TRY(jinja_need_int(r, a[0], &lo));
    hi = lo;
    if (a[1].t == V_MISSING)
        lo = 0;
    else
        TRY(jinja_need_int(r, a[1], &hi));
    TRY(opt_int(r, a[2], 1, &step));
    if (step == 0) return jinja_fail(r, "range() arg 3 must not be zero");
    uint64_t n = 0, d = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (step > 0 ? hi > lo : hi < lo) n = ((step > 0 ? (uint64_t)hi - (uint64_t)lo : (uint64_t)lo - (uint64_t)hi) - 1) / d + 1;
    if (n > JINJA_MAX_RANGE) return jinja_bound(r, "range of more than %d items", JINJA_MAX_RANGE);
    struct range *g = arena_alloc(&r->a, 1, sizeof *g);
    if (!g) return jinja_nomem(r);
    *g = (struct range){lo, hi, step, (uint32_t)n};
    *out = (struct val){.t = V_RANGE, .u.r = g};
    return OK;
}

static int raw_dict(struct rt *r, struct val self, const struct args *g, struct val *out)
{
    (void)self;
    struct dict *d;
    if (g->n > 1) return jinja_fail(r, "dict expected at most 1 argument, got %u", g->n);
    TRY(jinja_dict_new(r, &d));
    if (g->n && g->v[0].t == V_DICT) {
        TRY(copy_dict(r, g->v[0].u.o, d));
    } else if (g->n) {
        struct iter it;
        struct val x;
        int rc;
        TRY(jinja_iter(r, g->v[0], &it));
        while ((rc = jinja_iter_next(r, &it, &x)) > 0) {
            struct list *l;
            TRY(jinja_to_list(r, x, &l));
            if (l->n != 2) return jinja_fail(r, "dictionary update sequence element has length %u; 2 is required", l->n);
            TRY(jinja_dict_set(r, d, l->v[0], l->v[1]));
        }
        if (rc < 0) return rc;
    }
    for (uint32_t i = 0; i < g->n_kw; i++) TRY(jinja_dict_set(r, d, v_str(g->kw[i].p, g->kw[i].n), g->kv[i]));
    *out = (struct val){.t = V_DICT, .u.o = d};
    return OK;
}

static int raw_namespace(struct rt *r, struct val self, const struct args *g, struct val *out)
{
    struct ns *n = arena_alloc(&r->a, 1, sizeof *n);
    if (!n) return jinja_nomem(r);
    TRY(raw_dict(r, self, g, out));
    n->d = out->u.o;
    *out = (struct val){.t = V_NS, .u.ns = n};
    return OK;
}

static int raw_cycler(struct rt *r, struct val self, const struct args *g, struct val *out)
{
    (void)self;
    struct cycler *c = arena_alloc(&r->a, 1, sizeof *c);
    if (!c) return jinja_nomem(r);
    if (!g->n || g->n_kw) return jinja_fail(r, "at least one item has to be provided");
    TRY(jinja_list_new(r, g->n, &c->l));
    memcpy(c->l->v, g->v, g->n * sizeof *g->v);
    c->l->n = g->n;
    *out = (struct val){.t = V_CYCLER, .u.cy = c};
    return OK;
}

M(g_joiner)
{
    (void)self;
    struct joiner *j = arena_alloc(&r->a, 1, sizeof *j);
    if (!j) return jinja_nomem(r);
    j->sep = a[0].t == V_MISSING ? v_str(", ", 2) : a[0];
    *out = (struct val){.t = V_JOINER, .u.jo = j};
    return OK;
}

M(g_raise)
{
    (void)self, (void)out;
    struct val s;
    TRY(jinja_str(r, a[0], &s));
    return err_set(r->e, E_ARG, "line %u: %.*s", r->line, (int)MIN(s.n, 220u), s.u.s);
}

M(g_strftime)
{
    (void)self;
    struct tm tm;
    char *z;
    time_t t;
    TRY(jinja_need_str(r, a[0], "strftime_now() argument 1"));
    if (a[0].n > 1000) return jinja_bound(r, "time format longer than 1000 bytes");
    if (r->now == INT64_MIN) {
        t = (time_t)(os_wall_ns() / 1000000000u);
        localtime_r(&t, &tm);
    } else {
        t = (time_t)r->now;
        if (!gmtime_r(&t, &tm)) return jinja_fail(r, "time out of range");
    }
    z = arena_strndup(&r->a, a[0].u.s, a[0].n);
    char *m = jinja_str_mem(r, 4096);
    if (!z || !m) return jinja_nomem(r);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = *z ? strftime(m, 4096, z, &tm) : 0; /* the template's own format; strftime reads no arguments by it */
#pragma GCC diagnostic pop
    *out = v_str(m, n);
    return OK;
}

/* ---- tables, sorted by name */
#define S(n, f, p, need)                                                                                                         \
    {                                                                                                                            \
        n, f, NULL, p, need, true, false                                                                                         \
    }
#define K(n, f, p, need)                                                                                                         \
    {                                                                                                                            \
        n, f, NULL, p, need, false, false                                                                                        \
    }
static const struct jinja_fn str_methods[] = {
    S("capitalize", m_capitalize, "", 0),
    S("casefold", m_casefold, "", 0),
    S("center", m_center, "width,fill", 1),
    S("count", m_scount, "sub,start,end", 1),
    {"encode", NULL, raw_unsupported, NULL, 0, false, false},
    S("endswith", m_endswith, "suffix,start,end", 1),
    K("expandtabs", m_expandtabs, "tabsize", 0),
    S("find", m_find, "sub,start,end", 1),
    {"format", NULL, raw_format, NULL, 0, false, false},
    {"format_map", NULL, raw_format_map, NULL, 0, false, false},
    S("index", m_sindex, "sub,start,end", 1),
    S("isalnum", m_isalnum, "", 0),
    S("isalpha", m_isalpha, "", 0),
    S("isascii", m_isascii, "", 0),
    S("isdecimal", m_isdecimal, "", 0),
    S("isdigit", m_isdigit, "", 0),
    S("isidentifier", m_isidentifier, "", 0),
    S("islower", m_islower, "", 0),
    S("isnumeric", m_isnumeric, "", 0),
    S("isprintable", m_isprintable, "", 0),
    S("isspace", m_isspace, "", 0),
    S("istitle", m_istitle, "", 0),
    S("isupper", m_isupper, "", 0),
    S("join", m_join, "iterable", 1),
    S("ljust", m_ljust, "width,fill", 1),
    S("lower", m_lower, "", 0),
    S("lstrip", m_lstrip, "chars", 0),
    {"maketrans", NULL, raw_unsupported, NULL, 0, false, false},
    S("partition", m_partition, "sep", 1),
    S("removeprefix", m_removeprefix, "prefix", 1),
    S("removesuffix", m_removesuffix, "suffix", 1),
    S("replace", m_replace, "old,new,count", 2),
    S("rfind", m_rfind, "sub,start,end", 1),
    S("rindex", m_rindex, "sub,start,end", 1),
    S("rjust", m_rjust, "width,fill", 1),
    S("rpartition", m_rpartition, "sep", 1),
    K("rsplit", m_rsplit, "sep,maxsplit", 0),
    S("rstrip", m_rstrip, "chars", 0),
    K("split", m_split, "sep,maxsplit", 0),
    K("splitlines", m_splitlines, "keepends", 0),
    S("startswith", m_startswith, "prefix,start,end", 1),
    S("strip", m_strip, "chars", 0),
    S("swapcase", m_swapcase, "", 0),
    S("title", m_title, "", 0),
    {"translate", NULL, raw_unsupported, NULL, 0, false, false},
    S("upper", m_upper, "", 0),
    S("zfill", m_zfill, "width", 1),
};
static const struct jinja_fn list_methods[] = {S("copy", m_lcopy, "", 0), S("count", m_lcount, "value", 1),
                                               S("index", m_lindex, "value,start,stop", 1)};
static const struct jinja_fn dict_methods[] = {
    S("copy", m_dcopy, "", 0),         {"fromkeys", NULL, raw_unsupported, NULL, 0, false, false},
    S("get", m_get, "key,default", 1), S("items", m_items, "", 0),
    S("keys", m_keys, "", 0),          S("values", m_values, "", 0)};
static const struct jinja_fn cycler_methods[] = {S("next", m_cycle_next, "", 0), S("reset", m_cycle_reset, "", 0)};
static const struct jinja_fn globals[] = {
    {"cycler", NULL, raw_cycler, NULL, 0, false, false},
    {"dict", NULL, raw_dict, NULL, 0, false, false},
    K("joiner", g_joiner, "sep", 0),
    {"lipsum", NULL, raw_unsupported, NULL, 0, false, false},
    {"namespace", NULL, raw_namespace, NULL, 0, false, false},
    K("raise_exception", g_raise, "message", 1),
    S("range", g_range, "start,stop,step", 1),
    K("strftime_now", g_strftime, "format", 1),
};

static const struct jinja_fn *search(const struct jinja_fn *t, size_t n, struct str name)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2, k = strlen(t[mid].name);
        int c = memcmp(t[mid].name, name.p, MIN(k, name.n));
        if (c == 0) c = (k > name.n) - (k < name.n);
        if (c == 0) return t + mid;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

const struct jinja_fn *jinja_find_method(uint8_t type, struct str name)
{
    switch (type) {
    case V_STR: return search(str_methods, ARRAY_LEN(str_methods), name);
    case V_LIST: return search(list_methods, ARRAY_LEN(list_methods), name);
    case V_TUPLE:
    case V_RANGE: return search(list_methods + 1, ARRAY_LEN(list_methods) - 1, name);
    case V_DICT: return search(dict_methods, ARRAY_LEN(dict_methods), name);
    case V_CYCLER: return search(cycler_methods, ARRAY_LEN(cycler_methods), name);
    default: return NULL;
    }
}

const struct jinja_fn *jinja_find_global(struct str name) { return search(globals, ARRAY_LEN(globals), name); }
