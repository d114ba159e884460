/* jinja_parse.c: tokens -> tree. Jinja2's grammar, with its precedence (~ binds tighter than +, ** is left-associative, filters bind to the unary
 * expression in front of them). Runs of one operator level become one node, so that the tree's height, which bounds recursion everywhere later,
 * is small for long but flat expressions. Names are interned: jinja_scope works on their numbers. */
#include "model/jinja_impl.h"
#include <string.h>

enum { N_SPECIAL = 4, ID_LOOP = 0, ID_CALLER, ID_KWARGS, ID_VARARGS };

struct vec { /* growable array of pointers in the template's arena */
    struct node **v;
    uint32_t n, cap;
};
struct parser {
    struct jinja *j;
    struct lex lx;
    struct tok cur, ahead;
    bool has_ahead;
    struct err *e;
    uint32_t nest, n_names, cap_names;
    struct str *names;
    uint32_t *map; /* hash -> 1 + id */
    uint32_t n_map;
    /* Uses of loop, caller, kwargs, varargs in order: whether a body mentions one before it stores one (compiler.find_undeclared). */
    struct {
        uint8_t *load;
        uint32_t n, cap;
    } use[N_SPECIAL];
    uint32_t n_loop_store; /* stores to `loop` so far */
};

static int expr(struct parser *p, bool cond, struct node **out);
static int tuple(struct parser *p, unsigned flags, const char *stop, struct node **out);
static int statements(struct parser *p, const char *ends, struct body *out, struct str *end);

static int nomem(struct parser *p) { return err_set(p->e, E_NOMEM, "line %u: no memory for the template", p->cur.line); }

static void *get(struct parser *p, size_t n, size_t size) { return arena_alloc(&p->j->a, n, size); }

static int next(struct parser *p)
{
    if (p->has_ahead) {
        p->cur = p->ahead;
        p->has_ahead = false;
        return OK;
    }
    return jinja_lex_next(&p->lx, &p->cur);
}

static int look(struct parser *p)
{
    if (p->has_ahead) return OK;
    TRY(jinja_lex_next(&p->lx, &p->ahead));
    p->has_ahead = true;
    return OK;
}

static bool is_name(const struct tok *t, const char *z) { return t->k == T_NAME && str_eq(t->s, z); }

static const char *tok_name(const struct tok *t)
{
    static const char *const n[] = {"end of template", "text", "'{{'", "'}}'", "'{%'", "'%}'", "a name", "a string", "an integer", "a number",
                                    "'+'", "'-'", "'*'", "'/'", "'//'", "'%'", "'**'", "'~'", "'=='", "'!='", "'<'", "'<='", "'>'", "'>='",
                                    "'in'", "'not in'", "'='", "'.'", "':'", "'|'", "','", "';'", "'('", "')'", "'['", "']'", "'{'", "'}'"};
    return n[t->k];
}

static int unexpected(struct parser *p, const char *want)
{
    if (p->cur.k == T_NAME)
        return jinja_bad(p->e, p->cur.line, "expected %s, got '%.*s'", want, (int)MIN(p->cur.s.n, (size_t)60), p->cur.s.p);
    return jinja_bad(p->e, p->cur.line, "expected %s, got %s", want, tok_name(&p->cur));
}

static int expect(struct parser *p, uint8_t k)
{
    if (p->cur.k != k) return unexpected(p, tok_name(&(struct tok){.k = k}));
    return next(p);
}

/* 1 and past it when the current token is the word, else 0. */
static int skip_word(struct parser *p, const char *z)
{
    if (!is_name(&p->cur, z)) return 0;
    TRY(next(p));
    return 1;
}

static int enter(struct parser *p)
{
    if (++p->nest > JINJA_MAX_NEST) return jinja_bad(p->e, p->cur.line, "nested more than %d levels deep", JINJA_MAX_NEST);
    return OK;
}

static struct node *node(struct parser *p, uint8_t k, uint32_t line)
{
    struct node *n = get(p, 1, sizeof *n);
    if (n) {
        n->k = k;
        n->line = line;
        n->depth = 1;
    }
    return n;
}

/* n stands above child: its height, bounded. */
static int above(struct parser *p, struct node *n, const struct node *child)
{
    if (child && child->depth >= n->depth) n->depth = (uint16_t)(child->depth + 1);
    if (n->depth > JINJA_MAX_CHAIN) return jinja_bad(p->e, n->line, "expression more than %d levels high", JINJA_MAX_CHAIN);
    return OK;
}

static int push(struct parser *p, struct vec *v, struct node *n)
{
    if (v->n == v->cap) {
        uint32_t cap = v->cap ? 2 * v->cap : 4;
        struct node **m = get(p, cap, sizeof *m);
        if (!m) return nomem(p);
        if (v->n) memcpy(m, v->v, v->n * sizeof *m);
        v->v = m;
        v->cap = cap;
    }
    v->v[v->n++] = n;
    return OK;
}

static int intern(struct parser *p, struct str s, uint32_t *id)
{
    if (p->n_names * 2 >= p->n_map) {
        uint32_t n = p->n_map ? 2 * p->n_map : 256;
        uint32_t *m = get(p, n, sizeof *m);
        struct str *names = get(p, n, sizeof *names);
        if (!m || !names) return nomem(p);
        if (p->n_names) memcpy(names, p->names, p->n_names * sizeof *names);
        p->names = names;
        p->map = m;
        p->n_map = n;
        for (uint32_t i = 0; i < p->n_names; i++) {
            uint32_t h = 2166136261u;
            for (size_t k = 0; k < names[i].n; k++)
                h = (h ^ (unsigned char)names[i].p[k]) * 16777619u;
            while (m[h & (n - 1)])
                h++;
            m[h & (n - 1)] = i + 1;
        }
    }
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t k = 0; k < s.n; k++)
        h = (h ^ (unsigned char)s.p[k]) * 16777619u;
    for (;; h++) {
        uint32_t i = p->map[h & (p->n_map - 1)];
        if (!i) break;
        if (str_same(p->names[i - 1], s)) {
            *id = i - 1;
            return OK;
        }
    }
    p->map[h & (p->n_map - 1)] = p->n_names + 1;
    p->names[p->n_names] = s;
    *id = p->n_names++;
    return OK;
}

static int note_use(struct parser *p, uint32_t id, bool load)
{
    if (id >= N_SPECIAL) return OK;
    if (p->use[id].n == p->use[id].cap) {
        uint32_t cap = p->use[id].cap ? 2 * p->use[id].cap : 16;
        uint8_t *m = get(p, cap, 1);
        if (!m) return nomem(p);
        if (p->use[id].n) memcpy(m, p->use[id].load, p->use[id].n);
        p->use[id].load = m;
        p->use[id].cap = cap;
    }
    p->use[id].load[p->use[id].n++] = load;
    if (id == ID_LOOP && !load) p->n_loop_store++;
    return OK;
}

static bool uses(const struct parser *p, uint32_t id, uint32_t since) { return since < p->use[id].n && p->use[id].load[since]; }

static int name_node(struct parser *p, struct str s, uint32_t line, struct node **out)
{
    struct node *n = node(p, N_NAME, line);
    if (!n) return nomem(p);
    n->u.name.s = s;
    TRY(intern(p, s, &n->u.name.id));
    *out = n;
    return OK;
}

/* Takes a name as target of an assignment (or a parameter). */
static int target_name(struct parser *p, struct node **out)
{
    if (p->cur.k != T_NAME) return unexpected(p, "a name");
    TRY(name_node(p, p->cur.s, p->cur.line, out));
    static const char *const no[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        if (str_eq(p->cur.s, no[i])) return jinja_bad(p->e, p->cur.line, "can't assign to '%s'", no[i]);
    return next(p);
}

/* An expression that was read where a target stands. */
static int as_target(struct parser *p, struct node *n)
{
    if (n->k == N_NAME) {
        /* its use was noted as a load when read */
        if (n->u.name.id < N_SPECIAL) {
            p->use[n->u.name.id].n--;
            return note_use(p, n->u.name.id, false);
        }
        return OK;
    }
    if (n->k == N_NSREF) return OK;
    if (n->k != N_TUPLE) return jinja_bad(p->e, n->line, "can't assign to this expression");
    for (uint32_t i = 0; i < n->u.l.n; i++)
        TRY(as_target(p, n->u.l.v[i]));
    return OK;
}

/* ---- expressions */

enum { TUP_NOCOND = 1, TUP_PAREN = 2, TUP_TARGET = 4, TUP_NS = 8 };

static int call_args(struct parser *p, struct nargs **out)
{
    struct nargs *g = get(p, 1, sizeof *g);
    struct vec pos = {0}, kv = {0};
    uint32_t line = p->cur.line, cap_kw = 0;
    if (!g) return nomem(p);
    TRY(expect(p, T_LPAREN));
    for (bool comma = false; p->cur.k != T_RPAREN; comma = true) {
        if (comma) {
            TRY(expect(p, T_COMMA));
            if (p->cur.k == T_RPAREN) break;
        }
        struct node *x;
        if (p->cur.k == T_MUL || p->cur.k == T_POW) {
            bool kw = p->cur.k == T_POW;
            if (g->dynkw || (!kw && g->dyn)) return jinja_bad(p->e, line, "invalid syntax for function call expression");
            TRY(next(p));
            TRY(expr(p, true, kw ? &g->dynkw : &g->dyn));
            continue;
        }
        bool key = false;
        if (p->cur.k == T_NAME) {
            TRY(look(p));
            key = p->ahead.k == T_ASSIGN;
        }
        if (g->dynkw || (!key && (g->dyn || kv.n))) return jinja_bad(p->e, line, "invalid syntax for function call expression");
        if (!key) {
            TRY(expr(p, true, &x));
            TRY(push(p, &pos, x));
            continue;
        }
        struct str name = p->cur.s;
        if (kv.n >= 255) return jinja_bad(p->e, line, "more than 255 keyword arguments");
        for (uint32_t i = 0; i < kv.n; i++)
            if (str_same(g->kw[i], name)) return jinja_bad(p->e, line, "keyword argument repeated: %.*s", (int)name.n, name.p);
        TRY(next(p));
        TRY(next(p));
        TRY(expr(p, true, &x));
        if (kv.n == cap_kw) {
            cap_kw = cap_kw ? 2 * cap_kw : 4;
            struct str *m = get(p, cap_kw, sizeof *m);
            if (!m) return nomem(p);
            if (kv.n) memcpy(m, g->kw, kv.n * sizeof *m);
            g->kw = m;
        }
        g->kw[kv.n] = name;
        TRY(push(p, &kv, x));
    }
    TRY(expect(p, T_RPAREN));
    g->v = pos.v;
    g->n = pos.n;
    g->kv = kv.v;
    g->n_kw = kv.n;
    *out = g;
    return OK;
}

static int above_args(struct parser *p, struct node *n, const struct nargs *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        TRY(above(p, n, g->v[i]));
    for (uint32_t i = 0; i < g->n_kw; i++)
        TRY(above(p, n, g->kv[i]));
    TRY(above(p, n, g->dyn));
    return above(p, n, g->dynkw);
}

static int subscribed(struct parser *p, struct node **out)
{
    uint32_t line = p->cur.line;
    struct node *a = NULL;
    if (p->cur.k != T_COLON) {
        TRY(expr(p, true, &a));
        if (p->cur.k != T_COLON) {
            *out = a;
            return OK;
        }
    }
    struct node *s = node(p, N_SLICE, line);
    if (!s) return nomem(p);
    s->u.p.a = a;
    TRY(next(p));
    if (p->cur.k != T_COLON && p->cur.k != T_RBRACKET && p->cur.k != T_COMMA) TRY(expr(p, true, &s->u.p.b));
    if (p->cur.k == T_COLON) {
        TRY(next(p));
        if (p->cur.k != T_RBRACKET && p->cur.k != T_COMMA) TRY(expr(p, true, &s->u.p.c));
    }
    TRY(above(p, s, s->u.p.a));
    TRY(above(p, s, s->u.p.b));
    TRY(above(p, s, s->u.p.c));
    *out = s;
    return OK;
}

/* .name .0 [key] [a:b:c] behind *x. */
static int subscript(struct parser *p, struct node **x)
{
    uint32_t line = p->cur.line;
    if (p->cur.k == T_DOT) {
        TRY(next(p));
        struct node *n = NULL;
        if (p->cur.k == T_NAME) {
            if (!(n = node(p, N_ATTR, line))) return nomem(p);
            n->u.attr.obj = *x;
            n->u.attr.name = p->cur.s;
        } else if (p->cur.k == T_INT) {
            struct node *c = node(p, N_CONST, line);
            if (!c || !(n = node(p, N_ITEM, line))) return nomem(p);
            c->u.c = v_int(p->cur.i);
            n->u.p.a = *x;
            n->u.p.b = c;
        } else {
            return unexpected(p, "name or number");
        }
        TRY(above(p, n, *x));
        *x = n;
        return next(p);
    }
    TRY(next(p));
    struct vec v = {0};
    while (p->cur.k != T_RBRACKET) {
        struct node *a = NULL;
        if (v.n) TRY(expect(p, T_COMMA));
        TRY(subscribed(p, &a));
        if (v.n && (a->k == N_SLICE || v.v[0]->k == N_SLICE)) return jinja_bad(p->e, line, "a slice beside other subscripts");
        TRY(push(p, &v, a));
    }
    struct node *n = node(p, N_ITEM, line), *key;
    if (!n) return nomem(p);
    if (v.n == 1) {
        key = v.v[0];
    } else {
        if (!(key = node(p, N_TUPLE, line))) return nomem(p);
        key->u.l.v = v.v;
        key->u.l.n = v.n;
        for (uint32_t i = 0; i < v.n; i++)
            TRY(above(p, key, v.v[i]));
    }
    n->u.p.a = *x;
    n->u.p.b = key;
    TRY(above(p, n, *x));
    TRY(above(p, n, key));
    *x = n;
    return expect(p, T_RBRACKET);
}

static int call(struct parser *p, struct node **x)
{
    struct node *n = node(p, N_CALL, p->cur.line);
    if (!n) return nomem(p);
    n->u.call.obj = *x;
    TRY(call_args(p, &n->u.call.args));
    TRY(above(p, n, *x));
    TRY(above_args(p, n, n->u.call.args));
    *x = n;
    return OK;
}

static int postfix(struct parser *p, struct node **x)
{
    for (;;) {
        if (p->cur.k == T_DOT || p->cur.k == T_LBRACKET)
            TRY(subscript(p, x));
        else if (p->cur.k == T_LPAREN)
            TRY(call(p, x));
        else
            return OK;
    }
}

static int dotted(struct parser *p, struct str *out)
{
    *out = p->cur.s;
    TRY(expect(p, T_NAME));
    while (p->cur.k == T_DOT) {
        TRY(next(p));
        struct str s = p->cur.s;
        TRY(expect(p, T_NAME));
        char *m = get(p, out->n + 1 + s.n, 1);
        if (!m) return nomem(p);
        if (out->n + s.n > 256) return jinja_bad(p->e, p->cur.line, "name too long");
        memcpy(m, out->p, out->n);
        m[out->n] = '.';
        memcpy(m + out->n + 1, s.p, s.n);
        *out = (struct str){m, out->n + 1 + s.n};
    }
    return OK;
}

/* name(args)|name... behind *x (NULL in a filter block); the current token is the first name. */
static int filters(struct parser *p, struct node **x)
{
    for (;;) {
        struct node *n = node(p, N_FILTER, p->cur.line);
        if (!n) return nomem(p);
        TRY(dotted(p, &n->u.call.name));
        if (p->cur.k == T_LPAREN)
            TRY(call_args(p, &n->u.call.args));
        else if (!(n->u.call.args = get(p, 1, sizeof *n->u.call.args)))
            return nomem(p);
        n->u.call.obj = *x;
        n->u.call.fn = jinja_find_filter(n->u.call.name);
        TRY(above(p, n, *x));
        TRY(above_args(p, n, n->u.call.args));
        *x = n;
        if (p->cur.k != T_PIPE) return OK;
        TRY(next(p));
    }
}

static int primary(struct parser *p, bool ns, struct node **out);

static int test(struct parser *p, struct node **x)
{
    uint32_t line = p->cur.line;
    TRY(next(p));
    int neg = skip_word(p, "not");
    if (neg < 0) return neg;
    struct node *n = node(p, N_TEST, line);
    if (!n) return nomem(p);
    TRY(dotted(p, &n->u.call.name));
    uint8_t k = p->cur.k;
    if (k == T_LPAREN) {
        TRY(call_args(p, &n->u.call.args));
    } else {
        struct nargs *g = n->u.call.args = get(p, 1, sizeof *g);
        if (!g) return nomem(p);
        bool arg = k == T_STR || k == T_INT || k == T_FLOAT || k == T_LBRACKET || k == T_LBRACE ||
                   (k == T_NAME && !is_name(&p->cur, "else") && !is_name(&p->cur, "or") && !is_name(&p->cur, "and"));
        if (arg) {
            struct vec v = {0};
            struct node *a = NULL;
            if (is_name(&p->cur, "is")) return jinja_bad(p->e, line, "You cannot chain multiple tests with is");
            TRY(primary(p, false, &a));
            TRY(postfix(p, &a));
            TRY(push(p, &v, a));
            g->v = v.v;
            g->n = 1;
        }
    }
    n->u.call.obj = *x;
    n->u.call.fn = jinja_find_test(n->u.call.name);
    TRY(above(p, n, *x));
    TRY(above_args(p, n, n->u.call.args));
    *x = n;
    if (!neg) return OK;
    struct node *m = node(p, N_NOT, line);
    if (!m) return nomem(p);
    m->u.p.a = n;
    TRY(above(p, m, n));
    *x = m;
    return OK;
}

static int sequence(struct parser *p, uint8_t kind, uint8_t close, struct node **out)
{
    struct node *n = node(p, kind, p->cur.line);
    struct vec v = {0};
    if (!n) return nomem(p);
    TRY(next(p));
    while (p->cur.k != close) {
        struct node *a;
        if (v.n) TRY(expect(p, T_COMMA));
        if (p->cur.k == close) break;
        TRY(expr(p, true, &a));
        TRY(push(p, &v, a));
        TRY(above(p, n, a));
        if (kind != N_DICT) continue;
        TRY(expect(p, T_COLON));
        TRY(expr(p, true, &a));
        TRY(push(p, &v, a));
        TRY(above(p, n, a));
    }
    n->u.l.v = v.v;
    n->u.l.n = v.n;
    *out = n;
    return next(p);
}

static int constant(struct parser *p, struct val v, struct node **out)
{
    struct node *n = node(p, N_CONST, p->cur.line);
    if (!n) return nomem(p);
    n->u.c = v;
    *out = n;
    return next(p);
}

static int string(struct parser *p, struct node **out)
{
    struct str s = p->cur.s;
    struct node *n = node(p, N_CONST, p->cur.line);
    if (!n) return nomem(p);
    TRY(next(p));
    if (p->cur.k == T_STR) { /* neighbours are one string */
        struct buf b = {0};
        buf_put(&b, s.p, s.n);
        int rc = OK;
        while (rc == OK && p->cur.k == T_STR) {
            buf_put(&b, p->cur.s.p, p->cur.s.n);
            rc = next(p);
        }
        char *m = rc == OK && buf_ok(&b) ? arena_strndup(&p->j->a, b.p ? b.p : "", b.n) : NULL;
        s = (struct str){m, b.n};
        buf_free(&b);
        if (rc < 0) return rc;
        if (!m) return nomem(p);
    }
    n->u.c = v_str(s.p, s.n);
    *out = n;
    return OK;
}

static int primary(struct parser *p, bool ns, struct node **out)
{
    struct tok t = p->cur;
    switch (t.k) {
    case T_STR: return string(p, out);
    case T_INT: return constant(p, v_int(t.i), out);
    case T_FLOAT: return constant(p, v_float(t.d), out);
    case T_LBRACKET:
    case T_LBRACE:
        TRY(enter(p));
        TRY(sequence(p, t.k == T_LBRACE ? N_DICT : N_LIST, (uint8_t)(t.k + 1), out));
        p->nest--;
        return OK;
    case T_LPAREN:
        TRY(enter(p));
        TRY(next(p));
        TRY(tuple(p, TUP_PAREN, NULL, out));
        p->nest--;
        return expect(p, T_RPAREN);
    case T_NAME: break;
    default: return unexpected(p, "an expression");
    }
    if (str_eq(t.s, "true") || str_eq(t.s, "True")) return constant(p, v_bool(true), out);
    if (str_eq(t.s, "false") || str_eq(t.s, "False")) return constant(p, v_bool(false), out);
    if (str_eq(t.s, "none") || str_eq(t.s, "None")) return constant(p, v_none(), out);
    TRY(name_node(p, t.s, t.line, out));
    TRY(next(p));
    if (ns && p->cur.k == T_DOT) {
        TRY(next(p));
        (*out)->k = N_NSREF;
        (*out)->u.name.attr = p->cur.s;
        return expect(p, T_NAME);
    }
    return note_use(p, (*out)->u.name.id, true);
}

static int unary(struct parser *p, bool filter, struct node **out)
{
    uint32_t line = p->cur.line;
    if (p->cur.k == T_SUB || p->cur.k == T_ADD) {
        struct node *n = node(p, p->cur.k == T_SUB ? N_NEG : N_POS, line);
        if (!n) return nomem(p);
        TRY(enter(p));
        TRY(next(p));
        TRY(unary(p, false, &n->u.p.a));
        TRY(above(p, n, n->u.p.a));
        p->nest--;
        *out = n;
    } else {
        TRY(primary(p, false, out));
    }
    TRY(postfix(p, out));
    while (filter) {
        if (p->cur.k == T_PIPE) {
            TRY(next(p));
            TRY(filters(p, out));
        } else if (is_name(&p->cur, "is")) {
            TRY(test(p, out));
        } else if (p->cur.k == T_LPAREN) {
            TRY(call(p, out));
        } else {
            break;
        }
    }
    return OK;
}

/* Levels of binary operators, loosest first. */
enum { L_OR, L_AND, L_NOT, L_CMP, L_SUM, L_CONCAT, L_MUL, L_POW, L_UNARY };

/* The operator at the current token on its level, T_EOF: none. Words: or, and, in, not in. */
static int op_here(struct parser *p, uint8_t *op, uint8_t *level)
{
    static const uint8_t lv[] = {[T_ADD] = L_SUM, [T_SUB] = L_SUM, [T_TILDE] = L_CONCAT, [T_MUL] = L_MUL, [T_DIV] = L_MUL, [T_FLOORDIV] = L_MUL,
                                 [T_MOD] = L_MUL, [T_POW] = L_POW, [T_EQ] = L_CMP,       [T_NE] = L_CMP,  [T_LT] = L_CMP,  [T_LE] = L_CMP,
                                 [T_GT] = L_CMP,  [T_GE] = L_CMP};
    *op = T_EOF;
    if (p->cur.k < ARRAY_LEN(lv) && lv[p->cur.k]) {
        *op = p->cur.k;
        *level = lv[p->cur.k];
    } else if (is_name(&p->cur, "or") || is_name(&p->cur, "and")) {
        *op = T_NAME;
        *level = p->cur.s.n == 2 ? L_OR : L_AND;
    } else if (is_name(&p->cur, "in")) {
        *op = T_IN;
        *level = L_CMP;
    } else if (is_name(&p->cur, "not")) {
        TRY(look(p));
        if (is_name(&p->ahead, "in")) {
            *op = T_NOTIN;
            *level = L_CMP;
        }
    }
    return OK;
}

/* Precedence climbing; a run on one level is gathered into one node. */
static int binary(struct parser *p, uint8_t level, struct node **out)
{
    uint32_t line = p->cur.line;
    struct node *left;
    TRY(enter(p));
    if (level <= L_NOT && is_name(&p->cur, "not")) {
        if (!(left = node(p, N_NOT, line))) return nomem(p);
        TRY(next(p));
        TRY(binary(p, L_NOT, &left->u.p.a));
        TRY(above(p, left, left->u.p.a));
    } else {
        TRY(unary(p, true, &left));
    }
    for (;;) {
        uint8_t op, lv = 0;
        TRY(op_here(p, &op, &lv));
        if (op == T_EOF || lv < level) break;
        static const uint8_t kinds[] = {[L_OR] = N_OR, [L_AND] = N_AND, [L_CMP] = N_CMP, [L_SUM] = N_BIN, [L_CONCAT] = N_CONCAT, [L_MUL] = N_BIN, [L_POW] = N_BIN};
        struct node *n = node(p, kinds[lv], line);
        struct vec v = {0};
        uint32_t cap = 0, nop = 0;
        if (!n) return nomem(p);
        TRY(push(p, &v, left));
        TRY(above(p, n, left));
        for (uint8_t l2 = lv; op != T_EOF && l2 == lv;) {
            if (nop == cap) {
                cap = cap ? 2 * cap : 4;
                uint8_t *m = get(p, cap, 1);
                if (!m) return nomem(p);
                if (nop) memcpy(m, n->u.l.op, nop);
                n->u.l.op = m;
            }
            n->u.l.op[nop++] = op;
            TRY(next(p));
            if (op == T_NOTIN) TRY(next(p));
            struct node *right;
            TRY(binary(p, (uint8_t)(lv + 1), &right));
            TRY(push(p, &v, right));
            TRY(above(p, n, right));
            TRY(op_here(p, &op, &l2));
        }
        n->u.l.v = v.v;
        n->u.l.n = v.n;
        left = n;
    }
    p->nest--;
    *out = left;
    return OK;
}

static int expr(struct parser *p, bool cond, struct node **out)
{
    uint32_t line = p->cur.line;
    struct node *x;
    TRY(enter(p)); /* for a if b else (c if d else ...) */
    TRY(binary(p, L_OR, &x));
    while (cond && is_name(&p->cur, "if")) {
        struct node *n = node(p, N_COND, line);
        if (!n) return nomem(p);
        TRY(next(p));
        n->u.p.b = x;
        TRY(binary(p, L_OR, &n->u.p.a));
        if (is_name(&p->cur, "else")) {
            TRY(next(p));
            TRY(expr(p, true, &n->u.p.c));
        }
        TRY(above(p, n, n->u.p.a));
        TRY(above(p, n, n->u.p.b));
        TRY(above(p, n, n->u.p.c));
        x = n;
    }
    p->nest--;
    *out = x;
    return OK;
}

static int tuple(struct parser *p, unsigned flags, const char *stop, struct node **out)
{
    struct vec v = {0};
    bool is_tuple = false;
    uint32_t line = p->cur.line;
    for (;;) {
        struct node *x;
        if (v.n) TRY(expect(p, T_COMMA));
        if (p->cur.k == T_VAR_END || p->cur.k == T_BLOCK_END || p->cur.k == T_RPAREN || (stop && is_name(&p->cur, stop))) break;
        if (flags & TUP_TARGET)
            TRY(primary(p, flags & TUP_NS, &x));
        else
            TRY(expr(p, !(flags & TUP_NOCOND), &x));
        TRY(push(p, &v, x));
        if (p->cur.k != T_COMMA) break;
        is_tuple = true;
    }
    if (!is_tuple && v.n) {
        *out = v.v[0];
        return OK;
    }
    if (!is_tuple && !(flags & TUP_PAREN)) return unexpected(p, "an expression");
    struct node *n = node(p, N_TUPLE, line);
    if (!n) return nomem(p);
    for (uint32_t i = 0; i < v.n; i++)
        TRY(above(p, n, v.v[i]));
    n->u.l.v = v.v;
    n->u.l.n = v.n;
    *out = n;
    return OK;
}

/* ---- statements */

static int assign_target(struct parser *p, bool ns, const char *stop, struct node **out)
{
    TRY(tuple(p, TUP_TARGET | (ns ? TUP_NS : 0u), stop, out));
    return as_target(p, *out);
}

static int s_if(struct parser *p, struct node *n)
{
    uint32_t cap = 0;
    n->k = S_IF;
    for (struct str end = {0};;) {
        if (n->u.cond.n == cap) {
            cap = cap ? 2 * cap : 2;
            struct branch *m = get(p, cap, sizeof *m);
            if (!m) return nomem(p);
            if (n->u.cond.n) memcpy(m, n->u.cond.v, n->u.cond.n * sizeof *m);
            n->u.cond.v = m;
        }
        struct branch *b = &n->u.cond.v[n->u.cond.n++];
        *b = (struct branch){0};
        bool other = end.n && str_eq(end, "else");
        if (!other) TRY(tuple(p, TUP_NOCOND, NULL, &b->test));
        TRY(statements(p, other ? "endif" : "elif else endif", &b->body, &end));
        if (str_eq(end, "endif")) return OK;
    }
}

static int s_for(struct parser *p, struct node *n)
{
    struct nfor *f = n->u.loop = get(p, 1, sizeof *f);
    if (!f) return nomem(p);
    n->k = S_FOR;
    uint32_t stores = p->n_loop_store;
    TRY(assign_target(p, false, "in", &f->target));
    if (!is_name(&p->cur, "in")) return unexpected(p, "'in'");
    TRY(next(p));
    TRY(tuple(p, TUP_NOCOND, "recursive", &f->iter));
    int rc = skip_word(p, "if");
    if (rc < 0) return rc;
    if (rc) TRY(expr(p, true, &f->test));
    TRY(rc = skip_word(p, "recursive"));
    f->recursive = rc > 0;
    struct str end;
    uint32_t since = p->use[ID_LOOP].n;
    TRY(statements(p, "endfor else", &f->body, &end));
    f->extended = f->recursive || uses(p, ID_LOOP, since);
    if (str_eq(end, "else")) TRY(statements(p, "endfor", &f->els, &end));
    if (p->n_loop_store != stores) return jinja_bad(p->e, n->line, "Can't assign to special loop variable in for-loop target");
    return OK;
}

static struct nset *new_set(struct parser *p, struct node *n, uint8_t k)
{
    n->k = k;
    return n->u.set = get(p, 1, sizeof *n->u.set);
}

static int s_set(struct parser *p, struct node *n)
{
    struct nset *s = new_set(p, n, S_SET);
    struct vec t = {0}, v = {0};
    struct node *x = NULL;
    struct str end;
    if (!s) return nomem(p);
    TRY(assign_target(p, true, NULL, &x));
    TRY(push(p, &t, x));
    s->target = t.v;
    s->n = 1;
    if (p->cur.k == T_ASSIGN) {
        TRY(next(p));
        TRY(tuple(p, 0, NULL, &x));
        TRY(push(p, &v, x));
        s->value = v.v;
        return OK;
    }
    n->k = S_SETBLOCK;
    if (p->cur.k == T_PIPE) {
        TRY(next(p));
        TRY(filters(p, &s->filter));
    }
    return statements(p, "endset", &s->body, &end);
}

static int s_with(struct parser *p, struct node *n)
{
    struct nset *s = new_set(p, n, S_WITH);
    struct vec t = {0}, v = {0};
    struct str end;
    if (!s) return nomem(p);
    uint32_t stores = p->n_loop_store; /* these are parameters, no stores */
    while (p->cur.k != T_BLOCK_END) {
        struct node *x;
        if (t.n) TRY(expect(p, T_COMMA));
        /* a tuple target would swallow the commas: Jinja2 reads it so too */
        TRY(assign_target(p, false, NULL, &x));
        TRY(push(p, &t, x));
        TRY(expect(p, T_ASSIGN));
        TRY(expr(p, true, &x));
        TRY(push(p, &v, x));
    }
    s->target = t.v;
    s->value = v.v;
    s->n = t.n;
    p->n_loop_store = stores;
    return statements(p, "endwith", &s->body, &end);
}

static int s_filter(struct parser *p, struct node *n)
{
    struct nset *s = new_set(p, n, S_FILTER);
    struct str end;
    if (!s) return nomem(p);
    TRY(filters(p, &s->filter));
    return statements(p, "endfilter", &s->body, &end);
}

static int signature(struct parser *p, struct nmacro *m)
{
    struct vec a = {0}, d = {0};
    TRY(expect(p, T_LPAREN));
    while (p->cur.k != T_RPAREN) {
        struct node *x;
        if (a.n) TRY(expect(p, T_COMMA));
        TRY(target_name(p, &x));
        if (a.n >= 255) return jinja_bad(p->e, p->cur.line, "more than 255 arguments");
        for (uint32_t i = 0; i < a.n; i++)
            if (a.v[i]->u.name.id == x->u.name.id)
                return jinja_bad(p->e, p->cur.line, "duplicate argument '%.*s'", (int)MIN(x->u.name.s.n, (size_t)60), x->u.name.s.p);
        TRY(push(p, &a, x));
        uint32_t stores = p->n_loop_store;
        TRY(note_use(p, x->u.name.id, false));
        p->n_loop_store = stores; /* a parameter is no store */
        if (p->cur.k == T_ASSIGN) {
            TRY(next(p));
            TRY(expr(p, true, &x));
            TRY(push(p, &d, x));
        } else if (d.n) {
            return jinja_bad(p->e, p->cur.line, "non-default argument follows default argument");
        }
    }
    m->arg = a.v;
    m->n_arg = a.n;
    m->def = d.v;
    m->n_def = d.n;
    return expect(p, T_RPAREN);
}

static int macro_body(struct parser *p, struct nmacro *m, const char *end_tag, uint32_t line)
{
    struct str end;
    uint32_t since[N_SPECIAL];
    for (uint32_t i = 0; i < N_SPECIAL; i++)
        since[i] = p->use[i].n;
    TRY(statements(p, end_tag, &m->body, &end));
    m->caller = uses(p, ID_CALLER, since[ID_CALLER]);
    m->kwargs = uses(p, ID_KWARGS, since[ID_KWARGS]);
    m->varargs = uses(p, ID_VARARGS, since[ID_VARARGS]);
    for (uint32_t i = 0; i < m->n_arg; i++) {
        uint32_t id = m->arg[i]->u.name.id;
        if (id == ID_KWARGS) m->kwargs = false;
        if (id == ID_VARARGS) m->varargs = false;
        if (id != ID_CALLER) continue;
        m->explicit_caller = true;
        if (m->caller && i + m->n_def < m->n_arg)
            return jinja_bad(p->e, line, "the special \"caller\" argument must be omitted or be given a default");
    }
    return OK;
}

static int s_macro(struct parser *p, struct node *n, bool caller)
{
    struct nmacro *m = n->u.macro = get(p, 1, sizeof *m);
    if (!m) return nomem(p);
    n->k = caller ? S_CALL : S_MACRO;
    if (!caller) {
        TRY(target_name(p, &m->store));
        m->name = m->store->u.name.s;
    }
    if (!caller || p->cur.k == T_LPAREN) TRY(signature(p, m));
    if (caller) {
        TRY(expr(p, true, &m->call));
        if (m->call->k != N_CALL) return jinja_bad(p->e, n->line, "expected call");
    }
    return macro_body(p, m, caller ? "endcall" : "endmacro", n->line);
}

static int s_print(struct parser *p, struct node *n)
{
    struct vec v = {0};
    n->k = S_PRINT;
    while (p->cur.k != T_BLOCK_END) {
        struct node *x;
        if (v.n) TRY(expect(p, T_COMMA));
        TRY(expr(p, true, &x));
        TRY(push(p, &v, x));
    }
    n->u.l.v = v.v;
    n->u.l.n = v.n;
    return OK;
}

static int statement(struct parser *p, struct node **out)
{
    static const char *const no[] = {"include", "import", "from", "extends", "block", "autoescape", "do", "trans", "debug"};
    if (p->cur.k != T_NAME) return unexpected(p, "a tag name");
    struct tok t = p->cur;
    struct node *n = *out = node(p, S_DATA, t.line);
    struct str end;
    if (!n) return nomem(p);
    TRY(next(p));
    int rc;
    if (str_eq(t.s, "if")) {
        rc = s_if(p, n);
    } else if (str_eq(t.s, "for")) {
        rc = s_for(p, n);
    } else if (str_eq(t.s, "set")) {
        rc = s_set(p, n);
    } else if (str_eq(t.s, "macro") || str_eq(t.s, "call")) {
        rc = s_macro(p, n, t.s.n == 4);
    } else if (str_eq(t.s, "filter")) {
        rc = s_filter(p, n);
    } else if (str_eq(t.s, "with")) {
        rc = s_with(p, n);
    } else if (str_eq(t.s, "print")) {
        rc = s_print(p, n);
    } else if (str_eq(t.s, "break") || str_eq(t.s, "continue")) {
        n->k = t.s.n == 5 ? S_BREAK : S_CONTINUE;
        rc = OK;
    } else if (str_eq(t.s, "generation")) { /* transformers wraps it in a call block: a scope of its own */
        struct nset *s = new_set(p, n, S_WITH);
        rc = s ? statements(p, "endgeneration", &s->body, &end) : nomem(p);
    } else {
        for (size_t i = 0; i < ARRAY_LEN(no); i++)
            if (str_eq(t.s, no[i])) return jinja_bad(p->e, t.line, "{%% %s %%} is not supported: a chat template is one self-contained text", no[i]);
        return jinja_bad(p->e, t.line, "unknown tag '%.*s'", (int)MIN(t.s.n, (size_t)60), t.s.p);
    }
    return rc;
}

static bool one_of(struct str s, const char *words)
{
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, " ");
        if (n == s.n && memcmp(w, s.p, n) == 0) return true;
        w += n + (w[n] == ' ');
    }
    return false;
}

/* Body up to one of the tags `ends` ("" = end of the template), which is consumed; its closing %} too unless it has more to say (elif). */
static int statements(struct parser *p, const char *ends, struct body *out, struct str *end)
{
    struct vec v = {0};
    uint32_t line = p->cur.line;
    if (*ends) {
        TRY(enter(p));
        if (p->cur.k == T_COLON) TRY(next(p));
        TRY(expect(p, T_BLOCK_END));
    }
    for (;;) {
        struct node *n = NULL;
        switch (p->cur.k) {
        case T_DATA:
            if (p->cur.s.n) {
                if (!(n = node(p, S_DATA, p->cur.line))) return nomem(p);
                n->u.c = v_str(p->cur.s.p, p->cur.s.n);
                TRY(push(p, &v, n));
            }
            TRY(next(p));
            break;
        case T_VAR_BEGIN: {
            if (!(n = node(p, S_PRINT, p->cur.line))) return nomem(p);
            struct vec one = {0};
            struct node *x;
            TRY(next(p));
            TRY(tuple(p, 0, NULL, &x));
            TRY(push(p, &one, x));
            n->u.l.v = one.v;
            n->u.l.n = 1;
            TRY(push(p, &v, n));
            TRY(expect(p, T_VAR_END));
            break;
        }
        case T_BLOCK_BEGIN:
            TRY(next(p));
            if (*ends && p->cur.k == T_NAME && one_of(p->cur.s, ends)) {
                *end = p->cur.s;
                TRY(next(p));
                p->nest--;
                *out = (struct body){v.v, v.n};
                return OK;
            }
            TRY(statement(p, &n));
            TRY(push(p, &v, n));
            TRY(expect(p, T_BLOCK_END));
            break;
        default: /* T_EOF: only whole tags are left behind */
            if (*ends) return jinja_bad(p->e, p->cur.line, "end of template, but the tag of line %u wants {%% %s %%}", line, ends);
            *out = (struct body){v.v, v.n};
            return OK;
        }
    }
}

int jinja_parse(struct jinja *j, struct err *e)
{
    struct parser p = {.j = j, .e = e, .lx = {.p = j->text, .n = j->n_text, .line = 1, .a = &j->a, .e = e}};
    static const char *const special[] = {"loop", "caller", "kwargs", "varargs"};
    uint32_t id;
    p.cur.line = 1;
    for (uint32_t i = 0; i < N_SPECIAL; i++)
        TRY(intern(&p, str_of(special[i]), &id));
    TRY(next(&p));
    struct str end;
    TRY(statements(&p, "", &j->body, &end));
    return jinja_scope(j, p.names, e);
}
