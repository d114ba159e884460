/* jinja_eval.c: walks the tree. Every level of recursion passes eval() or run_body(), which count depth and steps; frames are
 * kept small by leaving each kind of node to its own function. Output goes to one buffer: a macro, set block or filter block
 * writes at its end and cuts its part off. */
#include "model/jinja_impl.h"
#include <string.h>

enum { FLOW_BREAK = 1, FLOW_CONTINUE = 2 }; /* results of statements besides OK and errors */
#define NOINLINE __attribute__((noinline))

static int eval(struct rt *r, const struct node *n, struct val *out);
static int run_body(struct rt *r, const struct body *b);

static int deeper(struct rt *r)
{
    if (UNLIKELY(++r->depth > JINJA_MAX_DEPTH))
        return jinja_bound(r, "calls and blocks nested more than %d levels deep", JINJA_MAX_DEPTH);
    if (UNLIKELY(++r->steps > r->max_steps)) return jinja_steps_over(r);
    return OK;
}

/* ---- slots */

static struct act *act_up(struct rt *r, uint32_t hops)
{
    struct act *a = r->act;
    while (hops--) a = a->up;
    return a;
}

static int new_act(struct rt *r, struct act *up, uint32_t n_slot, struct act **out)
{
    struct act *a = arena_alloc(&r->a, 1, sizeof *a + (size_t)n_slot * sizeof *a->v); /* zeroed: V_MISSING */
    if (!a) return jinja_nomem(r);
    a->up = up;
    a->v = (struct val *)(a + 1);
    *out = a;
    return OK;
}

static void enter_frame(struct rt *r, const struct frame *f)
{
    struct val *v = r->act->v;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct finit *x = f->v + i;
        switch (x->kind) {
        case LOAD_ALIAS: v[x->slot] = act_up(r, x->hops)->v[x->src]; break;
        case LOAD_UNDEF: v[x->slot] = v_missing(); break;
        case LOAD_RESOLVE: {
            const struct val *o = jinja_dict_str(r, r->vars, x->name);
            const struct jinja_fn *fn = o ? NULL : jinja_find_global(x->name);
            v[x->slot] = o ? *o : fn ? (struct val){.t = V_FUNC, .u.fn = fn} : v_missing();
            break;
        }
        default: break;
        }
    }
}

static void leave_frame(struct rt *r, const struct frame *f)
{
    for (uint32_t i = 0; i < f->n; i++) r->act->v[f->v[i].slot] = v_missing();
}

/* Room for n values on the argument stack; give_back with the old height. Falls back to the arena for big calls. */
static int room(struct rt *r, uint32_t n, struct val **out)
{
    if (r->cap_vs - r->n_vs >= n) {
        *out = r->vs + r->n_vs;
        r->n_vs += n;
        return OK;
    }
    *out = arena_alloc(&r->a, n, sizeof **out);
    return *out ? OK : jinja_nomem(r);
}

/* ---- assignment */

static NOINLINE int unpack(struct rt *r, const struct node *t, struct val v);

static int assign(struct rt *r, const struct node *t, struct val v)
{
    if (t->k == N_NAME) {
        r->act->v[t->u.name.slot] = v;
        return OK;
    }
    if (t->k == N_NSREF) {
        struct val ns = act_up(r, t->u.name.hops)->v[t->u.name.slot];
        if (ns.t != V_NS) return jinja_fail(r, "cannot assign attribute on non-namespace object");
        return jinja_dict_set(r, ns.u.ns->d, v_str(t->u.name.attr.p, t->u.name.attr.n), v);
    }
    return unpack(r, t, v);
}

static NOINLINE int unpack(struct rt *r, const struct node *t, struct val v)
{
    struct list *l = NULL;
    if (v.t == V_TUPLE || v.t == V_LIST) {
        l = v.u.l;
    } else {
        if (!jinja_iterable(v)) return jinja_fail(r, "cannot unpack non-iterable %s object", jinja_type_name(v));
        TRY(jinja_to_list(r, v, &l));
    }
    if (l->n > t->u.l.n) return jinja_fail(r, "too many values to unpack (expected %u)", t->u.l.n);
    if (l->n < t->u.l.n) return jinja_fail(r, "not enough values to unpack (expected %u, got %u)", t->u.l.n, l->n);
    for (uint32_t i = 0; i < l->n; i++) TRY(assign(r, t->u.l.v[i], l->v[i]));
    return OK;
}

/* Python reads the namespaces of a target before it evaluates the value. */
static int check_ns(struct rt *r, const struct node *t)
{
    if (t->k == N_NSREF && act_up(r, t->u.name.hops)->v[t->u.name.slot].t != V_NS)
        return jinja_fail(r, "cannot assign attribute on non-namespace object");
    for (uint32_t i = 0; t->k == N_TUPLE && i < t->u.l.n; i++) TRY(check_ns(r, t->u.l.v[i]));
    return OK;
}

/* ---- output */

static int emit(struct rt *r, const char *p, size_t n)
{
    buf_put(&r->out, p, n);
    if (UNLIKELY(!buf_ok(&r->out))) return jinja_bound(r, "the rendering is longer than its bound of %zu bytes", r->out.max);
    r->steps += n / 64;
    return OK;
}

static int emit_val(struct rt *r, struct val v)
{
    if (v.t == V_STR) return emit(r, v.u.s, v.n);
    int rc = jinja_put_str(r, &r->out, v);
    if (UNLIKELY(!buf_ok(&r->out))) return jinja_bound(r, "the rendering is longer than its bound of %zu bytes", r->out.max);
    return rc;
}

/* The result of a call or filter block, which nothing turns into text. */
static int emit_str(struct rt *r, struct val v)
{
    return v.t == V_STR ? emit(r, v.u.s, v.n) : jinja_fail(r, "a block's result must be str, not %s", jinja_type_name(v));
}

/* Cuts off what was written since mark. */
static int cut(struct rt *r, size_t mark, struct val *out)
{
    int rc = jinja_str_copy(r, r->out.p ? r->out.p + mark : "", r->out.n - mark, out);
    r->out.n = mark;
    return rc;
}

/* ---- calls */

/* Arguments onto the stack. extra: a caller macro to pass as keyword, or NULL. */
static NOINLINE int get_args(struct rt *r, const struct nargs *a, const struct val *extra, struct args *g)
{
    struct val dyn, dynkw;
    struct list *l = NULL;
    const struct dict *d = NULL;
    uint32_t n = a->n, k = a->n_kw;
    *g = (struct args){.kw = a->kw};
    if (UNLIKELY(a->dyn || a->dynkw || extra)) {
        struct val *pos;
        TRY(room(r, a->n + a->n_kw, &pos));
        for (uint32_t i = 0; i < a->n; i++) TRY(eval(r, a->v[i], &pos[i]));
        if (a->dyn) {
            TRY(eval(r, a->dyn, &dyn));
            TRY(jinja_to_list(r, dyn, &l));
            n += l->n;
        }
        for (uint32_t i = 0; i < a->n_kw; i++) TRY(eval(r, a->kv[i], &pos[a->n + i]));
        if (a->dynkw) {
            TRY(eval(r, a->dynkw, &dynkw));
            if (dynkw.t != V_DICT) return jinja_fail(r, "argument after ** must be a mapping, not %s", jinja_type_name(dynkw));
            d = dynkw.u.o;
        }
        k += (d ? d->n : 0) + (extra != NULL);
        struct str *kw = arena_alloc(&r->a, k, sizeof *kw);
        if (!kw) return jinja_nomem(r);
        TRY(room(r, n, &g->v));
        TRY(room(r, k, &g->kv));
        if (a->n) memcpy(g->v, pos, a->n * sizeof *pos);
        if (l && l->n) memcpy(g->v + a->n, l->v, l->n * sizeof *pos);
        g->n = n;
        for (uint32_t i = 0; i < k; i++) {
            if (i < a->n_kw) {
                kw[i] = a->kw[i];
                g->kv[i] = pos[a->n + i];
            } else if (extra && i == a->n_kw) {
                kw[i] = str_of("caller");
                g->kv[i] = *extra;
            } else {
                const struct pair *p = &d->e[i - a->n_kw - (extra != NULL)];
                if (p->k.t != V_STR) return jinja_fail(r, "keywords must be strings");
                kw[i] = v_slice(p->k);
                g->kv[i] = p->v;
            }
            for (uint32_t m = 0; m < i; m++)
                if (str_same(kw[m], kw[i]))
                    return jinja_fail(r, "got multiple values for keyword argument '%.*s'", (int)MIN(kw[i].n, (size_t)60),
                                      kw[i].p);
            TRY(jinja_work(r, 64 * (size_t)i));
        }
        g->kw = kw;
        g->n_kw = k;
        return OK;
    }
    TRY(room(r, n, &g->v));
    for (g->n = 0; g->n < n; g->n++) TRY(eval(r, a->v[g->n], &g->v[g->n]));
    if (!k) return OK;
    TRY(room(r, k, &g->kv));
    for (; g->n_kw < k; g->n_kw++) TRY(eval(r, a->kv[g->n_kw], &g->kv[g->n_kw]));
    return OK;
}

/* Result rc of fn: a generator's failure becomes a generator that fails when read. */
static int lazily(struct rt *r, const struct jinja_fn *fn, int rc, uint32_t depth, struct val *out)
{
    struct list *l;
    if (LIKELY(rc != E_FORMAT || !fn->lazy)) return rc;
    r->data_depth = depth;
    const char *m = r->e ? r->e->msg : "";
    char *copy = arena_strndup(&r->a, m, strlen(m));
    if (!copy) return jinja_nomem(r);
    TRY(jinja_list_new(r, 0, &l));
    TRY(jinja_gen_new(r, l, out));
    out->u.g->fail = copy;
    return OK;
}

/* Binds by "a,b,c" and calls. */
int jinja_call_fn(struct rt *r, const struct jinja_fn *fn, struct val self, const struct args *g, const char *kind,
                  struct val *out)
{
    struct val a[JINJA_MAX_PARAM];
    uint32_t depth = r->data_depth;
    TRY(jinja_work(r, 0));
    if (fn->raw) return lazily(r, fn, fn->raw(r, self, g, out), depth, out);
    uint32_t n = 0;
    for (const char *p = fn->params; *p; n++) {
        CHECK(n < JINJA_MAX_PARAM); /* the tables of functions are our own */
        size_t k = strcspn(p, ",");
        struct val *to = &a[n];
        *to = v_missing();
        if (n < g->n) *to = g->v[n];
        for (uint32_t i = 0; i < g->n_kw && !fn->pos_only; i++)
            if (g->kw[i].n == k && memcmp(g->kw[i].p, p, k) == 0) {
                if (to->t != V_MISSING)
                    return jinja_fail(r, "%s%s() got multiple values for argument '%.*s'", kind, fn->name, (int)k, p);
                *to = g->kv[i];
            }
        if (to->t == V_MISSING && n < fn->need)
            return jinja_fail(r, "%s%s() misses its argument '%.*s'", kind, fn->name, (int)k, p);
        p += k + (p[k] == ',');
    }
    if (g->n > n) return jinja_fail(r, "%s%s() takes at most %u arguments (%u given)", kind, fn->name, n, g->n);
    for (uint32_t i = 0; i < g->n_kw; i++) { /* all keywords known? */
        bool known = false;
        for (const char *p = fn->params; *p && !fn->pos_only; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
            known |= strcspn(p, ",") == g->kw[i].n && memcmp(p, g->kw[i].p, g->kw[i].n) == 0;
        if (!known)
            return jinja_fail(r, "%s%s() got an unexpected keyword argument '%.*s'", kind, fn->name,
                              (int)MIN(g->kw[i].n, (size_t)60), g->kw[i].p);
    }
    return lazily(r, fn, fn->fn(r, self, a, out), depth, out);
}

/* Fills the slots of a macro's activation from the arguments (runtime.Macro.__call__). */
static NOINLINE int bind_macro(struct rt *r, const struct nmacro *m, struct act *act, const struct args *g)
{
    bool found_caller = g->n >= m->n_arg && m->explicit_caller;
    uint32_t used = 0;
    for (uint32_t i = 0; i < m->n_arg; i++) {
        struct val *slot = &act->v[m->arg[i]->u.name.slot];
        struct str name = m->arg[i]->u.name.s;
        if (i < g->n) {
            *slot = g->v[i];
            continue;
        }
        if (str_eq(name, "caller")) found_caller = true;
        for (uint32_t k = 0; k < g->n_kw; k++)
            if (str_same(g->kw[k], name)) {
                *slot = g->kv[k];
                used++;
            }
    }
    bool want_caller = m->caller && !found_caller;
    if (want_caller) {
        struct val *slot = &act->v[m->caller_slot];
        *slot = jinja_undef_hint("No caller defined");
        for (uint32_t k = 0; k < g->n_kw; k++)
            if (str_eq(g->kw[k], "caller")) {
                if (g->kv[k].t != V_NONE) *slot = g->kv[k];
                used++;
            }
    }
    if (m->kwargs) {
        struct dict *d;
        TRY(jinja_dict_new(r, &d));
        for (uint32_t k = 0; k < g->n_kw; k++) {
            bool mine = want_caller && str_eq(g->kw[k], "caller");
            for (uint32_t i = MIN(g->n, m->n_arg); i < m->n_arg; i++) mine |= str_same(g->kw[k], m->arg[i]->u.name.s);
            if (!mine) TRY(jinja_dict_set(r, d, v_str(g->kw[k].p, g->kw[k].n), g->kv[k]));
        }
        act->v[m->kwargs_slot] = (struct val){.t = V_DICT, .u.o = d};
    } else if (used < g->n_kw) {
        return jinja_fail(r, "macro '%.*s' was given a keyword argument that it does not take, or twice",
                          (int)MIN(m->name.n, (size_t)60), m->name.p);
    }
    if (m->varargs) {
        struct list *l;
        TRY(jinja_list_new(r, 0, &l));
        for (uint32_t i = m->n_arg; i < g->n; i++) TRY(jinja_list_push(r, l, g->v[i]));
        act->v[m->varargs_slot] = v_tuple(l);
    } else if (g->n > m->n_arg) {
        return jinja_fail(r, "macro '%.*s' takes not more than %u argument(s)", (int)MIN(m->name.n, (size_t)60), m->name.p,
                          m->n_arg);
    }
    return OK;
}

NOINLINE int jinja_call_macro(struct rt *r, const struct macro *mc, const struct args *g, struct val *out)
{
    const struct nmacro *m = mc->def;
    struct act *act = NULL, *back = r->act;
    size_t mark = r->out.n;
    TRY(new_act(r, mc->up, m->fn->n_slot, &act));
    TRY(bind_macro(r, m, act, g));
    r->act = act;
    enter_frame(r, &m->frame);
    for (uint32_t i = 0; i < m->n_arg; i++) {
        struct val *slot = &act->v[m->arg[i]->u.name.slot];
        if (slot->t != V_MISSING) continue;
        struct val v = jinja_undef(m->arg[i]->u.name.s);
        if (i + m->n_def >= m->n_arg) TRY(eval(r, m->def[i + m->n_def - m->n_arg], &v));
        *slot = v;
    }
    TRY(run_body(r, &m->body));
    r->act = back;
    return cut(r, mark, out);
}

int jinja_call(struct rt *r, struct val f, const struct args *g, struct val *out)
{
    switch (f.t) {
    case V_MACRO: return jinja_call_macro(r, f.u.m, g, out);
    case V_FUNC: return jinja_call_fn(r, f.u.fn, v_none(), g, "", out);
    case V_METHOD: return jinja_call_fn(r, f.u.me->fn, f.u.me->self, g, ".", out);
    case V_LOOP: return jinja_loop_call(r, f.u.loop, g, out);
    case V_JOINER:
        if (g->n || g->n_kw) return jinja_fail(r, "a joiner takes no arguments");
        *out = f.u.jo->used ? f.u.jo->sep : v_str("", 0);
        f.u.jo->used = true;
        return OK;
    case V_UNDEF: return jinja_undef_error(r, f);
    default: return jinja_fail(r, "'%s' object is not callable", jinja_type_name(f));
    }
}

static NOINLINE int eval_call(struct rt *r, const struct node *n, const struct val *caller, struct val *out)
{
    struct args g;
    struct val f;
    const struct jinja_fn *fn = NULL;
    uint32_t mark = r->n_vs;
    const struct node *c = n->u.call.obj;
    if (c->k == N_ATTR) { /* a method called at once needs no bound object */
        TRY(eval(r, c->u.attr.obj, &f));
        fn = f.t == V_UNDEF ? NULL : jinja_find_method(f.t, c->u.attr.name);
        if (!fn) {
            r->line = c->line;
            TRY(jinja_getattr(r, f, c->u.attr.name, &f));
        }
    } else {
        TRY(eval(r, c, &f));
    }
    TRY(get_args(r, n->u.call.args, caller, &g));
    r->line = n->line;
    int rc = fn ? jinja_call_fn(r, fn, f, &g, ".", out) : jinja_call(r, f, &g, out);
    r->n_vs = mark;
    return rc;
}

static NOINLINE int eval_filter(struct rt *r, const struct node *n, const struct val *in, struct val *out)
{
    struct args g;
    struct val v;
    uint32_t mark = r->n_vs;
    if (!n->u.call.fn)
        return jinja_fail(r, "No %s named '%.*s' found", n->k == N_TEST ? "test" : "filter",
                          (int)MIN(n->u.call.name.n, (size_t)60), n->u.call.name.p);
    if (n->u.call.obj) {
        if (in && n->u.call.obj->k == N_FILTER)
            TRY(eval_filter(r, n->u.call.obj, in, &v));
        else
            TRY(eval(r, n->u.call.obj, &v));
    } else {
        v = in ? *in : v_none();
    }
    TRY(get_args(r, n->u.call.args, NULL, &g));
    r->line = n->line;
    TRY(jinja_call_fn(r, n->u.call.fn, v, &g, "|", out));
    r->n_vs = mark;
    return OK;
}

/* ---- expressions */

static NOINLINE int eval_seq(struct rt *r, const struct node *n, struct val *out)
{
    struct list *l;
    TRY(jinja_list_new(r, n->u.l.n, &l));
    for (uint32_t i = 0; i < n->u.l.n; i++) TRY(eval(r, n->u.l.v[i], &l->v[i]));
    l->n = n->u.l.n;
    *out = (struct val){.t = n->k == N_LIST ? V_LIST : V_TUPLE, .u.l = l};
    return OK;
}

static NOINLINE int eval_dict(struct rt *r, const struct node *n, struct val *out)
{
    struct dict *d;
    struct val k, v;
    TRY(jinja_dict_new(r, &d));
    for (uint32_t i = 0; i < n->u.l.n; i += 2) {
        TRY(eval(r, n->u.l.v[i], &k));
        TRY(eval(r, n->u.l.v[i + 1], &v));
        TRY(jinja_dict_set(r, d, k, v));
    }
    *out = (struct val){.t = V_DICT, .u.o = d};
    return OK;
}

static NOINLINE int eval_bin(struct rt *r, const struct node *n, struct val *out)
{
    struct val a, b;
    TRY(eval(r, n->u.l.v[0], &a));
    for (uint32_t i = 1; i < n->u.l.n; i++) {
        TRY(eval(r, n->u.l.v[i], &b));
        r->line = n->line;
        TRY(jinja_binop(r, n->u.l.op[i - 1], a, b, &a));
    }
    *out = a;
    return OK;
}

static NOINLINE int eval_logic(struct rt *r, const struct node *n, struct val *out)
{
    for (uint32_t i = 0; i < n->u.l.n; i++) {
        TRY(eval(r, n->u.l.v[i], out));
        if (jinja_truth(*out) == (n->k == N_OR)) break;
    }
    return OK;
}

static int compare(struct rt *r, uint8_t op, struct val a, struct val b, bool *res)
{
    static const char *const names[] = {[T_LT] = "<", [T_LE] = "<=", [T_GT] = ">", [T_GE] = ">="};
    int c;
    if (op == T_EQ || op == T_NE) {
        TRY(jinja_eq(r, a, b, res));
        *res ^= op == T_NE;
        return OK;
    }
    if (op == T_IN || op == T_NOTIN) {
        TRY(jinja_contains(r, b, a, res));
        *res ^= op == T_NOTIN;
        return OK;
    }
    TRY(jinja_cmp(r, a, b, names[op], &c));
    *res = c != 2 && (op == T_LT ? c < 0 : op == T_LE ? c <= 0 : op == T_GT ? c > 0 : c >= 0);
    return OK;
}

static NOINLINE int eval_cmp(struct rt *r, const struct node *n, struct val *out)
{
    struct val a, b;
    bool res = true;
    TRY(eval(r, n->u.l.v[0], &a));
    for (uint32_t i = 1; res && i < n->u.l.n; i++) {
        TRY(eval(r, n->u.l.v[i], &b));
        r->line = n->line;
        TRY(compare(r, n->u.l.op[i - 1], a, b, &res));
        a = b;
    }
    *out = v_bool(res);
    return OK;
}

static NOINLINE int eval_concat(struct rt *r, const struct node *n, struct val *out)
{
    struct val a, b;
    if (n->u.l.n == 2) {
        TRY(eval(r, n->u.l.v[0], &a));
        TRY(jinja_str(r, a, &a));
        TRY(eval(r, n->u.l.v[1], &b));
        TRY(jinja_str(r, b, &b));
        return jinja_str_cat(r, a, b, out);
    }
    struct buf t;
    int rc = OK;
    jinja_buf_init(r, &t);
    for (uint32_t i = 0; rc == OK && i < n->u.l.n; i++) {
        rc = eval(r, n->u.l.v[i], &a);
        if (rc == OK) rc = jinja_put_str(r, &t, a);
    }
    if (rc == OK) return jinja_str_take(r, &t, out);
    buf_free(&t);
    return rc;
}

static NOINLINE int eval_item(struct rt *r, const struct node *n, struct val *out)
{
    struct val a, b;
    TRY(eval(r, n->u.p.a, &a));
    const struct node *k = n->u.p.b;
    if (k->k != N_SLICE) {
        TRY(eval(r, k, &b));
        r->line = n->line;
        return jinja_getitem(r, a, b, out);
    }
    struct val hi = v_missing(), step = v_missing();
    b = v_missing();
    if (k->u.p.a) TRY(eval(r, k->u.p.a, &b));
    if (k->u.p.b) TRY(eval(r, k->u.p.b, &hi));
    if (k->u.p.c) TRY(eval(r, k->u.p.c, &step));
    r->line = n->line;
    return jinja_slice(r, a, b, hi, step, out);
}

static int eval_name(struct rt *r, const struct node *n, struct val *out)
{
    *out = act_up(r, n->u.name.hops)->v[n->u.name.slot];
    if (out->t == V_MISSING) *out = jinja_undef(n->u.name.s);
    return OK;
}

static int eval_kind(struct rt *r, const struct node *n, struct val *out)
{
    switch (n->k) {
    case N_NAME: return eval_name(r, n, out);
    case N_TUPLE:
    case N_LIST: return eval_seq(r, n, out);
    case N_DICT: return eval_dict(r, n, out);
    case N_BIN: return eval_bin(r, n, out);
    case N_AND:
    case N_OR: return eval_logic(r, n, out);
    case N_NOT:
        TRY(eval(r, n->u.p.a, out));
        *out = v_bool(!jinja_truth(*out));
        return OK;
    case N_NEG:
    case N_POS: TRY(eval(r, n->u.p.a, out)); return jinja_unary(r, n->k == N_NEG, *out, out);
    case N_CMP: return eval_cmp(r, n, out);
    case N_CONCAT: return eval_concat(r, n, out);
    case N_COND:
        TRY(eval(r, n->u.p.a, out));
        if (jinja_truth(*out)) return eval(r, n->u.p.b, out);
        if (n->u.p.c) return eval(r, n->u.p.c, out);
        *out = jinja_undef_hint("the inline if-expression evaluated to false and no else section was defined");
        return OK;
    case N_ATTR:
        TRY(eval(r, n->u.attr.obj, out));
        r->line = n->line;
        return jinja_getattr(r, *out, n->u.attr.name, out);
    case N_ITEM: return eval_item(r, n, out);
    case N_CALL: return eval_call(r, n, NULL, out);
    default: return eval_filter(r, n, NULL, out);
    }
}

static int eval(struct rt *r, const struct node *n, struct val *out)
{
    if (n->k == N_CONST) {
        *out = n->u.c;
        return OK;
    }
    r->line = n->line;
    TRY(deeper(r));
    int rc = eval_kind(r, n, out);
    r->depth--;
    return rc;
}

/* ---- loops */

/* Next item that the loop's filter lets through; the filter runs in a function of its own, as late as the loop asks. 1, 0 at the
 * end. */
static int pull(struct rt *r, struct loop *l, struct val *v)
{
    if (l->rest) {
        if (l->rest_pos >= l->rest->n) return 0;
        *v = l->rest->v[l->rest_pos++];
        return 1;
    }
    for (;;) {
        int rc = jinja_iter_next(r, &l->it, v);
        if (rc <= 0 || !l->def->test) return rc;
        struct act *back = r->act;
        struct val t;
        r->act = l->test_act;
        TRY(assign(r, l->def->test_target, *v));
        enter_frame(r, &l->def->f_test);
        TRY(eval(r, l->def->test, &t));
        r->act = back;
        if (jinja_truth(t)) return 1;
    }
}

static int peek(struct rt *r, struct loop *l)
{
    if (l->after.t != V_MISSING) return 1;
    struct val v;
    int rc = pull(r, l, &v);
    if (rc > 0) l->after = v;
    return rc;
}

static int loop_length(struct rt *r, struct loop *l)
{
    if (l->length >= 0) return OK;
    if (!l->def->test && l->it.v.t != V_GEN) {
        uint64_t n;
        TRY(jinja_len(r, l->it.v, &n));
        l->length = (int64_t)n;
        return OK;
    }
    struct list *rest;
    struct val v;
    int rc;
    TRY(jinja_list_new(r, 0, &rest));
    while ((rc = pull(r, l, &v)) > 0) TRY(jinja_list_push(r, rest, v));
    if (rc < 0) return rc;
    l->rest = rest;
    l->rest_pos = 0;
    l->length = rest->n + l->index0 + 1 + (l->after.t != V_MISSING);
    return OK;
}

static int loop_cycle(struct rt *r, struct val self, const struct args *g, struct val *out)
{
    if (!g->n || g->n_kw) return jinja_fail(r, "no items for cycling given");
    *out = g->v[self.u.loop->index0 % g->n];
    return OK;
}

static int loop_changed(struct rt *r, struct val self, const struct args *g, struct val *out)
{
    struct loop *l = self.u.loop;
    struct list *now;
    bool same = false;
    TRY(jinja_list_new(r, g->n, &now));
    if (g->n) memcpy(now->v, g->v, g->n * sizeof *g->v);
    now->n = g->n;
    if (l->changed) TRY(jinja_eq(r, v_list(l->changed), v_list(now), &same));
    if (!same) l->changed = now;
    *out = v_bool(!same);
    return OK;
}

static int loop_method(struct rt *r, struct loop *l, const struct jinja_fn *fn, struct val *out)
{
    struct method *m = arena_alloc(&r->a, 1, sizeof *m);
    if (!m) return jinja_nomem(r);
    *m = (struct method){{.t = V_LOOP, .u.loop = l}, fn};
    *out = (struct val){.t = V_METHOD, .u.me = m};
    return 1;
}

int jinja_loop_attr(struct rt *r, struct loop *l, struct str name, struct val *out)
{
    static const struct jinja_fn cycle = {"cycle", NULL, loop_cycle, NULL, 0, false, false},
                                 changed = {"changed", NULL, loop_changed, NULL, 0, false, false};
    int rc;
    if (str_eq(name, "index"))
        *out = v_int(l->index0 + 1);
    else if (str_eq(name, "index0"))
        *out = v_int(l->index0);
    else if (str_eq(name, "first"))
        *out = v_bool(l->index0 == 0);
    else if (str_eq(name, "depth"))
        *out = v_int((int64_t)l->depth0 + 1);
    else if (str_eq(name, "depth0"))
        *out = v_int(l->depth0);
    else if (str_eq(name, "last")) {
        TRY(rc = peek(r, l));
        *out = v_bool(rc == 0);
    } else if (str_eq(name, "length")) {
        TRY(loop_length(r, l));
        *out = v_int(l->length);
    } else if (str_eq(name, "revindex") || str_eq(name, "revindex0")) {
        TRY(loop_length(r, l));
        *out = v_int(l->length - l->index0 - (name.n == 9));
    } else if (str_eq(name, "previtem")) {
        *out = l->index0 == 0 ? jinja_undef_hint("there is no previous item") : l->before;
    } else if (str_eq(name, "nextitem")) {
        TRY(rc = peek(r, l));
        *out = rc ? l->after : jinja_undef_hint("there is no next item");
    } else if (str_eq(name, "cycle"))
        return loop_method(r, l, &cycle, out);
    else if (str_eq(name, "changed"))
        return loop_method(r, l, &changed, out);
    else
        return 0;
    return 1;
}

/* One run over it in the current activation. */
static NOINLINE int loop_run(struct rt *r, const struct nfor *f, struct val seq, struct act *up, uint32_t depth0)
{
    struct loop *l = arena_alloc(&r->a, 1, sizeof *l);
    if (!l) return jinja_nomem(r);
    *l = (struct loop){.def = f, .act = up, .index0 = -1, .length = -1, .depth0 = depth0};
    TRY(jinja_iter(r, seq, &l->it));
    if (f->test) TRY(new_act(r, up, f->fn_test->n_slot, &l->test_act));
    bool any = false;
    int rc;
    for (;;) {
        struct val v;
        if (l->after.t != V_MISSING) {
            v = l->after;
            l->after = v_missing();
        } else {
            rc = pull(r, l, &v);
            if (rc < 0) return rc;
            if (!rc) break;
        }
        l->index0++;
        l->before = l->current;
        l->current = v;
        if (f->extended) r->act->v[f->loop_slot] = (struct val){.t = V_LOOP, .u.loop = l};
        TRY(assign(r, f->target, v));
        enter_frame(r, &f->f_body);
        rc = run_body(r, &f->body);
        if (rc < 0) return rc;
        if (rc == FLOW_BREAK) break;
        any |= rc == OK; /* Jinja2: else runs when no turn came to its end, so also after a continue in all of them */
    }
    if (!f->recursive) leave_frame(r, &f->f_body);
    if (any || !f->els.n) return OK;
    enter_frame(r, &f->f_els);
    rc = run_body(r, &f->els);
    leave_frame(r, &f->f_els);
    return rc;
}

static NOINLINE int loop_recursive(struct rt *r, const struct nfor *f, struct val seq, struct act *up, uint32_t depth0,
                                   struct val *out)
{
    struct act *act = NULL, *back = r->act;
    size_t mark = r->out.n;
    TRY(new_act(r, up, f->fn->n_slot, &act));
    r->act = act;
    int rc = loop_run(r, f, seq, up, depth0);
    if (rc < 0) return rc;
    r->act = back;
    return cut(r, mark, out);
}

int jinja_loop_call(struct rt *r, struct loop *l, const struct args *g, struct val *out)
{
    if (!l->def->recursive) return jinja_fail(r, "The loop must have the 'recursive' marker to be called recursively.");
    if (g->n != 1 || g->n_kw) return jinja_fail(r, "loop() takes exactly one argument");
    return loop_recursive(r, l->def, g->v[0], l->act, l->depth0 + 1, out);
}

static NOINLINE int run_for(struct rt *r, const struct node *n)
{
    const struct nfor *f = n->u.loop;
    struct val seq;
    TRY(eval(r, f->iter, &seq));
    r->line = n->line;
    if (!f->recursive) return loop_run(r, f, seq, r->act, 0);
    TRY(loop_recursive(r, f, seq, r->act, 0, &seq));
    return emit_val(r, seq);
}

/* ---- statements */

static NOINLINE int run_if(struct rt *r, const struct node *n)
{
    struct val v;
    for (uint32_t i = 0; i < n->u.cond.n; i++) {
        const struct branch *b = n->u.cond.v + i;
        if (b->test) {
            TRY(eval(r, b->test, &v));
            if (!jinja_truth(v)) continue;
        }
        return run_body(r, &b->body);
    }
    return OK;
}

static NOINLINE int run_block(struct rt *r, const struct node *n)
{
    const struct nset *s = n->u.set;
    size_t mark = r->out.n;
    struct val v;
    enter_frame(r, &s->frame);
    int rc = run_body(r, &s->body);
    if (rc != OK) {
        r->out.n = mark;
        return rc;
    }
    TRY(cut(r, mark, &v));
    if (s->filter) TRY(eval_filter(r, s->filter, &v, &v));
    if (n->k == S_SETBLOCK)
        TRY(assign(r, s->target[0], v));
    else
        TRY(emit_str(r, v));
    leave_frame(r, &s->frame);
    return OK;
}

static NOINLINE int run_with(struct rt *r, const struct nset *s)
{
    struct val v;
    enter_frame(r, &s->frame);
    for (uint32_t i = 0; i < s->n; i++) {
        TRY(eval(r, s->value[i], &v));
        TRY(assign(r, s->target[i], v));
    }
    int rc = run_body(r, &s->body);
    if (rc >= 0) leave_frame(r, &s->frame);
    return rc;
}

static NOINLINE int run_macro(struct rt *r, const struct node *n)
{
    struct macro *m = arena_alloc(&r->a, 1, sizeof *m);
    struct val v;
    if (!m) return jinja_nomem(r);
    *m = (struct macro){n->u.macro, r->act};
    v = (struct val){.t = V_MACRO, .u.m = m};
    if (n->k == S_MACRO) return assign(r, n->u.macro->store, v);
    TRY(deeper(r));
    TRY(eval_call(r, n->u.macro->call, &v, &v));
    r->depth--;
    return emit_str(r, v);
}

static NOINLINE int run_set(struct rt *r, const struct nset *s)
{
    struct val v;
    TRY(check_ns(r, s->target[0]));
    TRY(eval(r, s->value[0], &v));
    return assign(r, s->target[0], v);
}

static NOINLINE int run_print(struct rt *r, const struct node *n)
{
    struct val v;
    for (uint32_t i = 0; i < n->u.l.n; i++) {
        TRY(eval(r, n->u.l.v[i], &v));
        TRY(emit_val(r, v));
    }
    return OK;
}

static int run(struct rt *r, const struct node *n)
{
    switch (n->k) {
    case S_DATA: return emit(r, n->u.c.u.s, n->u.c.n);
    case S_PRINT: return run_print(r, n);
    case S_IF: return run_if(r, n);
    case S_FOR: return run_for(r, n);
    case S_SET: return run_set(r, n->u.set);
    case S_SETBLOCK:
    case S_FILTER: return run_block(r, n);
    case S_MACRO:
    case S_CALL: return run_macro(r, n);
    case S_WITH: return run_with(r, n->u.set);
    case S_BREAK: return FLOW_BREAK;
    default: return FLOW_CONTINUE;
    }
}

static int run_body(struct rt *r, const struct body *b)
{
    TRY(deeper(r));
    for (uint32_t i = 0; i < b->n; i++) {
        const struct node *n = b->v[i];
        r->line = n->line;
        r->steps++;
        int rc = run(r, n);
        if (rc != OK) {
            r->depth--;
            return rc;
        }
    }
    r->depth--;
    return OK;
}

int jinja_run(struct rt *r)
{
    r->cap_vs = 1024;
    r->vs = arena_alloc(&r->a, r->cap_vs, sizeof *r->vs);
    if (!r->vs) return jinja_nomem(r);
    TRY(new_act(r, NULL, r->j->root.n_slot, &r->act));
    enter_frame(r, &r->j->frame);
    int rc = run_body(r, &r->j->body);
    return MIN(rc, OK);
}
