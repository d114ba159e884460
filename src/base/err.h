/* err.h: errors are values. One message, written once where the fault is seen, naming the thing, the value seen and
 * the value wanted. Lives on the caller's stack. Any thread. */
#pragma once
#include "base/base.h"

struct err {
    int code;
    char msg[240];
};

/* Set code and message (one line, cut at the buffer's end; control characters in it become '?'). Returns code.
 * e may be NULL: then only the code counts. */
int err_set(struct err *e, int code, const char *fmt, ...) ATTR_PRINTF(3, 4);
/* Put "prefix: " in front of the message already there (cut at the end). Returns e->code. */
int err_prefix(struct err *e, const char *fmt, ...) ATTR_PRINTF(2, 3);
