/* tok_int.h: what the tokenizer's files share: the opened tokenizer, splitting (tok_pre.c, tok_split.c, tok_class.c), merging
 * (tok_merge.c). Included by tok*.c and by its unit test only. */
#pragma once
#include "base/arena.h"
#include "model/tok.h"
#include <string.h>

/* ---- character classes (tok_class.c) ---- */

/* Bits per code point, from the general categories of the Unicode version that utf8proc carries. */
enum {
    CL_L = 1,      /* \p{L} */
    CL_N = 2,      /* \p{N} */
    CL_S = 4,      /* \s: White_Space */
    CL_P = 8,      /* \p{P} */
    CL_SYM = 16,   /* \p{S} */
    CL_M = 32,     /* \p{M} */
    CL_UP = 64,    /* \p{Lu} \p{Lt} */
    CL_LOW = 128,  /* \p{Ll} */
    CL_LX = 256,   /* \p{Lm} \p{Lo} */
    CL_CRLF = 512, /* \r \n */
    CL_END = 1024, /* past the end: never set for a character */
};
/* First use builds the tables (some ms); any thread. */
void tok_class_init(void);
extern uint8_t tok_class_page[0x1100];
extern uint16_t tok_class_row[256][256];
static inline uint32_t tok_class_of(uint32_t cp)
{
    return cp <= 0x10FFFF ? tok_class_row[tok_class_page[cp >> 8]][cp & 255] : CL_SYM;
}

/* Class of the character at p[i] (i <= n); *len its bytes, 0 past the end. A byte that is no valid UTF-8 counts as U+FFFD: a
 * symbol. */
static inline uint32_t tok_class_at(const char *p, size_t i, size_t n, uint32_t *len)
{
    if (i >= n) {
        *len = 0;
        return CL_END;
    }
    if ((unsigned char)p[i] < 0x80) {
        *len = 1;
        return tok_class_row[0][(unsigned char)p[i]]; /* page 0 is row 0 */
    }
    uint32_t cp;
    *len = utf8_next(p + i, n - i, &cp);
    return tok_class_of(cp);
}

/* ---- pre-tokenizer (tok_pre.c: table and patterns, tok_split.c: hand-made splitters) ---- */

enum { PRE_MAX_STEP = 6 };
enum {
    PRE_WHOLE = 1, /* a piece that is a token is that token, whatever the merges say ("ignore_merges" of tokenizer.json) */
    PRE_BOS = 2,   /* a BOS is added when the file has no tokenizer.ggml.add_bos_token */
};
struct pre_row {
    const char *name;
    const char *step[PRE_MAX_STEP]; /* patterns, applied one after the other to the pieces that the one before left */
    unsigned flags;
    const char *source; /* where the patterns were read */
};
extern const struct pre_row pre_table[];
extern const size_t pre_table_n;
const struct pre_row *pre_find(const char *name);

/* One pattern, compiled. A piece of text is cut into matches and the gaps between them. */
enum pre_kind {
    PRE_GPT2,   /* the GPT-2 pattern */
    PRE_CL100K, /* Llama 3, Qwen2, Qwen3.5: words with one character in front, numbers, punctuation, line ends */
    PRE_O200K,  /* gpt-4o, tekken: the same with words cut where case changes */
    PRE_DS3,    /* deepseek-v3 */
    PRE_TAIL,   /* \s+$ */
    PRE_RUN,    /* \s?[set]+, [set]{a,b} and the like */
    PRE_PCRE,   /* anything else: PCRE2 */
};
struct pre_set; /* a set of code points */
struct pre_step {
    enum pre_kind kind;
    uint32_t word;      /* CL100K: classes that make words */
    uint32_t max_digit; /* CL100K, O200K */
    bool contr, slash;  /* O200K: 's 't ... belong to the word; '/' ends punctuation like a line end */
    bool opt_space;     /* RUN: \s? in front */
    uint32_t min, max;  /* RUN */
    struct pre_set *set;
    void *code; /* PCRE: pcre2_code */
};
struct pre {
    uint32_t n_step;
    struct pre_step step[PRE_MAX_STEP];
};
/* Compiles row's patterns; pcre_only leaves out the hand-made splitters (tests). E_NOMEM, or E_ARG for a faulty table row. */
int pre_init(struct pre *x, const struct pre_row *row, bool pcre_only, struct err *e);
void pre_free(struct pre *x);

/* Per-call state of the PCRE2 steps. Zero-initialised; free with pre_work_free. */
struct pre_work {
    void *md, *ctx, *stack;
    struct {
        const char *p;
        size_t from, start, end;
    } last[PRE_MAX_STEP];
};
void pre_work_free(struct pre_work *w);
/* End of the piece (match or gap) of p[0, n) that starts at i < n: > i. */
size_t pre_next(const struct pre *x, uint32_t step, struct pre_work *w, const char *p, size_t i, size_t n);
size_t pre_pcre_next(const struct pre_step *s, uint32_t step, struct pre_work *w, const char *p, size_t i, size_t n);
bool pre_set_has(const struct pre_set *s, uint32_t cp);

/* ---- the tokenizer (tok_open.c fills it; read-only afterwards) ---- */

/* Exact-match table: key is the bytes themselves up to 8, else a 64-bit hash that is checked against the bytes. len 0: free. */
struct tok_slot {
    uint64_t key;
    uint32_t len;
    int32_t id;
};
struct tok_map {
    struct tok_slot *v; /* in the arena */
    uint32_t mask;
};
struct tok_merge {
    uint64_t pair; /* left id << 32 | right id */
    uint64_t to;   /* (rank << 32 | merged id) + 1; 0: free slot */
};
struct tok_edge {
    uint64_t key; /* node << 8 | byte; UINT64_MAX: free slot */
    uint32_t child;
};

enum { ATTR_MASK = 7, ATTR_END = 8, ATTR_RSTRIP = 16, ATTR_PLAIN = 32 }; /* PLAIN: text without special tokens may give this id */
enum { TOK_MAX_TOKEN = 65536, TOK_MAX_SPECIAL = 512 };

struct tok {
    struct arena arena;
    uint32_t n;
    bool spm, whole, add_bos, add_eos, add_space, byte_gap; /* byte_gap: some byte has no token */
    int32_t bos, eos, unk;
    uint64_t seed[2];             /* of all hashes here: names and texts from outside cannot be made to collide */
    char *text, *raw;             /* all tokens as in the file; as they stand in text */
    uint32_t *text_off, *raw_off; /* n + 1 */
    uint8_t *attr;
    struct tok_map by_text, by_plain; /* by_plain: what merging may look up: raw bytes (bpe), text with U+2581 (spm) */
    int32_t byte_id[256];             /* bpe: the byte's token; spm: <0xNN>; -1: none */
    struct tok_merge *merge;          /* bpe */
    uint32_t merge_mask, n_rank;
    uint64_t *byte_pair; /* bpe: [256][256] merge of two byte tokens, UINT64_MAX: none */
    uint32_t *rank;      /* spm: per id, 0 = best score; equal scores share a rank */
    uint64_t *
        adjacent; /* spm: bit set of pairs of code points that stand side by side in some token (hashed: may say yes too often) */
    struct tok_edge *edge; /* trie of the special tokens */
    uint32_t edge_mask;
    int32_t *node_id;   /* per trie node: token that ends here, or -1 */
    uint8_t first[256]; /* bytes a special token starts with: 1 user-defined, 2 others */
    uint32_t max_special;
    const struct pre_row *pre_row;
    struct pre pre;
    char *model_name; /* for messages */
    struct str chat_template;
};

static inline struct str tok_slice(const char *blob, const uint32_t *off, int32_t id)
{
    return (struct str){blob + off[id], off[id + 1] - off[id]};
}

/* ---- hashing ---- */
static inline uint64_t tok_mum(uint64_t a, uint64_t b)
{
    __uint128_t m = (__uint128_t)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}
/* n <= 8 bytes, zero-padded; room: bytes that may be read from p on. */
static inline uint64_t tok_load(const char *p, size_t n, size_t room)
{
    uint64_t v = 0;
    if (LIKELY(room >= 8)) {
        memcpy(&v, p, 8);
        return n >= 8 ? v : v & ((1ull << (8 * n)) - 1);
    }
    memcpy(&v, p, MIN(n, (size_t)8));
    return v;
}
static inline uint64_t tok_key(const struct tok *t, const char *p, size_t n, size_t room)
{
    if (LIKELY(n <= 8)) return tok_load(p, n, room);
    uint64_t h = t->seed[1] ^ n;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) h = tok_mum(h ^ tok_load(p + i, 8, 8), 0x9E3779B97F4A7C15ull);
    if (i < n) h = tok_mum(h ^ tok_load(p + n - 8, 8, 8), 0xC2B2AE3D27D4EB4Full);
    return h;
}
static inline uint32_t tok_slot_of(const struct tok *t, uint64_t key, size_t n)
{
    return (uint32_t)tok_mum(key ^ t->seed[0], 0xD6E8FEB86659FD93ull + 2 * n);
}
/* Id of n bytes in map m whose texts lie in (blob, off), or -1. */
static inline int32_t tok_map_get(const struct tok *t, const struct tok_map *m, const char *blob, const uint32_t *off,
                                  const char *p, size_t n, uint64_t key)
{
    for (uint32_t i = tok_slot_of(t, key, n);; i++) {
        const struct tok_slot *s = &m->v[i & m->mask];
        if (s->len == 0) return -1;
        if (s->key == key && s->len == n && (n <= 8 || memcmp(blob + off[s->id], p, n) == 0)) return s->id;
    }
}
/* The merge of two tokens: rank << 32 | id, or UINT64_MAX. */
static inline uint64_t tok_merge_get(const struct tok *t, int32_t l, int32_t r)
{
    uint64_t pair = (uint64_t)(uint32_t)l << 32 | (uint32_t)r;
    for (uint32_t i = (uint32_t)tok_mum(pair ^ t->seed[0], 0xD6E8FEB86659FD93ull);; i++) {
        const struct tok_merge *s = &t->merge[i & t->merge_mask];
        if (s->pair == pair || s->to == 0) return s->to - 1; /* a free slot gives UINT64_MAX */
    }
}
static inline uint32_t tok_adjacent_bit(uint32_t a, uint32_t b)
{
    return (uint32_t)(((uint64_t)a * 0x9E3779B97F4A7C15ull ^ (uint64_t)b * 0xC2B2AE3D27D4EB4Full) >> 43);
}
enum { TOK_ADJACENT_BITS = 1 << 21 };

/* ---- merging (tok_merge.c) ---- */

/* What one tok_encode call owns besides its output: scratch, and a cache of pieces met before. */
struct tok_seen {
    uint64_t key;
    uint32_t off, len; /* where the piece stood in base; len 0: free */
    uint32_t out, n;   /* n ids from ids->v[first + out]; n == 1: out is the id itself */
};
struct tok_work {
    const struct tok *t;
    const char *base; /* text that pieces lie in */
    size_t base_n;
    struct ids *out;
    size_t first;          /* out->n when the call started */
    struct tok_seen *seen; /* NULL: no cache */
    uint32_t seen_mask;
    uint32_t window; /* bytes of a long piece merged at once (tests change it) */
    uint64_t steps;  /* work done, for tests of linear time: pairs looked up, entries moved or taken */
    struct err *e;
    struct tok_big *big; /* arrays of the long-piece merge, kept over the call */
    struct pre_work pre;
};
int tok_work_init(struct tok_work *w, const struct tok *t, struct ids *out, size_t text_n, struct err *e);
void tok_work_free(struct tok_work *w);
/* Appends the ids of base[off, off + n), n > 0: one piece of the pre-tokenizer, or any run for spm. */
int tok_piece_encode(struct tok_work *w, size_t off, size_t n);
/* As tok_encode; *steps (may be NULL) gets the work counter. */
/* Token with text p[0, n), of which room >= n bytes may be read; -1: none. */
static inline int32_t tok_find_in(const struct tok *t, const char *p, size_t n, size_t room)
{
    return n == 0 || n > TOK_MAX_TOKEN ? -1 : tok_map_get(t, &t->by_text, t->text, t->text_off, p, n, tok_key(t, p, n, room));
}
int tok_encode_steps(const struct tok *t, struct ids *out, const char *p, size_t n, unsigned flags, uint64_t *steps,
                     struct err *e);
