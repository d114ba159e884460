/* chat.c: from messages to prompt text. The variables are those of transformers' apply_chat_template: messages, tools and
 * documents (null when not given), add_generation_prompt, and the special tokens' texts. */
#include "model/chat.h"
#include <string.h>

static int check_content(const json_t *c, size_t i, struct err *e)
{
    if (!c || json_is_null(c) || json_is_string(c)) return OK;
    if (!json_is_array(c)) return err_set(e, E_FORMAT, "messages[%zu]: \"content\" must be a string, null or a list of parts", i);
    for (size_t k = 0; k < json_array_size(c); k++)
        if (!json_is_object(json_array_get(c, k)))
            return err_set(e, E_FORMAT, "messages[%zu]: \"content\"[%zu] must be an object", i, k);
    return OK;
}

static int check_messages(const json_t *m, struct err *e)
{
    if (!m) return err_set(e, E_FORMAT, "\"messages\" is missing");
    if (!json_is_array(m)) return err_set(e, E_FORMAT, "\"messages\" must be an array");
    for (size_t i = 0; i < json_array_size(m); i++) {
        const json_t *x = json_array_get(m, i);
        if (!json_is_object(x)) return err_set(e, E_FORMAT, "messages[%zu] must be an object", i);
        if (!json_is_string(json_object_get(x, "role")))
            return err_set(e, E_FORMAT, "messages[%zu]: \"role\" must be a string", i);
        TRY(check_content(json_object_get(x, "content"), i, e));
    }
    return OK;
}

static int nomem(struct err *e) { return err_set(e, E_NOMEM, "no memory for a template's variables"); }

/* A token's text as vars[key], unless the caller gave one. Text that is not UTF-8 cannot be a variable: left out. */
static int put_token(json_t *vars, const char *key, const struct tok *tok, int32_t id, struct err *e)
{
    if (json_object_get(vars, key)) return OK;
    struct str s = tok && id >= 0 ? tok_text(tok, id) : (struct str){"", 0};
    if (utf8_check(s.p, s.n) != s.n) s.n = 0;
    return json_object_set_new(vars, key, json_stringn(s.p, s.n)) < 0 ? nomem(e) : OK;
}

static int put_default(json_t *vars, const char *key, json_t *v, struct err *e)
{
    if (json_object_get(vars, key)) {
        json_decref(v);
        return OK;
    }
    return json_object_set_new(vars, key, v) < 0 ? nomem(e) : OK;
}

int chat_vars(json_t **out, const json_t *in, const struct tok *tok, struct err *e)
{
    *out = NULL;
    if (!json_is_array(in) && !json_is_object(in))
        return err_set(e, E_FORMAT, "an array of messages or an object of variables is expected");
    json_t *src = (json_t *)(uintptr_t)in; /* jansson takes no const where it counts references */
    json_t *v = json_is_array(in) ? json_object() : json_copy(src);
    int rc = OK;
    if (!v) return nomem(e);
    if (json_is_array(in) && json_object_set(v, "messages", src) < 0) TRYG(nomem(e));
    TRYG(check_messages(json_object_get(v, "messages"), e));
    TRYG(put_default(v, "tools", json_null(), e));
    TRYG(put_default(v, "documents", json_null(), e));
    TRYG(put_default(v, "add_generation_prompt", json_true(), e));
    TRYG(put_token(v, "bos_token", tok, tok ? tok_bos(tok) : -1, e));
    TRYG(put_token(v, "eos_token", tok, tok ? tok_eos(tok) : -1, e));
    *out = v;
    return OK;
out:
    json_decref(v);
    return rc;
}

int chat_render(struct buf *out, struct str tmpl, const json_t *messages, const struct tok *tok, bool generation_prompt,
                struct err *e)
{
    static const struct jinja_opt opt = {.now = INT64_MIN};
    json_t *v = NULL;
    struct jinja *j = NULL;
    int rc;
    if (!tmpl.n) return err_set(e, E_ARG, "the model has no chat template");
    TRYG(chat_vars(&v, messages, tok, e));
    if (json_object_set_new(v, "add_generation_prompt", json_boolean(generation_prompt)) < 0) TRYG(nomem(e));
    rc = jinja_compile(&j, tmpl.p, tmpl.n, e);
    if (rc == OK) rc = jinja_render(j, v, &opt, out, e);
    if (rc < 0) err_prefix(e, "chat template");
out:
    jinja_free(j);
    json_decref(v);
    return rc;
}
