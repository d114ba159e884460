/* jinja_expr.c: expressions. Jinja2's grammar with its precedence (~ binds tighter than +, ** is left-associative, filters bind
 * to the unary expression in front of them). Runs of one operator level become one node, so that the tree's height, which bounds
 * recursion everywhere later, is small for long but flat expressions. */
#include "model/jinja_parse.h"

static int primary(struct parser *p, bool ns, struct node **out);

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
            TRY(jinja_expr(p, true, kw ? &g->dynkw : &g->dyn));
            continue;
        }
        bool key = false;
        if (p->cur.k == T_NAME) {
            TRY(look(p));
            key = p->ahead.k == T_ASSIGN;
        }
        if (g->dynkw || (!key && (g->dyn || kv.n))) return jinja_bad(p->e, line, "invalid syntax for function call expression");
        if (!key) {
            TRY(jinja_expr(p, true, &x));
            TRY(push(p, &pos, x));
            continue;
        }
        struct str name = p->cur.s;
        if (kv.n >= 255) return jinja_bad(p->e, line, "more than 255 keyword arguments");
        for (uint32_t i = 0; i < kv.n; i++)
            if (str_same(g->kw[i], name)) return jinja_bad(p->e, line, "keyword argument repeated: %.*s", (int)name.n, name.p);
        TRY(next(p));
        TRY(next(p));
        TRY(jinja_expr(p, true, &x));
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
    for (uint32_t i = 0; i < g->n; i++) TRY(above(p, n, g->v[i]));
    for (uint32_t i = 0; i < g->n_kw; i++) TRY(above(p, n, g->kv[i]));
    TRY(above(p, n, g->dyn));
    return above(p, n, g->dynkw);
}

static int subscribed(struct parser *p, struct node **out)
{
    uint32_t line = p->cur.line;
    struct node *a = NULL;
    if (p->cur.k != T_COLON) {
        TRY(jinja_expr(p, true, &a));
        if (p->cur.k != T_COLON) {
            *out = a;
            return OK;
        }
    }
    struct node *s = node(p, N_SLICE, line);
    if (!s) return nomem(p);
    s->u.p.a = a;
    TRY(next(p));
    if (p->cur.k != T_COLON && p->cur.k != T_RBRACKET && p->cur.k != T_COMMA) TRY(jinja_expr(p, true, &s->u.p.b));
    if (p->cur.k == T_COLON) {
        TRY(next(p));
        if (p->cur.k != T_RBRACKET && p->cur.k != T_COMMA) TRY(jinja_expr(p, true, &s->u.p.c));
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
        for (uint32_t i = 0; i < v.n; i++) TRY(above(p, key, v.v[i]));
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

int jinja_filters(struct parser *p, struct node **x)
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
        TRY(jinja_expr(p, true, &a));
        TRY(push(p, &v, a));
        TRY(above(p, n, a));
        if (kind != N_DICT) continue;
        TRY(expect(p, T_COLON));
        TRY(jinja_expr(p, true, &a));
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
    struct jinja_tok t = p->cur;
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
        TRY(jinja_tuple(p, TUP_PAREN, NULL, out));
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
    return jinja_note_use(p, (*out)->u.name.id, true);
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
            TRY(jinja_filters(p, out));
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
    static const uint8_t lv[] = {[T_ADD] = L_SUM,      [T_SUB] = L_SUM, [T_TILDE] = L_CONCAT, [T_MUL] = L_MUL, [T_DIV] = L_MUL,
                                 [T_FLOORDIV] = L_MUL, [T_MOD] = L_MUL, [T_POW] = L_POW,      [T_EQ] = L_CMP,  [T_NE] = L_CMP,
                                 [T_LT] = L_CMP,       [T_LE] = L_CMP,  [T_GT] = L_CMP,       [T_GE] = L_CMP};
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
        static const uint8_t kinds[] = {[L_OR] = N_OR,         [L_AND] = N_AND, [L_CMP] = N_CMP, [L_SUM] = N_BIN,
                                        [L_CONCAT] = N_CONCAT, [L_MUL] = N_BIN, [L_POW] = N_BIN};
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

int jinja_expr(struct parser *p, bool cond, struct node **out)
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
            TRY(jinja_expr(p, true, &n->u.p.c));
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

int jinja_tuple(struct parser *p, unsigned flags, const char *stop, struct node **out)
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
            TRY(jinja_expr(p, !(flags & TUP_NOCOND), &x));
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
    for (uint32_t i = 0; i < v.n; i++) TRY(above(p, n, v.v[i]));
    n->u.l.v = v.v;
    n->u.l.n = v.n;
    *out = n;
    return OK;
}
