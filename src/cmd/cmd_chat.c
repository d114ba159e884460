/* cmd_chat.c: hearth chat: a conversation in the terminal. The KV cache stays between turns: each turn renders the whole conversation, and only
 * what differs from the tokens already there is computed (a template may rewrite earlier turns; the longest common prefix is always right). */
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "cmd/common.h"
#include "cmd/line.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct chat {
    struct engine *g;
    struct seq seq;
    struct ids held;     /* tokens whose KV stands in seq, in order */
    json_t *messages;    /* owned */
    struct gen_opt go;
    const struct opts *o;
    uint32_t turns;
    uint64_t in_tok, hit_tok, out_tok, prefill_ns, decode_ns;
    bool failed;
};

static void set_system(json_t *messages, const char *text)
{
    const json_t *first = json_array_get(messages, 0);
    const char *role = first ? json_string_value(json_object_get(first, "role")) : NULL;
    if (role && strcmp(role, "system") == 0) json_array_remove(messages, 0);
    if (text && *text) json_array_insert_new(messages, 0, json_pack("{s:s,s:s}", "role", "system", "content", text));
}

static void forget(struct chat *c)
{
    seq_cut(&c->seq, &c->g->kv, 0);
    c->held.n = 0;
}

/* One user turn. On failure the conversation is as before. */
static int turn(struct chat *c, const char *text, size_t n, struct err *e)
{
    struct ids prompt = {0};
    struct gen_result r = {0};
    json_array_append_new(c->messages, json_pack("{s:s,s:s%}", "role", "user", "content", text, n));
    int rc;
    TRYG(cmd_chat_ids(&prompt, c->g, c->messages, e));
    if (prompt.n >= c->g->ctx) {
        rc = err_set(e, E_RANGE, "the conversation has %zu tokens, the context holds %u: /reset starts anew, --ctx N makes room", prompt.n, c->g->ctx);
        goto out;
    }
    size_t same = 0;
    while (same < c->held.n && same + 1 < prompt.n && c->held.v[same] == prompt.v[same]) same++;
    seq_cut(&c->seq, &c->g->kv, (uint32_t)same);
    c->held.n = same;
    TRYG(gen_run(c->g, &c->seq, prompt.v + same, (uint32_t)(prompt.n - same), &c->go, &r, e));
    putchar('\n');
    fflush(stdout);
    /* KV now holds the prompt and every output token but the last */
    for (size_t i = same; i < prompt.n && rc == OK; i++) rc = ids_push(&c->held, prompt.v[i], e);
    for (size_t i = 0; i + 1 < r.out.n && rc == OK; i++) rc = ids_push(&c->held, r.out.v[i], e);
    c->held.n = MIN(c->held.n, (size_t)c->seq.n_done);
    if (rc < 0) goto out;
    json_array_append_new(c->messages, json_pack("{s:s,s:s%}", "role", "assistant", "content", r.text.p ? r.text.p : "", r.text.n));
    c->turns++;
    c->in_tok += prompt.n - same;
    c->hit_tok += same;
    c->out_tok += r.out.n;
    c->prefill_ns += r.prefill_ns;
    c->decode_ns += r.decode_ns;
    c->g->led.tok_prefix_hit += same;
    if (r.end == GEN_CANCELLED) log_line(LOG_INFO, "(stopped)");
    if (c->o->ledger) cmd_report(c->g, &r, &c->go.samp, prompt.n - same, true);
out:
    if (rc < 0) {
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
        forget(c);
    }
    ids_free(&prompt);
    gen_result_free(&r);
    return rc;
}

static int save(const struct chat *c, const char *path, struct err *e)
{
    char *s = json_dumps(c->messages, JSON_INDENT(1) | JSON_ENSURE_ASCII);
    if (!s) return err_set(e, E_NOMEM, "no memory to write the conversation");
    int rc = os_write_file(path, s, strlen(s), e);
    free(s); /* jansson's own allocation */
    return rc;
}

static int load(struct chat *c, const char *path, struct err *e)
{
    struct buf b = {0};
    json_t *j = NULL;
    int rc;
    TRYG(os_read_file(&b, path, (size_t)64 << 20, e));
    TRYG(json_parse(&j, b.p ? b.p : "", b.n, 0, path, e));
    bool ok = json_is_array(j);
    for (size_t i = 0; ok && i < json_array_size(j); i++) ok = json_is_string(json_object_get(json_array_get(j, i), "role"));
    if (!ok) {
        rc = err_set(e, E_FORMAT, "%s: a list of messages with a role each is expected", path);
        goto out;
    }
    json_decref(c->messages);
    c->messages = json_incref(j);
    forget(c);
out:
    json_decref(j);
    buf_free(&b);
    return rc;
}

static void stats(const struct chat *c)
{
    log_line(LOG_INFO, "%u turns, %zu messages, %zu of %u tokens of context used", c->turns, json_array_size(c->messages), c->held.n, c->g->ctx);
    log_line(LOG_INFO, "prompt tokens computed %llu, reused %llu; output tokens %llu", (unsigned long long)c->in_tok, (unsigned long long)c->hit_tok,
             (unsigned long long)c->out_tok);
    log_line(LOG_INFO, "prefill %.1f tokens/s, decode %.1f tokens/s", cmd_per_s(c->in_tok, c->prefill_ns), cmd_per_s(c->out_tok, c->decode_ns));
    cmd_ledger(c->g, c->held.n);
}

static const char help[] = "/reset            forget the conversation (the system message stays)\n"
                           "/system [TEXT]    set or remove the system message\n"
                           "/save FILE        write the conversation as JSON messages\n"
                           "/load FILE        read one\n"
                           "/stats            tokens, speed, memory, ledger\n"
                           "/exit             leave (also Ctrl-D)\n"
                           "A line ending in \\ goes on in the next one; \"\"\" alone on a line begins and ends a text of several lines. Ctrl-C stops an answer.";

/* false: leave */
static bool command(struct chat *c, char *s)
{
    struct err e = {0};
    char *arg = s + strcspn(s, " ");
    if (*arg) {
        *arg++ = 0;
        arg += strspn(arg, " ");
    }
    static const char *const names[] = {"/reset", "/system", "/save", "/load", "/stats", "/help", "/exit", "/quit"};
    int rc = OK;
    if (strcmp(s, "/exit") == 0 || strcmp(s, "/quit") == 0) return false;
    if (strcmp(s, "/reset") == 0) {
        const json_t *first = json_array_get(c->messages, 0);
        json_t *keep = NULL;
        const char *role = first ? json_string_value(json_object_get(first, "role")) : NULL;
        if (role && strcmp(role, "system") == 0) keep = json_deep_copy(first);
        json_array_clear(c->messages);
        if (keep) json_array_append_new(c->messages, keep);
        forget(c);
        log_line(LOG_INFO, "forgotten");
    } else if (strcmp(s, "/system") == 0) {
        set_system(c->messages, arg);
        log_line(LOG_INFO, *arg ? "system message set" : "no system message");
    } else if (strcmp(s, "/save") == 0 || strcmp(s, "/load") == 0) {
        if (!*arg)
            rc = err_set(&e, E_ARG, "%s needs a file name", s);
        else
            rc = s[1] == 's' ? save(c, arg, &e) : load(c, arg, &e);
        if (rc == OK) log_line(LOG_INFO, "%s: %zu messages", arg, json_array_size(c->messages));
    } else if (strcmp(s, "/stats") == 0) {
        stats(c);
    } else if (strcmp(s, "/help") == 0) {
        log_line(LOG_INFO, "%s", help);
    } else {
        const char *best = NULL;
        for (size_t i = 0; i < ARRAY_LEN(names) && !best; i++)
            if (strncmp(names[i], s, 3) == 0) best = names[i];
        rc = err_set(&e, E_ARG, "no command %.40s%s%s; /help lists them", s, best ? ": did you mean " : "", best ? best : "");
    }
    if (rc < 0) log_line(LOG_ERROR, "%s", e.msg);
    return true;
}

/* A whole message: continued lines and """ blocks joined. false: end of input. */
static bool read_message(struct buf *msg)
{
    struct buf line = {0};
    bool block = false, got = false;
    buf_clear(msg);
    for (;;) {
        if (!line_read(&line, got ? "... " : "> ")) break;
        const char *p = line.p ? line.p : "";
        size_t n = line.n;
        if (strcmp(p, "\"\"\"") == 0) {
            if (block) break;
            block = got = true;
            continue;
        }
        bool more = !block && n && p[n - 1] == '\\';
        if (got && msg->n) buf_putc(msg, '\n');
        buf_put(msg, p, more ? n - 1 : n);
        got = true;
        if (!block && !more) break;
    }
    buf_free(&line);
    return got;
}

int cmd_chat(const struct opts *o)
{
    struct err e = {0};
    struct chat c = {.o = o};
    struct buf msg = {0}, hist = {0};
    struct samp_bias *bias = NULL;
    int rc;
    cmd_catch_int();
    TRYG(cmd_engine(&c.g, o, 1, 1, 0, &e));
    if (!c.g->tok || tok_chat_template(c.g->tok).n == 0) {
        rc = err_set(&e, E_UNSUP, "%s %s", c.g->gguf.path, c.g->tok ? "has no chat template: hearth run --raw works" : "has no tokenizer");
        goto out;
    }
    c.go = (struct gen_opt){.n = opts_given(o, OPT_ID_N) ? o->n : 0, .ignore_eos = o->ignore_eos, .stop = o->stop.v, .n_stop = o->stop.n, .emit = cmd_to_stdout, .ud = &c.failed};
    TRYG(cmd_sampling(&c.go.samp, o, c.g, &bias, &e));
    TRYG(seq_init(&c.seq, c.g->ctx, &e));
    c.messages = json_array();
    if (!c.messages) {
        rc = err_set(&e, E_NOMEM, "no memory for a conversation");
        goto out;
    }
    if (o->load && os_is_file(o->load)) TRYG(load(&c, o->load, &e));
    if (o->system) set_system(c.messages, o->system);
    os_cache_dir(&hist);
    if (buf_ok(&hist) && os_mkdirs(hist.p, NULL) == OK) {
        buf_puts(&hist, "/chat_history");
        line_history(hist.p);
    }
    if (!o->quiet) log_line(LOG_INFO, "%s, context %u, seed %llu; /help lists the commands", c.g->shape.name[0] ? c.g->shape.name : o->model, c.g->ctx, (unsigned long long)c.go.samp.seed);
    while (!c.failed && read_message(&msg)) {
        if (msg.n == 0) continue;
        if (!buf_ok(&msg)) {
            log_line(LOG_ERROR, "no memory for the message");
            buf_clear(&msg);
            continue;
        }
        if (msg.p[0] == '/' && msg.n > 1) {
            if (!command(&c, msg.p)) break;
            continue;
        }
        size_t bad = utf8_check(msg.p, msg.n);
        if (bad < msg.n) {
            log_line(LOG_ERROR, "invalid UTF-8 at byte %zu of the message", bad);
            continue;
        }
        cmd_stop = 0;
        cmd_catch_int();
        struct err te = {0};
        if (turn(&c, msg.p, msg.n, &te) < 0) log_line(LOG_ERROR, "%s", te.msg);
        cmd_stop = 0;
        cmd_catch_int();
    }
    line_save();
    if (o->save) TRYG(save(&c, o->save, &e));
    if (c.failed) rc = err_set(&e, E_IO, "cannot write to stdout");
out:
    if (c.g) seq_free(&c.seq, &c.g->kv);
    engine_close(c.g);
    json_decref(c.messages);
    ids_free(&c.held);
    mem_free(bias);
    buf_free(&msg);
    buf_free(&hist);
    return rc < 0 ? cmd_fail(&e) : EXIT_OK;
}
