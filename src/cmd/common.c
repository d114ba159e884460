#include "cmd/common.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "cmd/model_path.h"
#include "model/chat.h"
#include <stdio.h>

volatile sig_atomic_t cmd_stop;
static void on_int(int sig)
{
    cmd_stop = 1;
    signal(sig, SIG_DFL);
}
void cmd_catch_int(void)
{
    struct sigaction a = {.sa_handler = on_int}; /* no SA_RESTART: reading a line ends too */
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

int cmd_fail(const struct err *e)
{
    log_line(LOG_ERROR, "%s", e->msg);
    return e->code == E_ARG ? EXIT_USE : EXIT_FAILED;
}

int cmd_engine(struct engine **g, const struct opts *o, uint32_t max_seq, uint32_t max_out, uint32_t max_tok, struct err *e)
{
    struct buf path = {0};
    int rc = model_path(&path, o->model, e);
    if (rc < 0) {
        /* a model that is not there is a failure, not bad use of an option */
        if (e->code == E_ARG) e->code = E_IO;
        buf_free(&path);
        return rc == E_ARG ? E_IO : rc;
    }
    struct engine_opt eo = {.path = path.p, .isa = o->isa ? isa_by_name(o->isa) : ISA_N, .n_thread = o->threads, .ctx = o->ctx,
                            .kv_fmt = opts_given(o, OPT_ID_KV) ? o->kv : -1, .max_seq = max_seq, .max_out = max_out,
                            .max_tok = max_tok ? max_tok : opts_given(o, OPT_ID_BATCH) ? o->batch : 0, .quiet = o->quiet};
    rc = engine_open(g, &eo, e);
    buf_free(&path);
    if (rc == OK) (*g)->stop = &cmd_stop;
    return rc;
}

int cmd_sampling(struct samp_opt *s, const struct opts *o, const struct engine *g, struct samp_bias **bias, struct err *e)
{
    *bias = NULL;
    TRY(gen_defaults(s, &g->gguf, e));
    if (opts_given(o, OPT_ID_TEMP)) s->temp = o->temp;
    if (opts_given(o, OPT_ID_TOP_K)) s->top_k = o->top_k;
    if (opts_given(o, OPT_ID_TOP_P)) s->top_p = o->top_p;
    if (opts_given(o, OPT_ID_MIN_P)) s->min_p = o->min_p;
    if (opts_given(o, OPT_ID_TYPICAL)) s->typical = o->typical;
    if (opts_given(o, OPT_ID_REPEAT_PENALTY)) s->repeat = o->repeat_penalty;
    if (opts_given(o, OPT_ID_FREQUENCY_PENALTY)) s->frequency = o->frequency_penalty;
    if (opts_given(o, OPT_ID_PRESENCE_PENALTY)) s->presence = o->presence_penalty;
    if (opts_given(o, OPT_ID_REPEAT_LAST_N)) s->last_n = o->repeat_last_n;
    s->seed = opts_given(o, OPT_ID_SEED) ? o->seed : os_random_u64() >> 32; /* short enough to retype */
    if (o->logit_bias.n) {
        *bias = mem_alloc(o->logit_bias.n, sizeof **bias);
        if (!*bias) return err_set(e, E_NOMEM, "no memory for %u logit biases", o->logit_bias.n);
        for (uint32_t i = 0; i < o->logit_bias.n; i++) {
            (*bias)[i] = (struct samp_bias){o->logit_bias.v[i].id, o->logit_bias.v[i].bias};
            if ((*bias)[i].id < 0 || (uint32_t)(*bias)[i].id >= g->shape.V)
                return err_set(e, E_ARG, "--logit-bias: token id %d is outside the vocabulary of %u", (*bias)[i].id, g->shape.V);
        }
        s->bias = *bias;
        s->n_bias = o->logit_bias.n;
    }
    return OK;
}

int cmd_chat_ids(struct ids *out, const struct engine *g, const json_t *messages, struct err *e)
{
    struct str tmpl = tok_chat_template(g->tok);
    if (tmpl.n == 0) return err_set(e, E_UNSUP, "%s has no chat template: use --raw", g->gguf.path);
    struct buf text = {0};
    int rc = chat_render(&text, tmpl, messages, g->tok, true, e);
    if (rc == OK) rc = tok_encode(g->tok, out, text.p ? text.p : "", text.n, TOK_SPECIAL | TOK_ADD, e);
    buf_free(&text);
    return rc;
}

void cmd_to_stdout(void *ud, const char *p, size_t n)
{
    bool *failed = ud;
    if (fwrite(p, 1, n, stdout) != n || fflush(stdout) != 0) {
        *failed = true;
        cmd_stop = 1;
    }
}

double cmd_per_s(uint64_t n, uint64_t ns) { return ns ? (double)n * 1e9 / (double)ns : 0; }

void cmd_ledger(const struct engine *g, uint64_t ctx)
{
    struct engine_mem m;
    engine_memory(g, &m);
    log_line(LOG_INFO, "memory peak %.0f MB = weights %.0f + kv %.0f (of %.0f reserved) + activations %.0f + rest %.0f", (double)m.peak * 1e-6,
             (double)m.weights * 1e-6, (double)m.kv_used * 1e-6, (double)m.kv * 1e-6, (double)m.acts * 1e-6, (double)m.rest * 1e-6);
    struct buf b = {0};
    led_line(&g->led, 1, ctx, &b);
    if (b.p) log_line(LOG_INFO, "%s", b.p);
    buf_free(&b);
}

void cmd_report(const struct engine *g, const struct gen_result *r, const struct samp_opt *s, uint64_t prefilled, bool ledger)
{
    log_line(LOG_INFO, "prefill %llu tokens, %.1f tokens/s | decode %u tokens, %.1f tokens/s | %s | seed %llu | %s, %u thread%s",
             (unsigned long long)prefilled, cmd_per_s(prefilled, r->prefill_ns), r->n_decode, cmd_per_s(r->n_decode, r->decode_ns), gen_end_name(r->end),
             (unsigned long long)s->seed, isa_name(g->isa), g->n_thread, g->n_thread == 1 ? "" : "s");
    if (ledger) cmd_ledger(g, r->n_prompt + r->out.n);
}
