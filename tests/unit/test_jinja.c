/* Chat templates: cases made by Python's Jinja2 (tests/data/jinja), the collected real templates (../shared/data/chat-templates
 * where that is there), bounds, lines of errors, hostile templates, a small stack, lack of memory. */
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "model/jinja.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static int run(const char *t, size_t n, const json_t *vars, const struct jinja_opt *o, struct buf *out, struct err *e)
{
    struct jinja *j;
    char *copy = mem_alloc(n, 1); /* exactly n bytes: reading past them shows under ASan */
    assert_non_null(copy);
    if (n) memcpy(copy, t, n);
    int rc = jinja_compile(&j, copy, n, e);
    mem_free(copy);
    if (rc < 0) return rc;
    rc = jinja_render(j, vars, o, out, e);
    jinja_free(j);
    return rc;
}

static json_t *load(const char *path)
{
    struct err e = {0};
    struct buf b = {0};
    json_t *v = NULL;
    if (os_read_file(&b, path, 1 << 24, &e) < 0 || json_parse(&v, b.p, b.n, 0, path, &e) < 0) fail_msg("%s", e.msg);
    buf_free(&b);
    return v;
}

/* "line N: cause", valid UTF-8 or not, never empty. */
static void good_message(const struct err *e)
{
    int line = 0, at = 0;
    if (sscanf(e->msg, "line %d: %n", &line, &at) != 1 || at == 0 || line < 1 || !e->msg[at]) fail_msg("message \"%s\"", e->msg);
}

static void check(const char *what, const char *t, size_t n, const json_t *vars, int64_t now, const json_t *want)
{
    struct buf b = {0};
    struct err e = {0};
    struct jinja_opt o = {.now = now};
    const json_t *text = json_object_get(want, "text");
    buf_puts(&b, "before");
    int rc = run(t, n, vars, &o, &b, &e);
    assert_memory_equal(b.p, "before", 6);
    if (rc < 0) {
        good_message(&e);
        assert_int_equal(b.n, 6);
        if (text) fail_msg("%s: %s\nwant \"%s\"", what, e.msg, json_string_value(text));
    } else {
        if (!text) fail_msg("%s: an error is expected, got \"%s\"", what, b.p + 6);
        if (b.n - 6 != json_string_length(text) || memcmp(b.p + 6, json_string_value(text), b.n - 6) != 0)
            fail_msg("%s:\n got \"%s\"\nwant \"%s\"", what, b.p + 6, json_string_value(text));
    }
    buf_free(&b);
}

static void test_cases(void **state)
{
    (void)state;
    json_t *all = load("tests/data/jinja/cases.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(all, "cases"), i, c)
    {
        const json_t *t = json_object_get(c, "t");
        check(json_string_value(t), json_string_value(t), json_string_length(t), json_object_get(all, "vars"),
              json_integer_value(json_object_get(all, "now")), c);
    }
    assert_in_range(i, 400, 10000);
    json_decref(all);
}

static void test_real_templates(void **state)
{
    (void)state;
    const char *dir = getenv("HEARTH_SHARED");
    char path[600];
    if (!dir) dir = "../shared";
    snprintf(path, sizeof path, "%s/data/chat-templates/cases.json", dir);
    if (!os_is_file(path)) {
        print_message("the collected chat templates are not there (%s)\n", path);
        skip();
    }
    json_t *all = load(path), *c;
    size_t i, n = 0;
    snprintf(path, sizeof path, "ls %s/data/chat-templates/*.expected.json", dir);
    FILE *f = popen(path, "r");
    assert_non_null(f);
    while (fgets(path, sizeof path, f)) {
        struct buf t = {0};
        struct err e = {0};
        path[strcspn(path, "\n")] = 0;
        json_t *ex = load(path);
        char *slash = strrchr(path, '/');
        snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "%s", json_string_value(json_object_get(ex, "template")));
        if (os_read_file(&t, path, 1 << 20, &e) < 0) fail_msg("%s", e.msg);
        json_array_foreach(json_object_get(all, "cases"), i, c)
        {
            const char *name = json_string_value(json_object_get(c, "case"));
            char what[700];
            json_t *v = json_copy(json_object_get(c, "variables"));
            json_object_update(v, json_object_get(all, "special_tokens"));
            snprintf(what, sizeof what, "%s, case %s", path, name);
            const json_t *want = json_object_get(json_object_get(ex, "expected"), name);
            assert_non_null(want);
            check(what, t.p, t.n, v, 1721986200, want); /* 2024-07-26 09:30:00 */
            json_decref(v);
            n++;
        }
        buf_free(&t);
        json_decref(ex);
    }
    pclose(f);
    json_decref(all);
    print_message("%zu renderings\n", n);
    assert_int_equal(n, 700);
}

/* ---- errors */

static void expect(const char *t, int code, const char *msg)
{
    struct buf b = {0};
    struct err e = {0};
    int rc = run(t, strlen(t), NULL, NULL, &b, &e);
    if (rc != code || e.code != code || (msg && strcmp(e.msg, msg) != 0))
        fail_msg("%.100s: %d \"%s\", wanted %d \"%s\"", t, rc, e.msg, code, msg ? msg : "");
    if (code < 0) good_message(&e);
    assert_int_equal(b.n, 0);
    buf_free(&b);
}

static void test_error_lines(void **state)
{
    (void)state;
    expect("a\nb{{ x.y }}\n", E_FORMAT, "line 2: 'x' is undefined");
    expect("\n\n{{ {}.a.b }}", E_FORMAT, "line 3: 'dict object' has no attribute 'a'");
    expect("{% macro m(x) %}\n{{ x + 1 }}\n{% endmacro %}\n{{ m('a') }}", E_FORMAT,
           "line 2: can only concatenate str (not \"int\") to str");
    expect("{{\n\n1 +\n'a' }}", E_FORMAT, "line 3: unsupported operand type(s) for +: 'int' and 'str'");
    expect("\n{% if 1 %}\n\n", E_FORMAT, "line 3: end of template, but the tag of line 2 wants {% elif else endif %}");
    expect("\n{% foo %}", E_FORMAT, "line 2: unknown tag 'foo'");
    expect("a\n{% include 'x' %}", E_FORMAT,
           "line 2: {% include %} is not supported: a chat template is one self-contained text");
    expect("{% raw %}\n\n", E_FORMAT, "line 1: Missing end of raw directive");
    expect("a\n{# \n\n", E_FORMAT, "line 2: Missing end of comment tag");
    expect("{# \n #}{{ 'a\nb }}", E_FORMAT, "line 2: string without an end");
    expect("\n{{ 1|nope }}", E_FORMAT, "line 2: No filter named 'nope'");
    expect("\n\n{{ raise_exception('Roles must\\nalternate') }}", E_ARG, "line 3: Roles must?alternate");
    expect("a\r\nb\rc{{ x() }}", E_FORMAT, "line 3: 'x' is undefined");
    expect("\n\xff", E_FORMAT, "line 2: the template is not valid UTF-8");
    expect("{{ 9223372036854775807 + 1 }}", E_RANGE, "line 1: integer beyond 64 bits");
    expect("{{ [].append(1) }}", E_FORMAT, "line 1: access to attribute 'append' of 'list' object is unsafe");
    expect("{{ ''|attr('encode')() }}", E_FORMAT, "line 1: this function is not supported in chat templates");
}

static void test_arguments(void **state)
{
    (void)state;
    struct jinja *j;
    struct err e = {0};
    struct buf b = {.max = 10};
    json_t *no = json_array(), *v = json_pack("{s:I, s:f}", "i", (json_int_t)INT64_MIN, "f", 0.1);
    assert_int_equal(jinja_compile(&j, "{{ i }} {{ f }}", 15, &e), OK);
    assert_int_equal(jinja_render(j, no, NULL, &b, &e), E_ARG);
    assert_int_equal(jinja_render(j, v, NULL, &b, &e), E_RANGE); /* does not fit into b */
    assert_int_equal(b.n, 0);
    buf_free(&b);
    b.max = 0;
    b.bad = false;
    assert_int_equal(jinja_render(j, v, NULL, &b, NULL), OK);
    assert_string_equal(b.p, "-9223372036854775808 0.1");
    assert_int_equal(jinja_render(j, NULL, NULL, &b, NULL), OK);
    jinja_free(j);
    assert_int_equal(jinja_compile(&j, "{{ x.y }}", 9, NULL), OK);
    assert_int_equal(jinja_render(j, NULL, NULL, &b, NULL), E_FORMAT); /* without an err */
    jinja_free(j);
    assert_int_equal(jinja_compile(&j, "{{", 2, NULL), E_FORMAT);
    assert_null(j);
    buf_free(&b);
    json_decref(no);
    json_decref(v);
}

/* ---- bounds */

static void bounded(const char *t)
{
    static const struct jinja_opt o = {.max_steps = 300000, .max_output = 1 << 20, .max_mem = 8 << 20};
    struct buf b = {0};
    struct err e = {0};
    uint64_t t0 = os_now_ns();
    int rc = run(t, strlen(t), NULL, &o, &b, &e);
    uint64_t ms = (os_now_ns() - t0) / 1000000;
    if (rc != E_RANGE) fail_msg("%s: %d %s", t, rc, e.msg);
    good_message(&e);
    if (ms > (SANITIZED ? 20000 : 3000)) fail_msg("%s: took %llu ms", t, (unsigned long long)ms);
    assert_int_equal(b.n, 0);
    buf_free(&b);
}

static void test_bounds(void **state)
{
    (void)state;
    bounded("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}");
    bounded("{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}");
    bounded("{{ range(100001) }}");
    bounded("{{ 'a' * 100000000 }}");
    bounded("{{ 'a' * 9223372036854775807 }}");
    bounded("{{ [1] * 100000000 }}");
    bounded("{{ [1, 2] * 9223372036854775807 }}");
    bounded("{% set x = 'aaaaaaaaaa' * 10000 %}{{ x|replace('a', x) }}");
    bounded("{% set x = 'aaaaaaaaaa' * 10000 %}{{ x|replace('', x) }}");
    bounded("{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
    bounded("{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}");
    bounded("{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}");
    bounded("{% set ns = namespace(s=[1]) %}{% for i in range(30) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s|tojson }}");
    bounded("{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(30) %}{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, "
            "ns.t] %}{% endfor %}{{ ns.s == ns.t }}");
    bounded("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}");
    bounded("{% set ns = namespace(s=(1,)) %}{% for i in range(999) %}{% set ns.s = (ns.s,) %}{% endfor %}{{ {ns.s: 1} }}");
    bounded(
        "{% set ns = namespace(s=[]) %}{% for i in range(999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s|tojson(indent=9) }}");
    bounded("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
    bounded("{% macro m(x) %}{% for i in [1] %}{% if x %}{{ m(x + 1)|upper }}{% endif %}{% endfor %}{% endmacro %}{{ m(1) }}");
    bounded("{% macro m() %}{{ caller() }}{% call m() %}y{% endcall %}{% endmacro %}{% call m() %}x{% endcall %}");
    bounded("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
    bounded("{{ '%1000000000d' % 1 }}");
    bounded("{{ '%1000000d' % 1 }}{{ '%1000000d' % 1 }}{{ '%1000000d' % 1 }}");
    bounded("{{ '%.1000000f' % 1.5 }}");
    bounded("{{ '{:1000000000}'.format(1) }}");
    bounded("{{ '{:.1000000}'.format(1.5) }}");
    bounded("{{ 'a'.center(1000000000) }}");
    bounded("{{ 'a'|center(1000000000) }}");
    bounded("{{ 'a'.zfill(9223372036854775807) }}");
    bounded("{{ '\\t'.expandtabs(1000000000) }}");
    bounded("{{ [1]|batch(1000000000, 'x')|list }}");
    bounded("{{ [1]|slice(1000000000)|list }}");
    bounded("{{ 'a'|indent(1000000000) }}");
    bounded("{{ ('a\\n' * 100000)|indent(100000) }}");
    bounded("{{ [1, [2]]|tojson(indent=1000000000) }}");
    bounded("{{ 10 ** 100 }}{{ 2 ** 9223372036854775807 }}");
    bounded("{{ 10.0 ** 400 }}");
    bounded("{{ -9223372036854775807 - 2 }}");
    bounded("{{ '99999999999999999999'|int }}");
    bounded("{{ 1e300|int }}");
    bounded("{% set x = ('ab' * 100000) %}{% for i in range(1000) %}{{ x.rsplit('c')|length }}{{ x.count('b') }}{{ "
            "x.upper()|length }}{% endfor %}");
    bounded("{% set x = ('ab' * 100000) %}{% for i in x %}{{ x.find('c') }}{{ x[i|length] }}{% endfor %}");
    bounded("{% set x = ('é' * 100000) %}{% for i in x %}{{ x[::-1]|length }}{% endfor %}");
    bounded("{% set x = range(99999)|list %}{% for i in x %}{{ -1 in x }}{% endfor %}");
    bounded("{% set x = range(99999)|list %}{% for i in x %}{{ x|sort|first }}{{ x|join|length }}{% endfor %}");
    bounded("{% set x = ('a ' * 100000) %}{% for i in x %}{{ x|wordwrap(3)|length }}{{ x|title|length }}{{ x|wordcount }}{% "
            "endfor %}");
    bounded("{% set x = (' ' * 100000) %}{% for i in x %}{{ x|trim }}{{ x.split() }}{% endfor %}");
    bounded("{% set x = ('ab' * 100000) %}{% for i in range(99) %}{{ (x ~ 'c').strip(x) }}{% endfor %}");
    bounded("{% for i in range(99999) %}{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }}{% endfor %}");
    bounded("{% set x %}{% for i in range(99999) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}{% endset %}");
    bounded("{{ strftime_now('%c' * 1000) }}");
}

static void repeat(struct buf *b, const char *z, int n)
{
    while (n-- > 0) buf_puts(b, z);
}

/* a x n, mid, z x n: refused or rendered, in linear time and little stack. */
static int deep(const char *a, const char *mid, const char *z, int n, struct err *e)
{
    struct buf t = {0}, out = {0};
    repeat(&t, a, n);
    buf_puts(&t, mid);
    repeat(&t, z, n);
    int rc = run(t.p, t.n, NULL, NULL, &out, e);
    if (rc < 0) good_message(e);
    buf_free(&t);
    buf_free(&out);
    return rc;
}

static void *hostile(void *arg)
{
    static const struct {
        const char *a, *mid, *z;
        int ok; /* depth that must work */
    } d[] = {
        {"{{ ", "1", " }}", 1},
        {"(", "1", ")", 0},
        {"{% if 1 %}", "x", "{% endif %}", 60},
        {"{% for i in [1] %}", "x", "{% endfor %}", 60},
        {"{% set x %}", "x", "{% endset %}", 60},
        {"{% macro m() %}", "x", "{% endmacro %}", 60},
        {"{% filter upper %}", "x", "{% endfilter %}", 60},
        {"{% with a = 1 %}", "x", "{% endwith %}", 60},
        {"{% for x in [1] recursive %}", "{{ loop }}", "{% endfor %}", 60},
        {"{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}", "x", "{% endcall %}", 60},
    };
    static const char *const expr[][4] = {
        {"(", "1", ")"},
        {"[", "1", "]"},
        {"{1:", "1", "}"},
        {"not ", "1", ""},
        {"-", "1", ""},
        {"1 if 0 else ", "1", ""},
        {"x", "", ".x"},
        {"", "range", "(1)"},
        {"", "'a'", "|upper"},
        {"", "[1]", "[0:]"},
        {"[1][", "0", "]"},
        {"dict(a=", "1", ")"},
        {"1 + (", "1", ")"},
        {"1 or 1 and not 1 < 1 + 1 ~ 1 * 1 ** (", "1", ")"},
        {"", "1", " is odd"},
        {"", "1", " is not none"},
        {"'a'.join([", "'a'", "])"},
        {"", "1", " if 1"},
        {"", "1", " + 1"},
        {"", "1", " ~ 1"},
        {"", "1", " and 1"},
        {"", "1", " < 2"},
        {"", "'a'", " 'a'"},
        {"1, ", "1", ""},
        {"{{", "1", "}}"},
        {"{%", "", "%}"},
        {"{#", "", "#}"},
        {"", "'%s'", " % 'a'"},
    };
    (void)arg;
    for (int n = 10; n <= 20000; n = n < 300 ? n + 37 : n * 8) {
        struct err e = {0};
        for (size_t i = 0; i < ARRAY_LEN(d); i++) {
            int rc = deep(d[i].a, d[i].mid, d[i].z, n, &e);
            if (n <= d[i].ok && rc != OK) fail_msg("%s at depth %d: %s", d[i].a, n, e.msg);
        }
        for (size_t i = 0; i < ARRAY_LEN(expr); i++) {
            char a[80], z[80];
            struct buf t = {0}, out = {0};
            snprintf(a, sizeof a, "%s", expr[i][0]);
            snprintf(z, sizeof z, "%s", expr[i][2]);
            buf_puts(&t, "{{ ");
            repeat(&t, a, n);
            buf_puts(&t, expr[i][1]);
            repeat(&t, z, n);
            buf_puts(&t, " }}");
            int rc = run(t.p, t.n, NULL, NULL, &out, &e);
            if (rc < 0) good_message(&e);
            if (rc == OK && n > 300 && (i < 3 || i == 11)) fail_msg("%s x %d was rendered", a, n);
            if (rc < 0 && i >= 18 && i <= 20) fail_msg("a flat run of %s x %d: %s", z, n, e.msg);
            buf_free(&t);
            buf_free(&out);
        }
    }
    /* the deepest recursion of the evaluator, through as many frames as possible per level */
    static const char *const rec[] = {
        "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
        "{% macro m(x) %}{{ [[1 + (2 * (1 if x else 0)) if x and m(x) else m(x)]]|map('upper')|join(m(x)) }}{% endmacro %}{{ "
        "m(1) }}",
        "{% macro m(x) %}{% for i in [1] if m(x) %}{% endfor %}{% endmacro %}{{ m(1) }}",
        "{% macro m(x) %}{% for i in [1] %}{% if x %}{% with y = 1 %}{% set z | replace(m(x), '') %}a{% endset %}{% endwith %}{% "
        "endif %}{% endfor %}{% endmacro %}{{ m(1) }}",
        "{% macro m(x) %}{{ caller is defined }}{% call(y) m(x) %}{{ y }}{% endcall %}{% endmacro %}{{ m(1) }}",
        "{% macro m(x=m()) %}{% endmacro %}{{ m() }}",
        "{% for x in [1] recursive %}{% filter upper %}{{ {1: loop([1])}[1].y }}{% endfilter %}{% endfor %}",
        "{% macro m() %}{{ dict(a=m(*[], **{})) }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ '%s' % (m() ~ 'a')[0:m()] }}{% endmacro %}{{ m() }}",
    };
    for (size_t i = 0; i < ARRAY_LEN(rec); i++) expect(rec[i], E_RANGE, NULL);
    return NULL;
}

static void test_small_stack(void **state)
{
    (void)state;
    pthread_attr_t at;
    pthread_t th;
    pthread_attr_init(&at);
    assert_int_equal(pthread_attr_setstacksize(&at, SANITIZED ? 8 << 20 : 256 << 10), 0);
    assert_int_equal(pthread_create(&th, &at, hostile, NULL), 0);
    pthread_join(th, NULL);
    pthread_attr_destroy(&at);
}

static void test_big_templates(void **state)
{
    (void)state;
    static const char *const piece[] = {"{{ a }}",
                                        "{% set x = 1 %}",
                                        "{% if 1 %}{% set y = 1 %}{% endif %}",
                                        "{# #}",
                                        "{",
                                        "{{",
                                        "{%",
                                        "{#",
                                        "{% raw %}",
                                        "{% raw %}{% endraw %}",
                                        "x\n",
                                        "   \n  ",
                                        "{% for i in [1] %}{% endfor %}",
                                        "{{ [1, 2, {'a': 3}] }}",
                                        "{{ 'a\\x41' }}",
                                        "{{ a.b.c(1, k=2)|default('x', true) }}",
                                        "{%- if 0 -%} {%- endif -%} ",
                                        "{% macro m() %}{% endmacro %}",
                                        "{{ loop }}",
                                        "-",
                                        "{{ \"",
                                        "{{ 1.",
                                        "{{ 1_",
                                        "{{ a is not b }}"};
    for (size_t i = 0; i < ARRAY_LEN(piece); i++) {
        struct buf t = {0}, out = {0};
        struct err e = {0};
        struct jinja *j;
        uint64_t t0 = os_now_ns();
        while (t.n < (512 << 10)) buf_puts(&t, piece[i]);
        if (jinja_compile(&j, t.p, t.n, &e) < 0) good_message(&e);
        uint64_t ms = (os_now_ns() - t0) / 1000000;
        if (ms > (SANITIZED ? 20000 : 2000)) fail_msg("512 KiB of \"%s\" took %llu ms", piece[i], (unsigned long long)ms);
        jinja_free(j);
        buf_free(&t);
        buf_free(&out);
    }
    /* many different names */
    struct buf t = {0};
    struct err e = {0};
    struct jinja *j;
    for (int i = 0; i < 30000; i++) buf_printf(&t, "{%% set v%d = u%d %%}", i, i);
    uint64_t t0 = os_now_ns();
    assert_int_equal(jinja_compile(&j, t.p, t.n, &e), OK);
    assert_in_range((os_now_ns() - t0) / 1000000, 0, SANITIZED ? 20000 : 2000);
    jinja_free(j);
    buf_free(&t);
    buf_init(&t, 0);
    repeat(&t, "x", (1 << 20) + 1);
    assert_int_equal(jinja_compile(&j, t.p, t.n, &e), E_FORMAT);
    good_message(&e);
    buf_free(&t);
}

/* Every single allocation fails once: an error, nothing leaks. */
static void test_no_memory(void **state)
{
    (void)state;
    static const char t[] =
        "{% macro m(x, y=[1]) %}{{ x ~ y }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, a=4) }}{% set s %}{{ 'abc'|upper "
        "* 3000 }}{% endset %}"
        "{% for a, b in {'x': 1}.items() if a %}{{ loop.length }}{{ [a, b]|tojson(indent=2) }}{% else %}e{% endfor %}{{ s|length "
        "}}"
        "{{ '%05d {}'|format(3) }}{{ 'a {}'.format(s[:3]) }}{{ ['b', 'A']|sort|join(',') }}{{ namespace(a=1).a }}";
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        struct buf b = {0};
        struct err e = {0};
        struct jinja *j;
        buf_reserve(&b, 64);
        mem_fail_after(n);
        int rc = jinja_compile(&j, t, sizeof t - 1, &e);
        if (rc == OK) rc = jinja_render(j, NULL, NULL, &b, &e);
        mem_fail_after(0);
        done = rc == OK;
        if (!done) {
            if (rc != E_NOMEM && rc != E_RANGE) fail_msg("%d %s", rc, e.msg);
            good_message(&e);
            assert_int_equal(b.n, 0);
        }
        jinja_free(j);
        buf_free(&b);
        assert_in_range(n, 1, 100000);
    }
}

/* A conversation of about 4,000 characters. */
static void test_speed(void **state)
{
    (void)state;
    static const char t[] = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
                            "'<|im_start|>system\nYou are helpful<|im_end|>\n' }}{% endif %}"
                            "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor "
                            "%}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    json_t *m = json_array(), *v = json_pack("{s:o, s:b}", "messages", m, "add_generation_prompt", 1);
    char text[201];
    memset(text, 'a', 200);
    text[200] = 0;
    for (int i = 0; i < 20; i++)
        json_array_append_new(m, json_pack("{s:s, s:s}", "role", i % 2 ? "assistant" : "user", "content", text));
    struct jinja *j;
    struct buf b = {0};
    uint64_t best = UINT64_MAX, first = UINT64_MAX;
    for (int i = 0; i < 200; i++) {
        uint64_t t0 = os_now_ns();
        assert_int_equal(jinja_compile(&j, t, sizeof t - 1, NULL), OK);
        uint64_t t1 = os_now_ns();
        buf_clear(&b);
        assert_int_equal(jinja_render(j, v, NULL, &b, NULL), OK);
        best = MIN(best, os_now_ns() - t1);
        first = MIN(first, t1 - t0);
        jinja_free(j);
    }
    print_message("compile %.1f us, render %zu characters %.1f us\n", (double)first / 1e3, b.n, (double)best / 1e3);
    assert_true(best < (SANITIZED ? 100000000u : 1000000u));
    buf_free(&b);
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_cases),         cmocka_unit_test(test_real_templates), cmocka_unit_test(test_error_lines),
        cmocka_unit_test(test_arguments),     cmocka_unit_test(test_bounds),         cmocka_unit_test(test_small_stack),
        cmocka_unit_test(test_big_templates), cmocka_unit_test(test_no_memory),      cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
