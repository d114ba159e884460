/* cmd_bench.c: hearth bench: prefill, decode and batch speed of a model file, and the machine's own limits measured in the same process in rounds
 * between the work, so that every speed is also a share of what the machine could do at best.
 *
 * share_of_limit = t_limit / t_measured, t_limit = max(bytes / read, linear_ops / peak + attention_ops / bf16 peak). bytes: the file's bytes of every matrix
 * used in the step, once (a tied one once, an untied embedding not), plus KV read; linear_ops: 2 x weights x rows, output matrix only for rows that are
 * sampled. On a machine whose speed wanders each run is held against the mean of the limits measured right before and right after it, and the median share is
 * reported; "limits" are the best of all rounds. peak: of the unit that the kernels of this level multiply this weight type with (printed as "limit"). */
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "cmd/common.h"
#include "kern/limits.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REPEAT 100u

struct work {
    bool decode;
    uint32_t batch, tokens, context; /* sequences, tokens per sequence, positions before */
    double tps[MAX_REPEAT];
    double s[MAX_REPEAT];
    double bytes, linear, attention; /* of the whole measurement */
    double share[MAX_REPEAT];        /* of the limits around each run */
};

struct bench {
    struct engine *g;
    struct seq *seq; /* [max batch] */
    uint32_t n_seq;
    int32_t *id;
    struct limits lim;
    enum act_fmt act;   /* of most weight bytes */
    const char *dtype;
    double w_bytes, w_count, out_count; /* layer matrices: bytes with output, weights without output */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(const double *v, uint32_t n)
{
    double t[MAX_REPEAT];
    memcpy(t, v, n * sizeof *t);
    qsort(t, n, sizeof *t, by_value);
    return n % 2 ? t[n / 2] : (t[n / 2 - 1] + t[n / 2]) / 2;
}
static double least(const double *v, uint32_t n)
{
    double m = v[0];
    for (uint32_t i = 1; i < n; i++) m = MIN(m, v[i]);
    return m;
}
static double most(const double *v, uint32_t n)
{
    double m = v[0];
    for (uint32_t i = 1; i < n; i++) m = MAX(m, v[i]);
    return m;
}

/* Which weight type the step's bytes are mostly of, and what the kernels multiply it with. */
struct tally {
    uint64_t bytes[DT_N];
    double layers, out;
    struct engine *g;
};
static int tally_mat(void *ud, struct mat *m, const char *name)
{
    (void)name;
    struct tally *t = ud;
    t->bytes[m->dt] += mat_file_bytes(m);
    double n = (double)m->rows * m->cols;
    if (m == &t->g->w.out)
        t->out += n;
    else
        t->layers += n;
    return OK;
}

static void fill_ids(struct bench *b, uint32_t n, uint32_t salt)
{
    uint64_t z = 0x9E3779B97F4A7C15u + salt;
    for (uint32_t i = 0; i < n; i++) {
        z = z * 6364136223846793005u + 1442695040888963407u;
        b->id[i] = (int32_t)((z >> 33) % b->g->shape.V);
    }
}

/* KV bytes and attention flops of one row at position pos, all layers. */
static double kv_of(const struct bench *b, double pos)
{
    const struct model_shape *m = &b->g->shape;
    double seen = m->window ? MIN(pos + 1, (double)m->window) : pos + 1;
    return seen * (double)shape_kv_bytes(m, kv_elem_bytes(b->g->kv.view.fmt));
}
static double attn_of(const struct bench *b, double pos)
{
    const struct model_shape *m = &b->g->shape;
    double seen = m->window ? MIN(pos + 1, (double)m->window) : pos + 1;
    return 4.0 * seen * m->H * m->E * m->L;
}

static int fill_context(struct bench *b, uint32_t s, uint32_t n, struct err *e)
{
    seq_cut(&b->seq[s], &b->g->kv, 0);
    if (n == 0) return OK;
    fill_ids(b, n, s);
    return engine_feed(b->g, &b->seq[s], b->id, n, false, e);
}

static int measure(struct bench *b, struct work *w, uint32_t rep, struct err *e)
{
    struct engine *g = b->g;
    for (uint32_t s = 0; s < w->batch; s++) TRY(fill_context(b, s, w->context, e));
    w->bytes = w->linear = w->attention = 0;
    uint64_t t0;
    if (!w->decode) {
        fill_ids(b, w->tokens, 1000 + rep);
        t0 = os_now_ns();
        TRY(engine_feed(g, &b->seq[0], b->id, w->tokens, false, e));
        double steps = ceil_div_u32(w->tokens, g->max_tok);
        w->bytes = b->w_bytes * steps;
        w->linear = 2 * b->w_count * w->tokens + 2 * b->out_count;
        for (uint32_t i = 0; i < w->tokens; i++) w->attention += attn_of(b, w->context + i);
        w->bytes += kv_of(b, w->context + w->tokens - 1);
    } else {
        struct seq *sp[256];
        int32_t id[256];
        for (uint32_t s = 0; s < w->batch; s++) sp[s] = &b->seq[s];
        t0 = os_now_ns();
        for (uint32_t i = 0; i < w->tokens; i++) {
            for (uint32_t s = 0; s < w->batch; s++) id[s] = (int32_t)((s * 7919 + i * 104729 + rep) % g->shape.V);
            TRY(engine_decode(g, sp, id, w->batch, e));
            w->bytes += b->w_bytes + w->batch * kv_of(b, w->context + i);
            w->linear += 2 * (b->w_count + b->out_count) * w->batch;
            w->attention += w->batch * attn_of(b, w->context + i);
            if (cmd_stop) return err_set(e, E_AGAIN, "stopped");
        }
    }
    w->s[rep] = (double)(os_now_ns() - t0) * 1e-9;
    w->tps[rep] = (double)w->tokens * w->batch / w->s[rep];
    for (uint32_t s = 0; s < w->batch; s++) seq_cut(&b->seq[s], &g->kv, 0);
    return OK;
}

static const char *unit_name(const struct bench *b) { return b->act == ACT_Q8 ? "int8" : b->act == ACT_BF16 ? "bf16" : "f32"; }
static double unit_peak(const struct bench *b, const struct limits *l)
{
    return 1e9 * (b->act == ACT_Q8 ? l->int8_gops : b->act == ACT_BF16 ? l->bf16_gflops : l->f32_gflops);
}

/* Seconds at the machine's limit, and which limit it is. */
static double at_limit(const struct bench *b, const struct limits *l, const struct work *w, const char **what)
{
    double attn_peak = 1e9 * (b->act == ACT_F32 ? l->f32_gflops : l->bf16_gflops);
    double mem = w->bytes / (l->read_gbs * 1e9), ops = w->linear / unit_peak(b, l) + w->attention / attn_peak;
    *what = mem >= ops ? "read" : unit_name(b);
    return MAX(mem, ops);
}

static void print_text(const struct bench *b, const struct work *w, uint32_t n, uint32_t rep)
{
    const struct limits *l = &b->lim;
    printf("%s, %s, isa %s, %u threads, weights %.2f GB\n", b->g->shape.name[0] ? b->g->shape.name : b->g->gguf.path, b->dtype, isa_name(b->g->isa), b->g->n_thread,
           b->w_bytes * 1e-9);
    printf("limits: read %.1f GB/s, f32 %.0f, bf16 %.0f GFLOP/s, int8 %.0f GOP/s, join %.0f ns\n", l->read_gbs, l->f32_gflops, l->bf16_gflops, l->int8_gops, l->join_ns);
    printf("%-8s %6s %7s %8s %12s %21s  %-5s %6s\n", "work", "batch", "tokens", "context", "tokens/s", "[min, max]", "limit", "share");
    for (uint32_t i = 0; i < n; i++) {
        const char *what;
        at_limit(b, l, &w[i], &what);
        printf("%-8s %6u %7u %8u %12.1f   [%8.1f, %8.1f]  %-5s %5.1f %%\n", w[i].decode ? "decode" : "prefill", w[i].batch, w[i].tokens, w[i].context,
               median(w[i].tps, rep), least(w[i].tps, rep), most(w[i].tps, rep), what, 100 * median(w[i].share, rep));
    }
}

static void print_json(const struct bench *b, const struct work *w, uint32_t n, uint32_t rep)
{
    const struct limits *l = &b->lim;
    struct buf o = {0};
    buf_printf(&o, "{\"limits\":{\"read_gbs\":%.3f,\"bf16_gflops\":%.1f,\"int8_gops\":%.1f,\"f32_gflops\":%.1f,\"join_ns\":%.1f},\"results\":[", l->read_gbs,
               l->bf16_gflops, l->int8_gops, l->f32_gflops, l->join_ns);
    for (uint32_t i = 0; i < n; i++) {
        const char *what;
        at_limit(b, l, &w[i], &what);
        buf_printf(&o, "%s{\"work\":\"%s\",\"shape\":", i ? "," : "", w[i].decode ? "decode" : "prefill");
        buf_json_str(&o, b->g->shape.name, strlen(b->g->shape.name));
        buf_printf(&o, ",\"precision\":\"%s\",\"batch\":%u,\"tokens\":%u,\"context\":%u,\"threads\":%u,\"isa\":\"%s\",\"repeat\":%u", b->dtype, w[i].batch, w[i].tokens,
                   w[i].context, b->g->n_thread, isa_name(b->g->isa), rep);
        buf_printf(&o, ",\"tokens_per_s\":%.3f,\"spread\":[%.3f,%.3f],\"bytes\":%.0f,\"ops\":%.0f,\"limit\":\"%s\",\"share_of_limit\":%.4f}", median(w[i].tps, rep),
                   least(w[i].tps, rep), most(w[i].tps, rep), w[i].bytes, w[i].linear + w[i].attention, what, median(w[i].share, rep));
    }
    buf_puts(&o, "]}\n");
    if (buf_ok(&o)) fwrite(o.p, 1, o.n, stdout);
    buf_free(&o);
}

int cmd_bench(const struct opts *o)
{
    struct err e = {0};
    struct bench b = {0};
    struct limits_run *lr = NULL;
    struct work *w = NULL;
    struct progress bar = {0};
    uint32_t n = 0, max_batch = 1, rep = MIN(MAX(o->repeat, 1u), MAX_REPEAT);
    int rc;
    for (uint32_t i = 0; i < o->batches.n; i++) {
        max_batch = MAX(max_batch, o->batches.v[i]);
        if (o->batches.v[i] > 256) {
            rc = err_set(&e, E_ARG, "--batch: %u sequences, at most 256 are measured", o->batches.v[i]);
            goto out;
        }
    }
    cmd_catch_int();
    struct opts oo = *o;
    uint32_t need = o->context + MAX(o->prefill, o->decode) + 1;
    oo.ctx = MAX(need, 64u);
    TRYG(cmd_engine(&b.g, &oo, max_batch, max_batch, MAX(MIN(o->prefill, 2048u), 512u), &e));
    b.seq = mem_zalloc(max_batch, sizeof *b.seq);
    b.id = mem_alloc(oo.ctx, sizeof *b.id);
    w = mem_zalloc(o->batches.n + 2, sizeof *w);
    if (!b.seq || !b.id || !w) {
        rc = err_set(&e, E_NOMEM, "no memory for the benchmark");
        goto out;
    }
    for (; b.n_seq < max_batch; b.n_seq++) TRYG(seq_init(&b.seq[b.n_seq], oo.ctx, &e));

    struct tally t = {.g = b.g};
    weights_each(&b.g->w, tally_mat, &t);
    enum dtype big = DT_F32;
    for (int k = 0; k < DT_N; k++)
        if (t.bytes[k] > t.bytes[big]) big = (enum dtype)k;
    b.dtype = dtype_name(big);
    b.act = dev_kern(&b.g->dev)->gemm[big].act;
    b.w_bytes = (double)b.g->w.matrix_bytes;
    b.w_count = t.layers;
    b.out_count = t.out;

    if (o->prefill) w[n++] = (struct work){.batch = 1, .tokens = o->prefill, .context = o->context};
    for (uint32_t i = 0; i < o->batches.n && o->decode; i++)
        w[n++] = (struct work){.decode = true, .batch = o->batches.v[i], .tokens = o->decode, .context = o->context};
    TRYG(limits_open(&lr, dev_pool(&b.g->dev), b.g->isa, 0, &e));
    if (!o->quiet) progress_begin(&bar, "measuring", "runs", (uint64_t)(rep + 1) * n);
    for (uint32_t i = 0; i < n; i++) TRYG(measure(&b, &w[i], 0, &e)); /* warm: first touch of every buffer */
    struct limits before, after;
    limits_round(lr);
    limits_last(lr, &before);
    for (uint32_t r = 0; r < rep; r++)
        for (uint32_t i = 0; i < n; i++) {
            const char *what;
            TRYG(measure(&b, &w[i], r, &e));
            limits_round(lr);
            limits_last(lr, &after);
            struct limits mid = {.read_gbs = (before.read_gbs + after.read_gbs) / 2, .f32_gflops = (before.f32_gflops + after.f32_gflops) / 2,
                                 .bf16_gflops = (before.bf16_gflops + after.bf16_gflops) / 2, .int8_gops = (before.int8_gops + after.int8_gops) / 2};
            w[i].share[r] = at_limit(&b, &mid, &w[i], &what) / w[i].s[r];
            before = after;
            progress_at(&bar, (uint64_t)(r + 1) * n + i + 1);
        }
    progress_end(&bar);
    limits_get(lr, &b.lim);
    if (o->json)
        print_json(&b, w, n, rep);
    else
        print_text(&b, w, n, rep);
out:
    progress_end(&bar);
    limits_close(lr);
    for (uint32_t i = 0; i < b.n_seq; i++) seq_free(&b.seq[i], &b.g->kv);
    mem_free(b.seq);
    mem_free(b.id);
    mem_free(w);
    engine_close(b.g);
    return rc < 0 ? cmd_fail(&e) : EXIT_OK;
}
