/* jinja_fmt.c: Python's two format languages: "..." % args and "...".format(args). */
#include "model/jinja_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct spec {
    struct str fill; /* one character */
    char align, sign, type, group;
    bool alt, zero, has_prec;
    int64_t width, prec;
};
enum { MAX_WIDTH = 1 << 20, MAX_PREC = 400 };

/* Puts text into its field; sign_n bytes at its front (sign, 0x) stay in front of '=' padding. */
static int put_field(struct rt *r, struct buf *b, struct str text, size_t sign_n, const struct spec *s, char def_align)
{
    size_t n = jinja_cp_count(text), w = (size_t)s->width, pad = w > n ? w - n : 0;
    char al = s->align ? s->align : def_align;
    size_t left = al == '>' ? pad : al == '^' ? pad / 2 : 0;
    TRY(jinja_work(r, pad + text.n));
    for (size_t i = 0; i < left && buf_ok(b); i++) buf_put(b, s->fill.p, s->fill.n);
    buf_put(b, text.p, sign_n);
    for (size_t i = 0; al == '=' && i < pad && buf_ok(b); i++) buf_put(b, s->fill.p, s->fill.n);
    buf_put(b, text.p + sign_n, text.n - sign_n);
    for (size_t i = left; al != '=' && i < pad && buf_ok(b); i++) buf_put(b, s->fill.p, s->fill.n);
    return jinja_buf_check(r, b);
}

/* Digits of |v| in the base, at least min of them. */
static void put_digits(struct buf *b, int64_t v, unsigned base, bool upper, int64_t min)
{
    char s[72];
    int n = (int)sizeof s;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do {
        s[--n] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
        u /= base;
    } while (u);
    for (int64_t i = (int64_t)sizeof s - n; i < min; i++) buf_putc(b, '0');
    buf_put(b, s + n, sizeof s - (size_t)n);
}

static void put_sign(struct buf *b, bool neg, char sign)
{
    if (neg)
        buf_putc(b, '-');
    else if (sign == '+' || sign == ' ')
        buf_putc(b, sign);
}

/* |d| by printf's e, f, g; nan and inf as Python spells them. */
static void put_double(struct buf *b, double d, char type, int prec, bool alt)
{
    char f[16], s[800];
    bool upper = type == 'E' || type == 'F' || type == 'G';
    if (isnan(d) || isinf(d)) {
        buf_puts(b, isnan(d) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf");
        return;
    }
    snprintf(f, sizeof f, "%%%s.%d%c", alt ? "#" : "", prec, type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(s, sizeof s, f, fabs(d)); /* f: made of checked parts */
#pragma GCC diagnostic pop
    buf_puts(b, s);
}

/* ---- % */

static int pct_int(struct rt *r, struct val v, char type, int64_t *i)
{
    if (jinja_as_int(v, i)) return OK;
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (v.t != V_FLOAT || type == 'x' || type == 'o' || type == 'X')
        return jinja_fail(r, "%%%c format: a number is required, not %s", type, jinja_type_name(v));
    if (isnan(v.u.d) || isinf(v.u.d) || fabs(v.u.d) >= 0x1p63) return jinja_fail(r, "cannot convert float to a 64-bit integer");
    *i = (int64_t)v.u.d;
    return OK;
}

static int pct_one(struct rt *r, struct buf *b, struct val v, struct spec *s)
{
    struct buf t;
    size_t sign_n = 0;
    int rc = OK;
    int64_t i;
    jinja_buf_init(r, &t);
    switch (s->type) {
    case 's':
    case 'r':
    case 'a':
        rc = s->type == 's' ? jinja_put_str(r, &t, v) : jinja_put_repr(r, &t, v);
        if (s->has_prec && rc == OK) {
            struct str all = {t.p ? t.p : "", t.n};
            t.n = jinja_cp_off(all, (size_t)s->prec);
        }
        break;
    case 'c':
        if (v.t == V_STR && jinja_cp_count(v_slice(v)) == 1)
            buf_put(&t, v.u.s, v.n);
        else if (jinja_as_int(v, &i) && i >= 0 && i <= 0x10ffff && (i < 0xd800 || i > 0xdfff))
            buf_utf8(&t, (uint32_t)i);
        else
            rc = jinja_fail(r, "%%c requires int or char");
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        if ((rc = pct_int(r, v, s->type, &i)) < 0) break;
        put_sign(&t, i < 0, s->sign);
        if (s->alt && (s->type == 'x' || s->type == 'X' || s->type == 'o')) {
            buf_putc(&t, '0');
            buf_putc(&t, s->type);
        }
        sign_n = t.n;
        put_digits(&t, i, s->type == 'o' ? 8 : (s->type | 32) == 'x' ? 16 : 10, s->type == 'X', s->has_prec ? s->prec : 1);
        break;
    default: /* e f g and capitals */
        if (v.t == V_UNDEF) {
            rc = jinja_undef_error(r, v);
        } else if (!jinja_is_num(v)) {
            rc = jinja_fail(r, "must be real number, not %s", jinja_type_name(v));
        } else {
            double d = jinja_as_double(v);
            put_sign(&t, signbit(d) && !isnan(d), s->sign);
            sign_n = t.n;
            put_double(&t, d, s->type, s->has_prec ? (int)s->prec : 6, s->alt);
        }
    }
    if (rc == OK) rc = jinja_buf_check(r, &t);
    if (s->type == 's' || s->type == 'r' || s->type == 'a' || s->type == 'c') s->zero = false;
    if (s->zero && !s->align) {
        s->align = '=';
        s->fill = (struct str){"0", 1};
    }
    if (rc == OK) rc = put_field(r, b, (struct str){t.p ? t.p : "", t.n}, sign_n, s, '>');
    buf_free(&t);
    return rc;
}

/* Arguments of % as they are consumed: a tuple's items, or one value. */
struct pct {
    struct val arg;
    uint32_t pos;
    bool keyed;
};

static int pct_next(struct rt *r, struct pct *p, struct val *v)
{
    if (p->arg.t == V_TUPLE ? p->pos >= p->arg.u.l->n : p->pos > 0)
        return jinja_fail(r, "not enough arguments for format string");
    *v = p->arg.t == V_TUPLE ? p->arg.u.l->v[p->pos] : p->arg;
    p->pos++;
    return OK;
}

/* A number at f[*i], or *: taken from the arguments. */
static int pct_number(struct rt *r, struct str f, size_t *i, struct pct *p, int64_t *n)
{
    if (*i < f.n && f.p[*i] == '*') {
        struct val v;
        ++*i;
        TRY(pct_next(r, p, &v));
        if (!jinja_as_int(v, n)) return jinja_fail(r, "* wants int");
    } else {
        for (*n = 0; *i < f.n && f.p[*i] >= '0' && f.p[*i] <= '9'; ++*i)
            if (*n <= MAX_WIDTH) *n = *n * 10 + (f.p[*i] - '0');
    }
    if (*n > MAX_WIDTH || *n < -MAX_WIDTH) return jinja_bound(r, "format width over %d", MAX_WIDTH);
    return OK;
}

static int pct_spec(struct rt *r, struct buf *b, struct str f, size_t *at, struct pct *p)
{
    struct spec s = {.fill = {" ", 1}};
    struct val v = v_missing();
    size_t i = *at;
    if (i < f.n && f.p[i] == '(') {
        size_t start = ++i;
        for (int depth = 1; i < f.n; i++) {
            depth += f.p[i] == '(' ? 1 : f.p[i] == ')' ? -1 : 0;
            if (!depth) break;
        }
        if (i >= f.n) return jinja_fail(r, "incomplete format key");
        if (p->arg.t != V_DICT) return jinja_fail(r, "format requires a mapping");
        const struct val *x = jinja_dict_str(r, p->arg.u.o, (struct str){f.p + start, i - start});
        if (!x) return jinja_fail(r, "format: no key '%.*s'", (int)MIN(i - start, (size_t)60), f.p + start);
        v = *x;
        p->keyed = true;
        i++;
    }
    for (; i < f.n && f.p[i] && strchr("-+ #0", f.p[i]); i++) {
        char c = f.p[i];
        if (c == '-') s.align = '<';
        if (c == '+' || (c == ' ' && s.sign != '+')) s.sign = c;
        if (c == '#') s.alt = true;
        if (c == '0') s.zero = true;
    }
    TRY(pct_number(r, f, &i, p, &s.width));
    if (s.width < 0) {
        s.align = '<';
        s.width = -s.width;
    }
    if (i < f.n && f.p[i] == '.') {
        i++;
        s.has_prec = true;
        TRY(pct_number(r, f, &i, p, &s.prec));
        s.prec = MAX(s.prec, 0);
    }
    while (i < f.n && (f.p[i] == 'l' || f.p[i] == 'h' || f.p[i] == 'L')) i++;
    if (i >= f.n) return jinja_fail(r, "incomplete format");
    s.type = f.p[i++];
    *at = i;
    if (s.type == '%') {
        buf_putc(b, '%');
        return OK;
    }
    if (!s.type || !strchr("srcaidouxXeEfFgG", s.type)) return jinja_fail(r, "unsupported format character '%c'", s.type);
    if (s.type != 's' && s.type != 'r' && s.type != 'a' && s.prec > MAX_PREC)
        return jinja_bound(r, "format precision over %d", MAX_PREC);
    if (v.t == V_MISSING) TRY(pct_next(r, p, &v));
    return pct_one(r, b, v, &s);
}

int jinja_percent(struct rt *r, struct val fmt, struct val arg, struct val *out)
{
    struct buf b;
    struct str f = v_slice(fmt);
    struct pct p = {.arg = arg};
    int rc = OK;
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < f.n && rc == OK;) {
        const char *q = memchr(f.p + i, '%', f.n - i);
        size_t k = q ? (size_t)(q - f.p) : f.n;
        buf_put(&b, f.p + i, k - i);
        i = k + 1;
        rc = jinja_work(r, 0);
        if (q && rc == OK) rc = pct_spec(r, &b, f, &i, &p);
        if (rc == OK) rc = jinja_buf_check(r, &b);
    }
    bool left = arg.t == V_TUPLE ? p.pos < arg.u.l->n : p.pos == 0 && !p.keyed;
    /* a mapping (or list) that no % uses is no error */
    if (rc == OK && left && arg.t != V_DICT && arg.t != V_LIST && arg.t != V_RANGE && arg.t != V_UNDEF)
        rc = jinja_fail(r, "not all arguments converted during string formatting");
    if (rc < 0) {
        buf_free(&b);
        return rc;
    }
    TRY(jinja_str_take(r, &b, out));
    out->sub = fmt.sub;
    return OK;
}

/* ---- format() */

static void group_digits(struct buf *b, struct str dig, char sep, size_t by)
{
    for (size_t i = 0; i < dig.n; i++) {
        if (i && (dig.n - i) % by == 0) buf_putc(b, sep);
        buf_putc(b, dig.p[i]);
    }
}

/* Digits with separators, zero-filled to the field's width where asked. */
static int put_grouped(struct rt *r, struct buf *t, struct str all, size_t n_dig, const struct spec *s, size_t by)
{
    if (!s->group) {
        buf_put(t, all.p, all.n);
        return OK;
    }
    struct buf z;
    size_t rest = all.n - n_dig, have = t->n + rest;
    jinja_buf_init(r, &z);
    for (size_t k = n_dig; s->zero && s->align == '=' && k + (k - 1) / by + have < (size_t)s->width && buf_ok(&z); k++)
        buf_putc(&z, '0');
    buf_put(&z, all.p, n_dig);
    group_digits(t, (struct str){z.p ? z.p : "", z.n}, s->group, by);
    buf_put(t, all.p + n_dig, rest);
    int rc = jinja_buf_check(r, &z);
    buf_free(&z);
    return rc;
}

static int fmt_int(struct rt *r, struct buf *t, int64_t i, const struct spec *s, size_t *sign_n)
{
    unsigned base = s->type == 'b' ? 2 : s->type == 'o' ? 8 : (s->type | 32) == 'x' ? 16 : 10;
    struct buf d = {0};
    if (s->has_prec) return jinja_fail(r, "Precision not allowed in integer format specifier");
    if (s->type == 'c') {
        if (i < 0 || i > 0x10ffff || (i >= 0xd800 && i < 0xe000)) return jinja_fail(r, "%%c arg not in range(0x110000)");
        buf_utf8(t, (uint32_t)i);
        return OK;
    }
    put_sign(t, i < 0, s->sign);
    if (s->alt && base != 10) {
        buf_putc(t, '0');
        buf_putc(t, s->type);
    }
    *sign_n = t->n;
    put_digits(&d, i, base, s->type == 'X', 1);
    int rc = buf_ok(&d) ? put_grouped(r, t, (struct str){d.p, d.n}, d.n, s, base == 10 ? 3 : 4) : jinja_nomem(r);
    buf_free(&d);
    return rc;
}

static int fmt_float(struct rt *r, struct buf *t, double v, const struct spec *s, size_t *sign_n)
{
    struct buf d = {0};
    if (s->has_prec && s->prec > MAX_PREC) return jinja_bound(r, "format precision over %d", MAX_PREC);
    put_sign(t, signbit(v) && !isnan(v), s->sign);
    *sign_n = t->n;
    char type = s->type;
    bool pct = type == '%';
    if (pct) {
        v *= 100;
        type = 'f';
    }
    if (!type && !s->has_prec) {
        jinja_put_float(&d, fabs(v));
    } else if (!type) { /* like g, but at least one digit behind the point, and an exponent already from that precision on */
        int p = s->prec ? (int)s->prec : 1;
        char m[40];
        snprintf(m, sizeof m, "%.*e", MIN(p, 17) - 1, fabs(v));
        const char *x = strchr(m, 'e');
        int e = x ? atoi(x + 1) : 0;
        if (x && e == p - 1 && p > 1) { /* "1.2e+01" for 12.3 with precision 2 */
            put_double(&d, v, 'e', p - 1, false);
            char *q = strchr(d.p ? d.p : "", 'e');
            size_t keep = q ? (size_t)(q - d.p) : d.n, cut = keep;
            while (cut > 0 && memchr(d.p, '.', keep) && d.p[cut - 1] == '0') cut--;
            if (cut > 0 && d.p[cut - 1] == '.') cut--;
            if (q) {
                memmove(d.p + cut, q, d.n - keep + 1);
                d.n -= keep - cut;
            }
        } else {
            put_double(&d, v, 'g', p, s->alt);
            if (d.p && !strpbrk(d.p, ".en")) buf_puts(&d, ".0");
        }
    } else {
        put_double(&d, v, type, s->has_prec ? (int)s->prec : 6, s->alt);
    }
    if (pct) buf_putc(&d, '%');
    size_t n = 0;
    while (n < d.n && d.p[n] >= '0' && d.p[n] <= '9') n++;
    int rc = buf_ok(&d) ? put_grouped(r, t, (struct str){d.p ? d.p : "", d.n}, n, s, 3) : jinja_nomem(r);
    buf_free(&d);
    return rc;
}

static int parse_spec(struct rt *r, struct str f, struct spec *s)
{
    size_t i = 0;
    uint32_t cp;
    *s = (struct spec){.fill = {" ", 1}};
    if (f.n) {
        size_t k = jinja_cp_at(f, 0, &cp);
        if (k < f.n && strchr("<>=^", f.p[k]) && f.p[k]) {
            s->fill = (struct str){f.p, k};
            s->align = f.p[k];
            i = k + 1;
        } else if (strchr("<>=^", f.p[0]) && f.p[0]) {
            s->align = f.p[0];
            i = 1;
        }
    }
    if (i < f.n && (f.p[i] == '+' || f.p[i] == '-' || f.p[i] == ' ')) s->sign = f.p[i++];
    if (i < f.n && f.p[i] == '#') s->alt = f.p[i++] == '#';
    if (i < f.n && f.p[i] == '0') {
        i++;
        if (!s->align) {
            s->align = '=';
            s->fill = (struct str){"0", 1};
            s->zero = true;
        } else if (s->align == '=' && str_eq(s->fill, "0")) {
            s->zero = true;
        } else if (str_eq(s->fill, " ")) {
            s->fill = (struct str){"0", 1};
        }
    }
    for (; i < f.n && f.p[i] >= '0' && f.p[i] <= '9'; i++)
        if (s->width <= MAX_WIDTH) s->width = s->width * 10 + (f.p[i] - '0');
    if (i < f.n && (f.p[i] == ',' || f.p[i] == '_')) s->group = f.p[i++];
    if (i < f.n && f.p[i] == '.') {
        size_t start = ++i;
        s->has_prec = true;
        for (; i < f.n && f.p[i] >= '0' && f.p[i] <= '9'; i++)
            if (s->prec <= MAX_WIDTH) s->prec = s->prec * 10 + (f.p[i] - '0');
        if (i == start) return jinja_fail(r, "Format specifier missing precision");
    }
    if (s->width > MAX_WIDTH || s->prec > MAX_WIDTH) return jinja_bound(r, "format width over %d", MAX_WIDTH);
    if (i < f.n) s->type = f.p[i++];
    if (i != f.n) return jinja_fail(r, "Invalid format specifier");
    return OK;
}

static int fmt_value(struct rt *r, struct buf *b, struct val v, struct str spec)
{
    struct spec s;
    struct buf t;
    size_t sign_n = 0;
    char align = '>';
    int64_t i;
    int rc;
    if (!spec.n) return jinja_put_str(r, b, v);
    TRY(parse_spec(r, spec, &s));
    jinja_buf_init(r, &t);
    bool num = jinja_is_num(v);
    if (num && (v.t == V_FLOAT || (s.type && strchr("eEfFgG%", s.type)))) {
        rc = s.type && !strchr("eEfFgGn%", s.type) ? jinja_fail(r, "Unknown format code '%c' for object of type 'float'", s.type)
                                                   : fmt_float(r, &t, jinja_as_double(v), &s, &sign_n);
    } else if (num && jinja_as_int(v, &i)) {
        rc = s.type && !strchr("bcdoxXn", s.type) ? jinja_fail(r, "Unknown format code '%c' for object of type 'int'", s.type)
                                                  : fmt_int(r, &t, i, &s, &sign_n);
        if (s.type == 'c') align = '<';
    } else if (v.t == V_STR) {
        align = '<';
        if ((s.type && s.type != 's') || s.sign || s.alt || s.group || (s.align == '=' && !s.zero)) {
            rc = jinja_fail(r, "format specifier not allowed for str");
        } else {
            if (s.zero) s.align = 0;
            size_t n = s.has_prec ? jinja_cp_off(v_slice(v), (size_t)s.prec) : v.n;
            buf_put(&t, v.u.s, n);
            rc = OK;
        }
    } else {
        rc = jinja_fail(r, "unsupported format string passed to %s.__format__", jinja_type_name(v));
    }
    if (rc == OK) rc = jinja_buf_check(r, &t);
    if (rc == OK) rc = put_field(r, b, (struct str){t.p ? t.p : "", t.n}, sign_n, &s, align);
    buf_free(&t);
    return rc;
}

struct fmt {
    const struct args *g;
    int64_t next; /* automatic numbering; -1: by hand */
};

static int fmt_field(struct rt *r, struct fmt *x, struct str name, struct val *v)
{
    size_t n = 0;
    while (n < name.n && name.p[n] != '.' && name.p[n] != '[') n++;
    struct str first = {name.p, n};
    int64_t i;
    if (!n || (jinja_parse_int(first, 10, &i) == 0 && first.p[0] >= '0' && first.p[0] <= '9')) {
        if (n ? x->next > 0 : x->next < 0) return jinja_fail(r, "cannot switch between automatic and manual field numbering");
        if (n)
            x->next = -1;
        else
            i = x->next++;
        if (i >= x->g->n) return jinja_fail(r, "Replacement index %lld out of range for positional args tuple", (long long)i);
        *v = x->g->v[i];
    } else {
        uint32_t k = 0;
        while (k < x->g->n_kw && !str_same(x->g->kw[k], first)) k++;
        if (k == x->g->n_kw) return jinja_fail(r, "format: no argument '%.*s'", (int)MIN(first.n, (size_t)60), first.p);
        *v = x->g->kv[k];
    }
    while (n < name.n) {
        bool attr = name.p[n++] == '.';
        size_t start = n;
        while (n < name.n && (attr ? name.p[n] != '.' && name.p[n] != '[' : name.p[n] != ']')) n++;
        struct str part = {name.p + start, n - start};
        if (!part.n || (!attr && n++ >= name.n)) return jinja_fail(r, "Empty attribute in format string");
        if (attr)
            TRY(jinja_getattr(r, *v, part, v));
        else
            TRY(jinja_getitem(r, *v,
                              jinja_parse_int(part, 10, &i) == 0 && part.p[0] >= '0' && part.p[0] <= '9' ? v_int(i)
                                                                                                         : v_str(part.p, part.n),
                              v));
    }
    return OK;
}

static int fmt_run(struct rt *r, struct buf *b, struct fmt *x, struct str f, int depth);

/* The field between { and its }: name!conversion:spec, the spec may hold fields itself. */
static int fmt_one(struct rt *r, struct buf *b, struct fmt *x, struct str f, int depth)
{
    size_t n = 0, br = 0;
    while (n < f.n && (br || (f.p[n] != '!' && f.p[n] != ':'))) {
        br = f.p[n] == '[' ? 1 : f.p[n] == ']' ? 0 : br;
        n++;
    }
    struct val v;
    TRY(fmt_field(r, x, (struct str){f.p, n}, &v));
    if (n < f.n && f.p[n] == '!') {
        char c = n + 1 < f.n ? f.p[n + 1] : 0;
        struct buf t;
        if ((c != 's' && c != 'r') || (n + 2 < f.n && f.p[n + 2] != ':')) return jinja_fail(r, "bad conversion in format string");
        jinja_buf_init(r, &t);
        int rc = c == 's' ? jinja_put_str(r, &t, v) : jinja_put_repr(r, &t, v);
        if (rc < 0) {
            buf_free(&t);
            return rc;
        }
        TRY(jinja_str_take(r, &t, &v));
        n += 2;
    }
    if (n >= f.n) return fmt_value(r, b, v, (struct str){0});
    struct buf s;
    jinja_buf_init(r, &s);
    int rc = fmt_run(r, &s, x, (struct str){f.p + n + 1, f.n - n - 1}, depth + 1);
    if (rc == OK) rc = fmt_value(r, b, v, (struct str){s.p ? s.p : "", s.n});
    buf_free(&s);
    return rc;
}

static int fmt_run(struct rt *r, struct buf *b, struct fmt *x, struct str f, int depth)
{
    if (depth > 1) return jinja_fail(r, "Max string recursion exceeded");
    for (size_t i = 0; i < f.n;) {
        TRY(jinja_work(r, 0));
        char c = f.p[i];
        if (c != '{' && c != '}') {
            buf_putc(b, c);
            i++;
            continue;
        }
        if (!depth && i + 1 < f.n && f.p[i + 1] == c) {
            buf_putc(b, c);
            i += 2;
            continue;
        }
        if (c == '}') return jinja_fail(r, "Single '}' encountered in format string");
        size_t k = i + 1, open = 1;
        for (; k < f.n; k++) {
            open += f.p[k] == '{' ? 1u : 0u;
            if (f.p[k] == '}' && --open == 0) break;
        }
        if (k >= f.n) return jinja_fail(r, "expected '}' before end of string");
        TRY(fmt_one(r, b, x, (struct str){f.p + i + 1, k - i - 1}, depth));
        i = k + 1;
    }
    return jinja_buf_check(r, b);
}

int jinja_format(struct rt *r, struct val fmt, const struct args *g, struct val *out)
{
    struct buf b;
    struct fmt x = {.g = g};
    jinja_buf_init(r, &b);
    int rc = fmt_run(r, &b, &x, v_slice(fmt), 0);
    if (rc < 0) {
        buf_free(&b);
        return rc;
    }
    TRY(jinja_str_take(r, &b, out));
    out->sub = fmt.sub;
    return OK;
}
