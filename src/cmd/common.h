/* common.h: what the model-running commands share: opening the engine from options, the prompt, sampling options, the end-of-run report. Main thread. */
#pragma once
#include "base/json.h"
#include "cmd/cmd.h"
#include "engine/gen.h"

/* Raised by Ctrl-C once cmd_catch_int was called; a second Ctrl-C ends the process. */
extern volatile sig_atomic_t cmd_stop;
void cmd_catch_int(void);

/* Prints e as one line and returns the exit code of its kind (E_ARG: 2, else 1). */
int cmd_fail(const struct err *e);

/* Opens opts->model (path or cached name) with the engine options of o; max_seq / max_out as given (0: one). */
int cmd_engine(struct engine **g, const struct opts *o, uint32_t max_seq, uint32_t max_out, uint32_t max_tok, struct err *e);
/* Sampling: file defaults overlaid with the options given; a seed is drawn when none was. */
int cmd_sampling(struct samp_opt *s, const struct opts *o, const struct engine *g, struct samp_bias **bias, struct err *e);
/* Renders messages through the model's chat template and tokenises; E_UNSUP when the file has none. */
int cmd_chat_ids(struct ids *out, const struct engine *g, const json_t *messages, struct err *e);

/* A gen_opt.emit that writes to stdout; ud is a bool set when nobody reads any more (the generation is then stopped too). */
void cmd_to_stdout(void *ud, const char *p, size_t n);
/* n per second of ns; 0 for no time. */
double cmd_per_s(uint64_t n, uint64_t ns);
/* Memory and density lines to stderr; ctx: tokens of context at the end. */
void cmd_ledger(const struct engine *g, uint64_t ctx);

/* "prefill 12 tokens, 340 tokens/s | decode ..." and, when asked, memory and ledger, to stderr. */
void cmd_report(const struct engine *g, const struct gen_result *r, const struct samp_opt *s, uint64_t prefilled, bool ledger);
