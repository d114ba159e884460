/* sample.h: logits -> token. Deterministic: the random number of a position depends on (seed, position) alone, so the same seed gives the same text whatever else runs.
 * Order, as in transformers' processors: logit bias, repetition / frequency / presence penalties (over the last `last_n` tokens, prompt included),
 * then temperature, top-k, top-p, min-p, typical, then the draw. Engine thread. */
#pragma once
#include "base/err.h"

struct samp_bias {
    int32_t id;
    float bias; /* -inf: never */
};
struct samp_opt {
    float temp;         /* <= 1e-5: greedy */
    uint32_t top_k;     /* 0: all */
    float top_p, min_p; /* 1, 0: off */
    float typical;      /* 1: off */
    float repeat, frequency, presence; /* 1, 0, 0: off */
    uint32_t last_n;    /* 0: no penalties */
    uint64_t seed;
    const struct samp_bias *bias; /* borrowed */
    uint32_t n_bias;
};
struct samp_cand {
    float p; /* or logit */
    int32_t id;
};
struct sampler {
    struct samp_opt o;
    uint32_t V;
    float *row;             /* [V] owned: the adjusted logits */
    struct samp_cand *cand; /* [V] owned */
    int32_t *hist;          /* [last_n] owned, ring */
    uint32_t n_hist, at;
    uint16_t *seen;         /* [V] owned: occurrences in hist */
};
int samp_init(struct sampler *s, const struct samp_opt *o, uint32_t V, struct err *e);
void samp_free(struct sampler *s);
/* A token became part of the sequence (prompt or output): counts for penalties. Ids outside the vocabulary are ignored. */
void samp_accept(struct sampler *s, int32_t id);
void samp_reset(struct sampler *s);
/* Picks the token at position pos from logits [V] (not changed). Never fails: if nothing is left (all -inf or NaN) the largest id-order-first logit wins. */
int32_t samp_pick(struct sampler *s, const float *logits, uint32_t pos);
/* Uniform in [0,1), 53 bits: counter-based (two rounds of the splitmix64 finaliser over seed and counter; Steele, Lea, Flood 2014). */
double samp_uniform(uint64_t seed, uint64_t counter);
