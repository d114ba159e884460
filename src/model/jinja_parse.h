/* jinja_parse.h: what the two halves of the parser share: its state, stepping through tokens, making nodes. Private to
 * jinja_parse.c and jinja_expr.c. */
#pragma once
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
    struct jinja_tok cur, ahead;
    bool has_ahead;
    struct err *e;
    uint32_t nest, n_names, cap_names;
    struct str *names;
    uint32_t *map; /* hash -> 1 + id */
    uint32_t n_map;
    /* Uses of loop, caller, kwargs, varargs in order: whether a body mentions one before it stores one
     * (compiler.find_undeclared). */
    struct {
        uint8_t *load;
        uint32_t n, cap;
    } use[N_SPECIAL];
    uint32_t n_loop_store; /* stores to `loop` so far */
};

static inline int nomem(struct parser *p) { return err_set(p->e, E_NOMEM, "line %u: no memory for the template", p->cur.line); }

static inline void *get(struct parser *p, size_t n, size_t size) { return arena_alloc(&p->j->a, n, size); }

static inline int next(struct parser *p)
{
    if (p->has_ahead) {
        p->cur = p->ahead;
        p->has_ahead = false;
        return OK;
    }
    return jinja_lex_next(&p->lx, &p->cur);
}

static inline int look(struct parser *p)
{
    if (p->has_ahead) return OK;
    TRY(jinja_lex_next(&p->lx, &p->ahead));
    p->has_ahead = true;
    return OK;
}

static inline bool is_name(const struct jinja_tok *t, const char *z) { return t->k == T_NAME && str_eq(t->s, z); }

static inline const char *tok_name(const struct jinja_tok *t)
{
    static const char *const n[] = {"end of template",
                                    "text",
                                    "'{{'",
                                    "'}}'",
                                    "'{%'",
                                    "'%}'",
                                    "a name",
                                    "a string",
                                    "an integer",
                                    "a number",
                                    "'+'",
                                    "'-'",
                                    "'*'",
                                    "'/'",
                                    "'//'",
                                    "'%'",
                                    "'**'",
                                    "'~'",
                                    "'=='",
                                    "'!='",
                                    "'<'",
                                    "'<='",
                                    "'>'",
                                    "'>='",
                                    "'in'",
                                    "'not in'",
                                    "'='",
                                    "'.'",
                                    "':'",
                                    "'|'",
                                    "','",
                                    "';'",
                                    "'('",
                                    "')'",
                                    "'['",
                                    "']'",
                                    "'{'",
                                    "'}'"};
    return n[t->k];
}

static inline int unexpected(struct parser *p, const char *want)
{
    if (p->cur.k == T_NAME)
        return jinja_bad(p->e, p->cur.line, "expected %s, got '%.*s'", want, (int)MIN(p->cur.s.n, (size_t)60), p->cur.s.p);
    return jinja_bad(p->e, p->cur.line, "expected %s, got %s", want, tok_name(&p->cur));
}

static inline int expect(struct parser *p, uint8_t k)
{
    if (p->cur.k != k) return unexpected(p, tok_name(&(struct jinja_tok){.k = k}));
    return next(p);
}

/* 1 and past it when the current token is the word, else 0. */
static inline int skip_word(struct parser *p, const char *z)
{
    if (!is_name(&p->cur, z)) return 0;
    TRY(next(p));
    return 1;
}

static inline int enter(struct parser *p)
{
    if (++p->nest > JINJA_MAX_NEST) return jinja_bad(p->e, p->cur.line, "nested more than %d levels deep", JINJA_MAX_NEST);
    return OK;
}

static inline struct node *node(struct parser *p, uint8_t k, uint32_t line)
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
static inline int above(struct parser *p, struct node *n, const struct node *child)
{
    if (child && child->depth >= n->depth) n->depth = (uint16_t)(child->depth + 1);
    if (n->depth > JINJA_MAX_CHAIN) return jinja_bad(p->e, n->line, "expression more than %d levels high", JINJA_MAX_CHAIN);
    return OK;
}

static inline int push(struct parser *p, struct vec *v, struct node *n)
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

/* Number of a name. */
int jinja_intern(struct parser *p, struct str s, uint32_t *id);
/* Remembers a load or store of one of the four special names. */
int jinja_note_use(struct parser *p, uint32_t id, bool load);

static inline int name_node(struct parser *p, struct str s, uint32_t line, struct node **out)
{
    struct node *n = node(p, N_NAME, line);
    if (!n) return nomem(p);
    n->u.name.s = s;
    TRY(jinja_intern(p, s, &n->u.name.id));
    *out = n;
    return OK;
}

enum { TUP_NOCOND = 1, TUP_PAREN = 2, TUP_TARGET = 4, TUP_NS = 8 };
/* An expression; cond: a if b else c is allowed without parentheses. */
int jinja_expr(struct parser *p, bool cond, struct node **out);
/* One expression, or several with commas between as a tuple; stop: a word that ends it, or NULL. */
int jinja_tuple(struct parser *p, unsigned flags, const char *stop, struct node **out);
/* name(args)|name... behind *x (NULL in a filter block); the current token is the first name. */
int jinja_filters(struct parser *p, struct node **x);
