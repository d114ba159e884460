/* jinja_char.c: characters of strings: UTF-8 stepping, Python's classes (isspace, isdigit, printable, ...), full case mapping,
 * stripping, lines, searching. Categories and simple mappings come from utf8proc; mappings to several characters from the table
 * below. Invalid bytes, which only a broken caller could bring in, count as one character each. */
#include "model/jinja_impl.h"
#include <string.h>
#include <utf8proc.h>

/* Unicode 14 SpecialCasing.txt, the unconditional part (the one lower case entry, U+0130, is in the code). Title case differs for
 * ligatures. */
/* clang-format off */
static const struct {
    uint32_t cp, up[3], title[3];
} special[] = {
    {0xdf, {0x53, 0x53}, {0x53, 0x73}}, {0x149, {0x2bc, 0x4e}, {0x2bc, 0x4e}}, {0x1f0, {0x4a, 0x30c}, {0x4a, 0x30c}},
    {0x390, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}}, {0x3b0, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
    {0x587, {0x535, 0x552}, {0x535, 0x582}}, {0x1e96, {0x48, 0x331}, {0x48, 0x331}}, {0x1e97, {0x54, 0x308}, {0x54, 0x308}},
    {0x1e98, {0x57, 0x30a}, {0x57, 0x30a}}, {0x1e99, {0x59, 0x30a}, {0x59, 0x30a}}, {0x1e9a, {0x41, 0x2be}, {0x41, 0x2be}},
    {0x1f50, {0x3a5, 0x313}, {0x3a5, 0x313}}, {0x1f52, {0x3a5, 0x313, 0x300}, {0x3a5, 0x313, 0x300}},
    {0x1f54, {0x3a5, 0x313, 0x301}, {0x3a5, 0x313, 0x301}}, {0x1f56, {0x3a5, 0x313, 0x342}, {0x3a5, 0x313, 0x342}},
    {0x1f80, {0x1f08, 0x399}, {0x1f88}}, {0x1f81, {0x1f09, 0x399}, {0x1f89}}, {0x1f82, {0x1f0a, 0x399}, {0x1f8a}},
    {0x1f83, {0x1f0b, 0x399}, {0x1f8b}}, {0x1f84, {0x1f0c, 0x399}, {0x1f8c}}, {0x1f85, {0x1f0d, 0x399}, {0x1f8d}},
    {0x1f86, {0x1f0e, 0x399}, {0x1f8e}}, {0x1f87, {0x1f0f, 0x399}, {0x1f8f}}, {0x1f88, {0x1f08, 0x399}, {0x1f88}},
    {0x1f89, {0x1f09, 0x399}, {0x1f89}}, {0x1f8a, {0x1f0a, 0x399}, {0x1f8a}}, {0x1f8b, {0x1f0b, 0x399}, {0x1f8b}},
    {0x1f8c, {0x1f0c, 0x399}, {0x1f8c}}, {0x1f8d, {0x1f0d, 0x399}, {0x1f8d}}, {0x1f8e, {0x1f0e, 0x399}, {0x1f8e}},
    {0x1f8f, {0x1f0f, 0x399}, {0x1f8f}}, {0x1f90, {0x1f28, 0x399}, {0x1f98}}, {0x1f91, {0x1f29, 0x399}, {0x1f99}},
    {0x1f92, {0x1f2a, 0x399}, {0x1f9a}}, {0x1f93, {0x1f2b, 0x399}, {0x1f9b}}, {0x1f94, {0x1f2c, 0x399}, {0x1f9c}},
    {0x1f95, {0x1f2d, 0x399}, {0x1f9d}}, {0x1f96, {0x1f2e, 0x399}, {0x1f9e}}, {0x1f97, {0x1f2f, 0x399}, {0x1f9f}},
    {0x1f98, {0x1f28, 0x399}, {0x1f98}}, {0x1f99, {0x1f29, 0x399}, {0x1f99}}, {0x1f9a, {0x1f2a, 0x399}, {0x1f9a}},
    {0x1f9b, {0x1f2b, 0x399}, {0x1f9b}}, {0x1f9c, {0x1f2c, 0x399}, {0x1f9c}}, {0x1f9d, {0x1f2d, 0x399}, {0x1f9d}},
    {0x1f9e, {0x1f2e, 0x399}, {0x1f9e}}, {0x1f9f, {0x1f2f, 0x399}, {0x1f9f}}, {0x1fa0, {0x1f68, 0x399}, {0x1fa8}},
    {0x1fa1, {0x1f69, 0x399}, {0x1fa9}}, {0x1fa2, {0x1f6a, 0x399}, {0x1faa}}, {0x1fa3, {0x1f6b, 0x399}, {0x1fab}},
    {0x1fa4, {0x1f6c, 0x399}, {0x1fac}}, {0x1fa5, {0x1f6d, 0x399}, {0x1fad}}, {0x1fa6, {0x1f6e, 0x399}, {0x1fae}},
    {0x1fa7, {0x1f6f, 0x399}, {0x1faf}}, {0x1fa8, {0x1f68, 0x399}, {0x1fa8}}, {0x1fa9, {0x1f69, 0x399}, {0x1fa9}},
    {0x1faa, {0x1f6a, 0x399}, {0x1faa}}, {0x1fab, {0x1f6b, 0x399}, {0x1fab}}, {0x1fac, {0x1f6c, 0x399}, {0x1fac}},
    {0x1fad, {0x1f6d, 0x399}, {0x1fad}}, {0x1fae, {0x1f6e, 0x399}, {0x1fae}}, {0x1faf, {0x1f6f, 0x399}, {0x1faf}},
    {0x1fb2, {0x1fba, 0x399}, {0x1fba, 0x345}}, {0x1fb3, {0x391, 0x399}, {0x1fbc}}, {0x1fb4, {0x386, 0x399}, {0x386, 0x345}},
    {0x1fb6, {0x391, 0x342}, {0x391, 0x342}}, {0x1fb7, {0x391, 0x342, 0x399}, {0x391, 0x342, 0x345}},
    {0x1fbc, {0x391, 0x399}, {0x1fbc}}, {0x1fc2, {0x1fca, 0x399}, {0x1fca, 0x345}}, {0x1fc3, {0x397, 0x399}, {0x1fcc}},
    {0x1fc4, {0x389, 0x399}, {0x389, 0x345}}, {0x1fc6, {0x397, 0x342}, {0x397, 0x342}},
    {0x1fc7, {0x397, 0x342, 0x399}, {0x397, 0x342, 0x345}}, {0x1fcc, {0x397, 0x399}, {0x1fcc}},
    {0x1fd2, {0x399, 0x308, 0x300}, {0x399, 0x308, 0x300}}, {0x1fd3, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x1fd6, {0x399, 0x342}, {0x399, 0x342}}, {0x1fd7, {0x399, 0x308, 0x342}, {0x399, 0x308, 0x342}},
    {0x1fe2, {0x3a5, 0x308, 0x300}, {0x3a5, 0x308, 0x300}}, {0x1fe3, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
    {0x1fe4, {0x3a1, 0x313}, {0x3a1, 0x313}}, {0x1fe6, {0x3a5, 0x342}, {0x3a5, 0x342}},
    {0x1fe7, {0x3a5, 0x308, 0x342}, {0x3a5, 0x308, 0x342}}, {0x1ff2, {0x1ffa, 0x399}, {0x1ffa, 0x345}},
    {0x1ff3, {0x3a9, 0x399}, {0x1ffc}}, {0x1ff4, {0x38f, 0x399}, {0x38f, 0x345}}, {0x1ff6, {0x3a9, 0x342}, {0x3a9, 0x342}},
    {0x1ff7, {0x3a9, 0x342, 0x399}, {0x3a9, 0x342, 0x345}}, {0x1ffc, {0x3a9, 0x399}, {0x1ffc}},
    {0xfb00, {0x46, 0x46}, {0x46, 0x66}}, {0xfb01, {0x46, 0x49}, {0x46, 0x69}}, {0xfb02, {0x46, 0x4c}, {0x46, 0x6c}},
    {0xfb03, {0x46, 0x46, 0x49}, {0x46, 0x66, 0x69}}, {0xfb04, {0x46, 0x46, 0x4c}, {0x46, 0x66, 0x6c}},
    {0xfb05, {0x53, 0x54}, {0x53, 0x74}}, {0xfb06, {0x53, 0x54}, {0x53, 0x74}}, {0xfb13, {0x544, 0x546}, {0x544, 0x576}},
    {0xfb14, {0x544, 0x535}, {0x544, 0x565}}, {0xfb15, {0x544, 0x53b}, {0x544, 0x56b}}, {0xfb16, {0x54e, 0x546}, {0x54e, 0x576}},
    {0xfb17, {0x544, 0x53d}, {0x544, 0x56d}},
};
/* clang-format on */

uint32_t jinja_special_case(uint32_t cp, enum jinja_case c, uint32_t out[3])
{
    size_t lo = 0, hi = ARRAY_LEN(special);
    if (cp < special[0].cp || c == CASE_FOLD) return 0;
    if (c == CASE_LOWER) {
        if (cp != 0x130) return 0;
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (special[mid].cp < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == ARRAY_LEN(special) || special[lo].cp != cp) return 0;
    memcpy(out, c == CASE_UPPER ? special[lo].up : special[lo].title, 3 * sizeof *out);
    return out[2] ? 3 : out[1] ? 2 : 1;
}

uint32_t jinja_cp_at(struct str s, size_t off, uint32_t *cp)
{
    unsigned char c = (unsigned char)s.p[off];
    if (c < 0x80) {
        *cp = c;
        return 1;
    }
    return utf8_next(s.p + off, s.n - off, cp);
}

size_t jinja_cp_count(struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

size_t jinja_cp_off(struct str s, size_t i)
{
    size_t o = 0;
    for (; o < s.n; o++)
        if (((unsigned char)s.p[o] & 0xc0) != 0x80 && i-- == 0) break;
    return o;
}

bool jinja_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool jinja_linebreak(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static utf8proc_category_t category(uint32_t c) { return c > 0x10ffff ? UTF8PROC_CATEGORY_CN : utf8proc_category((int32_t)c); }

bool jinja_printable(uint32_t c)
{
    if (c < 0x7f) return c >= 0x20;
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

static bool is_lower(uint32_t c)
{
    if (c < 0x80) return c >= 'a' && c <= 'z';
    return category(c) == UTF8PROC_CATEGORY_LL || (c <= 0x10ffff && utf8proc_islower((int32_t)c));
}
static bool is_upper(uint32_t c)
{
    if (c < 0x80) return c >= 'A' && c <= 'Z';
    return category(c) == UTF8PROC_CATEGORY_LU || (c <= 0x10ffff && utf8proc_isupper((int32_t)c));
}
static bool is_title(uint32_t c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT; }
static bool is_cased(uint32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }

static bool is_alpha(uint32_t c)
{
    if (c < 0x80) return (c | 32) - 'a' < 26;
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT || k == UTF8PROC_CATEGORY_LM ||
           k == UTF8PROC_CATEGORY_LO;
}
static bool is_decimal(uint32_t c) { return c < 0x80 ? c - '0' < 10 : category(c) == UTF8PROC_CATEGORY_ND; }
/* Numeric_Type=Digit: superscripts, subscripts and encircled digits (DerivedNumericType.txt, without the historic scripts). */
static bool is_digit(uint32_t c)
{
    return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
           (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247c) ||
           (c >= 0x2488 && c <= 0x2490) || c == 0x24ea || (c >= 0x24f5 && c <= 0x24fd) || c == 0x24ff ||
           (c >= 0x2776 && c <= 0x277e) || (c >= 0x2780 && c <= 0x2788) || (c >= 0x278a && c <= 0x2792);
}
static bool is_numeric(uint32_t c)
{
    return is_digit(c) || category(c) == UTF8PROC_CATEGORY_NO || category(c) == UTF8PROC_CATEGORY_NL;
}

int jinja_is_class(struct str s, const char *name)
{
    if (strcmp(name, "isascii") == 0) {
        for (size_t i = 0; i < s.n; i++)
            if ((unsigned char)s.p[i] >= 0x80) return 0;
        return 1;
    }
    bool cased = false, prev = false;
    const char *k = name + 2;
    for (size_t i = 0; i < s.n;) {
        uint32_t c;
        size_t len = jinja_cp_at(s, i, &c);
        bool ok = true;
        if (strcmp(k, "lower") == 0 || strcmp(k, "upper") == 0) {
            bool lo = is_lower(c), up = is_upper(c) || is_title(c);
            if (*k == 'l' ? up : lo || is_title(c)) return 0;
            cased |= *k == 'l' ? lo : up;
        } else if (strcmp(k, "title") == 0) {
            if (is_upper(c) || is_title(c)) {
                ok = !prev;
                prev = cased = true;
            } else if (is_lower(c)) {
                ok = prev;
                cased = true;
            } else {
                prev = false;
            }
        } else if (strcmp(k, "space") == 0) {
            ok = jinja_space(c);
        } else if (strcmp(k, "alpha") == 0) {
            ok = is_alpha(c);
        } else if (strcmp(k, "alnum") == 0) {
            ok = is_alpha(c) || is_numeric(c);
        } else if (strcmp(k, "decimal") == 0) {
            ok = is_decimal(c);
        } else if (strcmp(k, "digit") == 0) {
            ok = is_digit(c);
        } else if (strcmp(k, "numeric") == 0) {
            ok = is_numeric(c);
        } else if (strcmp(k, "printable") == 0) {
            ok = jinja_printable(c);
        } else { /* identifier */
            ok = c == '_' || is_alpha(c) ||
                 (i > 0 && (is_decimal(c) || category(c) == UTF8PROC_CATEGORY_MN || category(c) == UTF8PROC_CATEGORY_MC));
        }
        if (!ok) return 0;
        i += len;
    }
    if (strcmp(k, "lower") == 0 || strcmp(k, "upper") == 0 || strcmp(k, "title") == 0) return cased;
    return s.n > 0 || strcmp(k, "printable") == 0;
}

void jinja_put_case(struct buf *b, uint32_t c, enum jinja_case m)
{
    uint32_t o[3];
    if (c < 0x80) {
        bool up = m == CASE_UPPER || m == CASE_TITLE;
        if (up && c >= 'a' && c <= 'z') c -= 32;
        if (!up && c >= 'A' && c <= 'Z') c += 32;
        buf_putc(b, (char)c);
        return;
    }
    if (c > 0x10ffff) {
        buf_utf8(b, 0xfffd);
        return;
    }
    uint32_t n = jinja_special_case(c, m, o);
    for (uint32_t i = 0; i < n; i++) buf_utf8(b, o[i]);
    if (n) return;
    int32_t x = (int32_t)c;
    if (m == CASE_FOLD) {
        utf8proc_int32_t f[8];
        int cls = UTF8PROC_BOUNDCLASS_START;
        utf8proc_ssize_t k = utf8proc_decompose_char(x, f, 8, UTF8PROC_CASEFOLD, &cls);
        for (utf8proc_ssize_t i = 0; i < MIN(k, 8); i++) buf_utf8(b, (uint32_t)f[i]);
        return;
    }
    buf_utf8(b, (uint32_t)(m == CASE_UPPER ? utf8proc_toupper(x) : m == CASE_TITLE ? utf8proc_totitle(x) : utf8proc_tolower(x)));
}

/* Case-ignorable characters around a sigma: marks, modifiers, format characters and some punctuation. */
static bool ignorable(uint32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x2019 || c == 0x2018 || c == 0x2024 || c == 0x2027;
    }
}

/* Lower case of a capital sigma (U+03A3): the final form at the end of a word (Unicode 3.13, Final_Sigma). */
static bool final_sigma(struct str s, size_t at)
{
    uint32_t c;
    bool before = false;
    for (size_t i = at; i > 0 && !before;) {
        do i--;
        while (i > 0 && ((unsigned char)s.p[i] & 0xc0) == 0x80);
        jinja_cp_at(s, i, &c);
        if (ignorable(c)) continue;
        if (!is_cased(c)) return false;
        before = true;
    }
    if (!before) return false;
    for (size_t i = at + 2; i < s.n;) {
        i += jinja_cp_at(s, i, &c);
        if (!ignorable(c)) return !is_cased(c);
    }
    return true;
}

/* CASE_TITLE: as str.title(): the first cased letter of every word. */
int jinja_case_of(struct rt *r, struct str s, enum jinja_case m, struct val *out)
{
    struct buf b;
    bool in_word = false;
    size_t sigmas = 0;
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < s.n;) {
        uint32_t c;
        size_t k = jinja_cp_at(s, i, &c);
        enum jinja_case this = m;
        if (m == CASE_TITLE) {
            if (in_word) this = CASE_LOWER;
            in_word = is_cased(c);
        }
        if (c == 0x3a3 && this == CASE_LOWER && ++sigmas < 1000 && final_sigma(s, i))
            buf_utf8(&b, 0x3c2);
        else
            jinja_put_case(&b, c, this);
        i += k;
    }
    return jinja_str_take(r, &b, out);
}

static bool in_set(struct str chars, uint32_t c)
{
    for (size_t i = 0; i < chars.n;) {
        uint32_t x;
        i += jinja_cp_at(chars, i, &x);
        if (x == c) return true;
    }
    return false;
}

/* def: white space, else the characters given. */
struct str jinja_strip(struct str s, struct str chars, bool def, bool left, bool right)
{
    uint32_t c;
    while (left && s.n) {
        size_t k = jinja_cp_at(s, 0, &c);
        if (def ? !jinja_space(c) : !in_set(chars, c)) break;
        s.p += k;
        s.n -= k;
    }
    while (right && s.n) {
        size_t i = s.n - 1;
        while (i > 0 && ((unsigned char)s.p[i] & 0xc0) == 0x80) i--;
        jinja_cp_at(s, i, &c);
        if (def ? !jinja_space(c) : !in_set(chars, c)) break;
        s.n = i;
    }
    return s;
}

int jinja_splitlines(struct rt *r, struct str s, bool keep, struct list **out)
{
    TRY(jinja_list_new(r, 0, out));
    TRY(jinja_work(r, s.n));
    for (size_t i = 0, start = 0; i < s.n;) {
        uint32_t c;
        size_t end = i;
        i += jinja_cp_at(s, i, &c);
        if (jinja_linebreak(c)) {
            if (c == '\r' && i < s.n && s.p[i] == '\n') i++;
            if (keep) end = i;
        } else if (i < s.n) {
            continue;
        } else {
            end = i;
        }
        TRY(jinja_list_push(r, *out, v_str(s.p + start, end - start)));
        start = i;
    }
    return OK;
}

size_t jinja_find(struct str hay, size_t from, struct str needle)
{
    if (from > hay.n || needle.n > hay.n - from) return SIZE_MAX;
    if (!needle.n) return from;
    const char *f = memmem(hay.p + from, hay.n - from, needle.p, needle.n);
    return f ? (size_t)(f - hay.p) : SIZE_MAX;
}

size_t jinja_rfind(struct str hay, struct str needle)
{
    if (needle.n > hay.n) return SIZE_MAX;
    for (size_t i = hay.n - needle.n + 1; i-- > 0;)
        if (!needle.n || memcmp(hay.p + i, needle.p, needle.n) == 0) return i;
    return SIZE_MAX;
}
