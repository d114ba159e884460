/* tok_merge.c: from a piece of text to ids. Byte-level BPE merges the pair of lowest rank first, leftmost among equals; SentencePiece-style
 * BPE the pair whose text is the token of best score. Both run on the same two engines:
 *   short pieces: arrays and a linear search for the minimum;
 *   long pieces:  a linked list of symbols and one queue per rank, so that a megabyte in one piece takes a megabyte of steps.
 * A piece met before in the same call is copied from its first result (no state is shared between calls: any thread). */
#include "base/mem.h"
#include "model/tok_int.h"

#define NO_MERGE UINT64_MAX
enum {
    SHORT_MAX = 96, /* symbols; beyond, searching the minimum costs more than the queues */
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
        if (spm) pair[i] = pair_of(w, true, id[i], id[i + 1], at[i], at[i + 2]);
        else pair[i] = w->t->byte_pair[(unsigned char)w->base[from + i] << 8 | (unsigned char)w->base[from + i + 1]];
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

/* ---- long pieces ---- */

struct node {
    uint32_t pos, next;
};
struct queue {
    uint32_t rank, head, tail; /* head NONE32: empty; rank NONE32: free slot */
};
/* Everything sized by the piece; kept for the call's next long piece. Per symbol: 20 (spm 24) bytes, 8 per queued pair (about one each). */
struct tok_big {
    size_t cap; /* symbols */
    int32_t *id;
    uint32_t *prev, *next, *at;
    uint64_t *pair;
    struct node *node;
    size_t node_n, node_cap;
    uint32_t free_node;
    struct queue *q; /* open addressing by rank */
    uint32_t q_mask, q_n;
    uint32_t *heap; /* ranks of the non-empty queues, least first */
    size_t heap_n, heap_cap;
    uint32_t *sort; /* 2 * sort_cap positions */
    size_t sort_cap;
    uint64_t *late; /* heap of rank << 32 | position: pairs that came up with a rank not above that of the queue being worked off */
    size_t late_n, late_cap;
};

static void big_free(struct tok_big *b)
{
    if (!b) return;
    mem_free(b->id);
    mem_free(b->prev);
    mem_free(b->next);
    mem_free(b->at);
    mem_free(b->pair);
    mem_free(b->node);
    mem_free(b->q);
    mem_free(b->heap);
    mem_free(b->sort);
    mem_free(b->late);
    mem_free(b);
}

static bool grow(void *pp, size_t *cap, size_t want, size_t size)
{
    void *old;
    memcpy(&old, pp, sizeof old);
    if (want <= *cap) return true;
    size_t c = MAX(want, *cap + *cap / 2 + 64);
    void *p = mem_realloc(old, c, size);
    if (!p) return false;
    memcpy(pp, &p, sizeof p);
    *cap = c;
    return true;
}

#define HEAP(name, type)                                                                                                          \
    static void name##_up(type *v, size_t i)                                                                                      \
    {                                                                                                                             \
        type x = v[i];                                                                                                            \
        for (; i > 0 && x < v[(i - 1) / 2]; i = (i - 1) / 2) v[i] = v[(i - 1) / 2];                                               \
        v[i] = x;                                                                                                                 \
    }                                                                                                                             \
    static type name##_pop(type *v, size_t *n)                                                                                    \
    {                                                                                                                             \
        type top = v[0], x = v[--*n];                                                                                             \
        size_t i = 0;                                                                                                             \
        for (size_t k; (k = 2 * i + 1) < *n; i = k) {                                                                             \
            if (k + 1 < *n && v[k + 1] < v[k]) k++;                                                                               \
            if (x <= v[k]) break;                                                                                                 \
            v[i] = v[k];                                                                                                          \
        }                                                                                                                         \
        v[i] = x;                                                                                                                 \
        return top;                                                                                                               \
    }
HEAP(heap32, uint32_t)
HEAP(heap64, uint64_t)

/* The queue of rank, made when it is new; NULL without memory. */
static struct queue *queue_of(struct tok_big *b, uint32_t rank)
{
    if (!b->q || 2 * (size_t)b->q_n > b->q_mask) { /* double the table */
        uint32_t n = b->q ? 2 * (b->q_mask + 1) : 1024;
        struct queue *q = mem_alloc(n, sizeof *q);
        if (!q) return NULL;
        for (uint32_t i = 0; i < n; i++) q[i].rank = NONE32;
        for (uint32_t i = 0; b->q && i <= b->q_mask; i++) {
            if (b->q[i].rank == NONE32) continue;
            uint32_t k = b->q[i].rank * 0x9E3779B1u & (n - 1);
            while (q[k].rank != NONE32) k = (k + 1) & (n - 1);
            q[k] = b->q[i];
        }
        mem_free(b->q);
        b->q = q;
        b->q_mask = n - 1;
    }
    uint32_t k = rank * 0x9E3779B1u & b->q_mask;
    while (b->q[k].rank != NONE32 && b->q[k].rank != rank) k = (k + 1) & b->q_mask;
    if (b->q[k].rank == NONE32) {
        b->q[k] = (struct queue){rank, NONE32, NONE32};
        b->q_n++;
    }
    return &b->q[k];
}

/* Queues the pair at position pos; now: the rank being worked off (NONE32: none yet). */
static bool push(struct tok_work *w, struct tok_big *b, uint32_t pos, uint32_t rank, uint32_t now)
{
    w->steps++;
    if (now != NONE32 && rank <= now) {
        if (!grow(&b->late, &b->late_cap, b->late_n + 1, sizeof *b->late)) return false;
        b->late[b->late_n++] = (uint64_t)rank << 32 | pos;
        heap64_up(b->late, b->late_n - 1);
        return true;
    }
    struct queue *q = queue_of(b, rank);
    if (!q) return false;
    uint32_t k = b->free_node;
    if (k != NONE32) {
        b->free_node = b->node[k].next;
    } else {
        if (!grow(&b->node, &b->node_cap, b->node_n + 1, sizeof *b->node)) return false;
        k = (uint32_t)b->node_n++;
    }
    b->node[k] = (struct node){pos, NONE32};
    if (q->head == NONE32) {
        q->head = k;
        if (!grow(&b->heap, &b->heap_cap, b->heap_n + 1, sizeof *b->heap)) return false;
        b->heap[b->heap_n++] = rank;
        heap32_up(b->heap, b->heap_n - 1);
    } else {
        b->node[q->tail].next = k;
    }
    q->tail = k;
    return true;
}

/* Ascending order of v[0, n), n values below 2^32, with room for n more behind them. */
static void sort_positions(struct tok_work *w, uint32_t *v, size_t n)
{
    w->steps += n;
    if (n < 64) {
        for (size_t i = 1; i < n; i++) {
            uint32_t x = v[i];
            size_t k = i;
            for (; k > 0 && v[k - 1] > x; k--) v[k] = v[k - 1];
            v[k] = x;
        }
        return;
    }
    uint32_t *a = v, *b = v + n;
    for (uint32_t shift = 0; shift < 32; shift += 8) { /* an even number of passes ends in v */
        size_t at[257] = {0};
        for (size_t i = 0; i < n; i++) at[(a[i] >> shift & 255) + 1]++;
        for (size_t i = 0; i < 256; i++) at[i + 1] += at[i];
        for (size_t i = 0; i < n; i++) b[at[a[i] >> shift & 255]++] = a[i];
        uint32_t *x = a;
        a = b;
        b = x;
    }
}

/* Takes the whole queue of rank out: live positions in ascending order in b->sort. False: no memory. */
static bool take(struct tok_work *w, struct tok_big *b, uint32_t rank, size_t *n)
{
    struct queue *q = queue_of(b, rank);
    if (!q) return false;
    bool sorted = true;
    *n = 0;
    for (uint32_t k = q->head, next; k != NONE32; k = next) {
        next = b->node[k].next;
        uint32_t pos = b->node[k].pos;
        b->node[k].next = b->free_node;
        b->free_node = k;
        if (b->pair[pos] >> 32 != rank) continue; /* merged or changed since */
        if (*n + 1 > b->sort_cap) {
            size_t cap = 2 * b->sort_cap;
            if (!grow(&b->sort, &cap, 2 * (*n + 1), sizeof *b->sort)) return false;
            b->sort_cap = cap / 2;
        }
        sorted = sorted && (*n == 0 || pos > b->sort[*n - 1]);
        b->sort[(*n)++] = pos;
    }
    q->head = q->tail = NONE32;
    if (!sorted) sort_positions(w, b->sort, *n);
    return true;
}

/* Merges the pair at pos with its right neighbour and queues the pairs that this makes. */
static bool apply(struct tok_work *w, struct tok_big *b, bool spm, uint32_t pos, uint32_t now)
{
    uint32_t right = b->next[pos], after = b->next[right], before = b->prev[pos];
    b->id[pos] = (int32_t)(uint32_t)b->pair[pos];
    b->pair[right] = b->pair[pos] = NO_MERGE;
    b->next[pos] = after;
    uint32_t end = spm ? (after == NONE32 ? b->at[b->cap] : b->at[after]) : 0;
    if (after != NONE32) {
        b->prev[after] = pos;
        uint32_t end2 = spm ? (b->next[after] == NONE32 ? b->at[b->cap] : b->at[b->next[after]]) : 0;
        b->pair[pos] = pair_of(w, spm, b->id[pos], b->id[after], spm ? b->at[pos] : 0, end2);
        if (b->pair[pos] != NO_MERGE && !push(w, b, pos, (uint32_t)(b->pair[pos] >> 32), now)) return false;
    }
    if (before != NONE32) {
        b->pair[before] = pair_of(w, spm, b->id[before], b->id[pos], spm ? b->at[before] : 0, end);
        if (b->pair[before] != NO_MERGE && !push(w, b, before, (uint32_t)(b->pair[before] >> 32), now)) return false;
    }
    return true;
}

static bool big_prepare(struct tok_work *w, bool spm, size_t n)
{
    if (w->big && w->big->cap < n) {
        big_free(w->big);
        w->big = NULL;
    }
    if (!w->big) {
        struct tok_big *b = w->big = mem_zalloc(1, sizeof *b);
        if (!b) return false;
        b->cap = n;
        b->id = mem_alloc(n, sizeof *b->id);
        b->prev = mem_alloc(n, sizeof *b->prev);
        b->next = mem_alloc(n, sizeof *b->next);
        b->pair = mem_alloc(n, sizeof *b->pair);
        b->at = spm ? mem_alloc(n + 1, sizeof *b->at) : NULL;
        if (!b->id || !b->prev || !b->next || !b->pair || (spm && !b->at)) return false;
    }
    struct tok_big *b = w->big;
    b->node_n = b->heap_n = b->late_n = 0;
    b->free_node = NONE32;
    b->q_n = 0;
    for (uint32_t i = 0; b->q && i <= b->q_mask; i++) b->q[i].rank = NONE32;
    return true;
}

static inline bool merge_big(struct tok_work *w, bool spm, uint32_t from, uint32_t end)
{
    if (!big_prepare(w, spm, end - from)) return false;
    struct tok_big *b = w->big;
    uint32_t n = 0;
    for (uint32_t i = from, len; i < end; i += len, n++) {
        b->id[n] = symbol_at(w, spm, i, end, &len);
        b->prev[n] = n - 1; /* NONE32 for the first */
        b->next[n] = n + 1;
        if (spm) b->at[n] = i;
    }
    b->next[n - 1] = NONE32;
    if (spm) b->at[n] = b->at[b->cap] = end;
    for (uint32_t i = 0; i < n; i++) {
        b->pair[i] = NO_MERGE;
        if (i + 1 < n) b->pair[i] = pair_of(w, spm, b->id[i], b->id[i + 1], spm ? b->at[i] : 0, spm ? b->at[i + 2 > n ? n : i + 2] : 0);
        if (b->pair[i] != NO_MERGE && !push(w, b, i, (uint32_t)(b->pair[i] >> 32), NONE32)) return false;
    }
    while (b->heap_n) {
        uint32_t rank = heap32_pop(b->heap, &b->heap_n);
        size_t n_pos;
        if (!take(w, b, rank, &n_pos)) return false;
        for (size_t i = 0; i < n_pos || b->late_n;) {
            if (b->late_n && (i == n_pos || b->late[0] < ((uint64_t)rank << 32 | b->sort[i]))) {
                uint64_t x = heap64_pop(b->late, &b->late_n);
                uint32_t pos = (uint32_t)x;
                if (b->pair[pos] >> 32 == x >> 32 && !apply(w, b, spm, pos, rank)) return false;
            } else {
                uint32_t pos = b->sort[i++];
                if (b->pair[pos] >> 32 == rank && !apply(w, b, spm, pos, rank)) return false;
            }
        }
    }
    for (uint32_t i = 0; i != NONE32; i = b->next[i]) {
        uint32_t after = b->next[i];
        put_symbol(w, b->id[i], spm ? b->at[i] : 0, spm ? (after == NONE32 ? end : b->at[after]) : 0);
    }
    return true;
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
        if (t->spm) merge_short(w, true, (uint32_t)off, (uint32_t)(off + n));
        else merge_short(w, false, (uint32_t)off, (uint32_t)(off + n));
    } else {
        bool ok = t->spm ? merge_big(w, true, (uint32_t)off, (uint32_t)(off + n)) : merge_big(w, false, (uint32_t)off, (uint32_t)(off + n));
        if (!ok) return err_set(w->e, E_NOMEM, "no memory to tokenise %zu bytes in one piece", n);
    }
    size_t got = o->n - before;
    if (s) *s = (struct tok_seen){key, (uint32_t)off, (uint32_t)n, got == 1 ? (uint32_t)o->v[before] : (uint32_t)(before - w->first), (uint32_t)got};
    return OK;
}

int tok_work_init(struct tok_work *w, const struct tok *t, struct ids *out, size_t text_n, struct err *e)
{
    *w = (struct tok_work){.t = t, .out = out, .first = out->n, .e = e};
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
