/* opt.h: the command line from one table. A row says everything about an option: name, letter, kind, range, default, environment
 * variable, help and which commands take it; parsing, help, man page, shell completions and the option page are all made from it,
 * so they cannot disagree. Values end in a caller's struct at the row's offset. Texts are borrowed from argv and the environment.
 * Any thread. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum opt_kind {
    OPT_FLAG,  /* bool */
    OPT_U32,   /* uint32_t in [lo, hi] */
    OPT_U64,   /* uint64_t, any; also 0x... */
    OPT_F32,   /* float in [lo, hi], finite */
    OPT_SIZE,  /* uint64_t bytes in [lo, hi]: 4096, 64K, 1.5G (powers of 1024) */
    OPT_TEXT,  /* const char *, valid UTF-8 */
    OPT_PATH,  /* const char *, any bytes, not empty */
    OPT_ENUM,  /* int: index into choice[] */
    OPT_WORD,  /* const char *: one of choice[] */
    OPT_TEXTS, /* struct opt_texts, repeatable */
    OPT_I32S,  /* struct opt_i32s: 1,2,3 with each in [lo, hi] */
    OPT_U32S,  /* struct opt_u32s: the same, unsigned */
    OPT_BIAS,  /* struct opt_biases, repeatable: ID=NUMBER[,ID=NUMBER...] */
    OPT_PAIRS, /* struct opt_pairs, repeatable: NAME=VALUE */
    OPT_HELP,  /* no value: parsing stops with OPT_ASK_HELP */
    OPT_VERSION,
};

struct opt_texts {
    const char **v;
    uint32_t n, cap;
};
struct opt_i32s {
    int32_t *v;
    uint32_t n, cap;
};
struct opt_u32s {
    uint32_t *v;
    uint32_t n, cap;
};
struct opt_bias {
    int32_t id;
    float bias; /* may be -inf: never */
};
struct opt_biases {
    struct opt_bias *v;
    uint32_t n, cap;
};
struct opt_pair {
    const char *name, *value;
};
struct opt_pairs {
    struct opt_pair *v;
    uint32_t n, cap;
};

struct opt {
    const char *name;          /* without the dashes */
    const char *arg;           /* "N", "TEXT": shown after the name; NULL for flags */
    const char *group;         /* heading in help; rows of a group stand together */
    const char *help;          /* one sentence, lower case, no full stop */
    const char *def;           /* parsed as the value when nothing is given; NULL: the field stays zero */
    const char *shown;         /* what help says about the default when def cannot ("from the model file"); NULL: def */
    const char *env;           /* environment variable that gives a default; NULL: none */
    const char *const *choice; /* NULL-terminated: OPT_ENUM, OPT_WORD */
    double lo, hi;             /* both 0: no bounds but the type's */
    uint32_t cmds;             /* bit i: command i takes it */
    uint16_t id;  /* index into `from`; several rows may carry one name for different commands, each has its own id */
    uint16_t off; /* of the field in the caller's struct */
    uint8_t kind; /* enum opt_kind */
    char letter;  /* short form, 0: none */
    bool neg;     /* OPT_FLAG: --no-NAME is offered (its def is "yes") */
    bool hidden;  /* not in help, man page, completions */
};

struct opt_cmd {
    const char *name;
    const char *args;           /* "MODEL [-p TEXT | -f FILE | -]" */
    const char *help;           /* one sentence */
    const char *about;          /* paragraphs parted by \n\n, may be NULL */
    const char *const *example; /* NULL-terminated, pairs: command line, what it does */
    uint8_t min_arg, max_arg;   /* positional arguments */
    const char *arg_name;       /* "MODEL": named when one is missing; decides completion (MODEL, FILE, COMMAND) */
    bool hidden;
};

struct opt_prog {
    const char *name, *version, *about; /* about: one sentence */
    const struct opt_cmd *cmd;
    uint32_t n_cmd;
    const struct opt *opt;
    uint32_t n_opt;
};

enum opt_from { OPT_FROM_DEFAULT, OPT_FROM_ENV, OPT_FROM_LINE }; /* who gave a value */
enum { OPT_ASK_HELP = 1, OPT_ASK_VERSION = 2 };

/* Index of a command, or -1 with a message that holds the nearest name (E_ARG). */
int opt_find_cmd(const struct opt_prog *p, const char *name, struct err *e);

/* Fills the struct at `to` (zeroed by the caller) from defaults, then environment, then argv[0..n) (the words after the command).
 * from: one byte (enum opt_from) per id. Words that are no options go to args (at most the command's max_arg; more are an error),
 * their number to *n_arg; "-" is such a word, and all words after "--". Lists live in arena a. Returns OK, OPT_ASK_HELP /
 * OPT_ASK_VERSION (the first --help or --version wins over later faults), or E_ARG with one line naming option, value and what is
 * wanted. */
int opt_parse(const struct opt_prog *p, uint32_t cmd, int n, char *const *argv, void *to, uint8_t *from, const char **args,
              uint32_t *n_arg, struct arena *a, struct err *e);

/* Texts made from the table. width: columns to wrap to. */
void opt_help(struct buf *out, const struct opt_prog *p, uint32_t width);                   /* hearth --help */
void opt_help_cmd(struct buf *out, const struct opt_prog *p, uint32_t cmd, uint32_t width); /* hearth help COMMAND */
void opt_man(struct buf *out, const struct opt_prog *p);                                    /* roff, section 1 */
void opt_markdown(struct buf *out, const struct opt_prog *p);                               /* docs/options.md */
void opt_bash(struct buf *out, const struct opt_prog *p);
void opt_zsh(struct buf *out, const struct opt_prog *p);
void opt_fish(struct buf *out, const struct opt_prog *p);
