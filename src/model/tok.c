/* tok.c: text -> ids and ids -> text on an opened tokenizer. A text is first cut at the special tokens written in it (leftmost,
 * then longest; user-defined ones always, control ones on demand), then each run between them by the pre-tokenizer (bpe) or where
 * no token can reach across (spm), then merged piece by piece (tok_merge.c). */
#include "base/mem.h"
#include "model/tok_int.h"

#define UNDERLINE "\xE2\x96\x81"

/* ---- ids ---- */

int ids_push(struct ids *a, int32_t id, struct err *e)
{
    if (a->n == a->cap) {
        size_t cap = a->cap + a->cap / 2 + 64;
        int32_t *v = mem_realloc(a->v, cap, sizeof *v);
        if (!v) return err_set(e, E_NOMEM, "no memory for %zu token ids", cap);
        a->v = v;
        a->cap = cap;
    }
    a->v[a->n++] = id;
    return OK;
}

void ids_free(struct ids *a)
{
    mem_free(a->v);
    *a = (struct ids){0};
}

/* ---- encoding ---- */

/* Pattern number `step` on base[a, b), its pieces to the next one, those of the last to the merging. */
static int split(struct tok_work *w, uint32_t step, size_t a, size_t b)
{
    const struct pre *x = &w->t->pre;
    const char *p = w->base + a;
    for (size_t i = 0, n = b - a; i < n;) {
        size_t end = pre_next(x, step, &w->pre, p, i, n);
        DCHECK(end > i && end <= n);
        if (step + 1 < x->n_step)
            TRY(split(w, step + 1, a + i, a + end));
        else
            TRY(tok_piece_encode(w, a + i, end - i));
        i = end;
    }
    return OK;
}

/* Merging crosses no place where the two characters beside it stand together in no token: cut there, exactly and cheaply. */
static int split_spm(struct tok_work *w, size_t a, size_t b)
{
    const uint64_t *adjacent = w->t->adjacent;
    uint32_t before, cp;
    size_t from = a, i = a;
    if (i < b) i += utf8_next(w->base + i, b - i, &before);
    while (i < b) {
        uint32_t len = 1;
        cp = (unsigned char)w->base[i];
        if (cp >= 0x80) len = utf8_next(w->base + i, b - i, &cp);
        uint32_t bit = tok_adjacent_bit(before, cp);
        if (!(adjacent[bit >> 6] >> (bit & 63) & 1)) {
            TRY(tok_piece_encode(w, from, i - from));
            from = i;
        }
        before = cp;
        i += len;
    }
    return from < b ? tok_piece_encode(w, from, b - from) : OK;
}

/* A run of text without special tokens. */
static int encode_run(struct tok_work *w, struct buf *esc, const char *text, size_t text_n, size_t a, size_t b, bool space)
{
    if (!w->t->spm) {
        w->base = text;
        w->base_n = text_n;
        return split(w, 0, a, b);
    }
    size_t from = esc->n;
    if (space) buf_puts(esc, UNDERLINE);
    for (size_t i = a; i < b;) {
        const char *sp = memchr(text + i, ' ', b - i);
        size_t end = sp ? (size_t)(sp - text) : b;
        buf_put(esc, text + i, end - i);
        if (sp) buf_puts(esc, UNDERLINE);
        i = end + 1;
    }
    if (!buf_ok(esc)) return err_set(w->e, E_NOMEM, "no memory to tokenise %zu bytes", b - a);
    w->base = esc->p;
    w->base_n = esc->n;
    return split_spm(w, from, esc->n);
}

/* The longest special token at p[0, n) among the kinds in mask (1 user-defined, 2 others); -1: none. */
static int32_t special_at(const struct tok *t, const char *p, size_t n, unsigned mask, size_t *len)
{
    int32_t best = -1;
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = (uint64_t)node << 8 | (unsigned char)p[i];
        uint32_t x = (uint32_t)tok_mum(key ^ t->seed[0], 0xD6E8FEB86659FD93ull);
        while (t->edge[x & t->edge_mask].key != key) {
            if (t->edge[x & t->edge_mask].key == UINT64_MAX) return best;
            x++;
        }
        node = t->edge[x & t->edge_mask].child;
        int32_t id = t->node_id[node];
        if (id >= 0 && (mask & ((t->attr[id] & ATTR_MASK) == TOK_USER ? 1 : 2))) {
            best = id;
            *len = i + 1;
        }
    }
    return best;
}

static int encode_text(struct tok_work *w, struct buf *esc, const char *p, size_t n, unsigned mask)
{
    const struct tok *t = w->t;
    bool any = false, space = t->add_space;
    for (int i = 0; i < 256; i++) any = any || (t->first[i] & mask);
    if (!any) return n ? encode_run(w, esc, p, n, 0, n, space) : OK;
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        while (i < n && !(t->first[(unsigned char)p[i]] & mask)) i++;
        if (i == n) break;
        size_t len = 0;
        int32_t id = special_at(t, p + i, n - i, mask, &len);
        if (id < 0) {
            i++;
            continue;
        }
        if (i > from) TRY(encode_run(w, esc, p, n, from, i, space));
        TRY(ids_push(w->out, id, w->e));
        space = t->add_space; /* llama.cpp: also behind each special token */
        i += len;
        if (t->attr[id] & ATTR_RSTRIP)
            while (i < n && (p[i] == ' ' || (p[i] >= '\t' && p[i] <= '\r'))) i++;
        from = i;
    }
    return from < n ? encode_run(w, esc, p, n, from, n, space) : OK;
}

/* bpe vocabularies without a token for some byte: such bytes (never part of valid UTF-8 in any real one) are read as U+FFFD. */
static bool fill_gaps(const struct tok *t, struct buf *b, const char *p, size_t n)
{
    bool gap = false;
    for (size_t i = 0; i < n && !gap; i++) gap = t->byte_id[(unsigned char)p[i]] < 0;
    if (!gap) return false;
    for (size_t i = 0; i < n; i++) {
        if (t->byte_id[(unsigned char)p[i]] >= 0)
            buf_putc(b, p[i]);
        else
            buf_puts(b, "\xEF\xBF\xBD");
    }
    return true;
}

int tok_encode_steps(const struct tok *t, struct ids *out, const char *p, size_t n, unsigned flags, uint64_t *steps,
                     struct err *e)
{
    if (n > INT32_MAX / 4)
        return err_set(e, E_RANGE, "a text of %zu bytes; at most %d can be tokenised at once", n, INT32_MAX / 4);
    struct tok_work w;
    struct buf esc = {0}, filled = {0};
    size_t start = out->n;
    int rc = OK;
    TRY(tok_work_init(&w, t, out, n, e));
    if ((flags & TOK_ADD) && t->add_bos) TRYG(ids_push(out, t->bos, e));
    if (t->byte_gap && !t->spm && fill_gaps(t, &filled, p, n)) {
        if (!buf_ok(&filled)) TRYG(err_set(e, E_NOMEM, "no memory to tokenise %zu bytes", n));
        p = filled.p;
        n = filled.n;
    }
    TRYG(encode_text(&w, &esc, p, n, flags & TOK_SPECIAL ? 3 : 1));
    if (flags & TOK_ADD) {
        /* A text that brings its own BOS (a rendered template) gets no second one. */
        if (t->add_bos && out->n >= start + 2 && out->v[start + 1] == t->bos) {
            out->n--;
            memmove(out->v + start, out->v + start + 1, (out->n - start) * sizeof *out->v);
        }
        if (t->add_eos && (out->n == start || out->v[out->n - 1] != t->eos)) TRYG(ids_push(out, t->eos, e));
    }
out:
    if (rc < 0) out->n = start;
    if (steps) *steps = w.steps;
    tok_work_free(&w);
    buf_free(&esc);
    buf_free(&filled);
    return rc;
}

int tok_encode(const struct tok *t, struct ids *out, const char *p, size_t n, unsigned flags, struct err *e)
{
    return tok_encode_steps(t, out, p, n, flags, NULL, e);
}

/* ---- decoding ---- */

static inline bool known(const struct tok *t, int32_t id) { return id >= 0 && (uint32_t)id < t->n; }

struct str tok_piece(const struct tok *t, int32_t id, bool special)
{
    if (!known(t, id)) return (struct str){"", 0};
    unsigned a = t->attr[id] & ATTR_MASK;
    if (!special && (a == TOK_CONTROL || a == TOK_UNKNOWN)) return (struct str){"", 0};
    return tok_slice(t->raw, t->raw_off, id);
}

void tok_decode(const struct tok *t, struct buf *out, const int32_t *id, size_t n, bool special)
{
    for (size_t i = 0; i < n; i++) {
        struct str s = tok_piece(t, id[i], special);
        buf_put(out, s.p, s.n);
    }
}

void tok_stream_init(struct tok_stream *s, const struct tok *t, bool special, bool strip_first_space)
{
    *s = (struct tok_stream){.t = t, .special = special, .started = !strip_first_space || !t->spm};
}

/* Writes p[0, n): valid characters as they are, each maximal part of an invalid one as one U+FFFD (Unicode standard, chapter 3,
 * "U+FFFD Substitution of Maximal Subparts"); returns how many bytes at the end may still become a character. */
static size_t put_valid(struct buf *out, const char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        size_t ok = utf8_check(p + i, n - i);
        buf_put(out, p + i, ok);
        i += ok;
        if (i == n || utf8_whole(p + i, n - i) == 0) break;
        size_t k = 1;
        while (k < 3 && i + k < n && utf8_whole(p + i, k + 1) == 0) k++;
        buf_puts(out, "\xEF\xBF\xBD");
        i += k;
    }
    return n - i;
}

void tok_stream_put(struct tok_stream *s, struct buf *out, int32_t id)
{
    struct str x = tok_piece(s->t, id, s->special);
    if (x.n == 0) return;
    if (!s->started) {
        s->started = true;
        if (s->t->add_space && x.p[0] == ' ') x.p++, x.n--;
    }
    while (s->n_hold && x.n) { /* the character that waits: byte by byte until it is whole or can be none */
        s->hold[s->n_hold] = *x.p;
        size_t n = s->n_hold + 1u;
        if (utf8_check(s->hold, n) == n) {
            buf_put(out, s->hold, n);
            s->n_hold = 0;
        } else if (utf8_whole(s->hold, n) == 0) {
            s->n_hold++;
        } else {
            buf_puts(out, "\xEF\xBF\xBD");
            s->n_hold = 0;
            continue; /* this byte begins something new */
        }
        x.p++;
        x.n--;
    }
    if (x.n == 0) return;
    size_t left = put_valid(out, x.p, x.n);
    s->n_hold = (uint8_t)left;
    memcpy(s->hold, x.p + x.n - left, left);
}

void tok_stream_end(struct tok_stream *s, struct buf *out)
{
    if (s->n_hold) buf_puts(out, "\xEF\xBF\xBD");
    s->n_hold = 0;
}

/* ---- what it is ---- */

uint32_t tok_vocab(const struct tok *t) { return t->n; }
const char *tok_model(const struct tok *t) { return t->spm ? "spm" : "bpe"; }
const char *tok_pre(const struct tok *t) { return t->spm ? "" : t->pre_row->name; }
struct str tok_text(const struct tok *t, int32_t id)
{
    return known(t, id) ? tok_slice(t->text, t->text_off, id) : (struct str){"", 0};
}
enum tok_attr tok_attr(const struct tok *t, int32_t id)
{
    return known(t, id) ? (enum tok_attr)(t->attr[id] & ATTR_MASK) : TOK_UNUSED;
}
int32_t tok_find(const struct tok *t, struct str s) { return tok_find_in(t, s.p, s.n, s.n); }
int32_t tok_bos(const struct tok *t) { return t->bos; }
int32_t tok_eos(const struct tok *t) { return t->eos; }
bool tok_adds_bos(const struct tok *t) { return t->add_bos; }
bool tok_adds_space(const struct tok *t) { return t->add_space; }
bool tok_is_end(const struct tok *t, int32_t id) { return known(t, id) && (t->attr[id] & ATTR_END); }
struct str tok_chat_template(const struct tok *t) { return t->chat_template; }
