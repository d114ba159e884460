/* jinja_parse.c: tokens -> tree: statements, and names to numbers, which jinja_scope works on. Expressions are in jinja_expr.c.
 */
#include "model/jinja_parse.h"

static int statements(struct parser *p, const char *ends, struct body *out, struct str *end);

int jinja_intern(struct parser *p, struct str s, uint32_t *id)
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
            for (size_t k = 0; k < names[i].n; k++) h = (h ^ (unsigned char)names[i].p[k]) * 16777619u;
            while (m[h & (n - 1)]) h++;
            m[h & (n - 1)] = i + 1;
        }
    }
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t k = 0; k < s.n; k++) h = (h ^ (unsigned char)s.p[k]) * 16777619u;
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

int jinja_note_use(struct parser *p, uint32_t id, bool load)
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
            return jinja_note_use(p, n->u.name.id, false);
        }
        return OK;
    }
    if (n->k == N_NSREF) return OK;
    if (n->k != N_TUPLE) return jinja_bad(p->e, n->line, "can't assign to this expression");
    for (uint32_t i = 0; i < n->u.l.n; i++) TRY(as_target(p, n->u.l.v[i]));
    return OK;
}

static int assign_target(struct parser *p, bool ns, const char *stop, struct node **out)
{
    TRY(jinja_tuple(p, TUP_TARGET | (ns ? TUP_NS : 0u), stop, out));
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
        if (!other) TRY(jinja_tuple(p, TUP_NOCOND, NULL, &b->test));
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
    TRY(jinja_tuple(p, TUP_NOCOND, "recursive", &f->iter));
    int rc = skip_word(p, "if");
    if (rc < 0) return rc;
    if (rc) TRY(jinja_expr(p, true, &f->test));
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
        TRY(jinja_tuple(p, 0, NULL, &x));
        TRY(push(p, &v, x));
        s->value = v.v;
        return OK;
    }
    n->k = S_SETBLOCK;
    if (p->cur.k == T_PIPE) {
        TRY(next(p));
        TRY(jinja_filters(p, &s->filter));
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
        TRY(jinja_expr(p, true, &x));
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
    TRY(jinja_filters(p, &s->filter));
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
                return jinja_bad(p->e, p->cur.line, "duplicate argument '%.*s'", (int)MIN(x->u.name.s.n, (size_t)60),
                                 x->u.name.s.p);
        TRY(push(p, &a, x));
        uint32_t stores = p->n_loop_store;
        TRY(jinja_note_use(p, x->u.name.id, false));
        p->n_loop_store = stores; /* a parameter is no store */
        if (p->cur.k == T_ASSIGN) {
            TRY(next(p));
            TRY(jinja_expr(p, true, &x));
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
    for (uint32_t i = 0; i < N_SPECIAL; i++) since[i] = p->use[i].n;
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
        TRY(jinja_expr(p, true, &m->call));
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
        TRY(jinja_expr(p, true, &x));
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
    struct jinja_tok t = p->cur;
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
            if (str_eq(t.s, no[i]))
                return jinja_bad(p->e, t.line, "{%% %s %%} is not supported: a chat template is one self-contained text", no[i]);
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

/* Body up to one of the tags `ends` ("" = end of the template), which is consumed; its closing %} too unless it has more to say
 * (elif). */
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
            TRY(jinja_tuple(p, 0, NULL, &x));
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
            if (*ends)
                return jinja_bad(p->e, p->cur.line, "end of template, but the tag of line %u wants {%% %s %%}", line, ends);
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
    for (uint32_t i = 0; i < N_SPECIAL; i++) TRY(jinja_intern(&p, str_of(special[i]), &id));
    TRY(next(&p));
    struct str end;
    TRY(statements(&p, "", &j->body, &end));
    return jinja_scope(j, p.names, e);
}
