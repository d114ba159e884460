/* test_engine.c: the numerical contract as bits, on every ISA level: a sequence's logits depend on its ids alone, not on chunking, threads, neighbours or how the
 * decode steps are batched. Also: ledger of a dry pass equals the counted one, and steady decode allocates nothing. */
#include "base/half.h"
#include "engine/gen.h"
#include "gguf_make.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define N_ID 150u
static char dir[256];

static uint64_t rng = 88172645463325252u;
static uint64_t rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    return rng ^= rng << 17;
}
static float rndf(void) { return (float)((double)(rnd() >> 11) * 0x1p-53 - 0.5); }

/* Random rows of a type: random codes under small scales, so that activations stay tame. */
static void rows(struct buf *b, enum dtype t, uint32_t n_row, uint32_t cols)
{
    const struct dtype_info *d = &dtype_table[t];
    uint64_t blocks = (uint64_t)n_row * (cols / d->block);
    float s = 1.0f / sqrtf((float)cols);
    for (uint64_t i = 0; i < blocks; i++) {
        uint8_t x[256];
        for (uint32_t k = 0; k < d->bytes; k++) x[k] = (uint8_t)rnd();
        uint16_t h = f32_to_f16(s * 0.05f * (1 + rndf())), hm = f32_to_f16(s * 0.3f), hk = f32_to_f16(s * 0.004f);
        float f = 3.5f * s * rndf();
        switch (t) {
        case DT_F32: memcpy(x, &f, 4); break;
        case DT_F16: h = f32_to_f16(f); memcpy(x, &h, 2); break;
        case DT_BF16: h = f32_to_bf16(f); memcpy(x, &h, 2); break;
        case DT_Q8_0: h = f32_to_f16(s * 0.01f); memcpy(x, &h, 2); break;
        case DT_Q4_1: case DT_Q5_1: memcpy(x, &h, 2); hm = f32_to_f16(-s * 0.3f); memcpy(x + 2, &hm, 2); break;
        case DT_Q4_K: case DT_Q5_K: memcpy(x, &hk, 2); memcpy(x + 2, &hk, 2); break;
        case DT_Q6_K: hk = f32_to_f16(s * 0.0005f); memcpy(x + 208, &hk, 2); break;
        default: memcpy(x, &h, 2); break;
        }
        buf_put(b, x, d->bytes);
    }
}

static void tensor(struct gm *m, const char *name, enum dtype t, uint32_t cols, uint32_t n_row)
{
    CHECK(m->n_t < ARRAY_LEN(m->t));
    struct gm_t *x = &m->t[m->n_t++];
    snprintf(x->name, sizeof x->name, "%s", name);
    x->n_dim = n_row ? 2 : 1;
    x->dim[0] = cols;
    x->dim[1] = n_row ? n_row : 1;
    x->dim[2] = x->dim[3] = 1;
    x->type = dtype_table[t].gguf_id;
    x->off = UINT64_MAX;
    if (n_row) {
        rows(&x->data, t, n_row, cols);
    } else {
        for (uint32_t i = 0; i < cols; i++) {
            float f = 1 + 0.1f * rndf();
            buf_put(&x->data, &f, 4);
        }
    }
}

struct dims {
    uint32_t L, D, H, G, E, F, V, window;
};
/* A llama of one weight type without a tokenizer. */
static void make_model(const char *path, enum dtype t, const struct dims *d)
{
    static struct gm m;
    rng = 88172645463325252u + (uint64_t)t;
    gm_init(&m);
    gm_str(&m, "general.architecture", "llama");
    gm_u32(&m, "llama.block_count", d->L);
    gm_u32(&m, "llama.context_length", 2048);
    gm_u32(&m, "llama.embedding_length", d->D);
    gm_u32(&m, "llama.feed_forward_length", d->F);
    gm_u32(&m, "llama.attention.head_count", d->H);
    gm_u32(&m, "llama.attention.head_count_kv", d->G);
    gm_u32(&m, "llama.attention.key_length", d->E);
    gm_u32(&m, "llama.attention.value_length", d->E);
    gm_u32(&m, "llama.rope.dimension_count", d->E);
    if (d->window) gm_u32(&m, "llama.attention.sliding_window", d->window);
    gm_f32(&m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gm_u32(&m, "llama.vocab_size", d->V);
    tensor(&m, "token_embd.weight", t, d->D, d->V);
    tensor(&m, "output_norm.weight", DT_F32, d->D, 0);
    for (uint32_t l = 0; l < d->L; l++) {
        char n[80];
#define NAME(s) (snprintf(n, sizeof n, "blk.%u." s ".weight", l), n)
        tensor(&m, NAME("attn_norm"), DT_F32, d->D, 0);
        tensor(&m, NAME("attn_q"), t, d->D, d->H * d->E);
        tensor(&m, NAME("attn_k"), t, d->D, d->G * d->E);
        tensor(&m, NAME("attn_v"), t, d->D, d->G * d->E);
        tensor(&m, NAME("attn_output"), t, d->H * d->E, d->D);
        tensor(&m, NAME("ffn_norm"), DT_F32, d->D, 0);
        tensor(&m, NAME("ffn_gate"), t, d->D, d->F);
        tensor(&m, NAME("ffn_up"), t, d->D, d->F);
        tensor(&m, NAME("ffn_down"), t, d->F, d->D);
    }
    struct buf b = {0};
    struct err e;
    gm_build(&m, &b);
    assert_int_equal(os_write_file(path, b.p, b.n, &e), OK);
    buf_free(&b);
    gm_free(&m);
}

static struct engine *open_model(const char *path, enum isa l, uint32_t threads, uint32_t chunk, uint32_t max_seq)
{
    struct engine *g;
    struct err e;
    struct engine_opt o = {.path = path, .isa = l, .ctx = 640, .kv_fmt = -1, .max_tok = chunk, .max_seq = max_seq, .n_thread = threads, .max_out = MAX(64u, max_seq), .quiet = true};
    if (engine_open(&g, &o, &e) < 0) fail_msg("%s", e.msg);
    return g;
}

struct keep {
    float *all;
    uint32_t V;
};
static int keep_row(void *ud, uint32_t first, uint32_t n_row, const float *logits)
{
    struct keep *k = ud;
    memcpy(k->all + (size_t)first * k->V, logits, (size_t)n_row * k->V * sizeof(float));
    return OK;
}
/* Logits of all rows, ids fed in one call (chunks of the engine). */
static void score(struct engine *g, const int32_t *id, uint32_t n, float *all)
{
    struct seq s;
    struct err e;
    struct keep k = {all, g->shape.V};
    assert_int_equal(seq_init(&s, g->ctx, &e), OK);
    if (engine_score(g, &s, id, n, keep_row, &k, &e) < 0) fail_msg("%s", e.msg);
    seq_free(&s, &g->kv);
    kv_check(&g->kv);
}

static void same_bits(const float *a, const float *b, size_t n, const char *what, enum dtype t, enum isa l)
{
    for (size_t i = 0; i < n; i++)
        if (f32_bits(a[i]) != f32_bits(b[i]))
            fail_msg("%s, %s at %s: element %zu is %.9g against %.9g", what, dtype_name(t), isa_name(l), i, (double)a[i], (double)b[i]);
}

static void check_invariance(enum dtype t, enum isa l, const struct dims *d)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s-%u.gguf", dir, dtype_name(t), d->E);
    if (!os_is_file(path)) make_model(path, t, d);
    int32_t id[3][N_ID];
    uint64_t z = 12345;
    for (uint32_t s = 0; s < 3; s++)
        for (uint32_t i = 0; i < N_ID; i++) {
            z = z * 6364136223846793005u + 1442695040888963407u;
            id[s][i] = (int32_t)((z >> 33) % d->V);
        }
    size_t V = d->V, all = N_ID * V;
    float *base = mem_alloc(all, sizeof(float)), *got = mem_alloc(all, sizeof(float));
    /* the reference run: one thread, large chunks */
    struct engine *g = open_model(path, l, 1, 64, 1);
    score(g, id[0], N_ID, base);
    for (size_t i = 0; i < all; i++) assert_true(isfinite(base[i]));
    engine_close(g);
    /* chunks and threads; page borders lie at multiples of 16 */
    static const uint32_t chunks[] = {1, 7, 16, 17, 64};
    for (size_t c = 0; c < ARRAY_LEN(chunks); c++) {
        g = open_model(path, l, 1 + (uint32_t)c % 4, chunks[c], 1);
        score(g, id[0], N_ID, got);
        same_bits(base, got, all, "chunks and threads", t, l);
        engine_close(g);
    }
    /* beside two neighbours, one longer and one that ends early: decode steps of three sequences */
    g = open_model(path, l, 2, 64, 3);
    struct seq s[3];
    struct err e;
    uint32_t pre[3] = {100, 37, 16};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seq_init(&s[i], g->ctx, &e), OK);
        if (engine_feed(g, &s[i], id[i], pre[i], false, &e) < 0) fail_msg("%s", e.msg);
        if (i == 0) same_bits(base + 99 * V, engine_logits(g, 0), V, "last prompt row", t, l);
    }
    for (uint32_t k = 0; k + 100 < N_ID; k++) {
        uint32_t n = k < 20 ? 3 : 2; /* the third leaves */
        struct seq *sp[3] = {&s[1], &s[0], &s[2]};
        int32_t in[3] = {id[1][37 + k], id[0][100 + k], id[2][16 + k]};
        if (engine_decode(g, sp, in, n, &e) < 0) fail_msg("%s", e.msg);
        same_bits(base + (100 + k) * V, engine_logits(g, 1), V, "decode beside neighbours", t, l);
        if (k == 19) seq_cut(&s[2], &g->kv, 0);
    }
    for (int i = 0; i < 3; i++) seq_free(&s[i], &g->kv);
    kv_check(&g->kv);
    assert_int_equal(g->kv.n_free, g->kv.view.n_blk);
    engine_close(g);
    mem_free(base);
    mem_free(got);
}

static const struct dims plain = {2, 256, 4, 2, 64, 512, 300, 0}, odd = {1, 256, 6, 3, 24, 256, 100, 40};

static void invariance_every_type(void **st)
{
    (void)st;
    for (enum isa l = ISA_REF; l <= kern_cpu_isa(); l++)
        for (enum dtype t = 0; t < DT_N; t++) check_invariance(t, l, &plain);
}
static void invariance_odd_heads_and_window(void **st)
{
    (void)st;
    /* H*E = 144 is no multiple of 32: only element types fit */
    for (enum isa l = ISA_REF; l <= kern_cpu_isa(); l++) {
        check_invariance(DT_BF16, l, &odd);
        check_invariance(DT_F32, l, &odd);
    }
}

/* A long context: several spans, cut over the workers in single-row decode, must equal the prompt's way of computing them. */
static void spans_split_or_not(void **st)
{
    (void)st;
    static const struct dims d = {1, 64, 4, 2, 32, 64, 64, 0};
    char path[300];
    snprintf(path, sizeof path, "%s/long.gguf", dir);
    make_model(path, DT_BF16, &d);
    enum { N = 1300 };
    int32_t id[N];
    for (int i = 0; i < N; i++) id[i] = (i * 7 + i / 3) % 64;
    for (enum isa l = ISA_REF; l <= kern_cpu_isa(); l++) {
        struct engine *g;
        struct err e;
        struct engine_opt o = {.path = path, .isa = l, .ctx = 1400, .kv_fmt = -1, .n_thread = 2, .max_out = 64, .max_tok = 511, .quiet = true};
        assert_int_equal(engine_open(&g, &o, &e), OK);
        float *base = mem_alloc((size_t)N * 64, sizeof(float));
        score(g, id, N, base);
        struct seq s;
        assert_int_equal(seq_init(&s, g->ctx, &e), OK);
        assert_int_equal(engine_feed(g, &s, id, N - 4, false, &e), OK);
        for (int i = N - 4; i < N; i++) {
            assert_int_equal(engine_feed(g, &s, &id[i], 1, true, &e), OK);
            same_bits(base + (size_t)i * 64, engine_logits(g, 0), 64, "split spans", DT_BF16, l);
        }
        seq_free(&s, &g->kv);
        engine_close(g);
        mem_free(base);
    }
}

/* The same batches over the dry device: every count but pool joins is equal. */
static void dry_equals_counted(void **st)
{
    (void)st;
    char path[300];
    snprintf(path, sizeof path, "%s/ledger.gguf", dir);
    make_model(path, DT_Q8_0, &plain);
    struct engine *g = open_model(path, ISA_REF, 2, 16, 2);
    struct err e;
    struct seq s[2];
    int32_t id[40];
    for (int i = 0; i < 40; i++) id[i] = i * 3 % 300;
    memset(&g->led, 0, sizeof g->led);
    for (int i = 0; i < 2; i++) assert_int_equal(seq_init(&s[i], g->ctx, &e), OK);
    assert_int_equal(engine_feed(g, &s[0], id, 40, false, &e), OK);
    assert_int_equal(engine_feed(g, &s[1], id, 5, false, &e), OK);
    for (int i = 0; i < 3; i++) assert_int_equal(engine_decode(g, (struct seq *[]){&s[0], &s[1]}, (int32_t[]){1, 2}, 2, &e), OK);
    struct ledger real = g->led, dry = {0};
    /* replay through the dry device and wire */
    struct dev dd;
    struct wire w;
    struct dev_opt dopt = {ISA_REF, 1, 64, 2, 64};
    assert_int_equal(dev_open(&dd, &dev_dry, &dopt, &g->shape, &dry, &e), OK);
    wire_dry_open(&w, 0, 1);
    struct rank r = g->rank;
    r.dev = &dd;
    r.tp.w = &w;
    r.tp.led = &dry;
    memset(&r.a, 0, sizeof r.a);
    uint32_t pos[64], qo[3] = {0}, bo[2] = {0}, out[2] = {0};
    struct batch b = {.n_seq = 1, .tok = id, .pos = pos, .q_off = qo, .blk_off = bo, .out_row = out};
    uint32_t feeds[][3] = {{0, 16, 0}, {16, 16, 0}, {32, 8, 1}, {0, 5, 1}}; /* start, rows, wants logits */
    for (size_t i = 0; i < ARRAY_LEN(feeds); i++) {
        for (uint32_t k = 0; k < feeds[i][1]; k++) pos[k] = feeds[i][0] + k;
        b.n_tok = qo[1] = feeds[i][1];
        b.n_out = feeds[i][2];
        out[0] = b.n_tok - 1;
        assert_int_equal(fwd_step(&r, &b, &e), OK);
    }
    for (uint32_t i = 0; i < 3; i++) {
        pos[0] = 40 + i;
        pos[1] = 5 + i;
        qo[1] = 1;
        qo[2] = 2;
        b.n_tok = b.n_seq = b.n_dec = b.n_out = 2;
        assert_int_equal(fwd_step(&r, &b, &e), OK);
        dry.tok_out += 2;
    }
    for (int p = 0; p < LED_PHASE_N; p++)
        for (int k = 0; k < LED_SITE_N; k++) real.work[p][k].dev_syncs = 0;
    struct buf rep = {0};
    int n = led_diff(&real, &dry, &rep);
    if (n) fail_msg("%d counts differ:\n%s", n, rep.p);
    /* and they are what one can count by hand: weights are read once a step */
    assert_int_equal(real.work[LED_DECODE][LED_HEAD].w_bytes, 3 * (mat_file_bytes(&g->w.out) + 4 * 256));
    assert_int_equal(real.tok_out, 6);
    assert_int_equal(real.tok_in, 45);
    uint64_t kv = 0;
    for (int k = 0; k < LED_SITE_N; k++) kv += real.work[LED_DECODE][k].kv_bytes;
    assert_int_equal(kv, 2ull * 2 * 2 * 64 * 4 * (41 + 42 + 43 + 6 + 7 + 8)); /* L, K and V, G, E, f32, positions seen */
    dry.work[LED_DECODE][LED_ATTN].flops++;
    assert_int_equal(led_diff(&real, &dry, NULL), 1);
    for (int i = 0; i < 2; i++) seq_free(&s[i], &g->kv);
    dev_close(&dd);
    engine_close(g);
}

static void steady_decode_allocates_nothing(void **st)
{
    (void)st;
    char path[300];
    snprintf(path, sizeof path, "%s/f32-64.gguf", dir);
    if (!os_is_file(path)) make_model(path, DT_F32, &plain);
    struct engine *g = open_model(path, kern_cpu_isa(), 2, 64, 1);
    struct err e;
    struct seq s;
    struct sampler sm;
    struct samp_opt so = {.temp = 0.8f, .top_p = 0.9f, .min_p = 0.02f, .typical = 1, .repeat = 1.1f, .last_n = 64, .seed = 7};
    assert_int_equal(samp_init(&sm, &so, g->shape.V, &e), OK);
    assert_int_equal(seq_init(&s, g->ctx, &e), OK);
    int32_t id = 5;
    assert_int_equal(engine_feed(g, &s, &id, 1, false, &e), OK);
    uint64_t before = 0;
    for (int i = 0; i < 600; i++) {
        if (i == 10) before = mem_calls();
        id = samp_pick(&sm, engine_logits(g, 0), s.n_done);
        samp_accept(&sm, id);
        assert_int_equal(engine_feed(g, &s, &id, 1, true, &e), OK);
    }
    assert_int_equal(mem_calls(), before);
    samp_free(&sm);
    seq_free(&s, &g->kv);
    engine_close(g);
}

static void limits_are_named(void **st)
{
    (void)st;
    char path[300];
    snprintf(path, sizeof path, "%s/f32-64.gguf", dir);
    if (!os_is_file(path)) make_model(path, DT_F32, &plain);
    struct engine *g;
    struct err e;
    struct engine_opt o = {.path = path, .isa = ISA_REF, .ctx = 4000000000u, .kv_fmt = -1, .n_thread = 1, .quiet = true};
    assert_int_equal(engine_open(&g, &o, &e), E_NOMEM);
    assert_non_null(strstr(e.msg, "--ctx"));
    o.ctx = 32;
    assert_int_equal(engine_open(&g, &o, &e), OK);
    struct seq s;
    assert_int_equal(seq_init(&s, g->ctx, &e), OK);
    int32_t bad[] = {1, 300}, many[40] = {0};
    assert_int_equal(engine_feed(g, &s, bad, 2, false, &e), E_RANGE);
    assert_non_null(strstr(e.msg, "300"));
    assert_int_equal(engine_feed(g, &s, many, 40, false, &e), E_RANGE);
    assert_int_equal(s.n_done, 0);
    volatile sig_atomic_t stop = 1;
    g->stop = &stop;
    assert_int_equal(engine_feed(g, &s, many, 8, false, &e), E_AGAIN);
    seq_free(&s, &g->kv);
    kv_check(&g->kv);
    engine_close(g);
    o.path = "no/such/file.gguf";
    assert_int_equal(engine_open(&g, &o, &e), E_IO);
    assert_non_null(strstr(e.msg, "no/such/file.gguf"));
}

/* Every allocation of opening may fail: an error, never a crash or a leak (the sanitizers look for the latter). */
static void no_memory(void **st)
{
    (void)st;
    char path[300];
    snprintf(path, sizeof path, "%s/f32-64.gguf", dir);
    if (!os_is_file(path)) make_model(path, DT_F32, &plain);
    for (uint64_t n = 1; n < 400; n++) {
        struct engine *g;
        struct err e;
        struct engine_opt o = {.path = path, .isa = kern_cpu_isa(), .ctx = 64, .kv_fmt = -1, .n_thread = 2, .quiet = true};
        mem_fail_after(n);
        int rc = engine_open(&g, &o, &e);
        mem_fail_after(0);
        if (rc == OK) {
            engine_close(g);
            return;
        }
        if (rc != E_NOMEM) fail_msg("allocation %d: %s", (int)n, e.msg);
    }
    fail_msg("opening never succeeded");
}

static int setup(void **st)
{
    (void)st;
    snprintf(dir, sizeof dir, "%s/hearth-engine-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    struct err e;
    return os_mkdirs(dir, &e);
}
static int teardown(void **st)
{
    (void)st;
    char cmd[300];
    snprintf(cmd, sizeof cmd, "rm -r '%s'", dir);
    return system(cmd) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(invariance_every_type), cmocka_unit_test(invariance_odd_heads_and_window), cmocka_unit_test(spans_split_or_not),
                                   cmocka_unit_test(dry_equals_counted), cmocka_unit_test(steady_decode_allocates_nothing), cmocka_unit_test(limits_are_named),
                                   cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests_name("engine", t, setup, teardown);
}
