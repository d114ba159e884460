/* jinja.h: the part of Jinja2 that chat templates use, rendered as transformers does: trim_blocks, lstrip_blocks, loop controls,
 * {% generation %}, sandbox rules, tojson without HTML escapes, raise_exception, strftime_now. A template is outside input:
 * steps, depth and output are bounded. Oracle: Python Jinja2 3.1.6 configured as transformers' apply_chat_template
 * (tests/tools/jinja_oracle.py).
 *
 * All of Jinja2's expressions, tests and filters but pprint, urlize and xmlattr; all statements but block, extends, include,
 * import, from and autoescape, which are refused by name. Known differences: integers have 64 bits (beyond them is an error; JSON
 * integers are exact, JSON reals are doubles); generators are made at once, though read once; str.encode, maketrans, translate
 * and lipsum are refused; printing a function gives no address; case and classes of characters follow utf8proc's Unicode version.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct jinja; /* a compiled template; read-only after jinja_compile: any thread may render */

struct jinja_opt {
    uint64_t max_steps; /* 0: 20 million evaluated nodes and loop turns; 64 bytes handled by one operation count as one more */
    size_t max_output;  /* 0: 16 MiB */
    size_t max_mem;     /* 0: 256 MiB of values made during one rendering */
    int64_t
        now; /* seconds since 1970 for strftime_now, read as local time fields in UTC; INT64_MIN: the wall clock in local time */
};

/* E_FORMAT with "line N: cause" (also for more than 1 MiB, bytes that are not UTF-8, and nesting beyond 200 levels); E_NOMEM. The
 * text is copied. */
int jinja_compile(struct jinja **out, const char *text, size_t n, struct err *e);
void jinja_free(struct jinja *j);
/* Renders with the object vars (borrowed, not changed; NULL: none). o NULL: all defaults and the wall clock. On failure out holds
 * nothing new and e says "line N: cause"; a template's own raise_exception gives E_ARG with its message, everything else E_FORMAT
 * / E_RANGE (a bound was reached). Recursion is bounded so that 256 KiB of stack are enough. */
int jinja_render(const struct jinja *j, const json_t *vars, const struct jinja_opt *o, struct buf *out, struct err *e);
