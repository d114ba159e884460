/* opts.h: every command's options as one typed struct, filled from the table in opts.c. Main thread. */
#pragma once
#include "base/opt.h"

enum opts_cmd { CMD_RUN, CMD_CHAT, CMD_EVAL, CMD_BENCH, CMD_INSPECT, CMD_TOKENIZE, CMD_TEMPLATE, CMD_HELP, CMD_VERSION, CMD_N };

/* One id per table row: o->from[OPT_ID_x] says whether the value was given. */
enum opts_id {
    OPT_ID_HELP, OPT_ID_VERSION, OPT_ID_GENERATE, OPT_ID_VERBOSE, OPT_ID_QUIET, OPT_ID_JSON,
    OPT_ID_TEXT, OPT_ID_FILE, OPT_ID_MESSAGES, OPT_ID_IDS, OPT_ID_IDS_FILE, OPT_ID_IDS_FLAG, OPT_ID_RAW, OPT_ID_SYSTEM,
    OPT_ID_N, OPT_ID_STOP, OPT_ID_IGNORE_EOS, OPT_ID_TEMP, OPT_ID_TOP_K, OPT_ID_TOP_P, OPT_ID_MIN_P, OPT_ID_TYPICAL,
    OPT_ID_REPEAT_PENALTY, OPT_ID_FREQUENCY_PENALTY, OPT_ID_PRESENCE_PENALTY, OPT_ID_REPEAT_LAST_N,
    OPT_ID_LOGIT_BIAS, OPT_ID_SEED, OPT_ID_LOGPROBS,
    OPT_ID_CTX, OPT_ID_BATCH, OPT_ID_THREADS, OPT_ID_ISA, OPT_ID_KV, OPT_ID_LEDGER,
    OPT_ID_SAVE, OPT_ID_LOAD, OPT_ID_BOS, OPT_ID_TOP,
    OPT_ID_PREFILL, OPT_ID_DECODE, OPT_ID_BATCHES, OPT_ID_CONTEXT, OPT_ID_REPEAT,
    OPT_ID_TENSORS, OPT_ID_PIECES, OPT_ID_DECODE_IDS, OPT_ID_ADD_SPECIAL, OPT_ID_SPECIAL,
    OPT_ID_TOOLS, OPT_ID_GEN_PROMPT, OPT_ID_NOW, OPT_ID_VAR,
    OPT_ID_COUNT
};

enum opts_bos { OPTS_BOS_AUTO, OPTS_BOS_YES, OPTS_BOS_NO };

struct opts {
    enum opts_cmd cmd;
    const char *model;          /* first positional word as given: path, name under the cache, or (template) a .jinja file */
    bool from_stdin;            /* positional "-": the prompt is read from stdin */
    bool verbose, quiet, json;

    /* what to read. run: exactly one of text, file, from_stdin, ids is given (checked by opts_parse) */
    const char *text;           /* -p, valid UTF-8; NULL: not given */
    const char *file;           /* -f; template: the messages */
    struct opt_i32s ids;        /* run --ids */
    const char *ids_file;       /* eval --ids */
    bool ids_only;              /* tokenize --ids */
    bool raw;
    const char *system;         /* NULL: not given */

    /* generation */
    uint32_t n;                 /* -n; 0 and not given: up to the end token or the context */
    struct opt_texts stop;
    bool ignore_eos;
    uint32_t logprobs;          /* alternatives per token; 0: none */

    /* sampling: meaningful where opts_given, else the model file's or hearth's defaults */
    float temp, top_p, min_p, typical, repeat_penalty, frequency_penalty, presence_penalty;
    uint32_t top_k, repeat_last_n;
    struct opt_biases logit_bias;
    uint64_t seed;

    /* engine */
    uint32_t ctx;               /* 0: not given */
    uint32_t batch;             /* prompt ids per step */
    uint32_t threads;           /* 0: not given, all cores the process may use */
    const char *isa;            /* NULL: not given, the best the CPU has */
    int kv;                     /* enum kv_fmt order: 0 f32, 1 bf16; meaningful where opts_given */
    bool ledger;

    const char *save, *load;    /* chat */
    int bos;                    /* eval: enum opts_bos */
    uint32_t top;               /* eval */
    uint32_t prefill, decode, context, repeat; /* bench */
    struct opt_u32s batches;    /* bench --batch */
    bool tensors;               /* inspect */
    bool pieces, decode_ids, add_special, special; /* tokenize */
    const char *tools;          /* template, a file */
    bool gen_prompt;
    const char *now;            /* "YYYY-MM-DD HH:MM:SS" as given; now_s: seconds since 1970 when given */
    int64_t now_s;
    struct opt_pairs var;

    const char *generate;       /* hidden: man, bash, zsh, fish, options-md */
    const char *args[4];
    uint32_t n_arg;
    uint8_t from[OPT_ID_COUNT]; /* enum opt_from */
    struct arena arena;         /* lists */
};
static inline bool opts_given(const struct opts *o, enum opts_id id) { return o->from[id] != OPT_FROM_DEFAULT; }

extern const struct opt_prog opts_prog;

/* argv[1..]: command, options, words; what contradicts itself (two prompts, an empty stop string) is refused here too. OK,
 * OPT_ASK_HELP (o->cmd: CMD_HELP for the general page), OPT_ASK_VERSION, or E_ARG. Free with opts_free in every case. */
int opts_parse(struct opts *o, int argc, char *const *argv, struct err *e);
void opts_free(struct opts *o);
