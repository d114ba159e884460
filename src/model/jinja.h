/* jinja.h: the part of Jinja2 that chat templates use, rendered as transformers does: trim_blocks, lstrip_blocks, loop controls, {% generation %},
 * sandbox rules, tojson without HTML escapes, raise_exception, strftime_now. A template is outside input: steps, depth and output are bounded.
 * Oracle: Python Jinja2 3.1.6 configured as transformers' apply_chat_template (tests/data/chat-templates). */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct jinja; /* a compiled template; read-only after jinja_compile: any thread may render */

struct jinja_opt {
    uint64_t max_steps;  /* 0: 20 million evaluated nodes and loop turns */
    size_t max_output;   /* 0: 16 MiB */
    size_t max_mem;      /* 0: 256 MiB of values made during one rendering */
    int64_t now;         /* seconds since 1970 for strftime_now, read as local time fields in UTC; INT64_MIN: the wall clock in local time */
};

/* E_FORMAT with "line N: cause". The text is copied. */
int jinja_compile(struct jinja **out, const char *text, size_t n, struct err *e);
void jinja_free(struct jinja *j);
/* Renders with the object vars (borrowed, not changed). On failure out holds nothing new and e says "line N: cause"; a template's own
 * raise_exception gives E_ARG with its message, everything else E_FORMAT / E_RANGE (a bound was reached). */
int jinja_render(const struct jinja *j, const json_t *vars, const struct jinja_opt *o, struct buf *out, struct err *e);
