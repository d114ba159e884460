/* The option table of hearth and the parser under it: every kind of value, its bounds, defaults, environment, precedence; the
 * table's own soundness. */
#include "base/mem.h"
#include "cmd/opts.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ---- hearth's own table */

static struct opts o;
static struct err e;

/* Parses words (NULL-terminated), returns the status; o stays open until the next call. */
static int parse(const char *first, ...)
{
    char *argv[64] = {(char *)(uintptr_t) "hearth", (char *)(uintptr_t)first};
    int n = first ? 2 : 1;
    va_list ap;
    va_start(ap, first);
    for (char *s; first && (s = va_arg(ap, char *));) argv[n++] = s;
    va_end(ap);
    opts_free(&o);
    e = (struct err){0};
    return opts_parse(&o, n, argv, &e);
}

static void defaults(void **state)
{
    (void)state;
    assert_int_equal(parse("run", "m", "-p", "x", NULL), OK);
    assert_int_equal(o.cmd, CMD_RUN);
    assert_string_equal(o.model, "m");
    assert_string_equal(o.text, "x");
    assert_int_equal(o.batch, 512);
    assert_false(opts_given(&o, OPT_ID_BATCH));
    assert_true(opts_given(&o, OPT_ID_TEXT));
    assert_false(opts_given(&o, OPT_ID_TEMP));
    assert_false(o.from_stdin || o.raw || o.json || o.ledger || o.ignore_eos);
    assert_null(o.file);
    assert_null(o.isa);
    assert_int_equal(o.n + o.threads + o.ctx + o.stop.n + o.ids.n + o.logit_bias.n, 0);
    assert_int_equal(parse("bench", "m", NULL), OK);
    assert_int_equal(o.batches.n, 5);
    assert_int_equal(o.batches.v[4], 16);
    assert_int_equal(o.prefill, 512);
    assert_int_equal(parse("template", "m", "-f", "x", NULL), OK);
    assert_true(o.gen_prompt);
    assert_int_equal(parse("eval", "m", "-f", "x", NULL), OK);
    assert_int_equal(o.bos, OPTS_BOS_AUTO);
}

static void every_kind(void **state)
{
    (void)state;
    assert_int_equal(parse("run", "m", "--ids=5,0,2147483647", "--temp", "0", "--top-p", "0.5", "--min-p=1e-3", "--seed",
                           "0xffffffffffffffff", "--stop", "a", "--stop", "b c", "--logit-bias", "3=-1.5,4=-inf", "--logit-bias",
                           "9=2", "-n7", "--isa", "ref", "--kv", "bf16", "--frequency-penalty", "-2", "-v", "--json", NULL),
                     OK);
    assert_int_equal(o.ids.n, 3);
    assert_int_equal(o.ids.v[2], INT32_MAX);
    assert_true(o.temp == 0 && opts_given(&o, OPT_ID_TEMP));
    assert_true(o.top_p == 0.5f && o.min_p == 1e-3f && o.frequency_penalty == -2);
    assert_true(o.seed == UINT64_MAX);
    assert_int_equal(o.stop.n, 2);
    assert_string_equal(o.stop.v[1], "b c");
    assert_int_equal(o.logit_bias.n, 3);
    assert_int_equal(o.logit_bias.v[0].id, 3);
    assert_true(o.logit_bias.v[0].bias == -1.5f && isinf(o.logit_bias.v[1].bias) && o.logit_bias.v[1].bias < 0);
    assert_int_equal(o.logit_bias.v[2].id, 9);
    assert_int_equal(o.n, 7);
    assert_string_equal(o.isa, "ref");
    assert_int_equal(o.kv, 1);
    assert_true(o.verbose && o.json);

    assert_int_equal(parse("template", "t.jinja", "-f", "m", "--var", "a=1=2", "--var", "b=", "--no-generation-prompt", "--now",
                           "2024-07-26 09:30:00", NULL),
                     OK);
    assert_int_equal(o.var.n, 2);
    assert_string_equal(o.var.v[0].name, "a");
    assert_string_equal(o.var.v[0].value, "1=2");
    assert_string_equal(o.var.v[1].value, "");
    assert_false(o.gen_prompt);
    assert_true(opts_given(&o, OPT_ID_GEN_PROMPT));
    assert_int_equal(o.now_s, 1721986200);
}

/* --now against the C library's timegm over five centuries */
static void now_is_gregorian(void **state)
{
    (void)state;
    for (int64_t t = -8520336000; t < 8520336000; t += 86400 * 37 + 12345) {
        time_t s = (time_t)t;
        struct tm tm;
        char text[64];
        gmtime_r(&s, &tm);
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
        assert_int_equal(parse("template", "m", "-f", "x", "--now", text, NULL), OK);
        assert_int_equal(o.now_s, t);
    }
    assert_int_equal(parse("template", "m", "-f", "x", "--now", "1900-02-29", NULL), E_ARG);
    assert_int_equal(parse("template", "m", "-f", "x", "--now", "2000-02-29T00:00:00", NULL), OK);
}

static void meaning_by_command(void **state)
{
    (void)state;
    assert_int_equal(parse("run", "m", "--ids", "1,2", NULL), OK);
    assert_int_equal(o.ids.n, 2);
    assert_int_equal(parse("eval", "m", "--ids", "ids.json", NULL), OK);
    assert_string_equal(o.ids_file, "ids.json");
    assert_int_equal(parse("tokenize", "m", "--ids", "-p", "x", NULL), OK);
    assert_true(o.ids_only);
    assert_int_equal(parse("bench", "m", "--batch", "3,9", NULL), OK);
    assert_int_equal(o.batches.n, 2);
    assert_int_equal(parse("run", "m", "-p", "x", "--batch", "3,9", NULL), E_ARG);
    assert_int_equal(parse("eval", "m", "-f", "x", "--ctx", "1", NULL), E_ARG);
    assert_int_equal(parse("run", "m", "-p", "x", "--ctx", "1", NULL), OK);
}

static void words_and_dashes(void **state)
{
    (void)state;
    assert_int_equal(parse("run", "m", "-p", "x", "--logit-bias", "2147483648=1", NULL), E_ARG);
    assert_int_equal(parse("run", "m", "-p", "x", "--logit-bias", "2147483647=1", NULL), OK);
    assert_int_equal(parse("run", "m", "-", NULL), OK);
    assert_true(o.from_stdin);
    assert_int_equal(parse("run", "-p", "-", "--", "-m", NULL), OK);
    assert_string_equal(o.text, "-");
    assert_string_equal(o.model, "-m");
    assert_int_equal(parse("run", "m", "-p", NULL), E_ARG);
    assert_non_null(strstr(e.msg, "needs a value"));
    assert_int_equal(parse("run", "m", "--help", "--nonsense", NULL), OPT_ASK_HELP);
    assert_int_equal(o.cmd, CMD_RUN);
    assert_int_equal(parse("run", "--nonsense", "--help", NULL), E_ARG);
    assert_int_equal(parse("--version", NULL), OPT_ASK_VERSION);
    assert_int_equal(parse("help", "eval", NULL), OPT_ASK_HELP);
    assert_int_equal(o.cmd, CMD_EVAL);
    assert_int_equal(parse(NULL), E_ARG);
}

static void environment(void **state)
{
    (void)state;
    setenv("HEARTH_THREADS", "3", 1);
    setenv("HEARTH_SEED", "", 1); /* empty is as good as unset */
    assert_int_equal(parse("run", "m", "-p", "x", NULL), OK);
    assert_int_equal(o.threads, 3);
    assert_int_equal(o.from[OPT_ID_THREADS], OPT_FROM_ENV);
    assert_true(opts_given(&o, OPT_ID_THREADS));
    assert_false(opts_given(&o, OPT_ID_SEED));
    assert_int_equal(parse("run", "m", "-p", "x", "--threads", "5", NULL), OK);
    assert_int_equal(o.threads, 5);
    assert_int_equal(o.from[OPT_ID_THREADS], OPT_FROM_LINE);
    setenv("HEARTH_THREADS", "0", 1);
    assert_int_equal(parse("run", "m", "-p", "x", NULL), E_ARG);
    assert_non_null(strstr(e.msg, "HEARTH_THREADS"));
    assert_int_equal(parse("inspect", "m", NULL), OK);
    unsetenv("HEARTH_THREADS");
    unsetenv("HEARTH_SEED");
}

/* Without memory for lists: an error, not a crash. */
static void no_memory(void **state)
{
    (void)state;
    for (uint64_t i = 1; i < 20; i++) {
        mem_fail_after(i);
        int rc = parse("run", "m", "--ids", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20", "--stop", "a", "--logit-bias",
                       "1=2", NULL);
        mem_fail_after(0);
        assert_true(rc == OK || rc == E_NOMEM);
    }
}

/* Rows that contradict each other would be found by users only. */
static void table_is_sound(void **state)
{
    (void)state;
    const struct opt_prog *p = &opts_prog;
    assert_int_equal(p->n_cmd, CMD_N);
    bool used[OPT_ID_COUNT] = {false};
    for (uint32_t i = 0; i < p->n_opt; i++) {
        const struct opt *a = &p->opt[i];
        assert_true(a->id < OPT_ID_COUNT);
        used[a->id] = true;
        assert_non_null(a->help);
        assert_non_null(a->group);
        assert_true(a->help[strlen(a->help) - 1] != '.');
        assert_int_not_equal(a->cmds, 0);
        assert_int_equal(a->cmds >> CMD_N, 0);
        bool flag = a->kind == OPT_FLAG || a->kind == OPT_HELP || a->kind == OPT_VERSION;
        assert_true(flag == !a->arg);
        assert_true((a->kind == OPT_ENUM || a->kind == OPT_WORD) == !!a->choice);
        assert_true(!a->env || strncmp(a->env, "HEARTH_", 7) == 0);
        for (const char *s = a->help; *s; s++) assert_true(*s >= 32 && *s < 127);
        for (uint32_t j = i + 1; j < p->n_opt; j++) {
            const struct opt *b = &p->opt[j];
            if (!(a->cmds & b->cmds)) continue;
            assert_string_not_equal(a->name, b->name);
            if (a->letter) assert_int_not_equal(a->letter, b->letter);
            if (a->kind != OPT_HELP && a->kind != OPT_VERSION && b->kind != OPT_HELP && b->kind != OPT_VERSION)
                assert_int_not_equal(a->off, b->off);
        }
    }
    for (size_t i = 0; i < OPT_ID_COUNT; i++)
        if (!used[i]) fail_msg("no row has id %zu", i);
}

/* ---- sizes, which no option of hearth has yet */

struct small {
    uint64_t size;
};
static void sizes(void **state)
{
    (void)state;
    static const struct opt row[] = {{.name = "size",
                                      .kind = OPT_SIZE,
                                      .arg = "BYTES",
                                      .group = "G",
                                      .help = "h",
                                      .lo = 1,
                                      .hi = 1e15,
                                      .cmds = 1,
                                      .off = offsetof(struct small, size)}};
    static const struct opt_cmd cmd[] = {{.name = "c", .args = "", .help = "h", .arg_name = ""}};
    static const struct opt_prog prog = {
        .name = "p", .version = "0", .about = "a", .cmd = cmd, .n_cmd = 1, .opt = row, .n_opt = 1};
    static const struct {
        const char *text;
        uint64_t want; /* 0: refused */
    } t[] = {{"4096", 4096},        {"64K", 65536}, {"64k", 65536}, {"1.5M", 1572864}, {"2G", 2147483648}, {"1GiB", 1073741824},
             {"1T", 1099511627776}, {"7B", 7},      {"0", 0},       {"-1", 0},         {"K", 0},           {"1KK", 0},
             {"1e30", 0},           {"", 0},        {"1 K", 0},     {"nan", 0}};
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        struct small s = {0};
        uint8_t from[1] = {0};
        struct arena a = {0};
        uint32_t n_arg;
        char *argv[] = {(char *)(uintptr_t) "--size", (char *)(uintptr_t)t[i].text};
        int rc = opt_parse(&prog, 0, 2, argv, &s, from, NULL, &n_arg, &a, &e);
        if ((rc == OK) != (t[i].want != 0) || s.size != t[i].want)
            fail_msg("'%s': %d, %llu", t[i].text, rc, (unsigned long long)s.size);
        arena_free(&a);
    }
}

/* A repeatable option adds up on the command line, but does not add to the environment's. */
struct list {
    struct opt_texts t;
};
static void lists_start_over(void **state)
{
    (void)state;
    static const struct opt row[] = {{.name = "t",
                                      .kind = OPT_TEXTS,
                                      .arg = "T",
                                      .group = "G",
                                      .help = "h",
                                      .env = "HEARTH_TEST_T",
                                      .cmds = 1,
                                      .off = offsetof(struct list, t)}};
    static const struct opt_cmd cmd[] = {{.name = "c", .args = "", .help = "h", .arg_name = ""}};
    static const struct opt_prog prog = {
        .name = "p", .version = "0", .about = "a", .cmd = cmd, .n_cmd = 1, .opt = row, .n_opt = 1};
    char *argv[] = {(char *)(uintptr_t) "--t=1", (char *)(uintptr_t) "--t=2"};
    setenv("HEARTH_TEST_T", "env", 1);
    for (int n = 0; n <= 2; n++) {
        struct list l = {0};
        uint8_t from[1] = {0};
        struct arena a = {0};
        uint32_t n_arg;
        assert_int_equal(opt_parse(&prog, 0, n, argv, &l, from, NULL, &n_arg, &a, &e), OK);
        assert_int_equal(l.t.n, n == 0 ? 1 : n);
        assert_string_equal(l.t.v[0], n == 0 ? "env" : "1");
        arena_free(&a);
    }
    unsetenv("HEARTH_TEST_T");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),           cmocka_unit_test(every_kind),       cmocka_unit_test(now_is_gregorian),
        cmocka_unit_test(meaning_by_command), cmocka_unit_test(words_and_dashes), cmocka_unit_test(environment),
        cmocka_unit_test(no_memory),          cmocka_unit_test(table_is_sound),   cmocka_unit_test(sizes),
        cmocka_unit_test(lists_start_over),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    opts_free(&o);
    return rc;
}
