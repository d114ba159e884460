/* template: messages through a chat template, exactly as a model would be given them. */
#include "base/os.h"
#include "cmd/common.h"
#include "cmd/model_path.h"
#include "model/chat.h"
#include <stdio.h>
#include <string.h>

#define MAX_TEMPLATE ((size_t)16 << 20)
#define MAX_JSON ((size_t)256 << 20)

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* The template's text into `text`, and the model's tokenizer (for bos_token and its like) when it comes from a model. */
static int load_template(struct buf *text, struct tok **tok, const char *path, struct err *e)
{
    if (ends_with(path, ".jinja") || ends_with(path, ".jinja2") || ends_with(path, ".j2"))
        return os_read_file(text, path, MAX_TEMPLATE, e);
    struct gguf g = {0};
    struct str s = {0};
    TRY(gguf_open(&g, path, e));
    int rc = tok_open_gguf(tok, &g, e);
    if (rc == E_AGAIN) rc = OK; /* a template may do without */
    if (rc == OK) rc = gguf_str(&g, "tokenizer.chat_template", &s, e);
    if (rc >= 0) {
        buf_put(text, s.p ? s.p : "", s.n);
        rc = s.n == 0 ? err_set(e, E_UNSUP, "no chat template in it") : OK;
    }
    gguf_close(&g);
    return rc;
}

static int read_json(json_t **out, const char *path, struct err *e)
{
    struct buf b = {0};
    int rc = os_read_file(&b, path, MAX_JSON, e);
    const char *what = strcmp(path, "-") == 0 ? "standard input" : path;
    if (rc == OK) rc = json_parse(out, b.p ? b.p : "", b.n, 0, what, e);
    buf_free(&b);
    return rc;
}

/* --tools, --no-generation-prompt and --var over what the file says. Takes the reference of v in every case. */
static int put(json_t *vars, const char *key, json_t *v, struct err *e)
{
    return json_object_set_new(vars, key, v) == 0 ? OK : err_set(e, E_ARG, "template variable '%.60s' cannot be set", key);
}

static int add_options(json_t *vars, const struct opts *o, struct err *e)
{
    if (o->tools) {
        json_t *tools;
        TRY(read_json(&tools, o->tools, e));
        if (!json_is_array(tools)) {
            json_decref(tools);
            return err_set(e, E_FORMAT, "%s: a list of tools is expected", o->tools);
        }
        TRY(put(vars, "tools", tools, e));
    }
    if (opts_given(o, OPT_ID_GEN_PROMPT)) TRY(put(vars, "add_generation_prompt", json_boolean(o->gen_prompt), e));
    for (uint32_t i = 0; i < o->var.n; i++) {
        const char *text = o->var.v[i].value;
        json_t *v;
        if (json_parse(&v, text, strlen(text), MAX_JSON, "--var", NULL) != OK) v = json_string(text);
        if (!v) return err_set(e, E_ARG, "option --var %.60s: the value is not valid UTF-8", o->var.v[i].name);
        TRY(put(vars, o->var.v[i].name, v, e));
    }
    return OK;
}

int cmd_template(const struct opts *o)
{
    struct err e = {0};
    struct buf path = {0}, text = {0}, out = {0};
    struct tok *tok = NULL;
    struct jinja *j = NULL;
    json_t *in = NULL, *vars = NULL;
    bool own = false; /* the fault is the template's: its file is named */
    int rc;
    TRYG(model_path(&path, o->model, &e));
    own = true;
    TRYG(load_template(&text, &tok, path.p, &e));
    TRYG(jinja_compile(&j, text.p ? text.p : "", text.n, &e));
    own = false;
    TRYG(read_json(&in, o->file, &e));
    rc = chat_vars(&vars, in, tok, &e);
    if (rc < 0 && !strstr(e.msg, o->file)) err_prefix(&e, "%s", o->file);
    if (rc < 0) goto out;
    TRYG(add_options(vars, o, &e));
    struct jinja_opt jo = {.now = opts_given(o, OPT_ID_NOW) ? o->now_s : INT64_MIN};
    own = true;
    TRYG(jinja_render(j, vars, &jo, &out, &e));
    if (!buf_ok(&out)) rc = err_set(&e, E_NOMEM, "out of memory");
out:
    if (rc == OK && out.n) fwrite(out.p, 1, out.n, stdout);
    if (rc < 0 && own && !strstr(e.msg, path.p)) err_prefix(&e, "%s", path.p);
    if (own) e.code = E_FORMAT; /* also a refusal by raise_exception: the request failed, the command line was right */
    if (in) json_decref(in);
    if (vars) json_decref(vars);
    jinja_free(j);
    if (tok) tok_close(tok);
    buf_free(&path);
    buf_free(&text);
    buf_free(&out);
    return rc == OK ? EXIT_OK : cmd_fail(&e);
}
