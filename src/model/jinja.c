/* jinja.c: the two entries: compile a template, render it. */
#include "model/jinja.h"
#include "base/mem.h"
#include "base/os.h"
#include "model/jinja_impl.h"
#include <string.h>

/* Jinja2 reads lines ended by \n, \r\n or \r and drops one line end at the end of the template. */
static int copy_text(struct jinja *j, const char *text, size_t n, struct err *e)
{
    char *t = arena_alloc(&j->a, n + 1, 1);
    size_t k = 0;
    if (!t) return err_set(e, E_NOMEM, "line 1: no memory for a template of %zu bytes", n);
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '\r') {
            c = '\n';
            if (i + 1 < n && text[i + 1] == '\n') i++;
        }
        t[k++] = c;
    }
    if (k && t[k - 1] == '\n') k--;
    j->text = t;
    j->n_text = k;
    size_t bad = utf8_check(t, k);
    if (bad == k) return OK;
    uint32_t line = 1;
    for (size_t i = 0; i < bad; i++) line += t[i] == '\n';
    return jinja_bad(e, line, "the template is not valid UTF-8");
}

int jinja_compile(struct jinja **out, const char *text, size_t n, struct err *e)
{
    *out = NULL;
    if (n > JINJA_MAX_TEXT) return jinja_bad(e, 1, "a template of %zu bytes, at most %d are read", n, JINJA_MAX_TEXT);
    struct jinja *j = mem_zalloc(1, sizeof *j);
    if (!j) return err_set(e, E_NOMEM, "line 1: no memory for a template");
    int rc;
    TRYG(copy_text(j, text, n, e));
    TRYG(jinja_parse(j, e));
    *out = j;
    return OK;
out:
    jinja_free(j);
    return rc;
}

void jinja_free(struct jinja *j)
{
    if (!j) return;
    arena_free(&j->a);
    mem_free(j);
}

int jinja_render(const struct jinja *j, const json_t *vars, const struct jinja_opt *o, struct buf *out, struct err *e)
{
    static const struct jinja_opt def = {.now = INT64_MIN};
    if (!o) o = &def;
    struct rt r = {.j = j, .e = e, .line = 1, .now = o->now};
    struct val v = v_none();
    r.max_steps = o->max_steps ? o->max_steps : 20000000;
    r.a.max = o->max_mem ? o->max_mem : (size_t)256 << 20;
    buf_init(&r.out, o->max_output ? o->max_output : (size_t)16 << 20);
    r.seed = os_random_u64();
    r.rnd = os_random_u64();
    int rc;
    if (vars && !json_is_object(vars)) return err_set(e, E_ARG, "line 1: the variables of a template must be an object");
    if (vars)
        TRYG(jinja_from_json(&r, vars, &v));
    else
        TRYG(jinja_dict_new(&r, &v.u.o));
    r.vars = v.u.o;
    TRYG(jinja_run(&r));
    size_t before = out->n;
    buf_put(out, r.out.p ? r.out.p : "", r.out.n);
    if (!buf_ok(out)) {
        out->n = before;
        rc = err_set(e, E_RANGE, "line %u: the rendering of %zu bytes does not fit where it should go", r.line, r.out.n);
    }
out:
    buf_free(&r.out);
    arena_free(&r.a);
    return rc;
}
