/* jinja_impl.h: what the jinja_*.c files share; private to them.
 * Pipeline: jinja_lex (text -> tokens) -> jinja_parse (tokens -> tree) -> jinja_scope (names -> slots, as Jinja2's idtracking
 * decides) -> jinja_eval (walks the tree). The tree lives in the template's arena; everything made while rendering lives in the
 * rendering's arena. Values are immutable but for namespaces, loops, cyclers, joiners and the position of generators (the sandbox
 * forbids list.append and the like). Strings are UTF-8 slices; they may point into the template, into the caller's JSON, or into
 * the arena. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/jinja.h"

enum {
    JINJA_MAX_TEXT = 1 << 20, /* bytes of a template */
    JINJA_MAX_NEST = 200,     /* parentheses, operator levels and blocks inside one another */
    JINJA_MAX_CHAIN = 200,    /* height of an expression's tree: a.b.c..., nested calls */
    JINJA_MAX_DEPTH = 450, /* evaluator levels, macro recursion included: about 160 KiB of stack with gcc -O3 (test_jinja: 256 KiB
                              are enough) */
    JINJA_MAX_DATA_DEPTH = 200, /* printing, comparing and hashing of nested values; variables may be nested that deep */
    JINJA_MAX_RANGE = 100000,   /* as Jinja2's sandbox */
};

/* ---- values */
enum jinja_type {
    V_MISSING, /* a slot without value, an argument not given; never seen by a template */
    V_UNDEF,   /* sub: what it says when used; see jinja_undef */
    V_NONE,
    V_BOOL,
    V_INT,
    V_FLOAT,
    V_STR,
    V_LIST,
    V_TUPLE,
    V_DICT,
    V_RANGE,
    V_VIEW, /* dict.keys() (sub 0), values() (1), items() (2) */
    V_GEN,  /* what map, select, ... give: iterated once */
    V_NS,
    V_MACRO,
    V_LOOP,
    V_FUNC,   /* a global function */
    V_METHOD, /* a method with its object */
    V_CYCLER,
    V_JOINER,
};
enum { STR_MARKUP = 1 };                                   /* sub of V_STR: marked safe */
enum { TUPLE_GROUP = 1 };                                  /* sub of V_TUPLE: (grouper, list) of groupby */
enum { UNDEF_NAME, UNDEF_ATTR, UNDEF_HINT, UNDEF_UNSAFE }; /* sub of V_UNDEF */

struct val {
    uint8_t t, sub;
    uint16_t aux; /* V_UNDEF: type of the object that lacks the attribute */
    uint32_t n;   /* V_STR, V_UNDEF: bytes of s */
    union {
        bool b;
        int64_t i;
        double d;
        const char *s;
        struct list *l;
        struct dict *o;
        struct range *r;
        struct gen *g;
        struct ns *ns;
        struct macro *m;
        struct loop *loop;
        const struct jinja_fn *fn;
        struct method *me;
        struct cycler *cy;
        struct joiner *jo;
    } u;
};
struct list {
    struct val *v;
    uint32_t n, cap;
};
struct pair {
    struct val k, v;
    uint64_t h;
};
struct dict {
    struct pair *e; /* in order of insertion */
    uint32_t *idx;  /* hash table of 1 + entry number; NULL while n is small */
    uint32_t n, cap, n_idx;
};
struct range {
    int64_t start, stop, step;
    uint32_t n;
};
struct gen {
    struct list *l;
    uint32_t pos;
    const char *fail; /* the error to raise when read, or NULL */
};
struct ns {
    struct dict *d;
};
struct cycler {
    struct list *l;
    uint32_t pos;
};
struct joiner {
    struct val sep;
    bool used;
};
struct method {
    struct val self;
    const struct jinja_fn *fn;
};

struct rt;
/* Arguments of a call, all borrowed. */
struct args {
    struct val *v;
    uint32_t n, n_kw;
    const struct str *kw; /* [n_kw] */
    struct val *kv;       /* [n_kw] */
};
/* A filter, test, method or global function. Bound to named parameters: a[i] is V_MISSING where not given; self is the filtered
 * value or the method's object. With params NULL the raw arguments are taken. */
struct jinja_fn {
    const char *name;
    int (*fn)(struct rt *r, struct val self, struct val *a, struct val *out);
    int (*raw)(struct rt *r, struct val self, const struct args *g, struct val *out);
    const char *params; /* "old,new,count" */
    uint8_t need;       /* the first so many must be given */
    bool pos_only;      /* keywords refused, as by most methods of str */
    bool lazy;          /* a generator in Jinja2: what is wrong with its input is an error only when it is read */
};
enum { JINJA_MAX_PARAM = 6 };

/* ---- the tree */
enum node_kind {
    N_CONST,
    N_NAME,
    N_NSREF,
    N_TUPLE,
    N_LIST,
    N_DICT, /* key, value, key, value, ... */
    N_BIN,  /* left-associative run of operators of one level */
    N_AND,
    N_OR,
    N_NOT,
    N_NEG,
    N_POS,
    N_CMP,
    N_CONCAT,
    N_COND, /* a if test, b value, c other (may be NULL) */
    N_ATTR,
    N_ITEM,  /* a[b] */
    N_SLICE, /* only as b of N_ITEM */
    N_CALL,
    N_FILTER,
    N_TEST,
    S_DATA,
    S_PRINT,
    S_IF,
    S_FOR,
    S_SET,
    S_SETBLOCK,
    S_MACRO,
    S_CALL,
    S_FILTER,
    S_WITH,
    S_BREAK,
    S_CONTINUE,
};
enum tok_kind {
    T_EOF,
    T_DATA,
    T_VAR_BEGIN,
    T_VAR_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STR,
    T_INT,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_MUL,
    T_DIV,
    T_FLOORDIV,
    T_MOD,
    T_POW,
    T_TILDE,
    T_EQ,
    T_NE,
    T_LT,
    T_LE,
    T_GT,
    T_GE,
    T_IN, /* never from the lexer: operators of N_CMP */
    T_NOTIN,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON,
    T_LPAREN,
    T_RPAREN,
    T_LBRACKET,
    T_RBRACKET,
    T_LBRACE,
    T_RBRACE,
};

struct body {
    struct node **v;
    uint32_t n;
};
struct nargs {
    struct node **v;          /* [n] */
    struct str *kw;           /* [n_kw] */
    struct node **kv;         /* [n_kw] */
    struct node *dyn, *dynkw; /* *x, **x or NULL */
    uint32_t n, n_kw;
};
struct branch {
    struct node *test; /* NULL: else */
    struct body body;
};
/* What entering a scope does to its slots (compiler.enter_frame of Jinja2). */
enum { LOAD_PARAM, LOAD_RESOLVE, LOAD_ALIAS, LOAD_UNDEF };
struct finit {
    uint8_t kind;
    uint16_t hops; /* LOAD_ALIAS: from hops activations up, slot src */
    uint32_t slot, src;
    struct str name; /* LOAD_RESOLVE: from the variables, then the globals */
};
struct frame {
    struct finit *v;
    uint32_t n;
};
struct func {
    struct func *parent;
    uint32_t n_slot;
    void *map; /* jinja_scope's, while compiling */
};
struct nfor {
    struct node *target, *iter, *test;
    struct node *test_target; /* target with the slots of fn_test */
    struct body body, els;
    struct frame f_body, f_els, f_test;
    struct func *fn, *fn_test; /* fn only when recursive */
    uint32_t loop_slot;
    bool recursive, extended;
};
struct nmacro {
    struct str name;    /* of S_MACRO; empty for a caller */
    struct node *store; /* N_NAME target, NULL for a caller */
    struct node **arg;  /* N_NAME */
    struct node **def;  /* the last n_def arguments' defaults */
    uint32_t n_arg, n_def;
    struct body body;
    struct frame frame;
    struct func *fn;
    bool caller, kwargs, varargs; /* used in the body */
    bool explicit_caller;         /* named among the arguments */
    uint32_t caller_slot, kwargs_slot, varargs_slot;
    struct node *call; /* S_CALL */
};
struct nset {                      /* S_SET, S_SETBLOCK, S_FILTER, S_WITH */
    struct node **target, **value; /* n of them (1 but for S_WITH) */
    uint32_t n;
    struct node *filter;
    struct body body;
    struct frame frame;
};
struct node {
    uint8_t k, flag;
    uint16_t depth;
    uint32_t line;
    union {
        struct val c;
        struct {
            struct str s, attr; /* attr: N_NSREF */
            uint32_t id, slot;
            uint16_t hops;
        } name;
        struct {
            struct node **v;
            uint8_t *op;
            uint32_t n;
        } l;
        struct {
            struct node *a, *b, *c;
        } p;
        struct {
            struct node *obj;
            struct str name;
        } attr;
        struct {
            struct node *obj; /* callee, filtered or tested value; NULL in a filter block */
            struct nargs *args;
            struct str name;
            const struct jinja_fn *fn; /* NULL: no such filter or test, an error when reached */
        } call;
        struct {
            struct branch *v;
            uint32_t n;
        } cond;
        struct nfor *loop;
        struct nmacro *macro;
        struct nset *set;
    } u;
};

struct jinja {
    struct arena a;
    const char *text; /* newlines normalised */
    size_t n_text;
    struct body body;
    struct frame frame;
    struct func root;
};

/* ---- compiling */
struct jinja_tok {
    uint8_t k;
    uint32_t line;
    struct str s; /* T_DATA, T_NAME, T_STR (unescaped) */
    int64_t i;
    double d;
};
struct lex {
    const char *p;
    size_t n, pos;
    uint32_t line;
    uint8_t state;
    uint8_t bal[256]; /* expected closing brackets */
    uint32_t n_bal;
    struct arena *a;
    struct err *e;
};
int jinja_lex_next(struct lex *l, struct jinja_tok *t);
/* "line N: ..." as E_FORMAT. */
int jinja_bad(struct err *e, uint32_t line, const char *fmt, ...) ATTR_PRINTF(3, 4);
int jinja_parse(struct jinja *j, struct err *e);
int jinja_scope(struct jinja *j, struct str *names, struct err *e); /* names by id */
const struct jinja_fn *jinja_find_filter(struct str name);
const struct jinja_fn *jinja_find_test(struct str name);
const struct jinja_fn *jinja_find_method(uint8_t type, struct str name);
const struct jinja_fn *jinja_find_global(struct str name);

const struct jinja_fn *jinja_find_text_filter(struct str name);
const struct jinja_fn *jinja_find_fn(const struct jinja_fn *t, size_t n, struct str name);

/* ---- rendering */
struct act { /* activation of a func */
    struct act *up;
    struct val *v;
};
struct macro {
    const struct nmacro *def;
    struct act *up;
};
struct iter {
    struct val v;
    uint32_t i, n; /* i: byte offset in a string, else position */
};
struct loop {
    const struct nfor *def;
    struct iter it;
    struct act *act, *test_act;
    struct val after, before, current;
    struct list *rest; /* when asking for the length read a filtered loop to its end */
    struct list *changed;
    uint32_t rest_pos;
    int64_t index0, length; /* length -1: not known */
    uint32_t depth0;
};
struct rt {
    const struct jinja *j;
    struct err *e;
    struct arena a;
    struct buf out;
    struct dict *vars;
    struct act *act;
    uint64_t steps, max_steps;
    uint64_t seed, rnd; /* of hash tables; of the filter random */
    uint32_t line, depth, data_depth;
    int64_t now;
    char *sp, *sp_end; /* free part of the current block of string memory */
    struct val *vs;    /* stack for arguments */
    uint32_t n_vs, cap_vs;
};

int jinja_fail(struct rt *r, const char *fmt, ...) ATTR_PRINTF(2, 3);  /* E_FORMAT */
int jinja_bound(struct rt *r, const char *fmt, ...) ATTR_PRINTF(2, 3); /* E_RANGE */
int jinja_nomem(struct rt *r);
int jinja_steps_over(struct rt *r);
/* Counts work: n bytes or elements handled by one operation. */
static inline int jinja_work(struct rt *r, size_t n)
{
    r->steps += 1 + n / 64;
    return LIKELY(r->steps <= r->max_steps) ? OK : jinja_steps_over(r);
}

/* values */
static inline struct val v_none(void) { return (struct val){.t = V_NONE}; }
static inline struct val v_missing(void) { return (struct val){.t = V_MISSING}; }
static inline struct val v_bool(bool b) { return (struct val){.t = V_BOOL, .u.b = b}; }
static inline struct val v_int(int64_t i) { return (struct val){.t = V_INT, .u.i = i}; }
static inline struct val v_float(double d) { return (struct val){.t = V_FLOAT, .u.d = d}; }
static inline struct val v_str(const char *p, size_t n) { return (struct val){.t = V_STR, .n = (uint32_t)n, .u.s = p}; }
static inline struct str v_slice(struct val v) { return (struct str){v.u.s, v.n}; }
static inline struct val v_list(struct list *l) { return (struct val){.t = V_LIST, .u.l = l}; }
static inline struct val v_tuple(struct list *l) { return (struct val){.t = V_TUPLE, .u.l = l}; }
struct val jinja_undef(struct str name);                      /* 'name' is undefined */
struct val jinja_undef_attr(struct val obj, struct str name); /* 'dict object' has no attribute 'name' */
struct val jinja_undef_hint(const char *hint);                /* static text */
int jinja_undef_error(struct rt *r, struct val v);
const char *jinja_type_name(struct val v); /* Python's */
bool jinja_truth(struct val v);
bool jinja_is_num(struct val v);             /* bool, int, float */
bool jinja_as_int(struct val v, int64_t *i); /* bool, int */
int jinja_need_int(struct rt *r, struct val v, int64_t *i);
int jinja_need_str(struct rt *r, struct val v, const char *what);
double jinja_as_double(struct val v);
int jinja_list_new(struct rt *r, uint32_t cap, struct list **out);
int jinja_list_push(struct rt *r, struct list *l, struct val v);
int jinja_gen_new(struct rt *r, struct list *l, struct val *out);
int jinja_dict_new(struct rt *r, struct dict **out);
int jinja_dict_set(struct rt *r, struct dict *d, struct val k, struct val v); /* unhashable key: an error */
int jinja_dict_get(struct rt *r, const struct dict *d, struct val k,
                   struct val *v); /* 1 found, 0 not, negative: unhashable key */
struct val *jinja_dict_str(const struct rt *r, const struct dict *d, struct str k);
int jinja_from_json(struct rt *r, const json_t *o, struct val *out);
char *jinja_str_mem(struct rt *r, size_t n); /* NULL: jinja_nomem already said */
int jinja_str_copy(struct rt *r, const char *p, size_t n, struct val *out);
int jinja_str_take(struct rt *r, struct buf *b, struct val *out); /* copies and frees b; checks it */
int jinja_str_cat(struct rt *r, struct val a, struct val b, struct val *out);
int jinja_eq(struct rt *r, struct val a, struct val b, bool *out);
int jinja_cmp(struct rt *r, struct val a, struct val b, const char *op, int *out); /* -1 0 1; 2 for NaN */
int jinja_contains(struct rt *r, struct val seq, struct val x, bool *out);
int jinja_len(struct rt *r, struct val v, uint64_t *n); /* TypeError for what has no length */
int jinja_iter(struct rt *r, struct val v, struct iter *it);
int jinja_iter_next(struct rt *r, struct iter *it, struct val *v); /* 1, 0 at the end */
bool jinja_iterable(struct val v);
int jinja_to_list(struct rt *r, struct val v, struct list **out);                 /* always a new list */
int jinja_sort(struct rt *r, struct list *keys, struct list *vals, bool reverse); /* stable; both in the order of keys */

/* operators */
int jinja_binop(struct rt *r, uint8_t op, struct val a, struct val b, struct val *out);
int jinja_unary(struct rt *r, bool neg, struct val a, struct val *out);
int jinja_slice(struct rt *r, struct val v, struct val lo, struct val hi, struct val step, struct val *out);
int jinja_getitem(struct rt *r, struct val obj, struct val key, struct val *out);
int jinja_getattr(struct rt *r, struct val obj, struct str name, struct val *out);

/* text */
int jinja_str(struct rt *r, struct val v, struct val *out);   /* Python's str(): a V_STR */
int jinja_put_str(struct rt *r, struct buf *b, struct val v); /* appends str(v) */
int jinja_put_repr(struct rt *r, struct buf *b, struct val v);
void jinja_put_float(struct buf *b, double d); /* Python's repr */
struct jinja_json {
    bool ascii, sort, pretty;
    struct str indent, item_sep, key_sep;
};
int jinja_put_json(struct rt *r, struct buf *b, struct val v, const struct jinja_json *o, uint32_t level);
int jinja_buf_check(struct rt *r, const struct buf *b);                                /* memory or output bound */
void jinja_buf_init(struct rt *r, struct buf *b);                                      /* capped by the memory bound */
int jinja_percent(struct rt *r, struct val fmt, struct val arg, struct val *out);      /* str % arg */
int jinja_format(struct rt *r, struct val fmt, const struct args *g, struct val *out); /* str.format */
int jinja_escape(struct rt *r, struct val v, struct val *out);                         /* HTML; a Markup */
int jinja_parse_int(struct str s, int base, int64_t *out); /* 0, or -1 not a number, -2 beyond 64 bits */
bool jinja_parse_float(struct str s, double *out);
int jinja_round(struct rt *r, struct val v, int64_t digits, struct val *out);

/* characters */
enum jinja_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_FOLD };
bool jinja_space(uint32_t cp);
bool jinja_printable(uint32_t cp);
bool jinja_linebreak(uint32_t cp);
uint32_t jinja_cp_at(struct str s, size_t off, uint32_t *cp); /* length; invalid bytes count as one character */
size_t jinja_cp_count(struct str s);
size_t jinja_cp_off(struct str s, size_t i); /* byte offset of character i (<= count) */
void jinja_put_case(struct buf *b, uint32_t c, enum jinja_case m);
int jinja_case_of(struct rt *r, struct str s, enum jinja_case c, struct val *out);
int jinja_is_class(struct str s, const char *name); /* islower, isdigit, ...: 1, 0 */
struct str jinja_strip(struct str s, struct str chars, bool def, bool left, bool right);
int jinja_splitlines(struct rt *r, struct str s, bool keep, struct list **out);
size_t jinja_find(struct str hay, size_t from, struct str needle); /* SIZE_MAX: not there */
size_t jinja_rfind(struct str hay, struct str needle);
/* Full case mapping of Unicode's SpecialCasing where it is more than one character: up to 3 code points to out, 0: there is none.
 */
uint32_t jinja_special_case(uint32_t cp, enum jinja_case c, uint32_t out[3]);

/* calls */
int jinja_call(struct rt *r, struct val f, const struct args *g, struct val *out);
int jinja_call_fn(struct rt *r, const struct jinja_fn *fn, struct val self, const struct args *g, const char *kind,
                  struct val *out);
int jinja_call_macro(struct rt *r, const struct macro *m, const struct args *g, struct val *out);
int jinja_loop_attr(struct rt *r, struct loop *l, struct str name, struct val *out); /* 1 found, 0 not */
int jinja_loop_call(struct rt *r, struct loop *l, const struct args *g, struct val *out);
int jinja_str_method_list(struct rt *r, struct val sep, struct val seq, struct val *out); /* sep.join(seq) of strings */
int jinja_attr_path(struct rt *r, struct val v, struct val attr, struct val def,
                    struct val *out); /* "a.b.0", an index, or None */
int jinja_wrap(struct rt *r, struct str line, int64_t width, bool break_long, bool on_hyphens,
               struct list *lines); /* textwrap.wrap */
int jinja_run(struct rt *r);
