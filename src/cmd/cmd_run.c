/* cmd_run.c: hearth run: one prompt, one answer. Text to stdout, everything else to stderr. */
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "cmd/common.h"
#include <stdio.h>

#define MAX_PROMPT ((size_t)64 << 20)

/* The prompt's text: -p, -f, or stdin. */
static int read_prompt(struct buf *out, const struct opts *o, struct err *e)
{
    if (o->text) {
        buf_puts(out, o->text);
    } else {
        const char *path = o->file ? o->file : "-";
        TRY(os_read_file(out, path, MAX_PROMPT, e));
    }
    if (!buf_ok(out)) return err_set(e, E_NOMEM, "no memory for the prompt");
    size_t bad = utf8_check(out->p ? out->p : "", out->n);
    if (bad < out->n)
        return err_set(e, E_ARG, "%s: invalid UTF-8 at byte %zu of the prompt", o->text ? "-p" : o->file ? o->file : "stdin", bad);
    return OK;
}

static int prompt_ids(struct ids *out, const struct opts *o, const struct engine *g, const struct buf *text, struct err *e)
{
    if (o->ids.n) {
        for (uint32_t i = 0; i < o->ids.n; i++) TRY(ids_push(out, o->ids.v[i], e));
        return OK;
    }
    if (!g->tok) return err_set(e, E_UNSUP, "%s; --ids 1,2,3 runs without one", g->no_tok);
    const char *p = text->p ? text->p : "";
    if (o->raw || tok_chat_template(g->tok).n == 0) {
        if (!o->raw) log_line(LOG_WARN, "%s has no chat template: the prompt goes in as it is", g->gguf.path);
        return tok_encode(g->tok, out, p, text->n, TOK_SPECIAL | TOK_ADD, e);
    }
    json_t *msg = json_array();
    if (o->system) json_array_append_new(msg, json_pack("{s:s,s:s}", "role", "system", "content", o->system));
    json_array_append_new(msg, json_pack("{s:s,s:s%}", "role", "user", "content", p, text->n));
    int rc = cmd_chat_ids(out, g, msg, e);
    json_decref(msg);
    return rc;
}

static void json_ids(struct buf *b, const char *name, const int32_t *v, size_t n)
{
    buf_printf(b, "\"%s\":[", name);
    for (size_t i = 0; i < n; i++) buf_printf(b, "%s%d", i ? "," : "", v[i]);
    buf_puts(b, "]");
}

static void json_logprobs(struct buf *b, const struct engine *g, const struct gen_result *r, uint32_t k)
{
    buf_puts(b, ",\"logprobs\":[");
    for (size_t i = 0; i < r->out.n; i++) {
        buf_printf(b, "%s{\"id\":%d,\"logprob\":%.6f,\"top\":[", i ? "," : "", r->out.v[i], (double)r->logprob[i]);
        for (uint32_t j = 0; j < k; j++) {
            const struct gen_alt *a = &r->alt[i * k + j];
            buf_printf(b, "%s{\"id\":%d,\"logprob\":%.6f", j ? "," : "", a->id, (double)a->logprob);
            if (g->tok) {
                struct str s = tok_piece(g->tok, a->id, true);
                buf_puts(b, ",\"text\":");
                buf_json_str(b, s.p ? s.p : "", s.n);
            }
            buf_putc(b, '}');
        }
        buf_puts(b, "]}");
    }
    buf_putc(b, ']');
}

static void print_json(const struct engine *g, const struct ids *prompt, const struct gen_result *r, const struct samp_opt *s, uint32_t logprobs)
{
    struct buf b = {0};
    struct engine_mem m;
    engine_memory(g, &m);
    buf_puts(&b, "{\"text\":");
    if (g->tok)
        buf_json_str(&b, r->text.p ? r->text.p : "", r->text.n);
    else
        buf_puts(&b, "null");
    buf_putc(&b, ',');
    json_ids(&b, "output_ids", r->out.v, r->out.n);
    buf_putc(&b, ',');
    json_ids(&b, "prompt_ids", prompt->v, prompt->n);
    buf_printf(&b, ",\"finish_reason\":\"%s\",\"seed\":%llu", gen_end_name(r->end), (unsigned long long)s->seed);
    buf_printf(&b, ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu}", prompt->n, r->out.n, prompt->n + r->out.n);
    buf_printf(&b, ",\"prefill_tokens_per_s\":%.3f,\"decode_tokens_per_s\":%.3f,\"load_s\":%.4f", cmd_per_s(prompt->n, r->prefill_ns),
               cmd_per_s(r->n_decode, r->decode_ns), (double)g->load_ns * 1e-9);
    buf_printf(&b, ",\"memory\":{\"peak\":%llu,\"weights\":%llu,\"kv\":%llu,\"kv_reserved\":%llu,\"activations\":%llu,\"rest\":%llu}", (unsigned long long)m.peak,
               (unsigned long long)m.weights, (unsigned long long)m.kv_used, (unsigned long long)m.kv, (unsigned long long)m.acts, (unsigned long long)m.rest);
    buf_printf(&b, ",\"isa\":\"%s\",\"threads\":%u,\"context\":%u", isa_name(g->isa), g->n_thread, g->ctx);
    if (logprobs) json_logprobs(&b, g, r, logprobs);
    buf_puts(&b, ",\"ledger\":");
    led_json(&g->led, &b);
    buf_puts(&b, "}\n");
    if (buf_ok(&b)) fwrite(b.p, 1, b.n, stdout);
    buf_free(&b);
}

int cmd_run(const struct opts *o)
{
    struct err e = {0};
    struct engine *g = NULL;
    struct buf text = {0};
    struct ids prompt = {0};
    struct seq seq = {0};
    struct gen_result r = {0};
    struct samp_opt so;
    struct samp_bias *bias = NULL;
    bool failed = false;
    int rc;

    if (!o->ids.n) TRYG(read_prompt(&text, o, &e));
    cmd_catch_int();
    TRYG(cmd_engine(&g, o, 1, 1, 0, &e));
    TRYG(prompt_ids(&prompt, o, g, &text, &e));
    if (prompt.n == 0) {
        rc = err_set(&e, E_ARG, "the prompt is empty");
        goto out;
    }
    TRYG(cmd_sampling(&so, o, g, &bias, &e));
    TRYG(seq_init(&seq, g->ctx, &e));
    struct gen_opt go = {.samp = so, .n = opts_given(o, OPT_ID_N) ? o->n : 0, .ignore_eos = o->ignore_eos, .stop = o->stop.v, .n_stop = o->stop.n,
                         .logprobs = o->logprobs, .emit = o->json ? NULL : cmd_to_stdout, .ud = &failed};
    TRYG(gen_run(g, &seq, prompt.v, (uint32_t)prompt.n, &go, &r, &e));
    if (o->json) {
        print_json(g, &prompt, &r, &so, o->logprobs);
    } else {
        if (!g->tok) { /* no text to show: the ids are the answer */
            for (size_t i = 0; i < r.out.n; i++) printf("%s%d", i ? "," : "", r.out.v[i]);
        }
        putchar('\n');
    }
    if (fflush(stdout) != 0 || failed) rc = err_set(&e, E_IO, "cannot write to stdout");
    if (!o->quiet) cmd_report(g, &r, &so, prompt.n, o->ledger);
out:
    if (g) seq_free(&seq, &g->kv);
    engine_close(g);
    gen_result_free(&r);
    mem_free(bias);
    ids_free(&prompt);
    buf_free(&text);
    return rc < 0 ? cmd_fail(&e) : EXIT_OK;
}
