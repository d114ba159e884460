/* gen.h: one text from one sequence: prompt in, tokens sampled, characters streamed, stop strings held back. The loop behind run and chat. Engine thread. */
#pragma once
#include "engine/engine.h"

struct gen_alt { /* one alternative of a position */
    int32_t id;
    float logprob;
};
struct gen_opt {
    struct samp_opt samp;
    uint32_t n;              /* most tokens; 0: up to the end token or the context */
    bool ignore_eos;
    const char *const *stop; /* borrowed */
    uint32_t n_stop;
    uint32_t logprobs;       /* alternatives per token, 0: none */
    /* called with text that is certain (whole characters, no part of a stop string); may be NULL */
    void (*emit)(void *ud, const char *p, size_t n);
    void *ud;
};
enum gen_end { GEN_STOP, GEN_LENGTH, GEN_CANCELLED };
const char *gen_end_name(enum gen_end e); /* "stop", "length", "cancelled" */

struct gen_result { /* zero-initialise; free with gen_result_free */
    struct ids out;          /* sampled tokens, the end token included */
    struct buf text;         /* what was emitted, whole */
    float *logprob;          /* [out.n] of the sampled tokens, when asked for */
    struct gen_alt *alt;     /* [out.n][logprobs] */
    enum gen_end end;
    uint32_t n_prompt;
    uint64_t prefill_ns, decode_ns; /* decode: from the first sampled token on */
    uint32_t n_decode;       /* decode steps run */
};
void gen_result_free(struct gen_result *r);

/* Feeds prompt [n > 0] behind what seq holds, then generates. Errors: E_RANGE (prompt beyond the context), E_NOMEM, E_DEV. A raised stop flag is no error: the result says
 * GEN_CANCELLED. KV of the prompt and of every token but the last sampled one stays in seq. */
int gen_run(struct engine *g, struct seq *seq, const int32_t *prompt, uint32_t n, const struct gen_opt *o, struct gen_result *r, struct err *e);

/* Sampling defaults: the file's general.sampling.* keys, else temp 0.7, top-p 0.95, min-p 0.05; penalties over 64 tokens. */
int gen_defaults(struct samp_opt *o, const struct gguf *g, struct err *e);

/* Text with stop strings: holds back only a tail that can still become one; the earliest match wins. */
struct stops {
    const char *const *v; /* borrowed */
    uint32_t n;
    struct buf hold;
    bool hit;
};
/* Adds text; appends what is now certain to out. After a match (hit) nothing more comes out. */
void stops_put(struct stops *s, struct buf *out, const char *p, size_t n);
void stops_end(struct stops *s, struct buf *out); /* nothing more comes: what was held back is certain */
void stops_free(struct stops *s);
