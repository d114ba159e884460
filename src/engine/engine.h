/* engine.h: a loaded model that computes steps: file, weights on the device, KV pool, activations, ledger. The engine thread owns all of it. */
#pragma once
#include "engine/fwd.h"
#include "engine/sample.h"
#include "model/tok.h"
#include <signal.h>

/* What made-up weights are of: a named shape (shape_by_name) and the precision as published checkpoints have it: q4_0 and q4_k with embedding and output in
 * Q6_K, fp8 with every matrix but embedding and output in E4M3 with per-channel scales and those in BF16, any other type throughout. */
struct model_made {
    const char *shape;
    enum dtype precision, head; /* head: type of embedding and output, DT_NONE: by the rule above */
    uint64_t seed;
};

/* Types to convert to while loading. DT_NONE for weights: as they are; for head (embedding and output): as they are without `weights`, else at least BF16 for
 * fp8 and the float types, Q8_0 or Q6_K for q*. A row that is no multiple of the block falls back to a smaller block (q4_k -> q8_0). */
struct model_conv {
    enum dtype weights, head;
};

struct engine_opt {
    const char *path;      /* model file; NULL: made-up weights of `made` */
    const struct model_made *made; /* seeded random weights in memory, no file (benchmarks, planning trials); read during the call only */
    const struct model_conv *conv; /* matrices are converted while loading; NULL: as they are; read during the call only */
    bool no_repack;        /* serve from the mapping, slower: no second layout is made */
    enum isa isa;          /* ISA_N: the best the CPU has */
    uint32_t n_thread;     /* 0: every core the process may use */
    uint32_t ctx;          /* tokens of one sequence; 0: the model's context, cut to half of the memory left */
    int kv_fmt;            /* enum kv_fmt, -1: f32 at --isa ref, else bf16 */
    uint32_t max_tok;      /* rows of the largest step (prompt chunk); 0: 512 */
    uint32_t max_seq;      /* sequences at once; 0: 1. KV for max_seq sequences of ctx tokens is reserved */
    uint32_t max_out;      /* logit rows of a step; 0: max_seq */
    bool quiet;            /* no progress bar */
};

struct engine {
    struct gguf gguf;
    struct model_shape shape;
    struct weights w;
    struct tok *tok;       /* NULL: the file has no tokenizer */
    char no_tok[240];      /* why tok is NULL */
    struct dev dev;
    struct kv_pool kv;
    struct rank rank;
    struct wire wire;
    struct ledger led;
    enum isa isa;
    uint32_t n_thread, ctx, max_tok, max_seq;
    uint64_t load_ns;
    uint64_t step_no;
    const volatile sig_atomic_t *stop; /* borrowed, may be NULL: when it becomes non-zero, engine_feed ends with E_AGAIN after the running step */
    /* batch of engine_feed / engine_decode, sized at open */
    int32_t *b_tok;
    uint32_t *b_pos, *b_qoff, *b_blkoff, *b_out;
    blk_id *b_blk;
    uint32_t b_blk_cap;
};

/* Opens everything; memory is checked before it is taken. On failure nothing stays open. *out is owned: engine_close. */
int engine_open(struct engine **out, const struct engine_opt *o, struct err *e);
void engine_close(struct engine *g);

/* Runs the ids through the model behind what seq already holds, in chunks; KV is kept. Logits of the last id stand in engine_logits(g, 0).
 * decode: the ids are output tokens (ledger phase; n == 1). E_AGAIN: stopped or KV full; E_RANGE: over the context. */
int engine_feed(struct engine *g, struct seq *s, const int32_t *id, uint32_t n, bool decode, struct err *e);
/* The same, and logits of every row: after each chunk row(ud, first, n_row, logits) is called; max_out must be >= max_tok. */
typedef int engine_row(void *ud, uint32_t first, uint32_t n_row, const float *logits);
int engine_score(struct engine *g, struct seq *s, const int32_t *id, uint32_t n, engine_row *row, void *ud, struct err *e);
/* One decode step for n_seq sequences at once, one id each; logits of sequence i in engine_logits(g, i). */
int engine_decode(struct engine *g, struct seq *const *s, const int32_t *id, uint32_t n_seq, struct err *e);
static inline const float *engine_logits(const struct engine *g, uint32_t i) { return g->rank.a.logits + (size_t)i * g->shape.V; }

/* Where the memory went, bytes. */
struct engine_mem {
    uint64_t weights, kv, kv_used, acts, peak, rest;
};
void engine_memory(const struct engine *g, struct engine_mem *m);
