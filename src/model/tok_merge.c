/* tok_merge.c: from a piece of text to ids. Byte-level BPE merges the pair of lowest rank first, leftmost among equals;
 * SentencePiece-style BPE the pair whose text is the token of best score. Both run on the same two engines: short pieces: arrays
 * and a linear search for the minimum; long pieces:  windows of fixed size with a heap each, so that a megabyte in one piece
 * takes a megabyte of steps in little memory. A piece met before in the same call is copied from its first result (no state is
 * shared between calls: any thread). */
#include "base/mem.h"
#include "model/tok_int.h"

#define NO_MERGE UINT64_MAX
enum {
    SHORT_MAX = 96, /* symbols; beyond, searching the minimum costs more than a heap */
    NONE32 = UINT32_MAX,
};

/* ---- symbols ---- */

/* Merge of the symbols base[a, m) = left and base[m, b) = right: rank << 32 | id, or NO_MERGE. */
static inline uint64_t pair_of(struct tok_work *w, bool spm, int32_t left, int32_t right, uint32_t a, uint32_t b)
{
    const struct tok *t = w->t;
    w->steps++;
    if (!spm) return tok_merge_get(t, left, right);
    uint64_t key = tok_key(t, w->base + a, b - a, w->base_n - a);
    int32_t id = tok_map_get(t, &t->by_plain, t->text, t->text_off, w->base + a, b - a, key);
    return id < 0 ? NO_MERGE : (uint64_t)t->rank[id] << 32 | (uint32_t)id;
}

/* First symbol at base[i]: its id (-1: a character without token) and length. */
static inline int32_t symbol_at(const struct tok_work *w, bool spm, uint32_t i, uint32_t end, uint32_t *len)
{
    if (!spm) {
        *len = 1;
        return w->t->byte_id[(unsigned char)w->base[i]];
    }
    uint32_t cp;
    *len = utf8_next(w->base + i, end - i, &cp);
    return tok_map_get(w->t, &w->t->by_plain, w->t->text, w->t->text_off, w->base + i, *len,
                       tok_key(w->t, w->base + i, *len, w->base_n - i));
}

/* Room for the ids of n more bytes: no symbol gives more ids than it has bytes. */
static int reserve(struct tok_work *w, size_t n)
{
    struct ids *o = w->out;
    if (LIKELY(o->cap - o->n >= n)) return OK;
    size_t cap = MAX(o->cap + o->cap / 2, o->n + n + 16);
    int32_t *v = mem_realloc(o->v, cap, sizeof *v);
    if (!v) return err_set(w->e, E_NOMEM, "no memory for %zu token ids", cap);
    o->v = v;
    o->cap = cap;
    return OK;
}

static inline void put_symbol(struct tok_work *w, int32_t id, uint32_t a, uint32_t b)
{
    struct ids *o = w->out;
    if (LIKELY(id >= 0)) {
        o->v[o->n++] = id;
        return;
    }
    if (!w->t->spm) { /* a byte without token where not even U+FFFD has one */
        if (w->t->unk >= 0) o->v[o->n++] = w->t->unk;
        return;
    }
    /* Bytes, each as its own token; without byte tokens the unknown token once; without that, nothing is left to say it with. */
    const int32_t *byte_id = w->t->byte_id;
    bool all = true;
    for (uint32_t i = a; i < b; i++) all = all && byte_id[(unsigned char)w->base[i]] >= 0;
    if (!all) {
        if (w->t->unk >= 0) o->v[o->n++] = w->t->unk;
        return;
    }
    for (uint32_t i = a; i < b; i++) o->v[o->n++] = byte_id[(unsigned char)w->base[i]];
}

/* ---- short pieces ---- */

static inline void merge_short(struct tok_work *w, bool spm, uint32_t from, uint32_t end)
{
    int32_t id[SHORT_MAX + 1];
    uint32_t at[SHORT_MAX + 2]; /* spm: where symbol i begins; at[n] = end */
    uint64_t pair[SHORT_MAX + 1];
    uint32_t n = 0;
    for (uint32_t i = from, len; i < end; i += len, n++) {
        id[n] = symbol_at(w, spm, i, end, &len);
        at[n] = i;
    }
    at[n] = end;
    for (uint32_t i = 0; i + 1 < n; i++) {
        if (spm)
            pair[i] = pair_of(w, true, id[i], id[i + 1], at[i], at[i + 2]);
        else
            pair[i] = w->t->byte_pair[(unsigned char)w->base[from + i] << 8 | (unsigned char)w->base[from + i + 1]];
    }
    while (n > 1) {
        uint32_t best = 0;
        uint64_t least = pair[0];
        for (uint32_t i = 1; i + 1 < n; i++) {
            /* Ranks only: among equal ranks the leftmost pair wins. */
            bool less = pair[i] >> 32 < least >> 32;
            best = less ? i : best;
            least = less ? pair[i] : least;
        }
        if (least == NO_MERGE) break;
        w->steps += n;
        id[best] = (int32_t)(uint32_t)least;
        n--;
        memmove(&id[best + 1], &id[best + 2], (n - best - 1) * sizeof id[0]);
        memmove(&at[best + 1], &at[best + 2], (n - best) * sizeof at[0]);
        if (n > best + 1) memmove(&pair[best], &pair[best + 1], (n - best - 1) * sizeof pair[0]);
        if (best + 1 < n) pair[best] = pair_of(w, spm, id[best], id[best + 1], at[best], at[best + 2]);
        if (best > 0) pair[best - 1] = pair_of(w, spm, id[best - 1], id[best], at[best - 1], at[best + 1]);
    }
    for (uint32_t i = 0; i < n; i++) put_symbol(w, id[i], at[i], at[i + 1]);
}

/* ---- long pieces ----
 * A long piece is merged window by window. Why that is exact: call two neighbouring tokens compatible when merging their joint
 * text alone gives just these two. A list of tokens is the result for its whole text if and only if all neighbours are
 * compatible. For merging the whole takes, inside any pair of neighbours, the same steps in the same order as merging the pair
 * alone (the next step depends on rank and order only) up to the first merge across some boundary; and that one would happen in
 * the pair alone, too. So the tokens at the end of a window, which what follows could still change, are dropped, the next window
 * starts where they started, and only the pair of tokens at the seam has to be looked at: when the next window begins with the
 * very token that was dropped there, it is known to be compatible; else the pair is merged alone; should it fail, the piece is
 * begun again with windows twice as long (at the latest when one window holds all, there are no seams). */

enum { WINDOW = 2048, SLACK_DIV = 8 };

struct tok_big {
    uint32_t cap;
    int32_t *id;
    uint32_t *prev, *next, *at; /* at[n]: end */
    uint64_t *pair, *heap;      /* heap of rank << 32 | symbol */
    size_t heap_n;
    uint32_t from, len, n; /* the window that id[] and at[] are the result of; len 0: none */
};

static void big_free(struct tok_big *b)
{
    if (!b) return;
    mem_free(b->id);
    mem_free(b->prev);
    mem_free(b->next);
    mem_free(b->at);
    mem_free(b->pair);
    mem_free(b->heap);
    mem_free(b);
}

/* Arrays for n symbols in w->big. */
static bool big_reserve(struct tok_work *w, uint32_t n)
{
    if (w->big && w->big->cap >= n) return true;
    big_free(w->big);
    struct tok_big *b = w->big = mem_zalloc(1, sizeof *b);
    if (!b) return false;
    b->cap = n;
    b->id = mem_alloc(n, sizeof *b->id);
    b->prev = mem_alloc(n, sizeof *b->prev);
    b->next = mem_alloc(n, sizeof *b->next);
    b->at = mem_alloc((size_t)n + 1, sizeof *b->at);
    b->pair = mem_alloc(n, sizeof *b->pair);
    b->heap = mem_alloc(3 * (size_t)n, sizeof *b->heap); /* n - 1 pairs at first, two more for each of n - 1 merges */
    return b->id && b->prev && b->next && b->at && b->pair && b->heap;
}

static inline void heap_push(struct tok_big *b, uint64_t x)
{
    size_t i = b->heap_n++;
    for (; i > 0 && x < b->heap[(i - 1) / 2]; i = (i - 1) / 2) b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = x;
}
static inline uint64_t heap_pop(struct tok_big *b)
{
    uint64_t *v = b->heap, top = v[0], x = v[--b->heap_n];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < b->heap_n; i = k) {
        if (k + 1 < b->heap_n && v[k + 1] < v[k]) k++;
        if (x <= v[k]) break;
        v[i] = v[k];
    }
    v[i] = x;
    return top;
}

/* Looks the pair at symbol i up (end: past its right half) and queues it. */
static inline void look(struct tok_work *w, bool spm, uint32_t i, uint32_t right, uint32_t end)
{
    struct tok_big *b = w->big;
    b->pair[i] = pair_of(w, spm, b->id[i], b->id[right], b->at[i], end);
    if (b->pair[i] != NO_MERGE) heap_push(b, (b->pair[i] >> 32) << 32 | i);
}

/* Merges base[from, end) as if it stood alone; the result in w->big: n symbols, id[] and at[]. */
static inline bool merge_window(struct tok_work *w, bool spm, uint32_t from, uint32_t end, uint32_t *n_out)
{
    if (!big_reserve(w, end - from)) return false;
    struct tok_big *b = w->big;
    if (b->len == end - from &&
        memcmp(w->base + b->from, w->base + from, b->len) == 0) { /* the same text again: a long line of one letter */
        for (uint32_t i = 0; i <= b->n; i++) b->at[i] += from - b->from;
        b->from = from;
        w->steps += b->n;
        *n_out = b->n;
        return true;
    }
    uint32_t n = 0;
    for (uint32_t i = from, len; i < end; i += len, n++) {
        b->id[n] = symbol_at(w, spm, i, end, &len);
        b->at[n] = i;
        b->prev[n] = n - 1; /* NONE32 for the first */
        b->next[n] = n + 1; /* n for the last */
        b->pair[n] = NO_MERGE;
    }
    b->at[n] = end;
    b->heap_n = 0;
    for (uint32_t i = 0; i + 1 < n; i++) look(w, spm, i, i + 1, b->at[i + 2]);
    while (b->heap_n) {
        uint64_t x = heap_pop(b);
        uint32_t i = (uint32_t)x;
        w->steps++;
        if (b->pair[i] >> 32 != x >> 32) continue; /* merged or changed since it was queued */
        uint32_t right = b->next[i], after = b->next[right], before = b->prev[i];
        b->id[i] = (int32_t)(uint32_t)b->pair[i];
        b->pair[i] = b->pair[right] = NO_MERGE;
        b->next[i] = after;
        if (after < n) {
            b->prev[after] = i;
            look(w, spm, i, after, b->at[b->next[after]]);
        }
        if (before != NONE32) look(w, spm, before, i, b->at[after]);
    }
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i = b->next[i], k++) { /* k <= i: close the gaps in place; next[i] is not written */
        b->id[k] = b->id[i];
        b->at[k] = b->at[i];
    }
    b->at[k] = end;
    b->from = from;
    b->len = end - from;
    *n_out = b->n = k;
    return true;
}

/* Where a window begins, and what is known about its seam. */
struct seam {
    uint32_t from;     /* first byte of the window */
    uint32_t last;     /* where the token before it begins; == from: there is none */
    uint32_t expected; /* where the token that was dropped there ended */
};

static inline bool merge_long(struct tok_work *w, bool spm, uint32_t off, uint32_t n)
{
    uint32_t end = off + n, window = w->window, k;
    struct seam now = {off, off, 0};
    size_t out_n = w->out->n;
    for (;;) {
        uint32_t stop = end - now.from > window ? now.from + window : end;
        while (spm && stop < end && ((unsigned char)w->base[stop] & 0xC0) == 0x80 && stop > now.from + window - 4)
            stop--; /* not inside a character */
        if (!merge_window(w, spm, now.from, stop, &k)) return false;
        struct tok_big *b = w->big;
        if (now.last != now.from && b->at[1] != now.expected) {
            uint32_t first_end = b->at[1];
            if (!merge_window(w, spm, now.last, first_end, &k)) return false;
            if (k != 2 || w->big->at[1] != now.from) {
                now = (struct seam){off, off, 0};
                w->out->n = out_n;
                window *= 2;
                continue;
            }
            if (!merge_window(w, spm, now.from, stop, &k)) return false;
            b = w->big;
        }
        uint32_t keep = k;
        if (stop < end) {
            while (keep > 0 && b->at[keep] > stop - window / SLACK_DIV) keep--;
            if (keep == 0) { /* one token fills the window */
                window *= 2;
                continue;
            }
        }
        for (uint32_t i = 0; i < keep; i++) put_symbol(w, b->id[i], b->at[i], b->at[i + 1]);
        if (stop == end) return true;
        now = (struct seam){b->at[keep], b->at[keep - 1], b->at[keep + 1]};
    }
}

/* ---- pieces ---- */

int tok_piece_encode(struct tok_work *w, size_t off, size_t n)
{
    const struct tok *t = w->t;
    const char *p = w->base + off;
    TRY(reserve(w, n));
    struct ids *o = w->out;
    uint64_t key = tok_key(t, p, n, w->base_n - off);
    struct tok_seen *s = NULL;
    if (w->seen) {
        s = &w->seen[tok_slot_of(t, key, n) & w->seen_mask];
        if (s->key == key && s->len == n && (n <= 8 || memcmp(w->base + s->off, p, n) == 0)) {
            if (LIKELY(s->n == 1)) {
                o->v[o->n++] = (int32_t)s->out;
            } else {
                memcpy(o->v + o->n, o->v + w->first + s->out, s->n * sizeof *o->v);
                o->n += s->n;
            }
            return OK;
        }
    }
    size_t before = o->n;
    int32_t id = -1;
    if (t->whole) id = tok_map_get(t, &t->by_plain, t->raw, t->raw_off, p, n, key);
    if (id >= 0) {
        o->v[o->n++] = id;
    } else if (n <= SHORT_MAX) {
        if (t->spm)
            merge_short(w, true, (uint32_t)off, (uint32_t)(off + n));
        else
            merge_short(w, false, (uint32_t)off, (uint32_t)(off + n));
    } else {
        bool ok = t->spm ? merge_long(w, true, (uint32_t)off, (uint32_t)n) : merge_long(w, false, (uint32_t)off, (uint32_t)n);
        if (!ok) return err_set(w->e, E_NOMEM, "no memory to tokenise %zu bytes in one piece", n);
    }
    size_t got = o->n - before;
    if (s)
        *s = (struct tok_seen){key, (uint32_t)off, (uint32_t)n, got == 1 ? (uint32_t)o->v[before] : (uint32_t)(before - w->first),
                               (uint32_t)got};
    return OK;
}

int tok_work_init(struct tok_work *w, const struct tok *t, struct ids *out, size_t text_n, struct err *e)
{
    *w = (struct tok_work){.t = t, .out = out, .first = out->n, .window = WINDOW, .e = e};
    if (text_n < 256) return OK;
    /* About one entry per two pieces, at most what the second-level cache holds. */
    uint32_t n = 64;
    while (n < text_n / 8 && n < 1u << 15) n *= 2;
    w->seen = mem_zalloc(n, sizeof *w->seen); /* without it: slower, same ids */
    w->seen_mask = n - 1;
    return OK;
}

void tok_work_free(struct tok_work *w)
{
    mem_free(w->seen);
    big_free(w->big);
    pre_work_free(&w->pre);
}
