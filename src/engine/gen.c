#include "engine/gen.h"
#include "base/mem.h"
#include "base/os.h"
#include <string.h>

const char *gen_end_name(enum gen_end e)
{
    static const char *const n[] = {"stop", "length", "cancelled"};
    return n[e];
}

void gen_result_free(struct gen_result *r)
{
    ids_free(&r->out);
    buf_free(&r->text);
    mem_free(r->logprob);
    mem_free(r->alt);
    *r = (struct gen_result){0};
}

/* ---- stop strings */

void stops_free(struct stops *s)
{
    buf_free(&s->hold);
    *s = (struct stops){0};
}

void stops_put(struct stops *s, struct buf *out, const char *p, size_t n)
{
    if (s->hit) return;
    if (s->n == 0) {
        buf_put(out, p, n);
        return;
    }
    buf_put(&s->hold, p, n);
    size_t len = s->hold.n, at = len;
    const char *h = s->hold.p;
    for (uint32_t i = 0; i < s->n; i++) { /* the earliest whole match */
        size_t k = strlen(s->v[i]);
        if (k == 0 || k > len) continue;
        const char *m = memmem(h, MIN(at + k, len), s->v[i], k);
        if (m && (size_t)(m - h) <= at) {
            at = (size_t)(m - h);
            s->hit = true;
        }
    }
    if (s->hit) {
        buf_put(out, h, at);
        buf_clear(&s->hold);
        return;
    }
    size_t keep = 0; /* the longest tail that begins some stop string */
    for (uint32_t i = 0; i < s->n; i++) {
        size_t k = strlen(s->v[i]);
        for (size_t t = MIN(k ? k - 1 : 0, len); t > keep; t--)
            if (memcmp(h + len - t, s->v[i], t) == 0) keep = t;
    }
    buf_put(out, h, len - keep);
    memmove(s->hold.p, h + len - keep, keep);
    s->hold.n = keep;
}

void stops_end(struct stops *s, struct buf *out)
{
    if (!s->hit && s->hold.n) buf_put(out, s->hold.p, s->hold.n);
    buf_clear(&s->hold);
}

/* ---- generation */

int gen_defaults(struct samp_opt *o, const struct gguf *g, struct err *e)
{
    *o = (struct samp_opt){.temp = 0.7f, .top_p = 0.95f, .min_p = 0.05f, .typical = 1, .repeat = 1, .last_n = 64};
    struct {
        const char *key;
        float *v;
        double lo, hi;
    } f[] = {{"general.sampling.temp", &o->temp, 0, 100},
             {"general.sampling.top_p", &o->top_p, 0, 1},
             {"general.sampling.min_p", &o->min_p, 0, 1},
             {"general.sampling.penalty_repeat", &o->repeat, 0.01, 100}};
    for (size_t i = 0; i < ARRAY_LEN(f); i++) {
        double v;
        int k = gguf_f64(g, f[i].key, &v, e);
        if (k < 0) return k;
        if (k == 0) continue;
        if (!(v >= f[i].lo && v <= f[i].hi))
            return err_set(e, E_FORMAT, "%s: %s is %g, %g to %g is expected", g->path, f[i].key, v, f[i].lo, f[i].hi);
        *f[i].v = (float)v;
    }
    uint64_t u;
    int k = gguf_u64(g, "general.sampling.top_k", 0, INT32_MAX, &u, e);
    if (k < 0) return k;
    if (k) o->top_k = (uint32_t)u;
    k = gguf_u64(g, "general.sampling.penalty_last_n", 0, 1u << 20, &u, e);
    if (k < 0) return k;
    if (k) o->last_n = (uint32_t)u;
    return OK;
}

struct gen {
    struct engine *g;
    const struct gen_opt *o;
    struct gen_result *r;
    struct sampler samp;
    struct tok_stream ts;
    struct stops stops;
    struct buf piece, safe;
    struct cand cand;
};

static void emit(struct gen *x, struct buf *safe)
{
    if (safe->n == 0) return;
    buf_put(&x->r->text, safe->p, safe->n);
    if (x->o->emit) x->o->emit(x->o->ud, safe->p, safe->n);
    buf_clear(safe);
}

static int note_logprobs(struct gen *x, int32_t id)
{
    uint32_t k = x->o->logprobs, i = (uint32_t)x->r->out.n;
    if (k == 0) return OK;
    const float *row = engine_logits(x->g, 0);
    dev_kern(&x->g->dev)->topk(x->cand.val, x->cand.id, k, &x->cand.max, &x->cand.lse, row, x->g->shape.V);
    x->r->logprob[i] = row[id] - x->cand.lse;
    for (uint32_t j = 0; j < k; j++) x->r->alt[(size_t)i * k + j] = (struct gen_alt){x->cand.id[j], x->cand.val[j] - x->cand.lse};
    return OK;
}

/* One sampled token: false when it ends the text. */
static int take(struct gen *x, int32_t id, bool *more, struct err *e)
{
    TRY(note_logprobs(x, id));
    TRY(ids_push(&x->r->out, id, e));
    samp_accept(&x->samp, id);
    *more = true;
    if (!x->g->tok) return OK;
    if (tok_is_end(x->g->tok, id) && !x->o->ignore_eos) {
        x->r->end = GEN_STOP;
        *more = false;
        return OK;
    }
    buf_clear(&x->piece);
    tok_stream_put(&x->ts, &x->piece, id);
    stops_put(&x->stops, &x->safe, x->piece.p ? x->piece.p : "", x->piece.n);
    emit(x, &x->safe);
    if (x->stops.hit) {
        x->r->end = GEN_STOP;
        *more = false;
    }
    return OK;
}

static int run(struct gen *x, struct seq *seq, const int32_t *prompt, uint32_t n, struct err *e)
{
    struct engine *g = x->g;
    struct gen_result *r = x->r;
    uint32_t room = g->ctx - seq->n_done - n, max = x->o->n ? MIN(x->o->n, room + 1) : room + 1;
    /* everything that grows is sized now: steady decode allocates nothing */
    size_t text = (size_t)MIN(max, 65536u) * 16 + 4096;
    r->out.v = mem_alloc(max, sizeof *r->out.v);
    r->out.cap = r->out.v ? max : 0;
    if (!r->out.v || !buf_reserve(&r->text, text) || !buf_reserve(&x->piece, 65536) || !buf_reserve(&x->safe, 65536) ||
        !buf_reserve(&x->stops.hold, 65536))
        return err_set(e, E_NOMEM, "no memory for the answer");
    if (x->o->logprobs) {
        r->logprob = mem_alloc(max, sizeof *r->logprob);
        r->alt = mem_alloc((size_t)max * x->o->logprobs, sizeof *r->alt);
        x->cand.val = mem_alloc(x->o->logprobs, sizeof(float));
        x->cand.id = mem_alloc(x->o->logprobs, sizeof(int32_t));
        if (!r->logprob || !r->alt || !x->cand.val || !x->cand.id) return err_set(e, E_NOMEM, "no memory for log probabilities");
    }
    for (uint32_t i = 0; i < n; i++) samp_accept(&x->samp, prompt[i]);

    uint64_t t0 = os_now_ns();
    int rc = engine_feed(g, seq, prompt, n, false, e);
    uint64_t t1 = os_now_ns();
    r->prefill_ns = t1 - t0;
    r->end = GEN_LENGTH;
    while (rc == OK) {
        int32_t id = samp_pick(&x->samp, engine_logits(g, 0), seq->n_done);
        bool more;
        TRY(take(x, id, &more, e));
        if (!more || r->out.n >= max) break;
        rc = engine_feed(g, seq, &id, 1, true, e);
        if (rc == OK) r->n_decode++;
    }
    r->decode_ns = os_now_ns() - t1;
    if (rc == E_AGAIN && g->stop && *g->stop) {
        r->end = GEN_CANCELLED;
        rc = OK;
    }
    if (rc < 0) return rc;
    if (r->end != GEN_STOP && g->tok) {
        buf_clear(&x->piece);
        tok_stream_end(&x->ts, &x->piece);
        stops_put(&x->stops, &x->safe, x->piece.p ? x->piece.p : "", x->piece.n);
    }
    stops_end(&x->stops, &x->safe);
    emit(x, &x->safe);
    return buf_ok(&r->text) && buf_ok(&x->safe) ? OK : err_set(e, E_NOMEM, "no memory for the answer's text");
}

int gen_run(struct engine *g, struct seq *seq, const int32_t *prompt, uint32_t n, const struct gen_opt *o, struct gen_result *r, struct err *e)
{
    struct gen x = {.g = g, .o = o, .r = r, .stops = {.v = o->stop, .n = o->n_stop}};
    r->n_prompt = n;
    if (n == 0) return err_set(e, E_ARG, "the prompt has no tokens");
    if ((uint64_t)seq->n_done + n > g->ctx)
        return err_set(e, E_RANGE, "the prompt has %u tokens%s, the context holds %u", n, seq->n_done ? " behind those already there" : "", g->ctx);
    if (o->logprobs > g->shape.V) return err_set(e, E_RANGE, "%u log probabilities of a vocabulary of %u", o->logprobs, g->shape.V);
    if (g->tok) tok_stream_init(&x.ts, g->tok, false, false);
    int rc = samp_init(&x.samp, &o->samp, g->shape.V, e);
    if (rc == OK) rc = run(&x, seq, prompt, n, e);
    samp_free(&x.samp);
    stops_free(&x.stops);
    buf_free(&x.piece);
    buf_free(&x.safe);
    mem_free(x.cand.val);
    mem_free(x.cand.id);
    return rc;
}
