/* jinja_lex.c: template text -> tokens, one at a time. The rules are those of Jinja2's lexer with trim_blocks and lstrip_blocks:
 * which white space a tag takes with it is decided here and nowhere else. Every byte is looked at a bounded number of times. */
#include "model/jinja_impl.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { IN_DATA, IN_BLOCK, IN_VAR, IN_RAW };

int jinja_bad(struct err *e, uint32_t line, const char *fmt, ...)
{
    char m[220];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(m, sizeof m, fmt, ap);
    va_end(ap);
    return err_set(e, E_FORMAT, "line %u: %s", line, m);
}

static bool space_at(const struct lex *l, size_t pos, uint32_t *len)
{
    uint32_t cp;
    if (pos >= l->n) return false;
    *len = jinja_cp_at((struct str){l->p + pos, l->n - pos}, 0, &cp);
    return jinja_space(cp);
}

/* Moves over [pos, to), counting lines. */
static void advance(struct lex *l, size_t to)
{
    for (const char *q = l->p + l->pos, *end = l->p + to; (q = memchr(q, '\n', (size_t)(end - q))) != NULL; q++) l->line++;
    l->pos = to;
}

static size_t skip_space(const struct lex *l, size_t pos)
{
    uint32_t k;
    while (space_at(l, pos, &k)) pos += k;
    return pos;
}

static bool lit(const struct lex *l, size_t pos, const char *z)
{
    size_t k = strlen(z);
    return l->n - pos >= k && memcmp(l->p + pos, z, k) == 0;
}

/* Where [0, n) ends without the white space at its end. */
static size_t rstrip(const char *p, size_t n) { return jinja_strip((struct str){p, n}, (struct str){0}, true, false, true).n; }

/* lstrip_blocks: text in front of a tag loses the spaces of the tag's own line when there is nothing else on it. */
static size_t lstrip(const struct lex *l, size_t from, size_t to)
{
    size_t b = to;
    while (b > from && l->p[b - 1] != '\n') b--;
    if (b == from && from > 0 && l->p[from - 1] != '\n') return to;
    return jinja_strip((struct str){l->p + b, to - b}, (struct str){0}, true, false, true).n == 0 ? b : to;
}

/* End of a tag's closing bracket pair `end` at pos ("%}" or "#}"), with its white space control; 0: none here. */
static size_t block_end(const struct lex *l, size_t pos, const char *end)
{
    if (l->p[pos] == '+' && lit(l, pos + 1, end)) return pos + 3;
    if (l->p[pos] == '-' && lit(l, pos + 1, end)) return skip_space(l, pos + 3);
    if (!lit(l, pos, end)) return 0;
    return pos + 2 + (pos + 2 < l->n && l->p[pos + 2] == '\n');
}

/* At "{%" (pos): end of a whole {% raw %} tag, or 0. *sign: '-', '+' or 0. */
static size_t raw_tag(const struct lex *l, size_t pos, const char *word, bool trim, char *sign)
{
    size_t q = pos + 2;
    *sign = q < l->n && (l->p[q] == '-' || l->p[q] == '+') ? l->p[q] : 0;
    q = skip_space(l, q + (*sign != 0));
    if (!lit(l, q, word)) return 0;
    q = skip_space(l, q + strlen(word));
    if (q >= l->n) return 0;
    if (trim) return block_end(l, q, "%}");
    if (lit(l, q, "-%}")) return skip_space(l, q + 3);
    return lit(l, q, "%}") ? q + 2 : 0;
}

/* Inside {% raw %}: text up to {% endraw %}. */
static int raw_text(struct lex *l, struct jinja_tok *t)
{
    for (size_t q = l->pos; q + 1 < l->n; q++) {
        const char *f = memchr(l->p + q, '{', l->n - q);
        if (!f) break;
        q = (size_t)(f - l->p);
        if (!lit(l, q, "{%")) continue;
        char sign;
        size_t end = raw_tag(l, q, "endraw", true, &sign);
        if (!end) continue;
        size_t stop = q;
        if (sign == '-')
            stop = l->pos + rstrip(l->p + l->pos, q - l->pos);
        else if (sign != '+')
            stop = lstrip(l, l->pos, q);
        *t = (struct jinja_tok){.k = T_DATA, .line = l->line, .s = {l->p + l->pos, stop - l->pos}};
        advance(l, end);
        l->state = IN_DATA;
        return OK;
    }
    return jinja_bad(l->e, l->line, "Missing end of raw directive");
}

/* Text up to the next tag; the tag's opening is consumed too and decides the next state. A comment is skipped. */
static int data(struct lex *l, struct jinja_tok *t)
{
    size_t q = l->pos;
    for (;; q++) {
        const char *f = q < l->n ? memchr(l->p + q, '{', l->n - q) : NULL;
        q = f ? (size_t)(f - l->p) : l->n;
        if (q + 1 >= l->n) {
            q = l->n;
            break;
        }
        if (l->p[q + 1] == '%' || l->p[q + 1] == '{' || l->p[q + 1] == '#') break;
    }
    *t = (struct jinja_tok){.k = T_DATA, .line = l->line, .s = {l->p + l->pos, q - l->pos}};
    if (q == l->n) {
        advance(l, q);
        return OK;
    }
    char kind = l->p[q + 1], sign = 0;
    size_t raw = kind == '%' ? raw_tag(l, q, "raw", false, &sign) : 0;
    if (!raw && q + 2 < l->n && (l->p[q + 2] == '-' || l->p[q + 2] == '+')) sign = l->p[q + 2];
    if (sign == '-')
        t->s.n = rstrip(t->s.p, t->s.n);
    else if (sign != '+' && kind != '{')
        t->s.n = lstrip(l, l->pos, q) - l->pos;
    if (kind == '#') {
        advance(l, q + 2 + (sign != 0));
        uint32_t line = l->line;
        for (size_t c = l->pos; c < l->n; c++) {
            const char *f = memchr(l->p + c, '#', l->n - c);
            if (!f) break;
            c = (size_t)(f - l->p);
            if (!lit(l, c, "#}")) continue;
            bool s = c > l->pos && (l->p[c - 1] == '-' || l->p[c - 1] == '+');
            advance(l, block_end(l, c - s, "#}"));
            return OK;
        }
        return jinja_bad(l->e, line, "Missing end of comment tag");
    }
    if (raw) {
        advance(l, raw);
        l->state = IN_RAW;
        return OK;
    }
    advance(l, q); /* the opening itself becomes the next token */
    l->state = kind == '{' ? IN_VAR : IN_BLOCK;
    l->n_bal = UINT32_MAX; /* mark: opening not yet handed out */
    return OK;
}

static int hex(const char *p, size_t n, uint32_t *v)
{
    *v = 0;
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0) return -1;
        *v = *v * 16 + (uint32_t)d;
    }
    return 0;
}

/* Python's string escapes; those it does not know stay as they are. */
static int unescape(struct lex *l, struct str s, struct str *out)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    if (!memchr(s.p, '\\', s.n)) {
        *out = s;
        return OK;
    }
    char *o = arena_alloc(l->a, s.n + 1, 1);
    if (!o) return err_set(l->e, E_NOMEM, "line %u: no memory", l->line);
    size_t k = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '\\') {
            o[k++] = s.p[i];
            continue;
        }
        char c = s.p[++i]; /* the lexer saw a character after every backslash */
        const char *f = c ? strchr(from, c) : NULL;
        if (f) {
            o[k++] = to[f - from];
        } else if (c == '\n') {
            /* a line that goes on */
        } else if (c >= '0' && c <= '7') {
            uint32_t v = 0, d = 0;
            for (; d < 3 && i < s.n && s.p[i] >= '0' && s.p[i] <= '7'; d++) v = v * 8 + (uint32_t)(s.p[i++] - '0');
            i--;
            k += utf8_put(o + k, v); /* at most 2 bytes from 2 or more */
        } else if (c == 'x' || c == 'u' || c == 'U') {
            size_t d = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            uint32_t v;
            if (s.n - i - 1 < d || hex(s.p + i + 1, d, &v) < 0)
                return jinja_bad(l->e, l->line, "truncated \\%c escape in a string", c);
            if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) return jinja_bad(l->e, l->line, "\\%c escape is no character", c);
            k += utf8_put(o + k, v);
            i += d;
        } else if (c == 'N') {
            return jinja_bad(l->e, l->line, "\\N{...} escapes are not supported");
        } else {
            o[k++] = '\\';
            i--;
            o[k++] = s.p[++i];
        }
    }
    *out = (struct str){o, k};
    return OK;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* (\d+_)*\d+ at pos: its end, or pos. */
static size_t digits(const struct lex *l, size_t pos)
{
    if (pos >= l->n || !is_digit(l->p[pos])) return pos;
    while (pos < l->n && (is_digit(l->p[pos]) || (l->p[pos] == '_' && pos + 1 < l->n && is_digit(l->p[pos + 1])))) pos++;
    return pos;
}

static int number(struct lex *l, struct jinja_tok *t)
{
    size_t p = l->pos, end;
    if (p == 0 || l->p[p - 1] != '.') {
        size_t a = digits(l, p), b = a;
        if (b < l->n && l->p[b] == '.') {
            size_t c = digits(l, b + 1);
            if (c > b + 1) b = c;
        }
        size_t x = b;
        if (x < l->n && (l->p[x] == 'e' || l->p[x] == 'E')) {
            size_t y = x + 1;
            if (y < l->n && (l->p[y] == '+' || l->p[y] == '-')) y++;
            size_t z = digits(l, y);
            if (z > y) b = z;
        }
        if (b > a) {
            if (!jinja_parse_float((struct str){l->p + p, b - p}, &t->d)) return jinja_bad(l->e, l->line, "bad number");
            t->k = T_FLOAT;
            l->pos = b;
            return OK;
        }
    }
    char c = p + 1 < l->n ? (char)(l->p[p + 1] | 32) : 0;
    int base = 10;
    end = p;
    if (l->p[p] == '0' && (c == 'x' || c == 'o' || c == 'b')) {
        base = c == 'x' ? 16 : c == 'o' ? 8 : 2;
        size_t q = p + 2;
        for (;;) {
            size_t d = q + (q < l->n && l->p[q] == '_');
            uint32_t v;
            if (d >= l->n || hex(l->p + d, 1, &v) < 0 || v >= (uint32_t)base) break;
            q = d + 1;
        }
        if (q > p + 2) end = q;
        if (end == p) base = 10;
    }
    if (end == p) {
        end = digits(l, p);
        if (l->p[p] == '0') /* zeros only: 0(_?0)* */
            for (size_t q = p + 1; q < end; q++)
                if (l->p[q] != '0' && l->p[q] != '_') {
                    end = l->p[q - 1] == '_' ? q - 1 : q;
                    break;
                }
    }
    size_t skip = base == 10 ? 0 : 2;
    if (skip && l->p[p + skip] == '_') skip++;
    int rc = jinja_parse_int((struct str){l->p + p + skip, end - p - skip}, base, &t->i);
    if (rc == -2) return jinja_bad(l->e, l->line, "integer beyond 64 bits");
    if (rc < 0) return jinja_bad(l->e, l->line, "bad number");
    t->k = T_INT;
    l->pos = end;
    return OK;
}

/* Length of an identifier's character at pos, 0: none. */
static uint32_t ident_at(const struct lex *l, size_t pos, bool first)
{
    if (pos >= l->n) return 0;
    unsigned char c = (unsigned char)l->p[pos];
    if (c < 0x80) return c == '_' || (c | 32u) - 'a' < 26u || (!first && is_digit((char)c));
    uint32_t cp, k = jinja_cp_at((struct str){l->p + pos, l->n - pos}, 0, &cp);
    if (cp > 0x10ffff) return 0;
    switch (utf8proc_category((int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL: return k;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC: return first ? 0 : k;
    default: return 0;
    }
}

static int string(struct lex *l, struct jinja_tok *t)
{
    char quote = l->p[l->pos];
    size_t q = l->pos + 1;
    while (q < l->n && l->p[q] != quote) q += l->p[q] == '\\' ? 2 : 1;
    if (q >= l->n) return jinja_bad(l->e, l->line, "string without an end");
    t->k = T_STR;
    TRY(unescape(l, (struct str){l->p + l->pos + 1, q - l->pos - 1}, &t->s));
    advance(l, q + 1);
    return OK;
}

static int operator(struct lex *l, struct jinja_tok *t)
{
    static const struct {
        char s[3];
        uint8_t k;
    } ops[] = {{"//", T_FLOORDIV}, {"**", T_POW},     {"==", T_EQ},    {"!=", T_NE},    {">=", T_GE},    {"<=", T_LE},
               {"+", T_ADD},       {"-", T_SUB},      {"/", T_DIV},    {"*", T_MUL},    {"%", T_MOD},    {"~", T_TILDE},
               {"[", T_LBRACKET},  {"]", T_RBRACKET}, {"(", T_LPAREN}, {")", T_RPAREN}, {"{", T_LBRACE}, {"}", T_RBRACE},
               {">", T_GT},        {"<", T_LT},       {"=", T_ASSIGN}, {".", T_DOT},    {":", T_COLON},  {"|", T_PIPE},
               {",", T_COMMA},     {";", T_SEMICOLON}};
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        if (!lit(l, l->pos, ops[i].s)) continue;
        t->k = ops[i].k;
        if (t->k == T_LPAREN || t->k == T_LBRACKET || t->k == T_LBRACE) {
            if (l->n_bal == ARRAY_LEN(l->bal)) return jinja_bad(l->e, l->line, "brackets nested too deeply");
            l->bal[l->n_bal++] = (uint8_t)(t->k + 1); /* the closing one follows in enum tok_kind */
        } else if (t->k == T_RPAREN || t->k == T_RBRACKET || t->k == T_RBRACE) {
            if (!l->n_bal || l->bal[l->n_bal - 1] != t->k) return jinja_bad(l->e, l->line, "unexpected '%s'", ops[i].s);
            l->n_bal--;
        }
        l->pos += strlen(ops[i].s);
        return OK;
    }
    uint32_t cp, k = jinja_cp_at((struct str){l->p + l->pos, l->n - l->pos}, 0, &cp);
    return jinja_bad(l->e, l->line, "unexpected char '%.*s'", (int)k, l->p + l->pos);
}

int jinja_lex_next(struct lex *l, struct jinja_tok *t)
{
    if (l->state == IN_RAW) return raw_text(l, t);
    if (l->state == IN_DATA) {
        if (l->pos < l->n) return data(l, t);
        *t = (struct jinja_tok){.k = T_EOF, .line = l->line};
        return OK;
    }
    bool block = l->state == IN_BLOCK;
    if (l->n_bal == UINT32_MAX) {
        *t = (struct jinja_tok){.k = block ? T_BLOCK_BEGIN : T_VAR_BEGIN, .line = l->line};
        l->n_bal = 0;
        l->pos += 2;
        if (l->pos < l->n && (l->p[l->pos] == '-' || l->p[l->pos] == '+')) l->pos++;
        return OK;
    }
    for (;;) {
        if (l->pos < l->n && !l->n_bal) {
            size_t end = 0;
            if (block)
                end = block_end(l, l->pos, "%}");
            else if (lit(l, l->pos, "-}}"))
                end = skip_space(l, l->pos + 3);
            else if (lit(l, l->pos, "}}"))
                end = l->pos + 2;
            if (end) {
                *t = (struct jinja_tok){.k = block ? T_BLOCK_END : T_VAR_END, .line = l->line};
                advance(l, end);
                l->state = IN_DATA;
                return OK;
            }
        }
        size_t q = skip_space(l, l->pos);
        if (q == l->pos) break;
        advance(l, q);
    }
    *t = (struct jinja_tok){.k = T_EOF, .line = l->line};
    if (l->pos >= l->n) return OK;
    char c = l->p[l->pos];
    if (is_digit(c)) return number(l, t);
    if (c == '"' || c == '\'') return string(l, t);
    size_t q = l->pos;
    for (uint32_t k; (k = ident_at(l, q, q == l->pos)) != 0;) q += k;
    if (q > l->pos) {
        t->k = T_NAME;
        t->s = (struct str){l->p + l->pos, q - l->pos};
        l->pos = q;
        return OK;
    }
    return operator(l, t);
}
