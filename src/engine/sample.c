#include "engine/sample.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int samp_init(struct sampler *s, const struct samp_opt *o, uint32_t V, struct err *e)
{
    *s = (struct sampler){.o = *o, .V = V};
    if (o->repeat == 1.0f && o->frequency == 0.0f && o->presence == 0.0f) s->o.last_n = 0;
    s->row = mem_alloc(V, sizeof *s->row);
    s->cand = mem_alloc(V, sizeof *s->cand);
    s->hist = mem_alloc(MAX(s->o.last_n, 1u), sizeof *s->hist);
    s->seen = mem_zalloc(V, sizeof *s->seen);
    if (s->row && s->cand && s->hist && s->seen) return OK;
    samp_free(s);
    return err_set(e, E_NOMEM, "no memory for sampling over %u tokens", V);
}

void samp_free(struct sampler *s)
{
    mem_free(s->row);
    mem_free(s->cand);
    mem_free(s->hist);
    mem_free(s->seen);
    *s = (struct sampler){0};
}

void samp_accept(struct sampler *s, int32_t id)
{
    if (s->o.last_n == 0 || id < 0 || (uint32_t)id >= s->V) return;
    if (s->n_hist == s->o.last_n)
        s->seen[s->hist[s->at]]--;
    else
        s->n_hist++;
    s->hist[s->at] = id;
    s->seen[id]++;
    s->at = (s->at + 1) % s->o.last_n;
}

void samp_reset(struct sampler *s)
{
    s->n_hist = s->at = 0;
    memset(s->seen, 0, s->V * sizeof *s->seen);
}

static uint64_t mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
double samp_uniform(uint64_t seed, uint64_t counter) { return (double)(mix(mix(seed) ^ counter * 0xD1B54A32D192ED03u) >> 11) * 0x1p-53; }

static int32_t argmax(const float *x, uint32_t n)
{
    int32_t best = 0;
    float m = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        if (x[i] > m) {
            m = x[i];
            best = (int32_t)i;
        }
    return best;
}

/* Bias and penalties; history is at most last_n ids, so they are walked instead of the vocabulary. */
static void adjust(struct sampler *s)
{
    float *x = s->row;
    for (uint32_t i = 0; i < s->o.n_bias; i++)
        if (s->o.bias[i].id >= 0 && (uint32_t)s->o.bias[i].id < s->V) x[s->o.bias[i].id] += s->o.bias[i].bias;
    for (uint32_t i = 0; i < s->n_hist; i++) {
        int32_t id = s->hist[i];
        uint16_t k = s->seen[id];
        if (k & 0x8000) continue; /* done: the same id stands in the history more than once */
        s->seen[id] |= 0x8000;
        x[id] = x[id] > 0 ? x[id] / s->o.repeat : x[id] * s->o.repeat; /* Keskar et al. 2019 (CTRL), section 4.1 */
        x[id] -= (float)k * s->o.frequency + s->o.presence;            /* OpenAI API reference */
    }
    for (uint32_t i = 0; i < s->n_hist; i++) s->seen[s->hist[i]] &= 0x7fff;
}

static int by_p(const void *a, const void *b)
{
    const struct samp_cand *x = a, *y = b;
    if (x->p != y->p) return x->p < y->p ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Narrow the n candidates to the fewest largest that hold at least `mass` of the sum (or to the k largest, mass < 0), sorted. A histogram over
 * powers of two finds the few worth sorting, so a flat nucleus costs a sort and a peaked one does not. */
static uint32_t keep_top(struct samp_cand *c, uint32_t n, double mass, uint32_t k)
{
    enum { BINS = 160 };
    double sum[BINS] = {0}, all = 0;
    uint32_t cnt[BINS] = {0};
    float top = 0;
    for (uint32_t i = 0; i < n; i++) top = fmaxf(top, c[i].p);
    for (uint32_t i = 0; i < n; i++) {
        int ex;
        (void)frexpf(c[i].p / top, &ex);
        uint32_t b = c[i].p > 0 ? MIN((uint32_t)(1 - ex), (uint32_t)BINS - 1) : BINS - 1;
        sum[b] += (double)c[i].p;
        cnt[b]++;
        all += (double)c[i].p;
    }
    double s = 0;
    uint32_t m = 0, last = 0;
    for (; last < BINS; last++) {
        s += sum[last];
        m += cnt[last];
        if (mass >= 0 ? s >= mass * all : m >= k) break;
    }
    uint32_t w = 0;
    for (uint32_t i = 0; i < n; i++) {
        int ex;
        (void)frexpf(c[i].p / top, &ex);
        uint32_t b = c[i].p > 0 ? MIN((uint32_t)(1 - ex), (uint32_t)BINS - 1) : BINS - 1;
        if (b <= last) c[w++] = c[i];
    }
    qsort(c, w, sizeof *c, by_p);
    if (mass < 0) return MIN(w, k);
    s = 0;
    for (uint32_t i = 0; i < w; i++) {
        s += (double)c[i].p;
        if (s >= mass * all) return i + 1;
    }
    return w;
}

/* Locally typical sampling (Meister et al. 2022): keep the tokens whose surprise is nearest to the entropy until they hold `mass`. */
static uint32_t keep_typical(struct samp_cand *c, uint32_t n, float *dev, double mass)
{
    double all = 0, h = 0;
    for (uint32_t i = 0; i < n; i++) all += (double)c[i].p;
    for (uint32_t i = 0; i < n; i++)
        if (c[i].p > 0) h -= (double)c[i].p / all * log((double)c[i].p / all);
    /* Sort by deviation with the probability carried along: negative deviation as key. */
    for (uint32_t i = 0; i < n; i++) dev[c[i].id] = c[i].p;
    for (uint32_t i = 0; i < n; i++) c[i].p = c[i].p > 0 ? -(float)fabs(-log((double)c[i].p / all) - h) : -INFINITY;
    qsort(c, n, sizeof *c, by_p);
    double s = 0;
    uint32_t w = 0;
    while (w < n) {
        c[w].p = dev[c[w].id];
        s += (double)c[w++].p;
        if (s >= mass * all) break;
    }
    return w;
}

int32_t samp_pick(struct sampler *s, const float *logits, uint32_t pos)
{
    const struct samp_opt *o = &s->o;
    const float *x = logits;
    if (o->n_bias || s->n_hist) {
        memcpy(s->row, logits, s->V * sizeof *s->row);
        adjust(s);
        x = s->row;
    }
    int32_t best = argmax(x, s->V);
    if (o->temp <= 1e-5f || o->top_k == 1) return best;
    float top = x[best];
    if (!(top > -INFINITY) || top == INFINITY) return best;

    uint32_t n = 0;
    float it = 1.0f / o->temp;
    struct samp_cand *c = s->cand;
    for (uint32_t i = 0; i < s->V; i++) {
        float z = (x[i] - top) * it;
        if (z > -87.0f) c[n++] = (struct samp_cand){expf(z), (int32_t)i}; /* below: p < 2^-125, never drawn */
    }
    if (o->top_k && o->top_k < n) n = keep_top(c, n, -1, o->top_k);
    if (o->top_p < 1.0f) n = keep_top(c, n, (double)o->top_p, 0);
    if (o->min_p > 0.0f) {
        uint32_t w = 0;
        for (uint32_t i = 0; i < n; i++)
            if (c[i].p >= o->min_p) c[w++] = c[i]; /* the largest p is 1 */
        n = w;
    }
    if (o->typical < 1.0f && n > 1) n = keep_typical(c, n, s->row, (double)o->typical);
    double all = 0, u = samp_uniform(o->seed, pos), run = 0;
    for (uint32_t i = 0; i < n; i++) all += (double)c[i].p;
    for (uint32_t i = 0; i < n; i++) {
        run += (double)c[i].p;
        if (u * all < run) return c[i].id;
    }
    return n ? c[n - 1].id : best;
}
