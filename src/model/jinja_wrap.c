/* jinja_wrap.c: the filter wordwrap breaks lines as Python's textwrap.wrap does (expand_tabs and replace_whitespace off): chunks
 * of white space, words, parts of hyphenated words and long dashes, filled into lines greedily. Works on code points. */
#include "model/jinja_impl.h"
#include <string.h>

struct text {
    const uint32_t *c;  /* code points */
    const uint32_t *at; /* [n + 1] their byte offsets */
    uint32_t n;
    struct str s;
};

static bool blank(uint32_t c) { return c == ' ' || (c >= 9 && c <= 13); }
static bool word(const struct text *t, uint32_t i)
{
    return t->c[i] == '_' || jinja_is_class((struct str){t->s.p + t->at[i], t->at[i + 1] - t->at[i]}, "isalnum");
}
static bool punct(const struct text *t, uint32_t i)
{
    return word(t, i) || (t->c[i] && t->c[i] < 0x80 && strchr("!\"'&.,?", (int)t->c[i]));
}
static bool letter(const struct text *t, uint32_t i)
{
    return word(t, i) && !jinja_is_class((struct str){t->s.p + t->at[i], t->at[i + 1] - t->at[i]}, "isdecimal");
}

/* Two or more dashes at i with a word behind them: where they end, else i. */
static uint32_t dashes(const struct text *t, uint32_t i)
{
    uint32_t k = i;
    while (k < t->n && t->c[k] == '-') k++;
    return k - i >= 2 && k < t->n && word(t, k) ? k : i;
}

/* End of the chunk that begins at i. */
static uint32_t chunk(const struct text *t, uint32_t i, bool hyphens)
{
    uint32_t k = i;
    if (blank(t->c[i])) {
        while (k < t->n && blank(t->c[k])) k++;
        return k;
    }
    if (!hyphens) {
        while (k < t->n && !blank(t->c[k])) k++;
        return k;
    }
    if (i > 0 && punct(t, i - 1) && (k = dashes(t, i)) > i) return k;
    for (k = i + 1; k < t->n && !blank(t->c[k]); k++) {
        if (t->c[k] != '-') continue;
        bool back = (k >= 2 && letter(t, k - 1) && letter(t, k - 2)) ||
                    (k >= 3 && punct(t, k - 1) && t->c[k - 2] == '-' && letter(t, k - 3));
        bool ahead =
            k + 2 < t->n && letter(t, k + 1) && (letter(t, k + 2) || (t->c[k + 2] == '-' && k + 3 < t->n && letter(t, k + 3)));
        if (back && ahead) return k + 1;
        if (punct(t, k - 1) && dashes(t, k) > k) return k;
    }
    return k;
}

static int put_line(struct rt *r, const struct text *t, uint32_t from, uint32_t to, struct list *lines)
{
    return jinja_list_push(r, lines, v_str(t->s.p + t->at[from], t->at[to] - t->at[from]));
}

/* Where a chunk [i, end) too long for a line is cut when `left` characters still fit. */
static uint32_t cut_long(const struct text *t, uint32_t i, uint32_t left, bool hyphens)
{
    for (uint32_t k = i + left; hyphens && k-- > i + 1;) {
        if (t->c[k] != '-') continue;
        for (uint32_t q = i; q < k; q++)
            if (t->c[q] != '-') return k + 1;
        break;
    }
    return i + left;
}

static int fill(struct rt *r, const struct text *t, int64_t width, bool break_long, bool hyphens, struct list *lines)
{
    uint32_t w = (uint32_t)MIN(width, (int64_t)UINT32_MAX / 2), i = 0, next = t->n ? chunk(t, 0, hyphens) : 0;
    while (i < t->n) {
        TRY(jinja_work(r, 0));
        if (blank(t->c[i]) && lines->n) { /* white space at the start of a later line goes */
            i = next;
            if (i < t->n) next = chunk(t, i, hyphens);
        }
        uint32_t from = i, last = i; /* last: where the last chunk of the line began */
        while (i < t->n && next - from <= w) {
            last = i;
            i = next;
            if (i < t->n) next = chunk(t, i, hyphens);
        }
        if (i < t->n && next - i > w) {
            uint32_t left = w - (i - from);
            if (break_long) {
                last = i; /* also when nothing fits: textwrap then drops that empty piece, not the white space in front of it */
                if (left) i = cut_long(t, i, left, hyphens);
            } else if (i == from) {
                last = i;
                i = next;
                if (i < t->n) next = chunk(t, i, hyphens);
            }
        }
        uint32_t to = i;
        bool all = last < i;
        for (uint32_t k = last; k < i; k++) all &= blank(t->c[k]);
        if (all) to = last;
        if (to > from) TRY(put_line(r, t, from, to, lines));
    }
    return OK;
}

int jinja_wrap(struct rt *r, struct str s, int64_t width, bool break_long, bool on_hyphens, struct list *lines)
{
    if (width <= 0) return jinja_fail(r, "invalid width %lld (must be > 0)", (long long)width);
    uint32_t n = (uint32_t)jinja_cp_count(s), k = 0;
    uint32_t *c = arena_alloc(&r->a, (size_t)n + 1, sizeof *c), *at = arena_alloc(&r->a, (size_t)n + 1, sizeof *at);
    if (!c || !at) return jinja_nomem(r);
    TRY(jinja_work(r, 8 * s.n));
    for (size_t i = 0; i < s.n && k < n;) {
        at[k] = (uint32_t)i;
        i += jinja_cp_at(s, i, &c[k++]);
    }
    at[k] = (uint32_t)s.n;
    return fill(r, &(struct text){c, at, k, s}, width, break_long, on_hyphens, lines);
}
