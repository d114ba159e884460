/* The table. A new option is a row here, a field and an id in opts.h; `make docs` renews docs/options.md. */
#include "cmd/opts.h"
#include <string.h>

#define C(x) (1u << CMD_##x)
#define GEN (C(RUN) | C(CHAT))
#define ENGINE (GEN | C(EVAL) | C(BENCH))
#define REAL (ENGINE | C(INSPECT) | C(TOKENIZE) | C(TEMPLATE))
#define ALL (REAL | C(HELP) | C(VERSION))
#define F(field) .off = offsetof(struct opts, field)
#define ID(x) .id = OPT_ID_##x

static const char *const isa_choice[] = {"ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx", NULL}; /* isa_name() */
static const char *const kv_choice[] = {"f32", "bf16", NULL};                                               /* enum kv_fmt */
static const char *const bos_choice[] = {"auto", "yes", "no", NULL};                                        /* enum opts_bos */
static const char *const generate_choice[] = {"man", "bash", "zsh", "fish", "options-md", NULL};

/* clang-format off */
static const struct opt table[] = {
    {ID(TEXT), .group = "Input", .name = "prompt", .letter = 'p', .kind = OPT_TEXT, .arg = "TEXT", .cmds = C(RUN) | C(TOKENIZE),
     F(text), .help = "the text itself; must be valid UTF-8"},
    {ID(FILE), .group = "Input", .name = "file", .letter = 'f', .kind = OPT_PATH, .arg = "FILE",
     .cmds = C(RUN) | C(TOKENIZE) | C(EVAL), F(file), .help = "read the text from FILE; - is standard input"},
    {ID(MESSAGES), .group = "Input", .name = "file", .letter = 'f', .kind = OPT_PATH, .arg = "MESSAGES.json",
     .cmds = C(TEMPLATE), F(file),
     .help = "a list of messages, or an object of template variables (messages, tools, ...); - is standard input"},
    {ID(IDS), .group = "Input", .name = "ids", .kind = OPT_I32S, .arg = "1,2,3", .cmds = C(RUN), F(ids),
     .help = "feed these token ids as they are: no template, nothing added; needs no tokenizer"},
    {ID(IDS_FILE), .group = "Input", .name = "ids", .kind = OPT_PATH, .arg = "FILE.json", .cmds = C(EVAL), F(ids_file),
     .help = "read token ids from a JSON array; nothing is added to them"},
    {ID(RAW), .group = "Input", .name = "raw", .kind = OPT_FLAG, .cmds = C(RUN), F(raw),
     .help = "no chat template: the text goes in as it is"},
    {ID(SYSTEM), .group = "Input", .name = "system", .kind = OPT_TEXT, .arg = "TEXT", .cmds = GEN, F(system),
     .help = "the system message", .env = "HEARTH_SYSTEM"},
    {ID(TOOLS), .group = "Input", .name = "tools", .kind = OPT_PATH, .arg = "FILE", .cmds = C(TEMPLATE), F(tools),
     .help = "a JSON list of tools the template may offer"},
    {ID(GEN_PROMPT), .group = "Input", .name = "generation-prompt", .kind = OPT_FLAG, .neg = true, .def = "yes",
     .cmds = C(TEMPLATE), F(gen_prompt), .help = "do not open the assistant's turn at the end"},
    {ID(NOW), .group = "Input", .name = "now", .kind = OPT_TEXT, .arg = "TIME", .cmds = C(TEMPLATE), F(now),
     .shown = "the clock", .help = "the time that the template sees, as \"2024-07-26 09:30:00\""},
    {ID(VAR), .group = "Input", .name = "var", .kind = OPT_PAIRS, .arg = "NAME=VALUE", .cmds = C(TEMPLATE), F(var),
     .help = "set a template variable; VALUE is JSON if it can be read as such, else text; may be repeated"},
    {ID(BOS), .group = "Input", .name = "bos", .kind = OPT_ENUM, .arg = "WHEN", .choice = bos_choice, .def = "auto",
     .cmds = C(EVAL), F(bos),
     .help = "begin-of-sequence token before each window; auto: when the model adds one, never for --ids"},
    {ID(LOAD), .group = "Input", .name = "load", .kind = OPT_PATH, .arg = "FILE", .cmds = C(CHAT), F(load),
     .help = "go on with the conversation saved in FILE"},
    {ID(SAVE), .group = "Output", .name = "save", .kind = OPT_PATH, .arg = "FILE", .cmds = C(CHAT), F(save),
     .help = "save the conversation to FILE at the end"},

    {ID(N), .group = "Generation", .name = "tokens", .letter = 'n', .kind = OPT_U32, .arg = "N", .lo = 1, .hi = 1 << 28,
     .cmds = GEN, F(n), .shown = "up to the end token or the context", .help = "generate at most N tokens"},
    {ID(STOP), .group = "Generation", .name = "stop", .kind = OPT_TEXTS, .arg = "TEXT", .cmds = GEN, F(stop),
     .help = "end when TEXT appears; it is not printed; may be repeated"},
    {ID(IGNORE_EOS), .group = "Generation", .name = "ignore-eos", .kind = OPT_FLAG, .cmds = C(RUN), F(ignore_eos),
     .help = "go on past end-of-generation tokens"},
    {ID(LOGPROBS), .group = "Generation", .name = "logprobs", .kind = OPT_U32, .arg = "K", .lo = 1, .hi = 100, .cmds = C(RUN),
     F(logprobs), .help = "with --json: the log-probability of each token and of the K likeliest"},

    {ID(TEMP), .group = "Sampling", .name = "temp", .kind = OPT_F32, .arg = "T", .lo = 0, .hi = 100, .cmds = GEN, F(temp),
     .env = "HEARTH_TEMP", .shown = "the model's, else 0.7", .help = "temperature; 0 always takes the likeliest token"},
    {ID(TOP_K), .group = "Sampling", .name = "top-k", .kind = OPT_U32, .arg = "K", .lo = 0, .hi = 1 << 24, .cmds = GEN,
     F(top_k), .env = "HEARTH_TOP_K", .shown = "the model's, else 0", .help = "draw from the K likeliest tokens only; 0: all"},
    {ID(TOP_P), .group = "Sampling", .name = "top-p", .kind = OPT_F32, .arg = "P", .lo = 0, .hi = 1, .cmds = GEN, F(top_p),
     .env = "HEARTH_TOP_P", .shown = "the model's, else 0.95",
     .help = "draw from the fewest tokens whose probabilities add up to P; 1: all"},
    {ID(MIN_P), .group = "Sampling", .name = "min-p", .kind = OPT_F32, .arg = "P", .lo = 0, .hi = 1, .cmds = GEN, F(min_p),
     .env = "HEARTH_MIN_P", .shown = "the model's, else 0.05",
     .help = "leave out tokens less likely than P times the likeliest"},
    {ID(TYPICAL), .group = "Sampling", .name = "typical", .kind = OPT_F32, .arg = "P", .lo = 0, .hi = 1, .cmds = GEN,
     F(typical), .shown = "the model's, else 1", .help = "locally typical sampling with mass P; 1: off"},
    {ID(REPEAT_PENALTY), .group = "Sampling", .name = "repeat-penalty", .kind = OPT_F32, .arg = "R", .lo = 0.01, .hi = 100,
     .cmds = GEN, F(repeat_penalty), .shown = "the model's, else 1",
     .help = "divide the logits of tokens seen lately by R; 1: off"},
    {ID(FREQUENCY_PENALTY), .group = "Sampling", .name = "frequency-penalty", .kind = OPT_F32, .arg = "A", .lo = -100,
     .hi = 100, .cmds = GEN, F(frequency_penalty), .shown = "the model's, else 0",
     .help = "subtract A for each time a token was seen lately"},
    {ID(PRESENCE_PENALTY), .group = "Sampling", .name = "presence-penalty", .kind = OPT_F32, .arg = "A", .lo = -100, .hi = 100,
     .cmds = GEN, F(presence_penalty), .shown = "the model's, else 0", .help = "subtract A once from tokens seen lately"},
    {ID(REPEAT_LAST_N), .group = "Sampling", .name = "repeat-last-n", .kind = OPT_U32, .arg = "N", .lo = 0, .hi = 1 << 28,
     .cmds = GEN, F(repeat_last_n), .shown = "the model's, else 64", .help = "the penalties look at the last N tokens"},
    {ID(LOGIT_BIAS), .group = "Sampling", .name = "logit-bias", .kind = OPT_BIAS, .arg = "ID=BIAS", .cmds = GEN, F(logit_bias),
     .help = "add BIAS to the logit of token ID; -inf forbids it; may be repeated"},
    {ID(SEED), .group = "Sampling", .name = "seed", .kind = OPT_U64, .arg = "S", .cmds = GEN, F(seed), .env = "HEARTH_SEED",
     .shown = "drawn at random and printed", .help = "the same seed gives the same text"},

    {ID(PREFILL), .group = "Measurement", .name = "prefill", .kind = OPT_U32, .arg = "N", .lo = 1, .hi = 1 << 24, .def = "512",
     .cmds = C(BENCH), F(prefill), .help = "length of the prompt whose reading is timed"},
    {ID(DECODE), .group = "Measurement", .name = "decode", .kind = OPT_U32, .arg = "N", .lo = 1, .hi = 1 << 24, .def = "64",
     .cmds = C(BENCH), F(decode), .help = "number of single-token steps that are timed"},
    {ID(BATCHES), .group = "Measurement", .name = "batch", .kind = OPT_U32S, .arg = "N,N", .lo = 1, .hi = 4096,
     .def = "1,2,4,8,16", .cmds = C(BENCH), F(batches), .help = "numbers of sequences decoded together"},
    {ID(CONTEXT), .group = "Measurement", .name = "context", .kind = OPT_U32, .arg = "N", .lo = 0, .hi = 1 << 28, .def = "0",
     .cmds = C(BENCH), F(context), .help = "positions already filled when a measurement starts"},
    {ID(REPEAT), .group = "Measurement", .name = "repeat", .kind = OPT_U32, .arg = "N", .lo = 1, .hi = 1000, .def = "3",
     .cmds = C(BENCH), F(repeat), .help = "repeat each measurement N times and report the median"},

    {ID(CTX), .group = "Engine", .name = "ctx", .kind = OPT_U32, .arg = "N", .lo = 1, .hi = 1 << 28, .cmds = ENGINE & ~C(EVAL),
     F(ctx), .env = "HEARTH_CTX", .shown = "the model's, cut to half of the memory left",
     .help = "room for N tokens of prompt and answer"},
    {ID(CTX), .group = "Engine", .name = "ctx", .kind = OPT_U32, .arg = "N", .lo = 2, .hi = 1 << 28, .cmds = C(EVAL), F(ctx),
     .env = "HEARTH_CTX", .shown = "2048, at most the model's", .help = "length of the windows that the text is cut into"},
    {ID(BATCH), .group = "Engine", .name = "batch", .kind = OPT_U32, .arg = "N", .lo = 1, .hi = 1 << 16, .def = "512",
     .cmds = ENGINE & ~C(BENCH), F(batch), .env = "HEARTH_BATCH", .help = "read a prompt in pieces of N tokens"},
    {ID(THREADS), .group = "Engine", .name = "threads", .kind = OPT_U32, .arg = "N", .lo = 1, .hi = 1024, .cmds = ENGINE,
     F(threads), .env = "HEARTH_THREADS", .shown = "the cores this process may use", .help = "threads that compute"},
    {ID(ISA), .group = "Engine", .name = "isa", .kind = OPT_WORD, .arg = "LEVEL", .choice = isa_choice, .cmds = ENGINE, F(isa),
     .env = "HEARTH_ISA", .shown = "the best this CPU has", .help = "instruction set of the kernels"},
    {ID(KV), .group = "Engine", .name = "kv", .kind = OPT_ENUM, .arg = "TYPE", .choice = kv_choice, .cmds = ENGINE, F(kv),
     .env = "HEARTH_KV", .shown = "f32 with --isa ref, else bf16", .help = "type of cached keys and values"},

    {ID(TOP), .group = "Output", .name = "top", .kind = OPT_U32, .arg = "K", .lo = 1, .hi = 1000, .cmds = C(EVAL), F(top),
     .help = "with --json: the K largest logits of every position"},
    {ID(TENSORS), .group = "Output", .name = "tensors", .kind = OPT_FLAG, .cmds = C(INSPECT), F(tensors),
     .help = "list every tensor"},
    {ID(IDS_FLAG), .group = "Output", .name = "ids", .kind = OPT_FLAG, .cmds = C(TOKENIZE), F(ids_only),
     .help = "print the ids on one line"},
    {ID(PIECES), .group = "Output", .name = "pieces", .kind = OPT_FLAG, .cmds = C(TOKENIZE), F(pieces),
     .help = "print the tokens' texts, one JSON string a line"},
    {ID(DECODE_IDS), .group = "Output", .name = "decode", .kind = OPT_FLAG, .cmds = C(TOKENIZE), F(decode_ids),
     .help = "the other way: the input is ids, the output their exact bytes"},
    {ID(ADD_SPECIAL), .group = "Input", .name = "add-special", .kind = OPT_FLAG, .cmds = C(TOKENIZE), F(add_special),
     .help = "add begin and end tokens as the model wants them"},
    {ID(SPECIAL), .group = "Input", .name = "special", .kind = OPT_FLAG, .cmds = C(TOKENIZE), F(special),
     .help = "special tokens written in the text count as such; with --decode: print them"},
    {ID(LEDGER), .group = "Output", .name = "ledger", .kind = OPT_FLAG, .cmds = ENGINE & ~C(EVAL), F(ledger),
     .help = "print what was read, computed and sent, site by site"},
    {ID(JSON), .group = "Output", .name = "json", .kind = OPT_FLAG, .cmds = REAL & ~(C(CHAT) | C(TEMPLATE)), F(json),
     .help = "print one JSON object"},
    {ID(VERBOSE), .group = "Output", .name = "verbose", .letter = 'v', .kind = OPT_FLAG, .cmds = REAL, F(verbose),
     .help = "say more on standard error"},
    {ID(QUIET), .group = "Output", .name = "quiet", .letter = 'q', .kind = OPT_FLAG, .cmds = REAL, F(quiet),
     .help = "say only errors on standard error"},
    {ID(HELP), .group = "Other", .name = "help", .letter = 'h', .kind = OPT_HELP, .cmds = ALL, .help = "print this help"},
    {ID(VERSION), .group = "Other", .name = "version", .letter = 'V', .kind = OPT_VERSION, .cmds = C(HELP) | C(VERSION),
     .help = "print the version"},
    {ID(GENERATE), .group = "Other", .name = "generate", .kind = OPT_WORD, .arg = "WHAT", .choice = generate_choice,
     .hidden = true, .cmds = C(HELP), F(generate), .help = "print the man page, a completion script or the option page"},
};

static const char *const ex_run[] = {
    "hearth run smollm2 -p \"Why is the sky blue?\" -n 80", "one answer, streamed",
    "hearth run model.gguf --raw -p \"Once upon a time\" --temp 0", "go on with a text, always the likeliest token",
    "git diff | hearth run model.gguf --system \"Review this change.\" -", "the prompt from standard input",
    "hearth run model.gguf --ids 1,15043,3186 -n 16 --json", "token ids in, one JSON object out", NULL};
static const char *const ex_chat[] = {
    "hearth chat smollm2", "talk; /help lists the commands inside",
    "hearth chat model.gguf --load talk.json --save talk.json", "go on with a conversation and keep it", NULL};
static const char *const ex_eval[] = {
    "hearth eval model.gguf -f text.txt", "mean negative log-likelihood and perplexity of a text",
    "hearth eval model.gguf --ids ids.json --ctx 512 --top 20 --json", "logits of every position of given ids", NULL};
static const char *const ex_bench[] = {
    "hearth bench model.gguf", "prompt and generation speed, and their share of what this machine can do",
    "hearth bench model.gguf --batch 1,4,16 --decode 128 --json", "a batch sweep as JSON", NULL};
static const char *const ex_inspect[] = {
    "hearth inspect model.gguf", "shape, tensor types, tokenizer, memory needed",
    "hearth inspect model.gguf --tensors --json", "every tensor, as JSON", NULL};
static const char *const ex_tokenize[] = {
    "hearth tokenize smollm2 -p \"Hello world\"", "ids and pieces, one token a line",
    "hearth tokenize smollm2 -f book.txt --ids", "ids only",
    "echo 28120 905 | hearth tokenize smollm2 --decode -", "ids back to text", NULL};
static const char *const ex_template[] = {
    "hearth template smollm2 -f messages.json", "the prompt that a chat becomes",
    "hearth template chat.jinja -f messages.json --tools tools.json --var bos_token='\"<s>\"'", "a template file, with tools and a variable", NULL};
static const char *const ex_help[] = {"hearth help run", "every option of a command, with examples", NULL};

static const struct opt_cmd commands[CMD_N] = {
    [CMD_RUN] = {.name = "run", .args = "MODEL [-p TEXT | -f FILE | -] [options]", .help = "answer one prompt",
     .min_arg = 1, .max_arg = 2, .arg_name = "MODEL", .example = ex_run,
     .about = "Reads a prompt, writes the answer to standard output as it comes, and everything else to standard error. "
              "The prompt goes through the model's own chat template unless --raw or --ids is given. Sampling follows "
              "the model file's own defaults where it has any."},
    [CMD_CHAT] = {.name = "chat", .args = "MODEL [options]", .help = "talk with a model",
     .min_arg = 1, .max_arg = 1, .arg_name = "MODEL", .example = ex_chat,
     .about = "A conversation with line editing and history; what was said stays in the cache between turns. Inside: "
              "/help, /reset, /system TEXT, /save FILE, /load FILE, /stats, /quit; a line that ends in a backslash goes "
              "on in the next one."},
    [CMD_EVAL] = {.name = "eval", .args = "MODEL (-f FILE | --ids FILE.json) [options]",
     .help = "measure how well a model predicts a text",
     .min_arg = 1, .max_arg = 1, .arg_name = "MODEL",
     .example = ex_eval,
     .about = "Cuts the text's tokens into windows that do not overlap and predicts every token of a window but its "
              "first. Prints tokens, predictions, mean negative log-likelihood in nats, perplexity and speed."},
    [CMD_BENCH] = {.name = "bench", .args = "MODEL [options]", .help = "measure speed, and this machine's limits beside it",
     .min_arg = 1, .max_arg = 1, .arg_name = "MODEL", .example = ex_bench,
     .about = "Times the reading of a prompt, the generation of single tokens and batches of sequences, and in the same "
              "process the memory's read bandwidth and the cores' arithmetic peaks, so that every speed is also a share "
              "of what is possible."},
    [CMD_INSPECT] = {.name = "inspect", .args = "MODEL [--tensors] [--json]", .help = "check a model file and say what is in it",
     .min_arg = 1, .max_arg = 1, .arg_name = "MODEL",
     .example = ex_inspect,
     .about = "Checks the file as completely as run does: what inspect accepts, run can load."},
    [CMD_TOKENIZE] = {.name = "tokenize", .args = "MODEL [-p TEXT | -f FILE | -] [options]",
     .help = "turn text into tokens and back",
     .min_arg = 1, .max_arg = 2, .arg_name = "MODEL",
     .example = ex_tokenize,
     .about = "Works with vocabulary-only files too. Nothing is added to the text and special tokens written in it are "
              "plain text, unless asked for. Bytes that are no valid UTF-8 can come from a file or standard input."},
    [CMD_TEMPLATE] = {.name = "template", .args = "(MODEL | FILE.jinja) -f MESSAGES.json [options]",
     .help = "render a chat template",
     .min_arg = 1, .max_arg = 1, .arg_name = "MODEL",
     .example = ex_template,
     .about = "Prints exactly what a model would be given for these messages, and nothing else. A template that refuses "
              "them ends with exit code 1 and its own message."},
    [CMD_HELP] = {.name = "help", .args = "[COMMAND]", .help = "explain a command",
     .max_arg = 1, .arg_name = "COMMAND", .example = ex_help},
    [CMD_VERSION] = {.name = "version", .args = "", .help = "print the version", .arg_name = ""},
};
/* clang-format on */

const struct opt_prog opts_prog = {
    .name = "hearth",
    .version = HEARTH_VERSION,
    .about = "runs large language models on the machines at hand",
    .cmd = commands,
    .n_cmd = CMD_N,
    .opt = table,
    .n_opt = ARRAY_LEN(table),
};

/* "YYYY-MM-DD" or "YYYY-MM-DD HH:MM:SS" (a T may stand for the space) -> seconds since 1970 with these fields read as UTC. */
static int parse_now(const char *s, int64_t *out, struct err *e)
{
    static const char form[] = "dddd-dd-dd dd:dd:dd";
    int v[6] = {0};
    size_t n = strlen(s), f = 0;
    bool ok = n == 10 || n == 19;
    for (size_t i = 0; ok && i < n; i++) {
        if (form[i] == 'd')
            ok = s[i] >= '0' && s[i] <= '9';
        else
            ok = s[i] == form[i] || (form[i] == ' ' && s[i] == 'T');
        if (form[i] == 'd')
            v[f] = v[f] * 10 + (s[i] - '0');
        else
            f++;
    }
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int y = v[0], m = v[1], d = v[2];
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    ok =
        ok && y >= 1 && m >= 1 && m <= 12 && d >= 1 && d <= days[m - 1] + (m == 2 && leap) && v[3] < 24 && v[4] < 60 && v[5] < 60;
    if (!ok) return err_set(e, E_ARG, "option --now: '%.60s' is not a time such as 2024-07-26 09:30:00", s);
    /* days before year y, with the leap days of the years before it (proleptic Gregorian calendar); 719162 is 1970-01-01 counted
     * from 0001-01-01 */
    int64_t p = y - 1, day = p * 365 + p / 4 - p / 100 + p / 400 - 719162 + d - 1;
    for (int i = 0; i < m - 1; i++) day += days[i] + (i == 1 && leap);
    *out = ((day * 24 + v[3]) * 60 + v[4]) * 60 + v[5];
    return OK;
}

/* What no single row can see. */
static int check_whole(struct opts *o, struct err *e)
{
    const char *name = commands[o->cmd].name;
    if (o->n_arg > 1 && o->cmd != CMD_HELP) { /* run, tokenize */
        if (strcmp(o->args[1], "-") != 0)
            return err_set(e, E_ARG,
                           "%s: '%.60s' is one word too many: the text goes after -p, or - reads it from standard input", name,
                           o->args[1]);
        o->from_stdin = true;
    }
    if (o->verbose && o->quiet) return err_set(e, E_ARG, "%s: --verbose and --quiet cannot both be had", name);
    int src = !!o->text + !!o->file + o->from_stdin;
    switch (o->cmd) {
    case CMD_RUN:
        src += opts_given(o, OPT_ID_IDS);
        if (src == 0)
            return err_set(e, E_ARG, "run: no prompt: give one of -p TEXT, -f FILE, --ids 1,2,3, or - for standard input");
        if (src > 1) return err_set(e, E_ARG, "run: more than one prompt: give only one of -p, -f, --ids and -");
        if (o->system && (o->raw || opts_given(o, OPT_ID_IDS)) && o->from[OPT_ID_SYSTEM] == OPT_FROM_LINE)
            return err_set(e, E_ARG, "run: --system needs the chat template, which --raw and --ids leave out");
        break;
    case CMD_TOKENIZE:
        if (src == 0) return err_set(e, E_ARG, "tokenize: no text: give one of -p TEXT, -f FILE, or - for standard input");
        if (src > 1) return err_set(e, E_ARG, "tokenize: more than one text: give only one of -p, -f and -");
        if (o->ids_only + o->pieces + o->json + o->decode_ids > 1)
            return err_set(e, E_ARG, "tokenize: give only one of --ids, --pieces, --decode and --json");
        if (o->decode_ids && o->add_special) return err_set(e, E_ARG, "tokenize: --add-special has no meaning with --decode");
        break;
    case CMD_EVAL:
        if (!o->file == !o->ids_file) return err_set(e, E_ARG, "eval: give either -f FILE or --ids FILE.json");
        if (o->ids_file && o->bos == OPTS_BOS_YES)
            return err_set(e, E_ARG, "eval: --bos yes cannot go with --ids: ids are taken as they are");
        break;
    case CMD_TEMPLATE:
        if (!o->file) return err_set(e, E_ARG, "template: -f MESSAGES.json is missing");
        break;
    default: break;
    }
    for (uint32_t i = 0; i < o->stop.n; i++)
        if (!o->stop.v[i][0]) return err_set(e, E_ARG, "option --stop: the empty text would stop before the first token");
    if (o->now) TRY(parse_now(o->now, &o->now_s, e));
    return OK;
}

int opts_parse(struct opts *o, int argc, char *const *argv, struct err *e)
{
    *o = (struct opts){.cmd = CMD_HELP};
    if (argc < 2) return err_set(e, E_ARG, "no command (usage: hearth COMMAND ..., hearth --help lists them)");
    if (argv[1][0] == '-') { /* hearth --help, --version, --generate: options of the command help */
        int rc = opt_parse(&opts_prog, CMD_HELP, argc - 1, argv + 1, o, o->from, o->args, &o->n_arg, &o->arena, e);
        if (rc == OK && !o->generate)
            return err_set(e, E_ARG, "no command (usage: hearth COMMAND ..., hearth --help lists them)");
        return rc;
    }
    int c = opt_find_cmd(&opts_prog, argv[1], e);
    if (c < 0) return c;
    o->cmd = (enum opts_cmd)c;
    int rc = opt_parse(&opts_prog, (uint32_t)c, argc - 2, argv + 2, o, o->from, o->args, &o->n_arg, &o->arena, e);
    if (rc != OK) return rc;
    if (o->cmd == CMD_VERSION) return OPT_ASK_VERSION;
    if (o->cmd == CMD_HELP) {
        if (o->generate || o->n_arg == 0) return o->generate ? OK : OPT_ASK_HELP;
        c = opt_find_cmd(&opts_prog, o->args[0], e);
        if (c < 0) return c;
        o->cmd = (enum opts_cmd)c;
        return OPT_ASK_HELP;
    }
    o->model = o->args[0];
    return check_whole(o, e);
}

void opts_free(struct opts *o) { arena_free(&o->arena); }
