/* cmd.h: the commands. Each takes parsed options and returns the exit code: 0 ok, 1 failed (one line on stderr), 2 bad use. Main
 * thread. */
#pragma once
#include "cmd/opts.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USE = 2 };

int cmd_run(const struct opts *o);
int cmd_chat(const struct opts *o);
int cmd_eval(const struct opts *o);
int cmd_bench(const struct opts *o);
int cmd_inspect(const struct opts *o);
int cmd_tokenize(const struct opts *o);
int cmd_template(const struct opts *o);
