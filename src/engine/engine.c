#include "engine/engine.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include <stdio.h>
#include <string.h>

/* ---- opening */

struct load {
    struct engine *g;
    struct progress bar;
    uint64_t done;
    struct err *e;
};

/* One matrix onto the device; the file's pages it was read from are given back, so that weights are resident once. */
static int load_mat(void *ud, struct mat *m, const char *name)
{
    struct load *l = ud;
    struct engine *g = l->g;
    int rc = g->dev.op->mat_load(&g->dev, m, l->e);
    if (rc < 0) {
        err_prefix(l->e, "%s: tensor %s", g->gguf.path, name);
        return rc;
    }
    if (m->layout) {
        const struct os_map *map = &g->gguf.map[m->src->file];
        os_map_drop(map, (size_t)((const uint8_t *)m->file - map->p), m->row_bytes * m->rows);
    }
    l->done += mat_file_bytes(m);
    progress_at(&l->bar, l->done);
    return g->stop && *g->stop ? err_set(l->e, E_AGAIN, "stopped while loading") : OK;
}

static void put_mb(char *s, size_t n, uint64_t b) { snprintf(s, n, b >= 10000000000u ? "%.1f GB" : "%.2f GB", (double)b * 1e-9); }

/* Decides the context and refuses what cannot fit, before anything large is taken. */
static int plan_memory(struct engine *g, const struct engine_opt *o, enum kv_fmt fmt, struct err *e)
{
    const struct model_shape *m = &g->shape;
    uint64_t avail = os_mem_avail(), w = g->w.matrix_bytes, per = shape_kv_bytes(m, kv_elem_bytes(fmt));
    uint64_t acts = acts_bytes(m, g->max_tok, MAX(o->max_out, g->max_seq));
    char a[32], b[32], c[32];
    put_mb(c, sizeof c, avail);
    if (w > avail || acts > avail - w) {
        put_mb(a, sizeof a, w);
        return err_set(e, E_NOMEM, "%s: %s of weights do not fit the %s of memory that are available", g->gguf.path, a, c);
    }
    uint64_t left = avail - w - acts, fit = left / per / g->max_seq;
    if (o->ctx) {
        if (o->ctx > fit) {
            put_mb(a, sizeof a, per * o->ctx * g->max_seq);
            put_mb(b, sizeof b, left);
            return err_set(e, E_NOMEM, "%s: a context of %u tokens needs %s of KV cache, %s are left: --ctx %llu would fit", g->gguf.path, o->ctx, a, b,
                           (unsigned long long)MIN(fit, (uint64_t)UINT32_MAX));
        }
        if (o->ctx > m->max_pos)
            log_line(LOG_WARN, "context %u is longer than the %u the model was made for", o->ctx, m->max_pos);
        g->ctx = o->ctx;
        return OK;
    }
    uint64_t half = left / 2 / per / g->max_seq;
    if (half < 16) return err_set(e, E_NOMEM, "%s: no memory for a KV cache beside the weights (%s available)", g->gguf.path, c);
    g->ctx = (uint32_t)MIN((uint64_t)m->max_pos, half);
    return OK;
}

static int open_all(struct engine *g, const struct engine_opt *o, struct err *e)
{
    uint64_t t0 = os_now_ns();
    TRY(gguf_open(&g->gguf, o->path, e));
    TRY(shape_from_gguf(&g->shape, &g->gguf, e));
    TRY(weights_bind(&g->w, &g->shape, &g->gguf, e));
    int rc = tok_open_gguf(&g->tok, &g->gguf, e);
    if (rc < 0 && rc != E_AGAIN) return rc;
    if (rc == E_AGAIN && e) memcpy(g->no_tok, e->msg, sizeof g->no_tok);
    if (g->tok && tok_vocab(g->tok) > g->shape.V)
        return err_set(e, E_FORMAT, "%s: %u tokens in the vocabulary, %u rows in token_embd.weight", g->gguf.path, tok_vocab(g->tok), g->shape.V);

    enum isa best = kern_cpu_isa();
    g->isa = o->isa == ISA_N ? best : o->isa;
    if (g->isa > best) return err_set(e, E_UNSUP, "this CPU has no %s: the highest level is %s", isa_name(g->isa), isa_name(best));
    enum kv_fmt fmt = o->kv_fmt >= 0 ? (enum kv_fmt)o->kv_fmt : g->isa == ISA_REF ? KV_F32 : KV_BF16;
    g->n_thread = o->n_thread ? o->n_thread : os_n_cpu();
    g->max_tok = o->max_tok ? o->max_tok : 512;
    g->max_seq = o->max_seq ? o->max_seq : 1;
    TRY(plan_memory(g, o, fmt, e));
    g->max_tok = MIN(g->max_tok, MAX(g->ctx, g->max_seq));

    uint32_t per_seq = ceil_div_u32(g->ctx, KERN_BLK);
    size_t n_blk;
    if (!mul_ok(per_seq, g->max_seq, &n_blk) || n_blk > UINT32_MAX / 2)
        return err_set(e, E_RANGE, "%u sequences of %u tokens are too many", g->max_seq, g->ctx);
    struct dev_opt dopt = {g->isa, g->n_thread, MAX(g->max_tok, g->max_seq), g->max_seq, (uint32_t)n_blk};
    TRY(dev_open(&g->dev, &dev_cpu, &dopt, &g->shape, &g->led, e));
    TRY(g->dev.op->model(&g->dev, &g->shape, g->w.rope_factors, e));

    struct load l = {.g = g, .e = e};
    if (!o->quiet) progress_begin(&l.bar, "loading", "B", g->w.matrix_bytes);
    rc = weights_each(&g->w, load_mat, &l);
    progress_end(&l.bar);
    TRY(rc);
    TRY(kv_open(&g->kv, &g->dev, (uint32_t)n_blk, fmt, e));
    uint32_t max_out = MAX(o->max_out ? o->max_out : g->max_seq, 1u);
    TRY(acts_open(&g->rank.a, &g->dev, dopt.max_tok, max_out, e));

    g->b_blk_cap = (uint32_t)n_blk;
    g->b_tok = mem_alloc(dopt.max_tok, sizeof *g->b_tok);
    g->b_pos = mem_alloc(dopt.max_tok, sizeof *g->b_pos);
    g->b_qoff = mem_alloc(g->max_seq + 1, sizeof *g->b_qoff);
    g->b_blkoff = mem_alloc(g->max_seq, sizeof *g->b_blkoff);
    g->b_out = mem_alloc(MAX(max_out, dopt.max_tok), sizeof *g->b_out);
    g->b_blk = mem_alloc(n_blk, sizeof *g->b_blk);
    if (!g->b_tok || !g->b_pos || !g->b_qoff || !g->b_blkoff || !g->b_out || !g->b_blk)
        return err_set(e, E_NOMEM, "no memory for batches of %u tokens", dopt.max_tok);

    static const int self_peer = 0;
    static const enum led_dom self_dom = LED_DEV;
    wire_self_open(&g->wire);
    g->rank.m = &g->shape;
    g->rank.w = &g->w;
    g->rank.dev = &g->dev;
    g->rank.kv = &g->kv.view;
    g->rank.tp = (struct group){.w = &g->wire, .led = &g->led, .rank = 0, .size = 1, .peer = &self_peer, .dom = &self_dom};
    g->load_ns = os_now_ns() - t0;
    return OK;
}

int engine_open(struct engine **out, const struct engine_opt *o, struct err *e)
{
    *out = NULL;
    struct engine *g = mem_zalloc(1, sizeof *g);
    if (!g) return err_set(e, E_NOMEM, "no memory for an engine");
    int rc = open_all(g, o, e);
    if (rc < 0) {
        engine_close(g);
        return rc;
    }
    *out = g;
    return OK;
}

void engine_close(struct engine *g)
{
    if (!g) return;
    if (g->dev.op) {
        if (g->rank.a.max_tok) acts_close(&g->rank.a, &g->dev);
        if (g->kv.dev) kv_close(&g->kv);
        dev_close(&g->dev);
    }
    mem_free(g->b_tok);
    mem_free(g->b_pos);
    mem_free(g->b_qoff);
    mem_free(g->b_blkoff);
    mem_free(g->b_out);
    mem_free(g->b_blk);
    if (g->tok) tok_close(g->tok);
    weights_free(&g->w);
    gguf_close(&g->gguf);
    mem_free(g);
}

/* ---- steps */

static bool stopped(const struct engine *g) { return g->stop && *g->stop; }

static struct batch batch_one(struct engine *g, struct seq *s, const int32_t *id, uint32_t n)
{
    memcpy(g->b_tok, id, n * sizeof *id);
    for (uint32_t i = 0; i < n; i++) g->b_pos[i] = s->n_done + i;
    g->b_qoff[0] = 0;
    g->b_qoff[1] = n;
    g->b_blkoff[0] = 0;
    return (struct batch){.n_tok = n, .n_seq = 1, .tok = g->b_tok, .pos = g->b_pos, .q_off = g->b_qoff, .blk = s->blk, .blk_off = g->b_blkoff,
                          .out_row = g->b_out, .step = g->step_no++};
}

static int check_ids(const struct engine *g, const int32_t *id, uint32_t n, struct err *e)
{
    for (uint32_t i = 0; i < n; i++)
        if (id[i] < 0 || (uint32_t)id[i] >= g->shape.V)
            return err_set(e, E_RANGE, "token id %d is outside the vocabulary of %u", id[i], g->shape.V);
    return OK;
}

/* The ids behind what s holds, in chunks. row NULL: logits of the last id alone are left; else of every row, handed to row chunk by chunk. */
static int run_chunks(struct engine *g, struct seq *s, const int32_t *id, uint32_t n, uint32_t n_dec, engine_row *row, void *ud, struct err *e)
{
    TRY(check_ids(g, id, n, e));
    TRY(seq_reserve(s, &g->kv, s->n_done + n, e));
    uint32_t most = row ? MIN(g->max_tok, g->rank.a.max_out) : g->max_tok;
    for (uint32_t at = 0; at < n;) {
        if (stopped(g)) return err_set(e, E_AGAIN, "stopped");
        uint32_t k = MIN(n - at, most);
        struct batch b = batch_one(g, s, id + at, k);
        b.n_dec = n_dec;
        if (row) {
            for (uint32_t i = 0; i < k; i++) g->b_out[i] = i;
            b.n_out = k;
        } else if (at + k == n) {
            g->b_out[0] = k - 1;
            b.n_out = 1;
        }
        TRY(fwd_step(&g->rank, &b, e));
        s->n_done += k;
        if (row) TRY(row(ud, at, k, g->rank.a.logits));
        at += k;
    }
    return OK;
}

int engine_feed(struct engine *g, struct seq *s, const int32_t *id, uint32_t n, bool decode, struct err *e)
{
    CHECK(n > 0);
    TRY(run_chunks(g, s, id, n, decode && n == 1 ? 1 : 0, NULL, NULL, e));
    if (decode) g->led.tok_out += n;
    return OK;
}

int engine_score(struct engine *g, struct seq *s, const int32_t *id, uint32_t n, engine_row *row, void *ud, struct err *e)
{
    return run_chunks(g, s, id, n, 0, row, ud, e);
}

int engine_decode(struct engine *g, struct seq *const *s, const int32_t *id, uint32_t n_seq, struct err *e)
{
    CHECK(n_seq > 0 && n_seq <= g->max_seq && n_seq <= g->rank.a.max_out);
    TRY(check_ids(g, id, n_seq, e));
    uint32_t nb = 0;
    for (uint32_t i = 0; i < n_seq; i++) {
        TRY(seq_reserve(s[i], &g->kv, s[i]->n_done + 1, e));
        g->b_tok[i] = id[i];
        g->b_pos[i] = s[i]->n_done;
        g->b_qoff[i] = i;
        g->b_blkoff[i] = nb;
        g->b_out[i] = i;
        CHECK(nb + s[i]->n_blk <= g->b_blk_cap);
        memcpy(g->b_blk + nb, s[i]->blk, s[i]->n_blk * sizeof *g->b_blk);
        nb += s[i]->n_blk;
    }
    g->b_qoff[n_seq] = n_seq;
    struct batch b = {.n_tok = n_seq, .n_seq = n_seq, .n_dec = n_seq, .tok = g->b_tok, .pos = g->b_pos, .q_off = g->b_qoff, .blk = g->b_blk,
                      .blk_off = g->b_blkoff, .out_row = g->b_out, .n_out = n_seq, .step = g->step_no++};
    TRY(fwd_step(&g->rank, &b, e));
    for (uint32_t i = 0; i < n_seq; i++) s[i]->n_done++;
    g->led.tok_out += n_seq;
    return OK;
}

void engine_memory(const struct engine *g, struct engine_mem *m)
{
    uint32_t used = g->kv.view.n_blk - g->kv.n_free;
    *m = (struct engine_mem){.weights = g->dev.w_bytes ? g->dev.w_bytes : g->w.matrix_bytes, .kv = g->kv.slab_bytes,
                             .kv_used = (uint64_t)used * g->kv.view.blk_bytes * g->shape.L, .acts = g->rank.a.bytes, .peak = os_peak_rss()};
    uint64_t known = m->weights + m->kv_used + m->acts;
    m->rest = m->peak > known ? m->peak - known : 0;
}
