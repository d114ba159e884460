/* jinja_scope.c: which name means which slot. This is Jinja2's idtracking.py and the part of compiler.py that enters frames, told
 * in slots: every scope has a table of the names it has seen; a name is loaded from the variables when the scope is entered,
 * taken from an outer scope, or starts undefined, by the order of uses in the text. Jinja2 compiles to Python functions (one for
 * the template, each macro, call block, recursive loop and loop filter) whose local variables are named by nesting level and
 * name; a func here is such a function and its slots are those variables. A branch of an `if` is an overlay over its scope's
 * table, so that nothing is copied. */
#include "model/jinja_impl.h"
#include <string.h>

struct ent {
    uint32_t id, slot;
    uint8_t load; /* LOAD_* or NO_LOAD */
    bool ref, stored;
    const struct func *src_fn; /* LOAD_ALIAS */
    uint32_t src_slot;
};
enum { NO_LOAD = 255 };

struct map { /* open addressing: key + 1 -> value; in the template's arena */
    uint64_t *k;
    uint32_t *v;
    uint32_t n, cap;
};
struct syms {
    struct syms *parent, *base; /* outer scope; the scope that this branch overlays */
    struct func *fn;
    uint32_t level;
    struct ent *e;
    uint32_t n, cap;
    struct map map; /* id -> index, once there are many */
};
struct scope {
    struct arena *a;
    struct err *e;
    struct str *names;
};

static int nomem(struct scope *s) { return err_set(s->e, E_NOMEM, "line 1: no memory for the template"); }

static uint32_t *map_at(const struct map *m, uint64_t key)
{
    uint64_t h = (key + 1) * 0x9e3779b97f4a7c15u;
    for (uint32_t i = (uint32_t)(h >> 32);; i++) {
        uint32_t s = i & (m->cap - 1);
        if (!m->k[s] || m->k[s] == key + 1) return m->v + s;
    }
}

static bool map_get(const struct map *m, uint64_t key, uint32_t *v)
{
    if (!m->cap) return false;
    uint32_t *p = map_at(m, key);
    *v = *p;
    return m->k[p - m->v] != 0;
}

static int map_put(struct scope *s, struct map *m, uint64_t key, uint32_t v)
{
    if (2 * (m->n + 1) > m->cap) {
        struct map w = {.cap = m->cap ? 2 * m->cap : 16, .n = m->n};
        w.k = arena_alloc(s->a, w.cap, sizeof *w.k);
        w.v = arena_alloc(s->a, w.cap, sizeof *w.v);
        if (!w.k || !w.v) return nomem(s);
        for (uint32_t i = 0; i < m->cap; i++)
            if (m->k[i]) {
                uint32_t *p = map_at(&w, m->k[i] - 1);
                w.k[p - w.v] = m->k[i];
                *p = m->v[i];
            }
        *m = w;
    }
    uint32_t *p = map_at(m, key);
    if (!m->k[p - m->v]) m->n++;
    m->k[p - m->v] = key + 1;
    *p = v;
    return OK;
}

static struct ent *find(const struct syms *y, uint32_t id)
{
    if (y->map.cap) {
        uint32_t i;
        return map_get(&y->map, id, &i) ? y->e + i : NULL;
    }
    for (uint32_t i = 0; i < y->n; i++)
        if (y->e[i].id == id) return y->e + i;
    return NULL;
}

/* y's own entry for id, made when missing. */
static int own(struct scope *s, struct syms *y, uint32_t id, struct ent **out)
{
    if ((*out = find(y, id)) != NULL) return OK;
    if (y->n == y->cap) {
        uint32_t cap = y->cap ? 2 * y->cap : 8;
        struct ent *m = arena_alloc(s->a, cap, sizeof *m);
        if (!m) return nomem(s);
        if (y->n) memcpy(m, y->e, y->n * sizeof *m);
        y->e = m;
        y->cap = cap;
    }
    y->e[y->n] = (struct ent){.id = id, .load = NO_LOAD};
    *out = y->e + y->n;
    if (y->n++ >= 12) {
        if (!y->map.cap)
            for (uint32_t i = 0; i + 1 < y->n; i++) TRY(map_put(s, &y->map, y->e[i].id, i));
        TRY(map_put(s, &y->map, id, y->n - 1));
    }
    return OK;
}

/* Symbols.refs of this scope, branches' bases included. */
static struct ent *own_ref(const struct syms *y, uint32_t id)
{
    for (; y; y = y->base) {
        struct ent *x = find(y, id);
        if (x && x->ref) return x;
    }
    return NULL;
}

static const struct ent *find_ref(const struct syms *y, uint32_t id, const struct func **fn)
{
    for (; y; y = y->parent) {
        const struct ent *x = own_ref(y, id);
        if (x) {
            *fn = y->fn;
            return x;
        }
    }
    return NULL;
}

static int slot_of(struct scope *s, const struct syms *y, uint32_t id, uint32_t *slot)
{
    struct map *m = y->fn->map;
    if (!m && !(m = y->fn->map = arena_alloc(s->a, 1, sizeof *m))) return nomem(s);
    uint64_t key = (uint64_t)y->level << 32 | id;
    if (map_get(m, key, slot)) return OK;
    *slot = y->fn->n_slot++;
    return map_put(s, m, key, *slot);
}

static int define(struct scope *s, struct syms *y, uint32_t id, uint8_t load, const struct ent *src, const struct func *src_fn)
{
    struct ent *x;
    TRY(own(s, y, id, &x));
    TRY(slot_of(s, y, id, &x->slot));
    x->ref = true;
    x->load = load;
    if (src) {
        x->src_fn = src_fn;
        x->src_slot = src->slot;
    }
    return OK;
}

static int store(struct scope *s, struct syms *y, uint32_t id)
{
    struct ent *x, *r = own_ref(y, id);
    TRY(own(s, y, id, &x));
    x->stored = true;
    if (r) {
        x->ref = true;
        x->slot = r->slot;
        return OK;
    }
    const struct func *fn;
    const struct ent *outer = y->parent ? find_ref(y->parent, id, &fn) : NULL;
    return outer ? define(s, y, id, LOAD_ALIAS, outer, fn) : define(s, y, id, LOAD_UNDEF, NULL, NULL);
}

static int param(struct scope *s, struct syms *y, uint32_t id)
{
    struct ent *x;
    TRY(define(s, y, id, LOAD_PARAM, NULL, NULL));
    TRY(own(s, y, id, &x));
    x->stored = true;
    return OK;
}

/* A parameter that no name in the text stands for: loop, caller, kwargs, varargs. */
static int hidden_param(struct scope *s, struct syms *y, uint32_t id, uint32_t *slot)
{
    TRY(param(s, y, id));
    return slot_of(s, y, id, slot);
}

static int load(struct scope *s, struct syms *y, uint32_t id)
{
    const struct func *fn;
    return find_ref(y, id, &fn) ? OK : define(s, y, id, LOAD_RESOLVE, NULL, NULL);
}

/* ---- first walk: fill a scope's table (FrameSymbolVisitor) */

static int an_expr(struct scope *s, struct syms *y, const struct node *n);

static int an_list(struct scope *s, struct syms *y, struct node **v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) TRY(an_expr(s, y, v[i]));
    return OK;
}

static int an_expr(struct scope *s, struct syms *y, const struct node *n)
{
    if (!n) return OK;
    switch (n->k) {
    case N_NAME:
    case N_NSREF: return load(s, y, n->u.name.id);
    case N_TUPLE:
    case N_LIST:
    case N_DICT:
    case N_BIN:
    case N_AND:
    case N_OR:
    case N_CMP:
    case N_CONCAT: return an_list(s, y, n->u.l.v, n->u.l.n);
    case N_NOT:
    case N_NEG:
    case N_POS:
    case N_COND:
    case N_ITEM:
    case N_SLICE:
        TRY(an_expr(s, y, n->u.p.a));
        TRY(an_expr(s, y, n->u.p.b));
        return an_expr(s, y, n->u.p.c);
    case N_ATTR: return an_expr(s, y, n->u.attr.obj);
    case N_CALL:
    case N_FILTER:
    case N_TEST:
        TRY(an_expr(s, y, n->u.call.obj));
        TRY(an_list(s, y, n->u.call.args->v, n->u.call.args->n));
        TRY(an_list(s, y, n->u.call.args->kv, n->u.call.args->n_kw));
        TRY(an_expr(s, y, n->u.call.args->dyn));
        return an_expr(s, y, n->u.call.args->dynkw);
    default: return OK;
    }
}

static int an_target(struct scope *s, struct syms *y, const struct node *n, bool as_param)
{
    if (n->k == N_NAME) return as_param ? param(s, y, n->u.name.id) : store(s, y, n->u.name.id);
    if (n->k == N_NSREF) return load(s, y, n->u.name.id);
    for (uint32_t i = 0; i < n->u.l.n; i++) TRY(an_target(s, y, n->u.l.v[i], as_param));
    return OK;
}

static int an_body(struct scope *s, struct syms *y, const struct body *b);

/* Takes over what a branch's overlay saw (the update calls of Symbols.branch_update). */
static int merge(struct scope *s, struct syms *y, const struct syms *br, struct map *fresh)
{
    for (uint32_t i = 0; i < br->n; i++) {
        const struct ent *b = br->e + i;
        struct ent *x;
        bool was = false;
        for (const struct syms *q = y; q && !was; q = q->base) {
            const struct ent *z = find(q, b->id);
            was = z && z->stored;
        }
        if (b->stored && !was) TRY(map_put(s, fresh, b->id, 1));
        TRY(own(s, y, b->id, &x));
        if (b->ref) {
            x->ref = true;
            x->slot = b->slot;
        }
        if (b->load != NO_LOAD) {
            x->load = b->load;
            x->src_fn = b->src_fn;
            x->src_slot = b->src_slot;
        }
    }
    return OK;
}

static int finish_if(struct scope *s, struct syms *y, const struct map *fresh)
{
    for (uint32_t i = 0; i < fresh->cap; i++) {
        if (!fresh->k[i]) continue;
        uint32_t id = (uint32_t)(fresh->k[i] - 1);
        struct ent *x;
        const struct func *fn;
        TRY(own(s, y, id, &x));
        x->stored = true;
        const struct ent *outer = y->parent ? find_ref(y->parent, id, &fn) : NULL;
        x->load = outer ? LOAD_ALIAS : LOAD_RESOLVE;
        if (outer) {
            x->src_fn = fn;
            x->src_slot = outer->slot;
        }
    }
    return OK;
}

/* if: the body, all elifs together (each an if of its own within), and the else are three branches. */
static int an_if(struct scope *s, struct syms *y, const struct branch *br, uint32_t n)
{
    struct map fresh = {0};
    struct syms o[3];
    TRY(an_expr(s, y, br[0].test));
    for (int w = 0; w < 3; w++) o[w] = (struct syms){.parent = y->parent, .base = y, .fn = y->fn, .level = y->level};
    TRY(an_body(s, &o[0], &br[0].body));
    for (uint32_t i = 1; i < n; i++) {
        if (!br[i].test)
            TRY(an_body(s, &o[2], &br[i].body));
        else
            TRY(an_if(s, &o[1], br + i, 1));
    }
    for (int w = 0; w < 3; w++) TRY(merge(s, y, &o[w], &fresh));
    return finish_if(s, y, &fresh);
}

static int an_stmt(struct scope *s, struct syms *y, const struct node *n)
{
    switch (n->k) {
    case S_PRINT: return an_list(s, y, n->u.l.v, n->u.l.n);
    case S_IF: return an_if(s, y, n->u.cond.v, n->u.cond.n);
    case S_FOR: return an_expr(s, y, n->u.loop->iter);
    case S_SET: TRY(an_expr(s, y, n->u.set->value[0])); return an_target(s, y, n->u.set->target[0], false);
    case S_SETBLOCK: return an_target(s, y, n->u.set->target[0], false);
    case S_MACRO: return store(s, y, n->u.macro->store->u.name.id);
    case S_CALL: return an_expr(s, y, n->u.macro->call);
    case S_FILTER: return an_expr(s, y, n->u.set->filter);
    case S_WITH: return an_list(s, y, n->u.set->value, n->u.set->n);
    default: return OK;
    }
}

static int an_body(struct scope *s, struct syms *y, const struct body *b)
{
    for (uint32_t i = 0; i < b->n; i++) TRY(an_stmt(s, y, b->v[i]));
    return OK;
}

/* ---- second walk: slots into the tree, entry lists into the scopes (CodeGenerator) */

struct where { /* what the code generator's Frame says besides symbols */
    struct syms *y;
    bool soft;    /* inside an if: an unknown filter is an error only when reached */
    bool in_loop; /* break and continue have a loop in this func */
};

static uint16_t hops(const struct func *from, const struct func *to)
{
    uint16_t h = 0;
    for (; from != to; from = from->parent) h++;
    return h;
}

static int frame_of(struct scope *s, const struct syms *y, struct frame *f)
{
    f->v = arena_alloc(s->a, y->n, sizeof *f->v);
    if (!f->v) return nomem(s);
    for (uint32_t i = 0; i < y->n; i++) {
        const struct ent *x = y->e + i;
        if (x->load == NO_LOAD) continue;
        struct finit *o = f->v + f->n++;
        *o = (struct finit){.kind = x->load, .slot = x->slot};
        if (x->load == LOAD_ALIAS) {
            o->hops = hops(y->fn, x->src_fn);
            o->src = x->src_slot;
        } else if (x->load == LOAD_RESOLVE) {
            o->name = s->names[x->id];
        }
    }
    return OK;
}

static int res_expr(struct scope *s, const struct where *w, struct node *n);

static int res_list(struct scope *s, const struct where *w, struct node **v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) TRY(res_expr(s, w, v[i]));
    return OK;
}

static int res_call(struct scope *s, const struct where *w, struct node *n)
{
    struct str name = n->u.call.name;
    if (n->k != N_CALL && !n->u.call.fn && !w->soft)
        return jinja_bad(s->e, n->line, "No %s named '%.*s'", n->k == N_FILTER ? "filter" : "test", (int)MIN(name.n, (size_t)60),
                         name.p);
    TRY(res_expr(s, w, n->u.call.obj));
    TRY(res_list(s, w, n->u.call.args->v, n->u.call.args->n));
    TRY(res_list(s, w, n->u.call.args->kv, n->u.call.args->n_kw));
    TRY(res_expr(s, w, n->u.call.args->dyn));
    return res_expr(s, w, n->u.call.args->dynkw);
}

static int res_expr(struct scope *s, const struct where *w, struct node *n)
{
    if (!n) return OK;
    switch (n->k) {
    case N_NAME:
    case N_NSREF: {
        const struct func *fn;
        const struct ent *x = find_ref(w->y, n->u.name.id, &fn);
        if (!x) return jinja_bad(s->e, n->line, "'%.*s' has no meaning here", (int)MIN(n->u.name.s.n, (size_t)60), n->u.name.s.p);
        n->u.name.slot = x->slot;
        n->u.name.hops = hops(w->y->fn, fn);
        return OK;
    }
    case N_TUPLE:
    case N_LIST:
    case N_DICT:
    case N_BIN:
    case N_AND:
    case N_OR:
    case N_CMP:
    case N_CONCAT: return res_list(s, w, n->u.l.v, n->u.l.n);
    case N_COND: {
        struct where soft = *w;
        soft.soft = true;
        TRY(res_expr(s, &soft, n->u.p.a));
        TRY(res_expr(s, &soft, n->u.p.b));
        return res_expr(s, &soft, n->u.p.c);
    }
    case N_NOT:
    case N_NEG:
    case N_POS:
    case N_ITEM:
    case N_SLICE:
        TRY(res_expr(s, w, n->u.p.a));
        TRY(res_expr(s, w, n->u.p.b));
        return res_expr(s, w, n->u.p.c);
    case N_ATTR: return res_expr(s, w, n->u.attr.obj);
    case N_CALL:
    case N_FILTER:
    case N_TEST: return res_call(s, w, n);
    default: return OK;
    }
}

static int res_body(struct scope *s, const struct where *w, const struct body *b);

static struct syms inner(struct syms *y, struct func *fn)
{
    return (struct syms){.parent = y, .fn = fn ? fn : y->fn, .level = y->level + 1};
}

static struct func *new_func(struct scope *s, struct func *parent)
{
    struct func *f = arena_alloc(s->a, 1, sizeof *f);
    if (f) f->parent = parent;
    return f;
}

/* A copy of an assignment target, for a second scope to put its slots in. */
static int clone_target(struct scope *s, const struct node *t, struct node **out)
{
    struct node *n = *out = arena_alloc(s->a, 1, sizeof *n);
    if (!n) return nomem(s);
    *n = *t;
    if (t->k != N_TUPLE) return OK;
    n->u.l.v = arena_alloc(s->a, t->u.l.n, sizeof *n->u.l.v);
    if (!n->u.l.v) return nomem(s);
    for (uint32_t i = 0; i < t->u.l.n; i++) TRY(clone_target(s, t->u.l.v[i], &n->u.l.v[i]));
    return OK;
}

static int res_for(struct scope *s, const struct where *w, struct nfor *f)
{
    struct func *up = w->y->fn;
    if (f->recursive && !(f->fn = new_func(s, up))) return nomem(s);
    struct syms *body = arena_alloc(s->a, 1, sizeof *body);
    if (!body) return nomem(s);
    *body = inner(w->y, f->fn);
    uint32_t id_loop = 0; /* interned first by the parser */
    if (f->extended) TRY(hidden_param(s, body, id_loop, &f->loop_slot));
    TRY(an_target(s, body, f->target, true));
    TRY(an_body(s, body, &f->body));
    TRY(res_expr(s, w, f->iter));
    struct where in = {.y = body, .in_loop = true};
    if (f->test) {
        if (!(f->fn_test = new_func(s, up))) return nomem(s);
        struct syms test = inner(w->y, f->fn_test);
        TRY(an_target(s, &test, f->target, true));
        TRY(an_expr(s, &test, f->test));
        TRY(clone_target(s, f->target, &f->test_target));
        TRY(res_expr(s, &(struct where){.y = &test}, f->test_target));
        TRY(res_expr(s, &(struct where){.y = &test}, f->test));
        TRY(frame_of(s, &test, &f->f_test));
    }
    TRY(res_expr(s, &in, f->target));
    TRY(res_body(s, &in, &f->body));
    TRY(frame_of(s, body, &f->f_body));
    if (!f->els.n) return OK;
    struct syms els = inner(w->y, f->fn);
    TRY(an_body(s, &els, &f->els));
    TRY(res_body(s, &(struct where){.y = &els, .in_loop = w->in_loop && !f->recursive}, &f->els));
    return frame_of(s, &els, &f->f_els);
}

static int res_macro(struct scope *s, const struct where *w, struct nmacro *m)
{
    if (!(m->fn = new_func(s, w->y->fn))) return nomem(s);
    struct syms y = inner(w->y, m->fn);
    for (uint32_t i = 0; i < m->n_arg; i++) TRY(param(s, &y, m->arg[i]->u.name.id));
    TRY(an_list(s, &y, m->def, m->n_def));
    TRY(an_body(s, &y, &m->body));
    enum { ID_CALLER = 1, ID_KWARGS, ID_VARARGS }; /* as the parser interned them */
    if (m->caller && !m->explicit_caller) TRY(hidden_param(s, &y, ID_CALLER, &m->caller_slot));
    if (m->kwargs) TRY(hidden_param(s, &y, ID_KWARGS, &m->kwargs_slot));
    if (m->varargs) TRY(hidden_param(s, &y, ID_VARARGS, &m->varargs_slot));
    struct where in = {.y = &y};
    TRY(res_list(s, &in, m->arg, m->n_arg));
    TRY(res_list(s, &in, m->def, m->n_def));
    TRY(res_body(s, &in, &m->body));
    TRY(frame_of(s, &y, &m->frame));
    return m->store ? res_expr(s, w, m->store) : res_expr(s, w, m->call);
}

static int res_set(struct scope *s, const struct where *w, uint8_t k, struct nset *n)
{
    if (k == S_SET) {
        TRY(res_expr(s, w, n->target[0]));
        return res_expr(s, w, n->value[0]);
    }
    struct syms y = inner(w->y, NULL);
    struct where in = {.y = &y, .in_loop = w->in_loop};
    if (k == S_WITH)
        for (uint32_t i = 0; i < n->n; i++) TRY(an_target(s, &y, n->target[i], true));
    TRY(an_body(s, &y, &n->body));
    TRY(an_expr(s, &y, n->filter));
    if (k == S_WITH) {
        TRY(res_list(s, w, n->value, n->n));
        TRY(res_list(s, &in, n->target, n->n));
    }
    TRY(res_body(s, &in, &n->body));
    TRY(res_expr(s, &in, n->filter));
    TRY(frame_of(s, &y, &n->frame));
    return k == S_SETBLOCK ? res_expr(s, w, n->target[0]) : OK;
}

static int res_stmt(struct scope *s, const struct where *w, struct node *n)
{
    switch (n->k) {
    case S_PRINT: return res_list(s, w, n->u.l.v, n->u.l.n);
    case S_IF: {
        struct where soft = *w;
        soft.soft = true;
        for (uint32_t i = 0; i < n->u.cond.n; i++) {
            TRY(res_expr(s, &soft, n->u.cond.v[i].test));
            TRY(res_body(s, &soft, &n->u.cond.v[i].body));
        }
        return OK;
    }
    case S_FOR: return res_for(s, w, n->u.loop);
    case S_SET:
    case S_SETBLOCK:
    case S_FILTER:
    case S_WITH: return res_set(s, w, n->k, n->u.set);
    case S_MACRO:
    case S_CALL: return res_macro(s, w, n->u.macro);
    case S_BREAK:
    case S_CONTINUE:
        if (!w->in_loop) return jinja_bad(s->e, n->line, "'%s' outside loop", n->k == S_BREAK ? "break" : "continue");
        return OK;
    default: return OK;
    }
}

static int res_body(struct scope *s, const struct where *w, const struct body *b)
{
    for (uint32_t i = 0; i < b->n; i++) TRY(res_stmt(s, w, b->v[i]));
    return OK;
}

int jinja_scope(struct jinja *j, struct str *names, struct err *e)
{
    struct scope s = {.a = &j->a, .e = e, .names = names};
    struct syms y = {.fn = &j->root};
    TRY(an_body(&s, &y, &j->body));
    TRY(res_body(&s, &(struct where){.y = &y}, &j->body));
    return frame_of(&s, &y, &j->frame);
}
