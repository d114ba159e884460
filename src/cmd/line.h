/* line.h: one line from the person at the terminal (editing and history through libedit when built with it), or from a pipe. Main thread. */
#pragma once
#include "base/buf.h"

/* Reads a line without its newline into out (cleared first). false: end of input or Ctrl-C. prompt is shown on terminals only. */
bool line_read(struct buf *out, const char *prompt);
/* History file of the terminal session: loaded at the first call of line_read, written by line_save. */
void line_history(const char *path);
void line_save(void);
