/* jinja_text.c: values as text: Python's str() and repr(), its float notation, json.dumps, HTML escapes; and text as numbers. */
#include "model/jinja_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shortest digits that read back as d, written as Python's repr does: an exponent below 1e-4 and from 1e16. */
void jinja_put_float(struct buf *b, double d)
{
    char s[40], dig[24];
    if (isnan(d)) {
        buf_puts(b, "nan");
        return;
    }
    if (isinf(d)) {
        buf_puts(b, d < 0 ? "-inf" : "inf");
        return;
    }
    for (int p = 1; p <= 17; p++) {
        snprintf(s, sizeof s, "%.*e", p - 1, fabs(d));
        if (strtod(s, NULL) == fabs(d)) break;
    }
    int n = 0, e = atoi(strchr(s, 'e') + 1);
    for (const char *q = s; *q != 'e'; q++)
        if (*q != '.') dig[n++] = *q;
    if (signbit(d)) buf_putc(b, '-');
    if (e < -4 || e >= 16) {
        buf_putc(b, dig[0]);
        if (n > 1) buf_putc(b, '.');
        buf_put(b, dig + 1, (size_t)n - 1);
        buf_printf(b, "e%c%02d", e < 0 ? '-' : '+', abs(e));
    } else if (e < 0) {
        buf_puts(b, "0.");
        for (int i = -1; i > e; i--) buf_putc(b, '0');
        buf_put(b, dig, (size_t)n);
    } else {
        for (int i = 0; i <= e; i++) buf_putc(b, i < n ? dig[i] : '0');
        buf_putc(b, '.');
        if (n > e + 1)
            buf_put(b, dig + e + 1, (size_t)(n - e - 1));
        else
            buf_putc(b, '0');
    }
}

static int put_items(struct rt *r, struct buf *b, const struct list *l, const char *open, const char *close)
{
    buf_puts(b, open);
    for (uint32_t i = 0; i < l->n; i++) {
        if (i) buf_puts(b, ", ");
        TRY(jinja_put_repr(r, b, l->v[i]));
    }
    buf_puts(b, close);
    return jinja_buf_check(r, b);
}

static void put_str_repr(struct buf *b, struct str s)
{
    char q = memchr(s.p, '\'', s.n) && !memchr(s.p, '"', s.n) ? '"' : '\'';
    buf_putc(b, q);
    for (size_t i = 0; i < s.n;) {
        uint32_t c;
        size_t k = jinja_cp_at(s, i, &c);
        if (c == (unsigned char)q || c == '\\')
            buf_printf(b, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            buf_puts(b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (c > 0x10ffff)
            buf_printf(b, "\\x%02x", (unsigned char)s.p[i]);
        else if (!jinja_printable(c))
            buf_printf(b, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        else
            buf_put(b, s.p + i, k);
        i += k;
    }
    buf_putc(b, q);
}

static int put_dict(struct rt *r, struct buf *b, const struct dict *d, int view)
{
    static const char *const open[] = {"dict_keys([", "dict_values([", "dict_items([", "{"};
    buf_puts(b, open[view]);
    for (uint32_t i = 0; i < d->n; i++) {
        if (i) buf_puts(b, ", ");
        if (view == 2) buf_putc(b, '(');
        if (view != 1) TRY(jinja_put_repr(r, b, d->e[i].k));
        if (view >= 2) buf_puts(b, view == 3 ? ": " : ", ");
        if (view != 0) TRY(jinja_put_repr(r, b, d->e[i].v));
        if (view == 2) buf_putc(b, ')');
    }
    buf_puts(b, view == 3 ? "}" : "])");
    return OK;
}

static int put_nested(struct rt *r, struct buf *b, struct val v)
{
    switch (v.t) {
    case V_LIST: return put_items(r, b, v.u.l, "[", "]");
    case V_TUPLE: return put_items(r, b, v.u.l, "(", v.u.l->n == 1 ? ",)" : ")");
    case V_DICT: return put_dict(r, b, v.u.o, 3);
    case V_VIEW: return put_dict(r, b, v.u.o, v.sub);
    default:
        buf_puts(b, "<Namespace ");
        TRY(put_dict(r, b, v.u.ns->d, 3));
        buf_putc(b, '>');
        return OK;
    }
}

int jinja_put_repr(struct rt *r, struct buf *b, struct val v)
{
    TRY(jinja_work(r, 0));
    switch (v.t) {
    case V_UNDEF: buf_puts(b, "Undefined"); break;
    case V_NONE: buf_puts(b, "None"); break;
    case V_BOOL: buf_puts(b, v.u.b ? "True" : "False"); break;
    case V_INT: buf_printf(b, "%lld", (long long)v.u.i); break;
    case V_FLOAT: jinja_put_float(b, v.u.d); break;
    case V_STR:
        TRY(jinja_work(r, v.n));
        if (v.sub & STR_MARKUP) buf_puts(b, "Markup(");
        put_str_repr(b, v_slice(v));
        if (v.sub & STR_MARKUP) buf_putc(b, ')');
        break;
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_VIEW:
    case V_NS:
        if (++r->data_depth > JINJA_MAX_DATA_DEPTH)
            return jinja_bound(r, "values nested more than %d levels deep", JINJA_MAX_DATA_DEPTH);
        TRY(put_nested(r, b, v));
        r->data_depth--;
        break;
    case V_RANGE:
        buf_printf(b, v.u.r->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)", (long long)v.u.r->start,
                   (long long)v.u.r->stop, (long long)v.u.r->step);
        break;
    case V_MACRO:
        if (v.u.m->def->store) {
            buf_puts(b, "<Macro ");
            put_str_repr(b, v.u.m->def->name);
            buf_putc(b, '>');
        } else {
            buf_puts(b, "<Macro anonymous>");
        }
        break;
    case V_LOOP: {
        struct val n, i;
        int rc = jinja_loop_attr(r, v.u.loop, str_of("length"), &n);
        if (rc < 0) return rc;
        TRY(jinja_loop_attr(r, v.u.loop, str_of("index"), &i) < 0 ? E_FORMAT : OK);
        buf_printf(b, "<LoopContext %lld/%lld>", (long long)i.u.i, (long long)n.u.i);
        break;
    }
    case V_FUNC: buf_printf(b, "<function %s>", v.u.fn->name); break; /* Python adds an address */
    case V_METHOD: buf_printf(b, "<method %s>", v.u.me->fn->name); break;
    default: buf_printf(b, "<%s object>", jinja_type_name(v)); break;
    }
    return jinja_buf_check(r, b);
}

int jinja_put_str(struct rt *r, struct buf *b, struct val v)
{
    if (v.t == V_STR) {
        TRY(jinja_work(r, v.n));
        buf_put(b, v.u.s, v.n);
        return jinja_buf_check(r, b);
    }
    if (v.t == V_UNDEF) {
        /* what the sandbox forbids prints nothing as well */
        return OK;
    }
    return jinja_put_repr(r, b, v);
}

int jinja_str(struct rt *r, struct val v, struct val *out)
{
    if (v.t == V_STR) {
        *out = v;
        out->sub = 0;
        return OK;
    }
    struct buf b;
    jinja_buf_init(r, &b);
    int rc = jinja_put_str(r, &b, v);
    if (rc < 0) {
        buf_free(&b);
        return rc;
    }
    return jinja_str_take(r, &b, out);
}

/* ---- JSON as Python's json.dumps writes it */

static void put_json_str(struct buf *b, struct str s, bool ascii)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    buf_putc(b, '"');
    for (size_t i = 0, start = 0; i < s.n;) {
        uint32_t c;
        size_t k = jinja_cp_at(s, i, &c);
        if (c >= 0x20 && c != '"' && c != '\\' && c <= 0x10ffff && (!ascii || c < 0x7f)) {
            i += k;
            if (i == s.n) buf_put(b, s.p + start, i - start);
            continue;
        }
        buf_put(b, s.p + start, i - start);
        i += k;
        start = i;
        const char *f = c && c < 0x7f ? strchr(from, (int)c) : NULL;
        if (f)
            buf_printf(b, "\\%c", to[f - from]);
        else if (c < 0x10000)
            buf_printf(b, "\\u%04x", c);
        else if (c <= 0x10ffff)
            buf_printf(b, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        else
            buf_utf8(b, 0xfffd);
    }
    buf_putc(b, '"');
}

static void json_newline(struct buf *b, const struct jinja_json *o, uint32_t level)
{
    if (!o->pretty) return;
    buf_putc(b, '\n');
    for (uint32_t i = 0; i < level && buf_ok(b); i++) buf_put(b, o->indent.p, o->indent.n);
}

static void put_json_float(struct buf *b, double d)
{
    if (isnan(d) || isinf(d))
        buf_puts(b, isnan(d) ? "NaN" : d < 0 ? "-Infinity" : "Infinity");
    else
        jinja_put_float(b, d);
}

static int put_json_dict(struct rt *r, struct buf *b, const struct dict *d, const struct jinja_json *o, uint32_t level)
{
    struct list *keys = NULL, *at = NULL;
    if (!d->n) {
        buf_puts(b, "{}");
        return OK;
    }
    if (o->sort) {
        TRY(jinja_list_new(r, d->n, &keys));
        TRY(jinja_list_new(r, d->n, &at));
        for (uint32_t i = 0; i < d->n; i++) {
            TRY(jinja_list_push(r, keys, d->e[i].k));
            TRY(jinja_list_push(r, at, v_int(i)));
        }
        TRY(jinja_sort(r, keys, at, false));
    }
    buf_putc(b, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        const struct pair *p = &d->e[o->sort ? (uint32_t)at->v[i].u.i : i];
        if (i) buf_put(b, o->item_sep.p, o->item_sep.n);
        json_newline(b, o, level + 1);
        switch (p->k.t) {
        case V_STR: put_json_str(b, v_slice(p->k), o->ascii); break;
        case V_NONE: buf_puts(b, "\"null\""); break;
        case V_BOOL: buf_puts(b, p->k.u.b ? "\"true\"" : "\"false\""); break;
        case V_INT: buf_printf(b, "\"%lld\"", (long long)p->k.u.i); break;
        case V_FLOAT:
            buf_putc(b, '"');
            put_json_float(b, p->k.u.d);
            buf_putc(b, '"');
            break;
        default: return jinja_fail(r, "keys must be str, int, float, bool or None, not %s", jinja_type_name(p->k));
        }
        buf_put(b, o->key_sep.p, o->key_sep.n);
        TRY(jinja_put_json(r, b, p->v, o, level + 1));
    }
    json_newline(b, o, level);
    buf_putc(b, '}');
    return OK;
}

int jinja_put_json(struct rt *r, struct buf *b, struct val v, const struct jinja_json *o, uint32_t level)
{
    TRY(jinja_work(r, 0));
    if (level > JINJA_MAX_DATA_DEPTH) return jinja_bound(r, "values nested more than %d levels deep", JINJA_MAX_DATA_DEPTH);
    switch (v.t) {
    case V_NONE: buf_puts(b, "null"); break;
    case V_BOOL: buf_puts(b, v.u.b ? "true" : "false"); break;
    case V_INT: buf_printf(b, "%lld", (long long)v.u.i); break;
    case V_FLOAT: put_json_float(b, v.u.d); break;
    case V_STR:
        TRY(jinja_work(r, v.n));
        put_json_str(b, v_slice(v), o->ascii);
        break;
    case V_LIST:
    case V_TUPLE:
        if (!v.u.l->n) {
            buf_puts(b, "[]");
            break;
        }
        buf_putc(b, '[');
        for (uint32_t i = 0; i < v.u.l->n; i++) {
            if (i) buf_put(b, o->item_sep.p, o->item_sep.n);
            json_newline(b, o, level + 1);
            TRY(jinja_put_json(r, b, v.u.l->v[i], o, level + 1));
        }
        json_newline(b, o, level);
        buf_putc(b, ']');
        break;
    case V_DICT: TRY(put_json_dict(r, b, v.u.o, o, level)); break;
    default: return jinja_fail(r, "Object of type %s is not JSON serializable", jinja_type_name(v));
    }
    return jinja_buf_check(r, b);
}

int jinja_escape(struct rt *r, struct val v, struct val *out)
{
    if (v.t == V_STR && v.sub & STR_MARKUP) {
        *out = v;
        return OK;
    }
    struct buf b;
    TRY(jinja_str(r, v, &v));
    jinja_buf_init(r, &b);
    for (uint32_t i = 0; i < v.n; i++) {
        char c = v.u.s[i];
        const char *e = c == '&'    ? "&amp;"
                        : c == '<'  ? "&lt;"
                        : c == '>'  ? "&gt;"
                        : c == '\'' ? "&#39;"
                        : c == '"'  ? "&#34;"
                                    : NULL;
        if (e)
            buf_puts(&b, e);
        else
            buf_putc(&b, c);
    }
    TRY(jinja_str_take(r, &b, out));
    out->sub = STR_MARKUP;
    return OK;
}

/* ---- numbers from text */

/* As Python's int(s, base): white space around, a sign, single underscores between digits, the prefix of the base (any when base
 * is 0). */
int jinja_parse_int(struct str s, int base, int64_t *out)
{
    s = jinja_strip(s, (struct str){0}, true, true, true);
    bool neg = false;
    if (s.n && (*s.p == '-' || *s.p == '+')) {
        neg = *s.p == '-';
        s.p++;
        s.n--;
    }
    if (s.n > 1 && s.p[0] == '0') {
        char c = (char)(s.p[1] | 32);
        int b = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
        if (b && (base == 0 || base == b)) {
            base = b;
            s.p += 2;
            s.n -= 2;
            if (s.n && *s.p == '_') {
                s.p++;
                s.n--;
            }
        } else if (base == 0) { /* only zeros may begin with zero */
            for (size_t i = 0; i < s.n; i++)
                if (s.p[i] != '0' && s.p[i] != '_') return -1;
        }
    }
    if (base == 0) base = 10;
    int64_t v = 0;
    bool over = false, digit = false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '_') {
            if (!digit || i + 1 == s.n) return -1;
            digit = false;
            continue;
        }
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
        if (d >= base) return -1;
        digit = true;
        /* gathered as a negative number: its range is larger by one */
        over |= __builtin_mul_overflow(v, (int64_t)base, &v) || __builtin_sub_overflow(v, (int64_t)d, &v);
    }
    if (!digit) return -1;
    if (over || (!neg && v == INT64_MIN)) return -2;
    *out = neg ? v : -v;
    return 0;
}

bool jinja_parse_float(struct str s, double *out)
{
    char m[400], *end;
    size_t n = 0;
    bool digit = false;
    s = jinja_strip(s, (struct str){0}, true, true, true);
    if (!s.n || s.n >= sizeof m) return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool d = c >= '0' && c <= '9';
        if (c == '_') {
            if (!digit || i + 1 == s.n || s.p[i + 1] < '0' || s.p[i + 1] > '9') return false;
            continue;
        }
        if (c == 'x' || c == 'X' || c == '(' || c == 0) return false; /* strtod knows hexadecimal, nan(...); Python does not */
        digit = d;
        m[n++] = c;
    }
    m[n] = 0;
    if ((m[0] == '+' || m[0] == '-') && (m[1] == '+' || m[1] == '-')) return false;
    *out = strtod(m, &end);
    return end == m + n && n > 0;
}

/* Python's round(): half to even of the exact value. */
int jinja_round(struct rt *r, struct val v, int64_t digits, struct val *out)
{
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (!jinja_is_num(v)) return jinja_fail(r, "type %s doesn't define __round__ method", jinja_type_name(v));
    if (v.t == V_FLOAT) {
        double d = v.u.d;
        if (isnan(d) || isinf(d) || digits > 323) {
            *out = v;
            return OK;
        }
        if (digits < -308) {
            *out = v_float(copysign(0.0, d));
            return OK;
        }
        char s[800];
        if (digits >= 0) {
            snprintf(s, sizeof s, "%.*f", (int)digits, d);
        } else { /* round the decimal digits in front of the point, by the exact decimal expansion */
            double p = pow(10, (double)-digits), q = d / p, t = nearbyint(q);
            if (fabs(q - t) == 0.5) t = 2 * nearbyint(q / 2);
            snprintf(s, sizeof s, "%.17g", t * p);
        }
        *out = v_float(strtod(s, NULL));
        return OK;
    }
    int64_t i = 0, p = 1;
    jinja_as_int(v, &i);
    for (; digits < 0; digits++)
        if (__builtin_mul_overflow(p, 10, &p)) {
            *out = v_int(0);
            return OK;
        }
    int64_t q = i / p, rest = i % p, half = p / 2;
    if (p > 1) {
        if (rest < 0) {
            q--;
            rest += p;
        }
        if (rest > half || (rest == half && q % 2 != 0)) q++;
        if (__builtin_mul_overflow(q, p, &i)) return jinja_bound(r, "integer beyond 64 bits");
    }
    *out = v_int(i);
    return OK;
}
