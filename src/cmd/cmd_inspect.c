/* inspect: the whole validation of run (file, shape, every tensor, tokenizer), then what is in the file. */
#include "base/os.h"
#include "cmd/common.h"
#include "cmd/model_path.h"
#include "model/shape.h"
#include "model/tok.h"
#include "model/weights.h"
#include <stdio.h>
#include <string.h>

struct model {
    struct gguf g;
    struct model_shape shape;
    struct weights w;
    struct tok *tok;             /* NULL: none in the file */
    bool has_shape, has_weights; /* a vocabulary-only file has no weights and need not have a shape that hearth knows */
    struct str chat_template;
    uint64_t bytes, n_param;
};

/* Every message names the file, also those of layers that know only the metadata. */
static int named(int rc, const char *path, struct err *e)
{
    if (rc < 0 && !strstr(e->msg, path)) err_prefix(e, "%s", path);
    return rc;
}

static int load(struct model *m, const char *path, struct err *e)
{
    TRY(named(gguf_open(&m->g, path, e), path, e));
    for (uint32_t i = 0; i < m->g.n_file; i++) m->bytes += m->g.map[i].n;
    for (uint32_t i = 0; i < m->g.n_t; i++) m->n_param += m->g.t[i].n_elem;
    struct err shape_err = {0};
    int rc = shape_from_gguf(&m->shape, &m->g, &shape_err);
    m->has_shape = rc == OK;
    if (rc < 0 && m->g.n_t > 0) {
        *e = shape_err;
        return named(rc, path, e);
    }
    if (m->g.n_t > 0) {
        TRY(named(weights_bind(&m->w, &m->shape, &m->g, e), path, e));
        m->has_weights = true;
    }
    rc = tok_open_gguf(&m->tok, &m->g, e);
    if (rc < 0 && rc != E_AGAIN) return named(rc, path, e);
    if (rc == E_AGAIN && !m->has_weights) return err_set(e, E_FORMAT, "%s: neither tensors nor a tokenizer in it", path);
    TRY(named(gguf_str(&m->g, "tokenizer.chat_template", &m->chat_template, e), path, e));
    return OK;
}

static void unload(struct model *m)
{
    if (m->has_weights) weights_free(&m->w);
    if (m->tok) tok_close(m->tok);
    gguf_close(&m->g);
}

/* What run or chat would miss, and what that means; returns their number. */
struct gap {
    const char *what, *so;
};
static uint32_t missing(const struct model *m, struct gap v[3])
{
    uint32_t n = 0;
    if (!m->has_weights) v[n++] = (struct gap){"tensors", "a vocabulary-only file"};
    if (!m->tok) v[n++] = (struct gap){"tokenizer", "run needs --ids"};
    if (m->chat_template.n == 0) v[n++] = (struct gap){"chat template", "run needs --raw"};
    return n;
}

static uint64_t type_sum(const struct gguf *g, enum dtype dt, uint32_t *count)
{
    uint64_t bytes = 0;
    *count = 0;
    for (uint32_t i = 0; i < g->n_t; i++) {
        if (g->t[i].dt != dt) continue;
        ++*count;
        bytes += g->t[i].bytes;
    }
    return bytes;
}

static const char *rope_name(enum rope_kind r) { return r == ROPE_LINEAR ? "linear" : r == ROPE_FACTORS ? "factors" : "none"; }

static void count_text(struct buf *b, uint64_t n)
{
    if (n >= 1000000000u)
        buf_printf(b, "%.2f billion", (double)n * 1e-9);
    else if (n >= 1000000u)
        buf_printf(b, "%.1f million", (double)n * 1e-6);
    else
        buf_printf(b, "%llu", (unsigned long long)n);
}
static void bytes_text(struct buf *b, uint64_t n)
{
    if (n >= 1000000000u)
        buf_printf(b, "%.2f GB", (double)n * 1e-9);
    else if (n >= 1000000u)
        buf_printf(b, "%.1f MB", (double)n * 1e-6);
    else
        buf_printf(b, "%llu bytes", (unsigned long long)n);
}

/* Text from the file, safe for a terminal: JSON escapes, cut after 60 bytes. */
static void quoted(struct buf *b, struct str s) { buf_json_str(b, s.p, MIN(s.n, (size_t)60)); }

static void token_text(struct buf *b, const char *what, const struct tok *t, int32_t id)
{
    if (id < 0) {
        buf_printf(b, ", no %s", what);
        return;
    }
    buf_printf(b, ", %s %d ", what, id);
    quoted(b, tok_text(t, id));
}

static void print_text(struct buf *b, const struct model *m, bool tensors)
{
    const struct gguf *g = &m->g;
    const struct model_shape *s = &m->shape;
    struct str arch = {0}, name = {0};
    struct err e;
    gguf_str(g, "general.architecture", &arch, &e);
    gguf_str(g, "general.name", &name, &e);
    buf_printf(b, "file           %s (GGUF version %u, %u file%s, ", g->path, g->version, g->n_file, g->n_file == 1 ? "" : "s");
    bytes_text(b, m->bytes);
    buf_puts(b, ")\narchitecture   ");
    quoted(b, arch);
    buf_puts(b, "\nname           ");
    quoted(b, name);
    if (m->has_weights) {
        buf_puts(b, "\nparameters     ");
        count_text(b, m->n_param);
    }
    if (m->has_shape) {
        buf_printf(b,
                   "\nshape          %u layers, width %u, %u query heads and %u KV heads of %u, feed-forward %u, vocabulary %u",
                   s->L, s->D, s->H, s->G, s->E, s->F, s->V);
        buf_printf(b, "\ncontext        %u tokens", s->max_pos);
        if (s->window) buf_printf(b, ", each sees the last %u", s->window);
        buf_printf(b, "\nrope           theta %g, %u of %u dimensions, scaling %s", (double)s->rope_theta, s->rope_dim, s->E,
                   rope_name(s->rope));
        buf_printf(b, "\nattention      %s, %s, %s", s->qkv_bias ? "q/k/v bias" : "no bias",
                   s->qk_norm ? "q/k norm" : "no q/k norm", s->tied ? "embedding tied to output" : "own output matrix");
    }
    buf_printf(b, "\ntensors        %u", g->n_t);
    if (g->n_t) {
        buf_puts(b, ", ");
        bytes_text(b, g->tensor_bytes);
    }
    for (enum dtype t = 0; t < DT_N; t++) {
        uint32_t n;
        uint64_t bytes = type_sum(g, t, &n);
        if (n) buf_printf(b, "\n  %-12s %5u tensors %16llu bytes", dtype_name(t), n, (unsigned long long)bytes);
    }
    buf_puts(b, "\ntokenizer      ");
    if (m->tok) {
        const char *pre = tok_pre(m->tok);
        buf_printf(b, "%s%s%s, %u tokens", tok_model(m->tok), *pre ? " " : "", pre, tok_vocab(m->tok));
        token_text(b, "BOS", m->tok, tok_bos(m->tok));
        token_text(b, "EOS", m->tok, tok_eos(m->tok));
        buf_printf(b, ", BOS is %sadded", tok_adds_bos(m->tok) ? "" : "not ");
    } else {
        buf_puts(b, "none");
    }
    buf_puts(b, "\nchat template  ");
    if (m->chat_template.n)
        buf_printf(b, "yes, %zu bytes", m->chat_template.n);
    else
        buf_puts(b, "no");
    if (m->has_weights) {
        buf_puts(b, "\nmemory         weights ");
        bytes_text(b, g->tensor_bytes);
        buf_printf(b, ", KV per token %llu bytes f32, %llu bf16; whole context ", (unsigned long long)shape_kv_bytes(s, 4),
                   (unsigned long long)shape_kv_bytes(s, 2));
        bytes_text(b, shape_kv_bytes(s, 4) * s->max_pos);
        buf_puts(b, " f32, ");
        bytes_text(b, shape_kv_bytes(s, 2) * s->max_pos);
        buf_puts(b, " bf16");
    }
    buf_puts(b, "\nmissing        ");
    struct gap gap[3];
    uint32_t n_gap = missing(m, gap);
    if (n_gap == 0) buf_puts(b, "nothing");
    for (uint32_t i = 0; i < n_gap; i++) buf_printf(b, "%s%s (%s)", i ? ", " : "", gap[i].what, gap[i].so);
    buf_putc(b, '\n');
    for (uint32_t i = 0; tensors && i < g->n_t; i++) {
        const struct gguf_tensor *t = &g->t[i];
        size_t at = b->n;
        quoted(b, t->name);
        buf_printf(b, "%*s %-5s [", (int)(b->n - at < 40 ? 40 - (b->n - at) : 0), "", dtype_name(t->dt));
        for (uint32_t d = 0; d < t->n_dim; d++) buf_printf(b, "%s%llu", d ? ", " : "", (unsigned long long)t->dim[d]);
        buf_printf(b, "] %llu bytes\n", (unsigned long long)t->bytes);
    }
}

static void json_field_str(struct buf *b, const char *key, struct str v)
{
    buf_printf(b, "\"%s\": ", key);
    buf_json_str(b, v.p ? v.p : "", v.n);
}

static void json_shape(struct buf *b, const struct model_shape *s)
{
    buf_printf(b,
               "{\"layers\": %u, \"width\": %u, \"heads\": %u, \"kv_heads\": %u, \"head_size\": %u, \"ffn\": %u, \"vocab\": %u, "
               "\"context\": %u",
               s->L, s->D, s->H, s->G, s->E, s->F, s->V, s->max_pos);
    buf_printf(b,
               ", \"experts\": %u, \"experts_used\": %u, \"window\": %u, \"rope_dim\": %u, \"rope_theta\": %.9g, "
               "\"rope_scaling\": \"%s\"",
               s->n_expert, s->n_expert_used, s->window, s->rope_dim, (double)s->rope_theta, rope_name(s->rope));
    buf_printf(b, ", \"norm_eps\": %.7g, \"tied\": %s, \"qkv_bias\": %s, \"qk_norm\": %s}", (double)s->norm_eps,
               s->tied ? "true" : "false", s->qkv_bias ? "true" : "false", s->qk_norm ? "true" : "false");
}

static void print_json(struct buf *b, const struct model *m, bool tensors)
{
    const struct gguf *g = &m->g;
    struct str arch = {0}, name = {0};
    struct err e;
    gguf_str(g, "general.architecture", &arch, &e);
    gguf_str(g, "general.name", &name, &e);
    buf_putc(b, '{');
    json_field_str(b, "file", str_of(g->path));
    buf_printf(b, ", \"bytes\": %llu, \"gguf_version\": %u, \"files\": %u, ", (unsigned long long)m->bytes, g->version,
               g->n_file);
    json_field_str(b, "architecture", arch);
    buf_puts(b, ", ");
    json_field_str(b, "name", name);
    buf_printf(b, ", \"parameters\": %llu, \"shape\": ", (unsigned long long)m->n_param);
    if (m->has_shape)
        json_shape(b, &m->shape);
    else
        buf_puts(b, "null");
    buf_printf(b, ", \"tensors\": %u, \"tensor_bytes\": %llu, \"types\": [", g->n_t, (unsigned long long)g->tensor_bytes);
    bool first = true;
    for (enum dtype t = 0; t < DT_N; t++) {
        uint32_t n;
        uint64_t bytes = type_sum(g, t, &n);
        if (!n) continue;
        buf_printf(b, "%s{\"type\": \"%s\", \"count\": %u, \"bytes\": %llu}", first ? "" : ", ", dtype_name(t), n,
                   (unsigned long long)bytes);
        first = false;
    }
    buf_puts(b, "], \"tokenizer\": ");
    if (m->tok)
        buf_printf(
            b,
            "{\"model\": \"%s\", \"pre\": \"%s\", \"vocab\": %u, \"bos\": %d, \"eos\": %d, \"adds_bos\": %s, \"adds_space\": %s}",
            tok_model(m->tok), tok_pre(m->tok), tok_vocab(m->tok), tok_bos(m->tok), tok_eos(m->tok),
            tok_adds_bos(m->tok) ? "true" : "false", tok_adds_space(m->tok) ? "true" : "false");
    else
        buf_puts(b, "null");
    buf_printf(b, ", \"chat_template\": %s", m->chat_template.n ? "true" : "false");
    if (m->has_shape)
        buf_printf(b, ", \"memory\": {\"weights\": %llu, \"kv_per_token_f32\": %llu, \"kv_per_token_bf16\": %llu}",
                   (unsigned long long)g->tensor_bytes, (unsigned long long)shape_kv_bytes(&m->shape, 4),
                   (unsigned long long)shape_kv_bytes(&m->shape, 2));
    buf_puts(b, ", \"missing\": [");
    struct gap gap[3];
    uint32_t n_gap = missing(m, gap);
    for (uint32_t i = 0; i < n_gap; i++) buf_printf(b, "%s\"%s\"", i ? ", " : "", gap[i].what);
    buf_putc(b, ']');
    if (tensors) {
        buf_puts(b, ", \"tensor_list\": [");
        for (uint32_t i = 0; i < g->n_t; i++) {
            const struct gguf_tensor *t = &g->t[i];
            buf_printf(b, "%s{", i ? ", " : "");
            json_field_str(b, "name", t->name);
            buf_printf(b, ", \"type\": \"%s\", \"dims\": [", dtype_name(t->dt));
            for (uint32_t d = 0; d < t->n_dim; d++) buf_printf(b, "%s%llu", d ? ", " : "", (unsigned long long)t->dim[d]);
            buf_printf(b, "], \"bytes\": %llu, \"file\": %u}", (unsigned long long)t->bytes, t->file);
        }
        buf_putc(b, ']');
    }
    buf_puts(b, "}\n");
}

int cmd_inspect(const struct opts *o)
{
    struct err e = {0};
    struct buf path = {0}, out = {0};
    struct model m = {0};
    int rc;
    TRYG(model_path(&path, o->model, &e));
    TRYG(load(&m, path.p, &e));
    if (o->json)
        print_json(&out, &m, o->tensors);
    else
        print_text(&out, &m, o->tensors);
    if (!buf_ok(&out)) rc = err_set(&e, E_NOMEM, "out of memory");
out:
    if (rc == OK) fwrite(out.p, 1, out.n, stdout);
    unload(&m);
    buf_free(&path);
    buf_free(&out);
    return rc == OK ? EXIT_OK : cmd_fail(&e);
}
