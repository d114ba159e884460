/* Templates from outside: compiling and rendering never crash, stay within small bounds, and fail with "line N: cause". The input
 * is the template; the variables are fixed. */
#include "base/json.h"
#include "model/jinja.h"
#include <stdlib.h>
#include <string.h>

extern const char *const fuzz_words[];
const char *const fuzz_words[] = {"{{ ",
                                  " }}",
                                  "{% ",
                                  " %}",
                                  "{%- ",
                                  " -%}",
                                  "{# ",
                                  " #}",
                                  "if ",
                                  "endif",
                                  "elif ",
                                  "else",
                                  "for x in ",
                                  "endfor",
                                  "set ",
                                  "endset",
                                  "macro m(x, y=1)",
                                  "endmacro",
                                  "call m()",
                                  "endcall",
                                  "filter upper",
                                  "endfilter",
                                  "with a = 1",
                                  "endwith",
                                  "raw",
                                  "endraw",
                                  "break",
                                  "continue",
                                  "recursive",
                                  "generation",
                                  "endgeneration",
                                  "messages",
                                  "tools",
                                  "loop.",
                                  "loop(x)",
                                  "index",
                                  "length",
                                  "last",
                                  "nextitem",
                                  "previtem",
                                  "cycle(1, 2)",
                                  "changed(x)",
                                  "caller()",
                                  "varargs",
                                  "kwargs",
                                  "namespace(a=1)",
                                  "range(9)",
                                  "dict(a=1)",
                                  "cycler(1)",
                                  "joiner()",
                                  "raise_exception('x')",
                                  "strftime_now('%Y')",
                                  ".items()",
                                  ".get('role')",
                                  ".split(' ')",
                                  ".strip()",
                                  ".format(1)",
                                  ".replace('a', 'bb')",
                                  "['content']",
                                  "[1:-1:2]",
                                  "[::-1]",
                                  "|tojson(indent=2)",
                                  "|sort",
                                  "|map('upper')",
                                  "|list",
                                  "|selectattr('role', 'eq', 'user')",
                                  "|groupby('role')",
                                  "|join(',')",
                                  "|default('x', true)",
                                  "|indent(4)",
                                  "|wordwrap(5)",
                                  "|round(2)",
                                  "|batch(2)",
                                  "|truncate(5)",
                                  "|replace('', 'x')",
                                  "|striptags",
                                  "|urlencode",
                                  "|title",
                                  "|dictsort",
                                  "|unique",
                                  "|format(1)",
                                  " is defined",
                                  " is not none",
                                  " is divisibleby 3",
                                  " in ",
                                  " not in ",
                                  " and ",
                                  " or ",
                                  "not ",
                                  " ~ ",
                                  " ** ",
                                  " // ",
                                  " % ",
                                  " * 1000",
                                  "'a%sb' % ",
                                  "1.5e3",
                                  "0x1f",
                                  "'\\u00e9'",
                                  "'{:>5}'",
                                  "\xc3\xa9",
                                  "\xf0\x9f\x98\x80",
                                  "x, y",
                                  NULL};

static const char vars[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"H\\u00e9llo <b>x</b>\\n w\\u00f6rld \"}, "
                           "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\"}]},"
                           "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"part\"}]}], \"tools\": null, "
                           "\"x\": 3, \"f\": 2.5, \"l\": [3, 1, 2, \"b\"], \"d\": {\"b\": 1, \"a\": [1, {}]}, \"t\": true}";

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static json_t *v;
    static const struct jinja_opt opt = {.max_steps = 20000, .max_output = 1 << 16, .max_mem = 2 << 20, .now = 1700000000};
    struct err e = {0};
    struct jinja *j;
    if (!v && json_parse(&v, vars, sizeof vars - 1, 0, "vars", &e) != OK) abort();
    int rc = jinja_compile(&j, (const char *)p, n, &e);
    if (rc == OK) {
        struct buf b = {0};
        buf_puts(&b, "x");
        rc = jinja_render(j, v, &opt, &b, &e);
        if (b.n < 1 || b.n > 1 + opt.max_output || (rc != OK && b.n != 1) || utf8_check(b.p, b.n) != b.n) abort();
        buf_free(&b);
        jinja_free(j);
    } else if (j) {
        abort();
    }
    if (rc != OK && (rc > 0 || strncmp(e.msg, "line ", 5) != 0)) abort();
    return 0;
}
