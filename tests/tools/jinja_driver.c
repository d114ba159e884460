/* jinja_driver.c: renders templates for the comparison tools beside it: reads one JSON object per line, {"t": template, "v":
 * variables, "now": seconds}, writes one per line, {"text": ...} or {"error": ..., "code": ...}. Build: see fuzz_jinja_diff.py.
 */
#include "base/json.h"
#include "model/jinja.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int one(const json_t *o, struct buf *out, struct err *e)
{
    const json_t *t = json_object_get(o, "t"), *v = json_object_get(o, "v"), *now = json_object_get(o, "now");
    struct jinja_opt opt = {.now = now ? json_integer_value(now) : 0};
    struct jinja *j;
    TRY(jinja_compile(&j, json_string_value(t), json_string_length(t), e));
    int rc = jinja_render(j, v, &opt, out, e);
    jinja_free(j);
    return rc;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        struct err e = {0};
        struct buf text = {0}, out = {0};
        json_t *o;
        int rc = json_parse(&o, line, (size_t)n, 0, "line", &e);
        if (rc == OK) rc = one(o, &text, &e);
        if (rc == OK) {
            buf_puts(&out, "{\"text\": ");
            buf_json_str(&out, text.p ? text.p : "", text.n);
        } else {
            buf_printf(&out, "{\"code\": %d, \"error\": ", rc);
            buf_json_str(&out, e.msg, strlen(e.msg));
        }
        buf_puts(&out, "}\n");
        if (!buf_ok(&out)) return 1;
        fwrite(out.p, 1, out.n, stdout);
        fflush(stdout);
        if (o) json_decref(o);
        buf_free(&text);
        buf_free(&out);
    }
    free(line);
    return 0;
}
