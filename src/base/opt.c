#include "base/opt.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No list that a person types is longer; an environment or argv can hold no more anyway (ARG_MAX). */
#define MAX_LIST (1u << 22)

struct parse {
    const struct opt_prog *p;
    uint32_t cmd;
    char *to;
    uint8_t *from;
    struct arena *a;
    struct err *e;
};

static const char *opt_name_at(const void *ud, size_t i)
{
    const struct parse *s = ud;
    const struct opt *o = &s->p->opt[i];
    return !o->hidden && (o->cmds >> s->cmd & 1) ? o->name : NULL;
}
static const char *cmd_name_at(const void *ud, size_t i)
{
    const struct opt_prog *p = ud;
    return p->cmd[i].hidden ? NULL : p->cmd[i].name;
}

int opt_find_cmd(const struct opt_prog *p, const char *name, struct err *e)
{
    for (uint32_t i = 0; i < p->n_cmd; i++)
        if (strcmp(p->cmd[i].name, name) == 0) return (int)i;
    const char *near = near_name(name, cmd_name_at, p, p->n_cmd);
    if (near) return err_set(e, E_ARG, "unknown command '%.60s', did you mean '%s'? (%s --help lists them)", name, near, p->name);
    return err_set(e, E_ARG, "unknown command '%.60s' (%s --help lists them)", name, p->name);
}

/* What is being set, for messages: "option --temp", "option -n" or "environment variable HEARTH_TEMP". */
struct who {
    const char *pre, *name;
};

static void range_text(char *s, size_t n, const struct opt *o)
{
    bool whole = o->kind != OPT_F32;
    if (o->lo == 0 && o->hi == 0) {
        snprintf(s, n, "%s", whole ? "a whole number from 0" : "a number");
    } else {
        snprintf(s, n, "%s from %.15g to %.15g", whole ? "a whole number" : "a number", o->lo, o->hi);
    }
}

static int bad_value(const struct opt *o, struct who w, const char *v, struct err *e)
{
    char want[120];
    range_text(want, sizeof want, o);
    return err_set(e, E_ARG, "%s%s: '%.60s' is not %s", w.pre, w.name, v, want);
}

/* Whole strings only: no leading blanks, no trailing text, no empty string. */
static bool parse_u64(const char *s, char end, uint64_t *v, const char **rest)
{
    if (*s < '0' || *s > '9') return false;
    bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    char *z;
    errno = 0;
    *v = strtoull(s, &z, hex ? 16 : 10);
    if (errno || (*z && *z != end)) return false;
    *rest = z;
    return true;
}
static bool parse_f64(const char *s, double *v, const char **rest)
{
    if (!((*s >= '0' && *s <= '9') || *s == '-' || *s == '+' || *s == '.' || *s == 'i' || *s == 'I')) return false;
    char *z;
    errno = 0;
    *v = strtod(s, &z);
    if (z == s || isnan(*v)) return false;
    if (errno == ERANGE && isinf(*v)) return false; /* too large; underflow is fine */
    *rest = z;
    return true;
}
static bool in_range(const struct opt *o, double v) { return (o->lo == 0 && o->hi == 0) || (v >= o->lo && v <= o->hi); }

static bool parse_size(const char *s, uint64_t *v)
{
    const char *z;
    double d;
    if (*s < '0' || *s > '9' || !parse_f64(s, &d, &z)) return false;
    static const char unit[] = "KMGT";
    const char *u = *z ? strchr(unit, *z >= 'a' && *z <= 'z' ? *z - 32 : *z) : NULL;
    if (u) {
        for (const char *k = unit; k <= u; k++) d *= 1024;
        z++;
        if (*z == 'i') z++;
    }
    if (*z == 'B' || *z == 'b') z++;
    if (*z || d > 9e18) return false;
    *v = (uint64_t)d;
    return true;
}

/* Room for one more element of a list in the arena: doubles, old memory stays behind until the arena goes. */
static int grow(struct arena *a, void **v, uint32_t n, uint32_t *cap, size_t size, struct who w, struct err *e)
{
    if (n < *cap) return OK;
    if (n >= MAX_LIST) return err_set(e, E_ARG, "%s%s: more than %u elements", w.pre, w.name, MAX_LIST);
    uint32_t c = *cap ? *cap * 2 : 8;
    void *m = arena_alloc(a, c, size);
    if (!m) return err_set(e, E_NOMEM, "%s%s: out of memory", w.pre, w.name);
    if (n) memcpy(m, *v, n * size);
    *v = m;
    *cap = c;
    return OK;
}
#define GROW(l)                                                                                                                  \
    do {                                                                                                                         \
        void *m_ = (l)->v;                                                                                                       \
        TRY(grow(s->a, &m_, (l)->n, &(l)->cap, sizeof *(l)->v, w, s->e));                                                        \
        (l)->v = m_;                                                                                                             \
    } while (0)

static int add_numbers(struct parse *s, const struct opt *o, struct who w, const char *text, void *field)
{
    struct opt_i32s *il = field;
    struct opt_u32s *ul = field;
    double top = o->kind == OPT_I32S ? (double)INT32_MAX : (double)UINT32_MAX;
    for (const char *p = text;;) {
        uint64_t v;
        while (*p == ' ') p++;
        const char *at = p;
        if (!parse_u64(p, ',', &v, &p) || (double)v > top || !in_range(o, (double)v)) {
            char one[32], want[120];
            snprintf(one, sizeof one, "%.*s", (int)MIN(strcspn(at, ","), (size_t)30), at);
            range_text(want, sizeof want, o);
            return err_set(s->e, E_ARG, "%s%s: '%s' in the list is not %s", w.pre, w.name, one, want);
        }
        if (o->kind == OPT_I32S) {
            GROW(il);
            il->v[il->n++] = (int32_t)v;
        } else {
            GROW(ul);
            ul->v[ul->n++] = (uint32_t)v;
        }
        if (!*p) return OK;
        p++;
    }
}

static int add_bias(struct parse *s, struct who w, const char *text, struct opt_biases *l)
{
    for (const char *p = text;;) {
        uint64_t id;
        double b;
        const char *at = p;
        if (!parse_u64(p, '=', &id, &p) || *p != '=' || id > INT32_MAX || !parse_f64(p + 1, &b, &p) || (*p && *p != ',') ||
            b > 1e6 || (b < -1e6 && !isinf(b)))
            return err_set(s->e, E_ARG, "%s%s: '%.60s' is not ID=BIAS with a token id and a number (-inf forbids the token)",
                           w.pre, w.name, at);
        GROW(l);
        l->v[l->n++] = (struct opt_bias){(int32_t)id, (float)b};
        if (!*p) return OK;
        p++;
    }
}

static int choice_index(const struct opt *o, struct who w, const char *v, int *out, struct err *e)
{
    char all[160] = "";
    size_t n = 0;
    for (int i = 0; o->choice[i]; i++) {
        if (strcmp(o->choice[i], v) == 0) {
            *out = i;
            return OK;
        }
        int k = snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", o->choice[i]);
        if (k > 0 && (size_t)k < sizeof all - n) n += (size_t)k;
    }
    return err_set(e, E_ARG, "%s%s: '%.60s' is not one of %s", w.pre, w.name, v, all);
}

static int set_value(struct parse *s, const struct opt *o, struct who w, const char *v)
{
    void *f = s->to + o->off;
    const char *rest;
    uint64_t u;
    double d;
    int c = 0;
    switch ((enum opt_kind)o->kind) {
    case OPT_FLAG: {
        static const char *const yes[] = {"yes", "true", "1", "on"}, *const no[] = {"no", "false", "0", "off"};
        for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
            if (strcmp(v, yes[i]) == 0 || strcmp(v, no[i]) == 0) {
                *(bool *)f = strcmp(v, yes[i]) == 0;
                return OK;
            }
        }
        return err_set(s->e, E_ARG, "%s%s: '%.60s' is not yes or no", w.pre, w.name, v);
    }
    case OPT_U32:
        if (!parse_u64(v, 0, &u, &rest) || u > UINT32_MAX || !in_range(o, (double)u)) return bad_value(o, w, v, s->e);
        *(uint32_t *)f = (uint32_t)u;
        return OK;
    case OPT_U64:
        if (!parse_u64(v, 0, &u, &rest) || !in_range(o, (double)u)) return bad_value(o, w, v, s->e);
        *(uint64_t *)f = u;
        return OK;
    case OPT_F32:
        if (!parse_f64(v, &d, &rest) || *rest || isinf(d) || fabs(d) > 3e38 || !in_range(o, d)) return bad_value(o, w, v, s->e);
        *(float *)f = (float)d;
        return OK;
    case OPT_SIZE:
        if (!parse_size(v, &u) || !in_range(o, (double)u))
            return err_set(s->e, E_ARG, "%s%s: '%.60s' is not a size (such as 4096, 64K, 1.5G) from %.15g to %.15g bytes", w.pre,
                           w.name, v, o->lo, o->hi == 0 ? 9e18 : o->hi);
        *(uint64_t *)f = u;
        return OK;
    case OPT_TEXT:
    case OPT_TEXTS: {
        size_t n = strlen(v), bad = utf8_check(v, n);
        if (bad < n)
            return err_set(s->e, E_ARG, "%s%s: byte %zu (0x%02x) is not valid UTF-8", w.pre, w.name, bad,
                           (unsigned)(unsigned char)v[bad]);
        if (o->kind == OPT_TEXT) {
            *(const char **)f = v;
            return OK;
        }
        struct opt_texts *l = f;
        GROW(l);
        l->v[l->n++] = v;
        return OK;
    }
    case OPT_PATH:
        if (!*v) return err_set(s->e, E_ARG, "%s%s: the empty string is no file", w.pre, w.name);
        *(const char **)f = v;
        return OK;
    case OPT_ENUM:
    case OPT_WORD:
        TRY(choice_index(o, w, v, &c, s->e));
        if (o->kind == OPT_ENUM)
            *(int *)f = c;
        else
            *(const char **)f = o->choice[c];
        return OK;
    case OPT_I32S:
    case OPT_U32S: return add_numbers(s, o, w, v, f);
    case OPT_BIAS: return add_bias(s, w, v, f);
    case OPT_PAIRS: {
        const char *eq = strchr(v, '=');
        if (!eq || eq == v) return err_set(s->e, E_ARG, "%s%s: '%.60s' is not NAME=VALUE", w.pre, w.name, v);
        struct opt_pairs *l = f;
        char *name = arena_strndup(s->a, v, (size_t)(eq - v));
        if (!name) return err_set(s->e, E_NOMEM, "%s%s: out of memory", w.pre, w.name);
        GROW(l);
        l->v[l->n++] = (struct opt_pair){name, eq + 1};
        return OK;
    }
    case OPT_HELP:
    case OPT_VERSION: break;
    }
    return OK;
}

/* A list given anew on the command line replaces the environment's or the default, it does not add to it. All four list types
 * start with pointer and count. */
static void start_over(struct parse *s, const struct opt *o)
{
    char *f = s->to + o->off;
    switch ((enum opt_kind)o->kind) {
    case OPT_TEXTS: ((struct opt_texts *)(void *)f)->n = 0; break;
    case OPT_I32S: ((struct opt_i32s *)(void *)f)->n = 0; break;
    case OPT_U32S: ((struct opt_u32s *)(void *)f)->n = 0; break;
    case OPT_BIAS: ((struct opt_biases *)(void *)f)->n = 0; break;
    case OPT_PAIRS: ((struct opt_pairs *)(void *)f)->n = 0; break;
    default: break;
    }
}

static int give(struct parse *s, const struct opt *o, struct who w, const char *v, enum opt_from from)
{
    /* number lists replace whatever was there, repeatable ones add within one source */
    if (s->from[o->id] != from || o->kind == OPT_I32S || o->kind == OPT_U32S) start_over(s, o);
    TRY(set_value(s, o, w, v));
    s->from[o->id] = (uint8_t)from;
    return OK;
}

static int defaults(struct parse *s)
{
    for (uint32_t i = 0; i < s->p->n_opt; i++) {
        const struct opt *o = &s->p->opt[i];
        if (!(o->cmds >> s->cmd & 1)) continue;
        if (o->def) TRY(give(s, o, (struct who){"default of --", o->name}, o->def, OPT_FROM_DEFAULT));
        const char *v = o->env ? getenv(o->env) : NULL;
        if (v && *v) TRY(give(s, o, (struct who){"environment variable ", o->env}, v, OPT_FROM_ENV));
    }
    return OK;
}

static const struct opt *find_long(const struct parse *s, const char *name, size_t n, bool *neg)
{
    for (uint32_t i = 0; i < s->p->n_opt; i++) {
        const struct opt *o = &s->p->opt[i];
        if (!(o->cmds >> s->cmd & 1)) continue;
        size_t k = strlen(o->name);
        *neg = false;
        if (k == n && memcmp(o->name, name, n) == 0) return o;
        *neg = true;
        if (o->neg && n == k + 3 && memcmp(name, "no-", 3) == 0 && memcmp(o->name, name + 3, k) == 0) return o;
    }
    *neg = false;
    return NULL;
}
static const struct opt *find_letter(const struct parse *s, char c)
{
    for (uint32_t i = 0; i < s->p->n_opt; i++)
        if (s->p->opt[i].letter == c && (s->p->opt[i].cmds >> s->cmd & 1)) return &s->p->opt[i];
    return NULL;
}

/* Not one of this command's: nearest name, or the command that has it. */
static int unknown(struct parse *s, const char *shown, const char *name)
{
    const struct opt_prog *p = s->p;
    for (uint32_t i = 0; i < p->n_opt; i++) {
        if (p->opt[i].hidden || strcmp(p->opt[i].name, name) != 0) continue;
        if (p->opt[i].cmds >> s->cmd & 1) break; /* one dash too few: the nearest name says so */
        for (uint32_t c = 0; c < p->n_cmd; c++)
            if (p->opt[i].cmds >> c & 1)
                return err_set(s->e, E_ARG, "%s: %s is no option of it, but of '%s' (see %s help %s)", p->cmd[s->cmd].name, shown,
                               p->cmd[c].name, p->name, p->cmd[s->cmd].name);
    }
    const char *near = strlen(name) > 1 ? near_name(name, opt_name_at, s, p->n_opt) : NULL;
    if (!near && strncmp(name, "no-", 3) == 0) near = near_name(name + 3, opt_name_at, s, p->n_opt);
    if (near)
        return err_set(s->e, E_ARG, "%s: unknown option %.60s, did you mean --%s? (see %s help %s)", p->cmd[s->cmd].name, shown,
                       near, p->name, p->cmd[s->cmd].name);
    return err_set(s->e, E_ARG, "%s: unknown option %.60s (see %s help %s)", p->cmd[s->cmd].name, shown, p->name,
                   p->cmd[s->cmd].name);
}

static int no_value(struct parse *s, const struct opt *o, const char *shown)
{
    return err_set(s->e, E_ARG, "option %.60s needs a value: %s, %s", shown, o->arg ? o->arg : "VALUE", o->help);
}

static int long_option(struct parse *s, int n, char *const *argv, int *i)
{
    const char *word = argv[*i], *name = word + 2, *eq = strchr(name, '=');
    size_t len = eq ? (size_t)(eq - name) : strlen(name);
    bool neg;
    char shown[72], bare[64];
    snprintf(shown, sizeof shown, "--%.*s", (int)MIN(len, sizeof shown - 3), name);
    snprintf(bare, sizeof bare, "%.*s", (int)MIN(len, sizeof bare - 1), name);
    const struct opt *o = find_long(s, name, len, &neg);
    if (!o) return unknown(s, shown, bare);
    if (o->kind == OPT_HELP) return OPT_ASK_HELP;
    if (o->kind == OPT_VERSION) return OPT_ASK_VERSION;
    struct who w = {"option ", shown};
    if (o->kind == OPT_FLAG) {
        if (eq) return err_set(s->e, E_ARG, "option %s takes no value, '%.60s' was given", shown, eq + 1);
        return give(s, o, w, neg ? "no" : "yes", OPT_FROM_LINE);
    }
    if (!eq && *i + 1 >= n) return no_value(s, o, shown);
    return give(s, o, w, eq ? eq + 1 : argv[++*i], OPT_FROM_LINE);
}

/* "-n5", "-n 5", and flags together: "-vn5". */
static int short_options(struct parse *s, int n, char *const *argv, int *i)
{
    for (const char *p = argv[*i] + 1; *p; p++) {
        char shown[8] = {'-', *p, 0}, bare[2] = {*p, 0};
        if ((unsigned char)*p >= 0x80) return unknown(s, argv[*i], ""); /* never half a character in a message */
        const struct opt *o = find_letter(s, *p);
        if (!o) return unknown(s, p == argv[*i] + 1 ? argv[*i] : shown, p == argv[*i] + 1 && p[1] ? argv[*i] + 1 : bare);
        if (o->kind == OPT_HELP) return OPT_ASK_HELP;
        if (o->kind == OPT_VERSION) return OPT_ASK_VERSION;
        struct who w = {"option ", shown};
        if (o->kind == OPT_FLAG) {
            TRY(give(s, o, w, "yes", OPT_FROM_LINE));
            continue;
        }
        if (p[1]) return give(s, o, w, p + 1, OPT_FROM_LINE);
        if (*i + 1 >= n) return no_value(s, o, shown);
        return give(s, o, w, argv[++*i], OPT_FROM_LINE);
    }
    return OK;
}

int opt_parse(const struct opt_prog *p, uint32_t cmd, int n, char *const *argv, void *to, uint8_t *from, const char **args,
              uint32_t *n_arg, struct arena *a, struct err *e)
{
    struct parse s = {p, cmd, to, from, a, e};
    const struct opt_cmd *c = &p->cmd[cmd];
    bool words = false; /* after "--" */
    *n_arg = 0;
    int env = defaults(&s); /* a wrong variable is told only when nobody asks for help */
    for (int i = 0; i < n; i++) {
        const char *w = argv[i];
        int rc = OK;
        if (!words && strcmp(w, "--") == 0) {
            words = true;
        } else if (!words && w[0] == '-' && w[1] == '-') {
            rc = long_option(&s, n, argv, &i);
        } else if (!words && w[0] == '-' && w[1]) {
            rc = short_options(&s, n, argv, &i);
        } else if (*n_arg >= c->max_arg) {
            return err_set(e, E_ARG, "%s: '%.60s' is one word too many (usage: %s %s %s)", c->name, w, p->name, c->name, c->args);
        } else {
            args[(*n_arg)++] = w;
        }
        if (rc != OK) return rc;
    }
    TRY(env);
    if (*n_arg < c->min_arg)
        return err_set(e, E_ARG, "%s: %s is missing (usage: %s %s %s)", c->name, c->arg_name, p->name, c->name, c->args);
    return OK;
}
