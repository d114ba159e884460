/* jinja_filter_text.c: filters that make text. */
#include "model/jinja_impl.h"
#include <math.h>
#include <string.h>

#define F(name) static int name(struct rt *r, struct val v, struct val *a, struct val *out)

static bool flag(struct val v) { return v.t != V_MISSING && jinja_truth(v); }

/* soft_str: Markup stays what it is. */
static int soft(struct rt *r, struct val *v) { return v->t == V_STR ? OK : jinja_str(r, *v, v); }

/* The method of str of that name, on soft_str(v). */
static int method(struct rt *r, const char *name, struct val v, struct val *a, struct val *out)
{
    TRY(soft(r, &v));
    return jinja_find_method(V_STR, str_of(name))->fn(r, v, a, out);
}

F(f_upper) { return method(r, "upper", v, a, out); }
F(f_lower) { return method(r, "lower", v, a, out); }
F(f_capitalize) { return method(r, "capitalize", v, a, out); }
F(f_trim) { return method(r, "strip", v, a, out); }

F(f_center)
{
    struct val two[2] = {a[0].t == V_MISSING ? v_int(80) : a[0], v_missing()};
    return method(r, "center", v, two, out);
}

F(f_replace)
{
    struct val x[3];
    TRY(jinja_str(r, v, &v));
    TRY(jinja_str(r, a[0], &x[0]));
    TRY(jinja_str(r, a[1], &x[1]));
    x[2] = a[2].t == V_NONE ? v_missing() : a[2];
    return method(r, "replace", v, x, out);
}

F(f_string)
{
    (void)a;
    *out = v;
    return soft(r, out);
}

F(f_safe)
{
    (void)a;
    TRY(jinja_str(r, v, out));
    out->sub = STR_MARKUP;
    return OK;
}

F(f_escape)
{
    (void)a;
    return jinja_escape(r, v, out);
}
F(f_forceescape)
{
    (void)a;
    TRY(jinja_str(r, v, &v));
    return jinja_escape(r, v, out);
}

/* Words begin behind white space and -({[<; their first character in upper case, the rest in lower case. */
F(f_title)
{
    (void)a;
    struct buf b;
    TRY(soft(r, &v));
    struct str s = v_slice(v);
    int rc = jinja_work(r, s.n);
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < s.n && rc == OK;) {
        uint32_t c;
        size_t k = jinja_cp_at(s, i, &c), end = i + k;
        bool sep = jinja_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c));
        if (sep) {
            buf_put(&b, s.p + i, k);
            i = end;
            continue;
        }
        jinja_put_case(&b, c, CASE_UPPER);
        while (end < s.n) {
            size_t n = jinja_cp_at(s, end, &c);
            if (jinja_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c))) break;
            end += n;
        }
        struct val low;
        rc = jinja_case_of(r, (struct str){s.p + i + k, end - i - k}, CASE_LOWER, &low);
        if (rc == OK) buf_put(&b, low.u.s, low.n);
        i = end;
    }
    if (rc < 0) {
        buf_free(&b);
        return rc;
    }
    TRY(jinja_str_take(r, &b, out));
    return OK;
}

static int f_format(struct rt *r, struct val v, const struct args *g, struct val *out)
{
    TRY(soft(r, &v));
    if (g->n && g->n_kw) return jinja_fail(r, "can't handle positional and keyword arguments at the same time");
    if (g->n_kw) {
        struct dict *d;
        TRY(jinja_dict_new(r, &d));
        for (uint32_t i = 0; i < g->n_kw; i++) TRY(jinja_dict_set(r, d, v_str(g->kw[i].p, g->kw[i].n), g->kv[i]));
        return jinja_percent(r, v, (struct val){.t = V_DICT, .u.o = d}, out);
    }
    struct list *l;
    TRY(jinja_list_new(r, g->n, &l));
    if (g->n) memcpy(l->v, g->v, g->n * sizeof *g->v);
    l->n = g->n;
    return jinja_percent(r, v, v_tuple(l), out);
}

F(f_indent)
{
    struct buf b;
    struct val ind = v_str("    ", 4), nl = v_str("\n", 1);
    struct list *l;
    int64_t w;
    if (a[0].t == V_STR) {
        ind = a[0];
    } else if (a[0].t != V_MISSING) {
        TRY(jinja_need_int(r, a[0], &w));
        TRY(jinja_binop(r, T_MUL, v_str(" ", 1), v_int(w), &ind));
    }
    TRY(jinja_need_str(r, v, "the text to indent"));
    uint8_t sub = v.sub;
    v.sub = 0;
    TRY(jinja_str_cat(r, v, nl, &v));
    TRY(jinja_splitlines(r, v_slice(v), false, &l));
    jinja_buf_init(r, &b);
    int rc = OK;
    for (uint32_t i = 0; i < l->n && rc == OK && buf_ok(&b); i++) {
        if (i) buf_putc(&b, '\n');
        if (i ? flag(a[2]) || l->v[i].n : flag(a[1])) {
            buf_put(&b, ind.u.s, ind.n);
            rc = jinja_work(r, ind.n);
        }
        buf_put(&b, l->v[i].u.s, l->v[i].n);
    }
    if (rc < 0) {
        buf_free(&b);
        return rc;
    }
    TRY(jinja_str_take(r, &b, out));
    out->sub = sub;
    return OK;
}

F(f_truncate)
{
    int64_t length = 255, leeway = 5;
    struct val end = v_str("...", 3);
    uint64_t n;
    bool real = a[0].t == V_FLOAT; /* good enough for a text that is not cut */
    if (real)
        length = a[0].u.d >= 0x1p62 ? INT64_MAX / 2 : a[0].u.d > -0x1p62 ? (int64_t)floor(a[0].u.d) : -1;
    else if (a[0].t != V_MISSING)
        TRY(jinja_need_int(r, a[0], &length));
    if (a[2].t != V_MISSING) end = a[2];
    if (a[3].t != V_MISSING && a[3].t != V_NONE) TRY(jinja_need_int(r, a[3], &leeway));
    TRY(jinja_need_str(r, end, "end"));
    int64_t e = (int64_t)jinja_cp_count(v_slice(end));
    if (length < e) return jinja_fail(r, "expected length >= %lld, got %lld", (long long)e, (long long)length);
    if (leeway < 0) return jinja_fail(r, "expected leeway >= 0, got %lld", (long long)leeway);
    TRY(jinja_len(r, v, &n));
    *out = v;
    if ((int64_t)n - leeway <= length) return OK;
    if (real) return jinja_fail(r, "slice indices must be integers or None");
    TRY(jinja_need_str(r, v, "the text to truncate"));
    TRY(jinja_slice(r, v, v_none(), v_int(length - e), v_none(), &v));
    if (!flag(a[1])) {
        size_t at = jinja_rfind(v_slice(v), (struct str){" ", 1});
        if (at != SIZE_MAX) v.n = (uint32_t)at;
    }
    return jinja_binop(r, T_ADD, v, end, out);
}

static bool word_char(uint32_t c, const char *p, size_t n) { return c == '_' || jinja_is_class((struct str){p, n}, "isalnum"); }

F(f_wordcount)
{
    (void)a;
    int64_t n = 0;
    bool in = false;
    TRY(soft(r, &v));
    TRY(jinja_work(r, v.n));
    for (size_t i = 0; i < v.n;) {
        uint32_t c;
        size_t k = jinja_cp_at(v_slice(v), i, &c);
        bool w = word_char(c, v.u.s + i, k);
        n += w && !in;
        in = w;
        i += k;
    }
    *out = v_int(n);
    return OK;
}

F(f_wordwrap)
{
    int64_t width = 79;
    struct list *lines, *res;
    struct val sep = v_str("\n", 1), all;
    if (a[0].t != V_MISSING) TRY(jinja_need_int(r, a[0], &width));
    TRY(jinja_need_str(r, v, "the text to wrap"));
    if (a[2].t != V_MISSING && a[2].t != V_NONE) sep = a[2];
    TRY(jinja_need_str(r, sep, "wrapstring"));
    bool long_words = a[1].t == V_MISSING || jinja_truth(a[1]), hyphens = a[3].t == V_MISSING || jinja_truth(a[3]);
    TRY(jinja_splitlines(r, v_slice(v), false, &lines));
    TRY(jinja_list_new(r, lines->n, &all.u.l));
    for (uint32_t i = 0; i < lines->n; i++) {
        TRY(jinja_list_new(r, 0, &res));
        TRY(jinja_wrap(r, v_slice(lines->v[i]), width, long_words, hyphens, res));
        struct val s;
        TRY(jinja_str_method_list(r, sep, v_list(res), &s));
        TRY(jinja_list_push(r, all.u.l, s));
    }
    return jinja_str_method_list(r, sep, v_list(all.u.l), out);
}

static int quote(struct rt *r, struct buf *b, struct val v, bool query)
{
    TRY(jinja_str(r, v, &v));
    for (uint32_t i = 0; i < v.n; i++) {
        unsigned char c = (unsigned char)v.u.s[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_.-~", c)) ||
            (c == '/' && !query))
            buf_putc(b, (char)c);
        else if (c == ' ' && query)
            buf_putc(b, '+');
        else
            buf_printf(b, "%%%02X", c);
    }
    return jinja_work(r, v.n);
}

static int quote_pairs(struct rt *r, struct buf *b, struct val v)
{
    struct iter it;
    struct val x;
    int rc;
    if (v.t == V_DICT) v = (struct val){.t = V_VIEW, .sub = 2, .u.o = v.u.o};
    TRY(jinja_iter(r, v, &it));
    for (uint32_t i = 0; (rc = jinja_iter_next(r, &it, &x)) > 0; i++) {
        struct list *l;
        TRY(jinja_to_list(r, x, &l));
        if (l->n != 2) return jinja_fail(r, "urlencode wants pairs");
        if (i) buf_putc(b, '&');
        TRY(quote(r, b, l->v[0], true));
        buf_putc(b, '=');
        TRY(quote(r, b, l->v[1], true));
    }
    return rc;
}

F(f_urlencode)
{
    (void)a;
    struct buf b;
    jinja_buf_init(r, &b);
    int rc = v.t == V_STR || !jinja_iterable(v) ? quote(r, &b, v, false) : quote_pairs(r, &b, v);
    if (rc < 0) {
        buf_free(&b);
        return rc;
    }
    return jinja_str_take(r, &b, out);
}

/* &lt; &#39; &#x27; ... at s; the character, its length to *len, or 0. */
static uint32_t entity(struct str s, size_t *len)
{
    static const struct {
        const char *name;
        uint32_t cp;
    } known[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", 0xa0}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        *len = strlen(known[i].name);
        if (s.n >= *len && memcmp(s.p, known[i].name, *len) == 0) return known[i].cp;
    }
    const char *semi = s.n > 3 && s.p[1] == '#' ? memchr(s.p, ';', MIN(s.n, (size_t)12)) : NULL;
    if (!semi) return 0;
    bool hex = s.p[2] == 'x' || s.p[2] == 'X';
    int64_t cp;
    struct str d = {s.p + 2 + hex, (size_t)(semi - s.p) - 2 - hex};
    if (jinja_parse_int(d, hex ? 16 : 10, &cp) != 0 || cp <= 0 || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) return 0;
    *len = (size_t)(semi - s.p) + 1;
    return (uint32_t)cp;
}

/* Comments, then tags out; white space to single blanks; entities back to characters (the named ones of XML and nbsp, and
 * numbers). */
F(f_striptags)
{
    (void)a;
    struct buf b, t;
    TRY(jinja_str(r, v, &v));
    TRY(jinja_work(r, 2 * (size_t)v.n));
    jinja_buf_init(r, &b);
    jinja_buf_init(r, &t);
    struct str s = v_slice(v);
    for (size_t at; (at = jinja_find(s, 0, (struct str){"<!--", 4})) != SIZE_MAX;) {
        size_t end = jinja_find(s, at, (struct str){"-->", 3});
        if (end == SIZE_MAX) break;
        buf_put(&b, s.p, at);
        s = (struct str){s.p + end + 3, s.n - end - 3};
    }
    buf_put(&b, s.p, s.n);
    s = (struct str){b.p ? b.p : "", b.n};
    for (size_t at; (at = jinja_find(s, 0, (struct str){"<", 1})) != SIZE_MAX;) {
        size_t end = jinja_find(s, at, (struct str){">", 1});
        if (end == SIZE_MAX) break;
        buf_put(&t, s.p, at);
        s = (struct str){s.p + end + 1, s.n - end - 1};
    }
    buf_put(&t, s.p, s.n);
    b.n = 0;
    bool gap = false;
    s = (struct str){t.p ? t.p : "", t.n};
    for (size_t i = 0; i < s.n;) {
        uint32_t c;
        size_t k = jinja_cp_at(s, i, &c);
        if (jinja_space(c)) {
            gap = b.n > 0;
            i += k;
            continue;
        }
        if (gap) buf_putc(&b, ' ');
        gap = false;
        size_t len;
        uint32_t e = c == '&' ? entity((struct str){s.p + i, s.n - i}, &len) : 0;
        if (e) {
            buf_utf8(&b, e);
            i += len;
        } else {
            buf_put(&b, s.p + i, k);
            i += k;
        }
    }
    int rc = jinja_buf_check(r, &t);
    buf_free(&t);
    if (rc < 0) {
        buf_free(&b);
        return rc;
    }
    return jinja_str_take(r, &b, out);
}

F(f_filesizeformat)
{
    static const char *const dec[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const bin[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    double d, base = flag(a[0]) ? 1024 : 1000, unit = base;
    struct buf b = {0};
    if (v.t == V_UNDEF) return jinja_undef_error(r, v);
    if (jinja_is_num(v))
        d = jinja_as_double(v);
    else if (v.t != V_STR || !jinja_parse_float(v_slice(v), &d))
        return jinja_fail(r, "could not convert to a number");
    if (isnan(d) || (d < base && isinf(d))) return jinja_fail(r, "cannot convert float NaN or infinity to integer");
    if (d == 1) {
        buf_puts(&b, "1 Byte");
    } else if (d < base) {
        buf_printf(&b, "%.0f Bytes", trunc(d) + 0.0);
    } else {
        size_t i = 0;
        for (unit = base * base; i + 1 < ARRAY_LEN(dec) && !(d < unit); i++) unit *= base;
        buf_printf(&b, "%.1f %s", base * d / unit, (base > 1000 ? bin : dec)[i]);
    }
    return jinja_str_take(r, &b, out);
}

static int separators(struct rt *r, struct val v, struct jinja_json *o)
{
    struct list *l;
    TRY(jinja_to_list(r, v, &l));
    if (l->n != 2 || l->v[0].t != V_STR || l->v[1].t != V_STR) return jinja_fail(r, "separators must be two strings");
    o->item_sep = v_slice(l->v[0]);
    o->key_sep = v_slice(l->v[1]);
    return OK;
}

F(f_tojson)
{
    struct jinja_json o = {.ascii = flag(a[0]), .sort = flag(a[3]), .item_sep = {", ", 2}, .key_sep = {": ", 2}};
    struct buf b;
    int64_t n;
    if (a[1].t != V_MISSING && a[1].t != V_NONE) {
        struct val ind = a[1];
        o.pretty = true;
        o.item_sep.n = 1;
        if (jinja_as_int(ind, &n)) TRY(jinja_binop(r, T_MUL, v_str(" ", 1), v_int(n), &ind));
        TRY(jinja_need_str(r, ind, "indent"));
        o.indent = v_slice(ind);
    }
    if (a[2].t != V_MISSING && a[2].t != V_NONE) TRY(separators(r, a[2], &o));
    jinja_buf_init(r, &b);
    int rc = jinja_put_json(r, &b, v, &o, 0);
    if (rc < 0) {
        buf_free(&b);
        return rc;
    }
    return jinja_str_take(r, &b, out);
}

static const struct jinja_fn filters[] = {
    {"capitalize", f_capitalize, NULL, "", 0, false, false},
    {"center", f_center, NULL, "width", 0, false, false},
    {"e", f_escape, NULL, "", 0, false, false},
    {"escape", f_escape, NULL, "", 0, false, false},
    {"filesizeformat", f_filesizeformat, NULL, "binary", 0, false, false},
    {"forceescape", f_forceescape, NULL, "", 0, false, false},
    {"format", NULL, f_format, NULL, 0, false, false},
    {"indent", f_indent, NULL, "width,first,blank", 0, false, false},
    {"lower", f_lower, NULL, "", 0, false, false},
    {"replace", f_replace, NULL, "old,new,count", 2, false, false},
    {"safe", f_safe, NULL, "", 0, false, false},
    {"string", f_string, NULL, "", 0, false, false},
    {"striptags", f_striptags, NULL, "", 0, false, false},
    {"title", f_title, NULL, "", 0, false, false},
    {"tojson", f_tojson, NULL, "ensure_ascii,indent,separators,sort_keys", 0, false, false},
    {"trim", f_trim, NULL, "chars", 0, false, false},
    {"truncate", f_truncate, NULL, "length,killwords,end,leeway", 0, false, false},
    {"upper", f_upper, NULL, "", 0, false, false},
    {"urlencode", f_urlencode, NULL, "", 0, false, false},
    {"wordcount", f_wordcount, NULL, "", 0, false, false},
    {"wordwrap", f_wordwrap, NULL, "width,break_long_words,wrapstring,break_on_hyphens", 0, false, false},
};

const struct jinja_fn *jinja_find_text_filter(struct str name) { return jinja_find_fn(filters, ARRAY_LEN(filters), name); }
