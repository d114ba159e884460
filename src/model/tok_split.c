/* tok_split.c: hand-made splitters for the patterns of tok_pre.c that models really use. Each gives exactly the pieces that a
 * backtracking engine finds (leftmost, first alternative that matches) but looks at every character a bounded number of times, so
 * that a megabyte of one letter costs a megabyte of steps. Alternatives below are tried in the pattern's order. Invalid bytes are
 * symbols (tok_class_at). */
#include "model/tok_int.h"

#define AT(i, len) tok_class_at(p, i, n, len)

/* From i on past all characters with a class in mask. */
static inline size_t run(const char *p, size_t i, size_t n, uint32_t mask)
{
    for (;;) {
        while (i < n && (unsigned char)p[i] < 0x80 && (tok_class_row[0][(unsigned char)p[i]] & mask)) i++;
        if (i >= n || (unsigned char)p[i] < 0x80) return i;
        uint32_t len;
        if (!(AT(i, &len) & mask)) return i;
        i += len;
    }
}
/* From i on past all characters with no class in mask. */
static inline size_t run_not(const char *p, size_t i, size_t n, uint32_t mask)
{
    for (;;) {
        while (i < n && (unsigned char)p[i] < 0x80 && !(tok_class_row[0][(unsigned char)p[i]] & mask)) i++;
        if (i >= n || (unsigned char)p[i] < 0x80) return i;
        uint32_t len;
        if (AT(i, &len) & mask) return i;
        i += len;
    }
}
/* From i on past \r and \n (and '/'). */
static inline size_t run_line(const char *p, size_t i, size_t n, bool slash)
{
    while (i < n && (p[i] == '\r' || p[i] == '\n' || (slash && p[i] == '/'))) i++;
    return i;
}

/* Length of 's 't 're 've 'm 'll 'd at p[i] == '\'', or 0. With fold also in capitals, and with U+017F for s: case folding of the
 * Unicode standard, which (?i:) means in the engines that models were trained with. */
static inline size_t contraction(const char *p, size_t i, size_t n, bool fold)
{
    if (i + 1 >= n) return 0;
    unsigned char a = (unsigned char)p[i + 1], b = i + 2 < n ? (unsigned char)p[i + 2] : 0;
    if (fold) {
        if (a == 0xC5 && b == 0xBF) return 3;
        if (a >= 'A' && a <= 'Z') a |= 32;
        if (b >= 'A' && b <= 'Z') b |= 32;
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ at whitespace p[i]: up to the last line end of the run; else all but the run's last character when
 * something follows that is no space; else the run. */
static inline size_t spaces(const char *p, size_t i, size_t n, bool lines)
{
    size_t at = i, last = i, line = 0;
    uint32_t len, c;
    while ((c = AT(at, &len)) & CL_S) {
        last = at;
        at += len;
        if (c & CL_CRLF) line = at;
    }
    if (lines && line) return line;
    return at < n && last > i ? last : at;
}

static size_t next_gpt2(const char *p, size_t i, size_t n)
{
    uint32_t len, c = AT(i, &len);
    if (p[i] == '\'') {
        size_t k = contraction(p, i, n, false);
        if (k) return i + k;
    }
    size_t from = i;
    if (p[i] == ' ') c = AT(++from, &len);
    if (c & CL_L) return run(p, from + len, n, CL_L);
    if (c & CL_N) return run(p, from + len, n, CL_N);
    if (!(c & (CL_S | CL_END))) return run_not(p, from + len, n, CL_S | CL_L | CL_N);
    return spaces(p, i, n, false);
}

static inline size_t digits(const char *p, size_t i, size_t n, uint32_t max)
{
    uint32_t len;
    for (uint32_t k = 0; k < max && (AT(i, &len) & CL_N); k++) i += len;
    return i;
}

/* ?[^\s\p{L}\p{N}...]+[\r\n/]*, then whitespace; c, len: the character at i, which begins no word and no number. */
static inline size_t punct_or_space(const char *p, size_t i, size_t n, uint32_t c, uint32_t len, uint32_t not_punct, bool slash)
{
    size_t from = i;
    if (p[i] == ' ') c = AT(++from, &len);
    if (!(c & (not_punct | CL_END))) return run_line(p, run_not(p, from + len, n, not_punct), n, slash);
    return spaces(p, i, n, true);
}

static inline size_t next_cl100k(const char *p, size_t i, size_t n, uint32_t word, uint32_t max_digit)
{
    uint32_t len, len2, c = AT(i, &len);
    if (p[i] == '\'') {
        size_t k = contraction(p, i, n, true);
        if (k) return i + k;
    }
    if (c & word) return run(p, i + len, n, word); /* a mark may be the one character in front: same end */
    if (c & CL_N) return digits(p, i, n, max_digit);
    if (!(c & CL_CRLF) && (AT(i + len, &len2) & word)) return run(p, i + len + len2, n, word);
    return punct_or_space(p, i, n, c, len, CL_S | CL_N | word, false);
}

/* UPPER*LOWER+ (*first true) or else UPPER+LOWER* from i on, greedy and with backtracking, where UPPER and LOWER share the
 * caseless letters and marks; 0 when there is neither. */
static size_t cased_word(const char *p, size_t i, size_t n, bool *first)
{
    const uint32_t both = CL_LX | CL_M;
    size_t at = i, shared = 0; /* shared: end of the last character that is in both classes */
    uint32_t len, c;
    while ((c = AT(at, &len)) & (CL_UP | both)) {
        at += len;
        if (c & both) shared = at;
    }
    *first = true;
    if (c & CL_LOW) return run(p, at + len, n, CL_LOW | both);
    if (shared) return shared; /* LOWER+ takes just that character back from UPPER* */
    *first = false;
    return at > i ? at : 0;
}

static size_t next_o200k(const struct pre_step *s, const char *p, size_t i, size_t n)
{
    uint32_t len, c = AT(i, &len);
    size_t end = 0;
    bool first;
    if (!(c & (CL_CRLF | CL_L | CL_N))) {
        /* One character in front of the word. A mark may also be the whole LOWER+; that comes before UPPER+ with a mark in front.
         */
        end = cased_word(p, i + len, n, &first);
        if (!first && (c & CL_M)) end = i + len;
    } else if (c & CL_L) {
        end = cased_word(p, i, n, &first);
    }
    if (end) {
        if (s->contr && end < n && p[end] == '\'') end += contraction(p, end, n, true);
        return end;
    }
    if (c & CL_N) return digits(p, i, n, s->max_digit);
    return punct_or_space(p, i, n, c, len, CL_S | CL_L | CL_N, s->slash);
}

static inline bool ascii_letter(unsigned char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

/* End of the match that starts exactly at i, or 0. */
static size_t match_ds3(const char *p, size_t i, size_t n)
{
    uint32_t len, len2, c = AT(i, &len), d;
    if (len == 1 && (c & (CL_P | CL_SYM)) && (unsigned char)p[i] < 0x80 && i + 1 < n && ascii_letter((unsigned char)p[i + 1])) {
        for (i += 2; i < n && ascii_letter((unsigned char)p[i]);) i++;
        return i;
    }
    if (c & (CL_L | CL_M)) return run(p, i + len, n, CL_L | CL_M);
    d = AT(i + len, &len2);
    if (!(c & (CL_CRLF | CL_P | CL_SYM)) && (d & (CL_L | CL_M))) return run(p, i + len + len2, n, CL_L | CL_M);
    if (c & (CL_P | CL_SYM)) return run_line(p, run(p, i + len, n, CL_P | CL_SYM), n, false);
    if (p[i] == ' ' && (d & (CL_P | CL_SYM))) return run_line(p, run(p, i + len + len2, n, CL_P | CL_SYM), n, false);
    return c & CL_S ? spaces(p, i, n, true) : 0;
}

static size_t next_ds3(const char *p, size_t i, size_t n)
{
    size_t end = match_ds3(p, i, n);
    if (end) return end;
    do { /* a gap: numbers, controls, unassigned */
        uint32_t len;
        AT(i, &len);
        i += len;
    } while (i < n && !match_ds3(p, i, n));
    return i;
}

/* \s+$: the text without the whitespace at its end, then that whitespace. */
static size_t next_tail(const char *p, size_t i, size_t n)
{
    size_t at = n;
    while (at > i) {
        size_t k = 1;
        while (k < 3 && at - k > i && ((unsigned char)p[at - k] & 0xC0) == 0x80) k++;
        uint32_t len;
        if (!(AT(at - k, &len) & CL_S) || len != k) break;
        at -= k;
    }
    return at > i ? at : n;
}

static inline uint32_t in_set(const struct pre_step *s, const char *p, size_t i, size_t n)
{
    if (i >= n) return 0;
    uint32_t cp = (unsigned char)p[i], len = 1;
    if (cp >= 0x80) {
        len = utf8_next(p + i, n - i, &cp);
        if (cp == UINT32_MAX) cp = 0xFFFD;
    }
    return pre_set_has(s->set, cp) ? len : 0;
}

static size_t match_run(const struct pre_step *s, const char *p, size_t i, size_t n)
{
    uint32_t k = 0, len = in_set(s, p, i, n), space;
    if (!len && s->opt_space && (AT(i, &space) & CL_S)) {
        i += space;
        len = in_set(s, p, i, n);
    } /* a space that is in the set itself: same end either way */
    while (len && k < s->max) {
        i += len;
        if (++k == s->max) break;
        len = in_set(s, p, i, n);
    }
    return k >= s->min ? i : 0;
}

static size_t next_run(const struct pre_step *s, const char *p, size_t i, size_t n)
{
    size_t end = match_run(s, p, i, n);
    if (end) return end;
    do {
        uint32_t len;
        AT(i, &len);
        i += len;
    } while (i < n && !match_run(s, p, i, n));
    return i;
}

size_t pre_next(const struct pre *x, uint32_t step, struct pre_work *w, const char *p, size_t i, size_t n)
{
    const struct pre_step *s = &x->step[step];
    switch (s->kind) {
    case PRE_GPT2: return next_gpt2(p, i, n);
    case PRE_CL100K:
        if (s->word == CL_L && s->max_digit == 3) return next_cl100k(p, i, n, CL_L, 3);
        if (s->word == CL_L) return next_cl100k(p, i, n, CL_L, 1);
        return next_cl100k(p, i, n, CL_L | CL_M, s->max_digit);
    case PRE_O200K: return next_o200k(s, p, i, n);
    case PRE_DS3: return next_ds3(p, i, n);
    case PRE_TAIL: return next_tail(p, i, n);
    case PRE_RUN: return next_run(s, p, i, n);
    case PRE_PCRE: break;
    }
    return pre_pcre_next(s, step, w, p, i, n);
}
