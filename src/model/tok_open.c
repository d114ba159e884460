/* tok_open.c: building a tokenizer from GGUF metadata. All of it is outside input: every length, id and count is checked, tables
 * are sized by what the file really holds, and hashing is seeded so that chosen texts cannot collide. What is refused and what
 * not:
 *   - token_type and scores must have one entry per token; no token twice, none over 64 KiB, special ones at most 512 bytes;
 *   - ids (bos, eos, ...) must be in the vocabulary;
 *   - a merge whose halves or result are no plain tokens is skipped: files with a cut vocabulary keep working, and text alone can
 *     never merge into a control token; of two equal merges the first counts. */
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "model/tok_int.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define KEY(x) "tokenizer.ggml." x
#define LLU(x) ((unsigned long long)(x))
#define UNDERLINE "\xE2\x96\x81" /* U+2581, SentencePiece's visible space */

struct opener {
    const struct gguf *g;
    struct tok *t;
    const char *path; /* short form for messages */
    const struct gguf_kv *tokens, *types, *scores;
    struct err *e;
};
#define FAIL(o, code, fmt, ...) (err_set((o)->e, code, "%s: " fmt, (o)->path, ##__VA_ARGS__), code)

static int nomem(struct opener *o) { return FAIL(o, E_NOMEM, "no memory for the tokenizer"); }
/* "%.*s" arguments of outside text: at most 40 bytes, whole characters. */
#define CUT(s) (int)utf8_whole((s).p, MIN((s).n, (size_t)40)), (s).p

/* ---- tables ---- */

static int map_init(struct opener *o, struct tok_map *m, size_t n)
{
    size_t cap = 16;
    while (cap < 2 * n) cap *= 2;
    if (cap > UINT32_MAX) return nomem(o);
    m->v = arena_alloc(&o->t->arena, cap, sizeof *m->v);
    if (!m->v) return nomem(o);
    m->mask = (uint32_t)(cap - 1);
    return OK;
}

/* Adds id's text; returns the id that already has it, or -1. */
static int32_t map_put(const struct tok *t, struct tok_map *m, const char *blob, const uint32_t *off, int32_t id)
{
    struct str s = tok_slice(blob, off, id);
    uint64_t key = tok_key(t, s.p, s.n, s.n + 8); /* both blobs have 8 bytes more */
    uint32_t i = tok_slot_of(t, key, s.n);
    for (; m->v[i & m->mask].len; i++) {
        const struct tok_slot *x = &m->v[i & m->mask];
        if (x->key == key && x->len == s.n && memcmp(blob + off[x->id], s.p, s.n) == 0) return x->id;
    }
    m->v[i & m->mask] = (struct tok_slot){key, (uint32_t)s.n, id};
    return -1;
}

static int read_texts(struct opener *o)
{
    struct tok *t = o->t;
    const uint8_t *cur = o->tokens->p;
    size_t total = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        struct str s = gguf_next_str(&cur);
        if (s.n > TOK_MAX_TOKEN)
            return FAIL(o, E_FORMAT, "key " KEY("tokens") ": token %u has %zu bytes, at most %d are allowed", i, s.n,
                        TOK_MAX_TOKEN);
        total += s.n;
    }
    if (total > UINT32_MAX)
        return FAIL(o, E_FORMAT, "key " KEY("tokens") ": %zu bytes of text, at most 4 GiB are allowed", total);
    t->text = arena_alloc(&t->arena, total + 8, 1);
    t->raw = arena_alloc(&t->arena, total + 8, 1);
    t->text_off = arena_alloc(&t->arena, (size_t)t->n + 1, sizeof(uint32_t));
    t->raw_off = arena_alloc(&t->arena, (size_t)t->n + 1, sizeof(uint32_t));
    t->attr = arena_alloc(&t->arena, t->n, 1);
    if (!t->text || !t->raw || !t->text_off || !t->raw_off || !t->attr) return nomem(o);
    TRY(map_init(o, &t->by_text, t->n));
    cur = o->tokens->p;
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        struct str s = gguf_next_str(&cur);
        memcpy(t->text + at, s.p, s.n);
        at += (uint32_t)s.n;
        t->text_off[i + 1] = at;
        if (s.n == 0) continue; /* a hole in the vocabulary: never matches */
        int32_t twin = map_put(t, &t->by_text, t->text, t->text_off, (int32_t)i);
        if (twin >= 0) return FAIL(o, E_FORMAT, "key " KEY("tokens") ": tokens %d and %u are both \"%.*s\"", twin, i, CUT(s));
    }
    return OK;
}

/* Names of tokens that end a turn or a text, whatever the metadata says. From llama.cpp's llama-vocab.cpp and the models' own
 * generation_config.json. */
static const char *const end_names[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<EOT>",
    "<|EOT|>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "</s>",
    "<|eot|>",
    "<|END_OF_TURN_TOKEN|>",
    ("<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"), /* DeepSeek; in two, or \x9C would swallow the e */
};

static int read_attrs(struct opener *o)
{
    struct tok *t = o->t;
    for (uint32_t i = 0; i < t->n; i++) {
        int32_t v = o->types ? gguf_arr_i32(o->types, i) : TOK_NORMAL;
        if (v < 0 || v > TOK_BYTE)
            return FAIL(o, E_FORMAT, "key " KEY("token_type") ": token %u has type %d; 0 to %d is wanted", i, v, TOK_BYTE);
        t->attr[i] = v == 0 ? TOK_NORMAL : (uint8_t)v; /* 0: undefined */
        size_t len = t->text_off[i + 1] - t->text_off[i];
        if ((v == TOK_CONTROL || v == TOK_USER || v == TOK_UNKNOWN) && len > TOK_MAX_SPECIAL)
            return FAIL(o, E_FORMAT, "key " KEY("tokens") ": special token %u has %zu bytes, at most %d are allowed", i, len,
                        TOK_MAX_SPECIAL);
    }
    for (size_t i = 0; i < ARRAY_LEN(end_names); i++) {
        int32_t id = tok_find(t, str_of(end_names[i]));
        if (id < 0) continue;
        /* A control token by its role, also where the file calls it user-defined; llama.cpp overrides the type in the same way.
         */
        if (t->attr[id] == TOK_USER) t->attr[id] = TOK_CONTROL;
        if (t->attr[id] == TOK_CONTROL) t->attr[id] |= ATTR_END;
    }
    /* Harmony (gpt-oss): <|end|> closes a message, the turn goes on until <|return|> or <|call|>. */
    int32_t end = tok_find(t, str_of("<|end|>"));
    if (end >= 0 && tok_find(t, str_of("<|return|>")) >= 0 && tok_find(t, str_of("<|call|>")) >= 0)
        t->attr[end] &= (uint8_t)~ATTR_END;
    return OK;
}

/* ---- texts as they stand in a text ---- */

/* GPT-2's alphabet (encoder.py, bytes_to_unicode): printable Latin-1 stands for itself, the other bytes, in order, for U+0100 and
 * up. byte_of[cp] for cp < 0x144: byte + 1, or 0. */
static void gpt2_alphabet(uint16_t byte_of[0x144])
{
    uint32_t next = 0x100;
    memset(byte_of, 0, 0x144 * sizeof byte_of[0]);
    for (uint32_t b = 0; b < 256; b++) {
        bool self = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        byte_of[self ? b : next++] = (uint16_t)(b + 1);
    }
}

/* "<0xNN>" -> NN, else -1. */
static int byte_token(struct str s)
{
    if (s.n != 6 || memcmp(s.p, "<0x", 3) != 0 || s.p[5] != '>') return -1;
    int v = 0;
    for (int i = 3; i < 5; i++) {
        char c = s.p[i];
        if (c >= '0' && c <= '9')
            v = v * 16 + c - '0';
        else if (c >= 'A' && c <= 'F')
            v = v * 16 + c - 'A' + 10;
        else
            return -1;
    }
    return v;
}

/* Writes the bytes that s stands for; *plain: text can become this token by merging. */
static uint32_t make_raw(const struct tok *t, char *out, struct str s, unsigned attr, const uint16_t byte_of[0x144], bool *plain)
{
    uint32_t n = 0;
    *plain = false;
    int b = attr == TOK_BYTE ? byte_token(s) : -1;
    if (b >= 0) {
        out[0] = (char)b;
        return 1;
    }
    if (attr == TOK_CONTROL || attr == TOK_UNKNOWN || attr == TOK_BYTE) goto literal;
    *plain = s.n > 0;
    if (t->spm) {
        for (size_t i = 0; i < s.n;) {
            bool sp = i + 3 <= s.n && memcmp(s.p + i, UNDERLINE, 3) == 0;
            out[n++] = sp ? ' ' : s.p[i];
            i += sp ? 3 : 1;
        }
        return n;
    }
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        i += utf8_next(s.p + i, s.n - i, &cp);
        if (cp >= 0x144 || !byte_of[cp] || (attr == TOK_USER && cp >= 0x7F)) {
            *plain = false; /* stands for itself, and only the special-token matcher can give it */
            goto literal;
        }
        out[n++] = (char)(byte_of[cp] - 1);
    }
    return n;
literal:
    memcpy(out, s.p, s.n);
    return (uint32_t)s.n;
}

static int make_plain(struct opener *o)
{
    struct tok *t = o->t;
    uint16_t byte_of[0x144];
    gpt2_alphabet(byte_of);
    uint32_t at = 0;
    size_t n_plain = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        bool plain;
        at += make_raw(t, t->raw + at, tok_slice(t->text, t->text_off, (int32_t)i), t->attr[i] & ATTR_MASK, byte_of, &plain);
        t->raw_off[i + 1] = at;
        if (plain) t->attr[i] |= ATTR_PLAIN;
        n_plain += plain;
    }
    TRY(map_init(o, &t->by_plain, n_plain));
    for (int i = 0; i < 256; i++) t->byte_id[i] = -1;
    for (uint32_t i = 0; i < t->n; i++) {
        if (!(t->attr[i] & ATTR_PLAIN)) continue;
        map_put(t, &t->by_plain, t->spm ? t->text : t->raw, t->spm ? t->text_off : t->raw_off, (int32_t)i);
        if (!t->spm && t->raw_off[i + 1] - t->raw_off[i] == 1) t->byte_id[(unsigned char)t->raw[t->raw_off[i]]] = (int32_t)i;
    }
    for (int i = 0; i < 256; i++) {
        if (t->spm) {
            char z[8];
            snprintf(z, sizeof z, "<0x%02X>", (unsigned)i);
            t->byte_id[i] = tok_find(t, str_of(z));
        }
        t->byte_gap = t->byte_gap || t->byte_id[i] < 0;
    }
    return OK;
}

/* ---- merges, scores ---- */

/* Plain token with text p[0, n), of which room bytes may be read; or -1. */
static int32_t find_plain(const struct tok *t, const char *p, size_t n, size_t room)
{
    int32_t id = tok_find_in(t, p, n, room);
    return id >= 0 && (t->attr[id] & ATTR_PLAIN) ? id : -1;
}

static int read_merges(struct opener *o)
{
    struct tok *t = o->t;
    const struct gguf_kv *kv = NULL;
    TRY(gguf_arr(o->g, KEY("merges"), GGUF_STR, &kv, o->e));
    if (!kv) return FAIL(o, E_FORMAT, "key " KEY("merges") " is missing; a gpt2 tokenizer needs it");
    if (kv->n == 0) return FAIL(o, E_FORMAT, "key " KEY("merges") ": empty list");
    if (kv->n >= UINT32_MAX / 2) return FAIL(o, E_FORMAT, "key " KEY("merges") ": %llu entries", LLU(kv->n));
    size_t cap = 16;
    while (cap < 2 * kv->n) cap *= 2;
    t->merge = arena_alloc(&t->arena, cap, sizeof *t->merge);
    t->byte_pair = arena_alloc(&t->arena, 65536, sizeof *t->byte_pair);
    char *join = mem_alloc(TOK_MAX_TOKEN + 8, 1);
    int rc = OK;
    if (!t->merge || !t->byte_pair || !join) TRYG(nomem(o));
    t->merge_mask = (uint32_t)(cap - 1);
    t->n_rank = (uint32_t)kv->n;
    memset(t->byte_pair, 0xFF, 65536 * sizeof *t->byte_pair);
    const uint8_t *cur = kv->p;
    for (uint32_t r = 0; r < kv->n; r++) {
        struct str s = gguf_next_str(&cur);
        const char *sp =
            s.n > 2 ? memchr(s.p + 1, ' ', s.n - 1) : NULL; /* a space is no letter of the alphabet, except in front */
        if (!sp || sp == s.p + s.n - 1)
            TRYG(
                FAIL(o, E_FORMAT, "key " KEY("merges") ": entry %u, \"%.*s\", is not two texts with a space between", r, CUT(s)));
        size_t nl = (size_t)(sp - s.p), nr = s.n - nl - 1;
        if (nl + nr > TOK_MAX_TOKEN) continue;
        size_t more = r + 1 < kv->n ? 8 : 0; /* the next entry's length lies behind this one */
        int32_t l = find_plain(t, s.p, nl, s.n + more), q = find_plain(t, sp + 1, nr, nr + more);
        if (l < 0 || q < 0) continue;
        memcpy(join, s.p, nl);
        memcpy(join + nl, sp + 1, nr);
        int32_t id = find_plain(t, join, nl + nr, nl + nr + 8);
        if (id < 0) continue;
        uint64_t pair = (uint64_t)(uint32_t)l << 32 | (uint32_t)q, to = (uint64_t)r << 32 | (uint32_t)id;
        uint32_t i = (uint32_t)tok_mum(pair ^ t->seed[0], 0xD6E8FEB86659FD93ull);
        while (t->merge[i & t->merge_mask].to && t->merge[i & t->merge_mask].pair != pair) i++;
        if (t->merge[i & t->merge_mask].to) continue;
        t->merge[i & t->merge_mask] = (struct tok_merge){pair, to + 1};
        struct str a = tok_slice(t->raw, t->raw_off, l), b = tok_slice(t->raw, t->raw_off, q);
        if (a.n == 1 && b.n == 1) t->byte_pair[(unsigned char)a.p[0] << 8 | (unsigned char)b.p[0]] = to;
    }
out:
    mem_free(join);
    return rc;
}

struct scored {
    float score;
    uint32_t id;
};
static int by_score(const void *pa, const void *pb)
{
    const struct scored *a = pa, *b = pb;
    return a->score > b->score ? -1 : a->score < b->score;
}

static int read_scores(struct opener *o)
{
    struct tok *t = o->t;
    struct scored *v = mem_alloc(t->n, sizeof *v);
    t->rank = arena_alloc(&t->arena, t->n, sizeof *t->rank);
    t->adjacent = arena_alloc(&t->arena, TOK_ADJACENT_BITS / 64, sizeof *t->adjacent);
    int rc = OK;
    if (!v || !t->rank || !t->adjacent) TRYG(nomem(o));
    for (uint32_t i = 0; i < t->n; i++) {
        v[i] = (struct scored){gguf_arr_f32(o->scores, i), i};
        if (isnan(v[i].score)) TRYG(FAIL(o, E_FORMAT, "key " KEY("scores") ": the score of token %u is not a number", i));
    }
    qsort(v, t->n, sizeof *v, by_score);
    for (uint32_t i = 0; i < t->n; i++) t->rank[v[i].id] = i == 0 ? 0 : t->rank[v[i - 1].id] + (v[i].score < v[i - 1].score);
    t->n_rank = t->rank[v[t->n - 1].id] + 1;
    for (uint32_t i = 0; i < t->n; i++) {
        if (!(t->attr[i] & ATTR_PLAIN)) continue;
        struct str s = tok_slice(t->text, t->text_off, (int32_t)i);
        uint32_t before, cp;
        for (size_t at = utf8_next(s.p, s.n, &before); at < s.n; before = cp) {
            at += utf8_next(s.p + at, s.n - at, &cp);
            uint32_t bit = tok_adjacent_bit(before, cp);
            t->adjacent[bit >> 6] |= 1ull << (bit & 63);
        }
    }
out:
    mem_free(v);
    return rc;
}

/* ---- special tokens ---- */

static int make_trie(struct opener *o)
{
    struct tok *t = o->t;
    size_t bytes = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        unsigned a = t->attr[i] & ATTR_MASK;
        if (a == TOK_CONTROL || a == TOK_USER || a == TOK_UNKNOWN) bytes += t->text_off[i + 1] - t->text_off[i];
    }
    if (bytes > 16u << 20)
        return FAIL(o, E_FORMAT, "key " KEY("tokens") ": special tokens of %zu bytes in all, at most 16 MiB are allowed", bytes);
    size_t cap = 16;
    while (cap < 2 * bytes) cap *= 2;
    t->edge = arena_alloc(&t->arena, cap, sizeof *t->edge);
    t->node_id = arena_alloc(&t->arena, bytes + 1, sizeof *t->node_id);
    if (!t->edge || !t->node_id) return nomem(o);
    t->edge_mask = (uint32_t)(cap - 1);
    memset(t->edge, 0xFF, cap * sizeof *t->edge);
    memset(t->node_id, 0xFF, (bytes + 1) * sizeof *t->node_id);
    uint32_t n_node = 1;
    for (uint32_t i = 0; i < t->n; i++) {
        unsigned a = t->attr[i] & ATTR_MASK;
        struct str s = tok_slice(t->text, t->text_off, (int32_t)i);
        if ((a != TOK_CONTROL && a != TOK_USER && a != TOK_UNKNOWN) || s.n == 0) continue;
        t->first[(unsigned char)s.p[0]] |= a == TOK_USER ? 1 : 2;
        uint32_t node = 0;
        for (size_t k = 0; k < s.n; k++) {
            uint64_t key = (uint64_t)node << 8 | (unsigned char)s.p[k];
            uint32_t x = (uint32_t)tok_mum(key ^ t->seed[0], 0xD6E8FEB86659FD93ull);
            while (t->edge[x & t->edge_mask].key != UINT64_MAX && t->edge[x & t->edge_mask].key != key) x++;
            if (t->edge[x & t->edge_mask].key == UINT64_MAX) t->edge[x & t->edge_mask] = (struct tok_edge){key, n_node++};
            node = t->edge[x & t->edge_mask].child;
        }
        t->node_id[node] = (int32_t)i;
    }
    return OK;
}

/* Phi-3's special tokens swallow the whitespace behind them (rstrip in its tokenizer.json). GGUF has no key for that; llama.cpp
 * tells the model by general.name, and so do we. */
static int special_strip(struct opener *o)
{
    struct tok *t = o->t;
    struct str name = {0};
    TRY(gguf_str(o->g, "general.name", &name, o->e));
    bool phi3 = false;
    for (size_t i = 0; i + 4 <= name.n && !phi3; i++)
        phi3 = strncasecmp(name.p + i, "phi3", 4) == 0 || (i + 5 <= name.n && strncasecmp(name.p + i, "phi-3", 5) == 0);
    if (!phi3) return OK;
    for (uint32_t i = 0; i < t->n; i++) {
        unsigned a = t->attr[i] & ATTR_MASK;
        struct str s = tok_slice(t->text, t->text_off, (int32_t)i);
        bool keep = str_eq(s, "<unk>") || str_eq(s, "<s>") || str_eq(s, "<|endoftext|>");
        if ((a == TOK_CONTROL || a == TOK_USER || a == TOK_UNKNOWN) && !keep) t->attr[i] |= ATTR_RSTRIP;
    }
    return OK;
}

/* An id key; absent: what was there before. */
static int read_id(struct opener *o, const char *key, int32_t *id)
{
    uint64_t v;
    int rc = gguf_u64(o->g, key, 0, o->t->n - 1, &v, o->e);
    if (rc > 0) *id = (int32_t)v;
    return rc;
}

static int read_ids(struct opener *o)
{
    struct tok *t = o->t;
    t->bos = t->eos = t->unk = -1;
    if (t->spm) { /* sentencepiece's own defaults: <unk> 0, <s> 1, </s> 2 */
        if ((t->attr[0] & ATTR_MASK) == TOK_UNKNOWN) t->unk = 0;
        if (t->n > 1 && (t->attr[1] & ATTR_MASK) == TOK_CONTROL) t->bos = 1;
        if (t->n > 2 && (t->attr[2] & ATTR_MASK) == TOK_CONTROL) t->eos = 2;
    }
    TRY(read_id(o, KEY("bos_token_id"), &t->bos));
    TRY(read_id(o, KEY("eos_token_id"), &t->eos));
    TRY(read_id(o, KEY("unknown_token_id"), &t->unk));
    if (t->eos >= 0) t->attr[t->eos] |= ATTR_END;
    static const char *const more[] = {KEY("eot_token_id"), KEY("eom_token_id")};
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        int32_t id = -1;
        TRY(read_id(o, more[i], &id));
        if (id >= 0) t->attr[id] |= ATTR_END;
    }
    const struct gguf_kv *kv = NULL;
    TRY(gguf_arr(o->g, KEY("eos_token_ids"), GGUF_I32, &kv, o->e));
    for (uint64_t i = 0; kv && i < kv->n; i++) {
        int32_t id = gguf_arr_i32(kv, i);
        if (id < 0 || (uint32_t)id >= t->n)
            return FAIL(o, E_FORMAT, "key " KEY("eos_token_ids") ": entry %llu is %d; 0 to %u is wanted", LLU(i), id, t->n - 1);
        t->attr[id] |= ATTR_END;
    }
    t->add_bos = t->spm || (t->pre_row->flags & PRE_BOS);
    t->add_space = t->spm;
    TRY(gguf_bool(o->g, KEY("add_bos_token"), &t->add_bos, o->e));
    TRY(gguf_bool(o->g, KEY("add_eos_token"), &t->add_eos, o->e));
    TRY(gguf_bool(o->g, KEY("add_space_prefix"), &t->add_space, o->e));
    t->add_space = t->add_space && t->spm;
    t->add_bos = t->add_bos && t->bos >= 0;
    t->add_eos = t->add_eos && t->eos >= 0;
    return OK;
}

static const char *row_name(const void *ud, size_t i)
{
    (void)ud;
    return tok_pre_name(i);
}

static int read_pre(struct opener *o)
{
    struct tok *t = o->t;
    struct str pre = {0};
    TRY(gguf_str(o->g, KEY("pre"), &pre, o->e));
    char name[64] = "default";
    if (!pre.p) {
        log_line(LOG_WARN, "%s: no " KEY("pre") ": the text is split as \"default\" says; a file converted anew names its own",
                 o->path);
    } else if (pre.n >= sizeof name || memchr(pre.p, 0, pre.n)) {
        return FAIL(o, E_UNSUP, "key " KEY("pre") ": unknown pre-tokenizer \"%.*s\"", CUT(pre));
    } else {
        memcpy(name, pre.p, pre.n);
        name[pre.n] = 0;
    }
    t->pre_row = pre_find(name);
    if (!t->pre_row) {
        const char *near = near_name(name, row_name, NULL, pre_table_n);
        return FAIL(o, E_UNSUP, "key " KEY("pre") ": unknown pre-tokenizer \"%s\"%s%s%s", name,
                    near ? "; the nearest known one is \"" : "", near ? near : "", near ? "\"" : "");
    }
    t->whole = t->pre_row->flags & PRE_WHOLE;
    return pre_init(&t->pre, t->pre_row, false, o->e);
}

/* ---- opening ---- */

static int read_arrays(struct opener *o, struct str model)
{
    TRY(gguf_arr(o->g, KEY("tokens"), GGUF_STR, &o->tokens, o->e));
    if (!o->tokens) return FAIL(o, E_FORMAT, "key " KEY("tokens") " is missing, but " KEY("model") " is \"%.*s\"", CUT(model));
    if (o->tokens->n == 0) return FAIL(o, E_FORMAT, "key " KEY("tokens") ": empty list");
    if (o->tokens->n > INT32_MAX / 2) return FAIL(o, E_FORMAT, "key " KEY("tokens") ": %llu tokens", LLU(o->tokens->n));
    o->t->n = (uint32_t)o->tokens->n;
    TRY(gguf_arr(o->g, KEY("token_type"), GGUF_I32, &o->types, o->e));
    TRY(gguf_arr(o->g, KEY("scores"), GGUF_F32, &o->scores, o->e));
    const struct gguf_kv *side[] = {o->types, o->scores};
    for (size_t i = 0; i < ARRAY_LEN(side); i++)
        if (side[i] && side[i]->n != o->tokens->n)
            return FAIL(o, E_FORMAT, "key %.*s: %llu entries for %u tokens", CUT(side[i]->key), LLU(side[i]->n), o->t->n);
    if (o->t->spm && !o->scores) return FAIL(o, E_FORMAT, "key " KEY("scores") " is missing; a llama tokenizer needs it");
    return OK;
}

static int fill(struct opener *o)
{
    struct tok *t = o->t;
    struct str model = {0}, tmpl = {0};
    TRY(gguf_str(o->g, KEY("model"), &model, o->e));
    if (!model.p) {
        if (gguf_find(o->g, KEY("tokens"))) return FAIL(o, E_FORMAT, "key " KEY("model") " is missing");
        return FAIL(o, E_AGAIN, "no tokenizer in this file");
    }
    if (str_eq(model, "none") || str_eq(model, "no_vocab")) return FAIL(o, E_AGAIN, "no tokenizer in this file");
    t->spm = str_eq(model, "llama");
    if (!t->spm && !str_eq(model, "gpt2"))
        return FAIL(o, E_UNSUP,
                    "key " KEY("model") ": tokenizer \"%.*s\"; gpt2 (byte-level BPE) and llama (SentencePiece BPE) are read",
                    CUT(model));
    TRY(read_arrays(o, model));
    if (!t->spm) TRY(read_pre(o));
    TRY(read_texts(o));
    TRY(read_attrs(o));
    TRY(make_plain(o));
    if (t->spm)
        TRY(read_scores(o));
    else
        TRY(read_merges(o));
    TRY(make_trie(o));
    TRY(special_strip(o));
    TRY(read_ids(o));
    TRY(gguf_str(o->g, "tokenizer.chat_template", &tmpl, o->e));
    if (tmpl.p) {
        char *z = arena_strndup(&t->arena, tmpl.p, tmpl.n);
        if (!z) return nomem(o);
        t->chat_template = (struct str){z, tmpl.n};
    }
    return OK;
}

int tok_open_gguf(struct tok **out, const struct gguf *g, struct err *e)
{
    char show[96];
    struct tok *t = mem_zalloc(1, sizeof *t);
    struct opener o = {.g = g, .t = t, .path = gguf_show_path(g->path, show), .e = e};
    *out = NULL;
    if (!t) return nomem(&o);
    t->seed[0] = os_random_u64();
    t->seed[1] = os_random_u64();
    int rc = fill(&o);
    if (rc < 0)
        tok_close(t);
    else
        *out = t;
    return rc < 0 ? rc : OK;
}

void tok_close(struct tok *t)
{
    if (!t) return;
    pre_free(&t->pre);
    arena_free(&t->arena);
    mem_free(t);
}
