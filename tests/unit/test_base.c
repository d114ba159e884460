/* test_base.c: the ground everything stands on: errors, buffers, UTF-8, halves, arenas, JSON limits, files. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/half.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static void errors(void **st)
{
    (void)st;
    struct err e;
    assert_int_equal(err_set(&e, E_FORMAT, "%s: bad\nbyte \x1b[31m", "f"), E_FORMAT);
    assert_string_equal(e.msg, "f: bad?byte ?[31m");
    assert_int_equal(err_prefix(&e, "tensor %d", 3), E_FORMAT);
    assert_string_equal(e.msg, "tensor 3: f: bad?byte ?[31m");
    char big[600];
    memset(big, 'x', 599);
    big[599] = 0;
    err_set(&e, E_IO, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    err_prefix(&e, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    assert_int_equal(err_set(NULL, E_IO, "x"), E_IO);
}

static void halves(void **st)
{
    (void)st;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h), b = bf16_to_f32((uint16_t)h);
        if (!isnan(f)) assert_int_equal(f32_to_f16(f), h);
        if (!isnan(b)) assert_int_equal(f32_to_bf16(b), h);
        if (isnan(f)) assert_true(isnan(f16_to_f32(f32_to_f16(f))));
        if (isnan(b)) assert_true(isnan(bf16_to_f32(f32_to_bf16(b))));
    }
    /* between two neighbours: to the nearer, ties to even */
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float a = f16_to_f32((uint16_t)h), c = f16_to_f32((uint16_t)(h + 1)), m = (a + c) / 2;
        assert_int_equal(f32_to_f16(m), h + (h & 1));
        assert_int_equal(f32_to_f16(nextafterf(m, 0)), h);
        assert_int_equal(f32_to_f16(nextafterf(m, 1e9f)), h + 1);
        assert_int_equal(f32_to_f16(-m), 0x8000 | (h + (h & 1)));
    }
    for (uint32_t h = 0; h < 0x7f7f; h++) {
        uint32_t mid = h << 16 | 0x8000;
        assert_int_equal(f32_to_bf16(f32_of_bits(mid)), h + (h & 1));
        assert_int_equal(f32_to_bf16(f32_of_bits(mid - 1)), h);
        assert_int_equal(f32_to_bf16(f32_of_bits(mid + 1)), h + 1);
    }
    assert_int_equal(f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(f32_to_f16(-INFINITY), 0xfc00);
    /* 8 bits, by the definitions of the OCP specification */
    for (uint32_t c = 0; c < 256; c++) {
        int e = c >> 3 & 15, m = c & 7;
        double v = e ? ldexp(1 + m / 8.0, e - 7) : ldexp(m / 8.0, -6);
        if (e == 15 && m == 7)
            assert_true(isnan(e4m3_to_f32((uint8_t)c)));
        else
            assert_true(e4m3_to_f32((uint8_t)c) == (float)(c & 0x80 ? -v : v));
        e = c >> 2 & 31;
        m = c & 3;
        v = e ? ldexp(1 + m / 4.0, e - 15) : ldexp(m / 4.0, -14);
        if (e == 31)
            assert_true(m ? isnan(e5m2_to_f32((uint8_t)c)) : isinf(e5m2_to_f32((uint8_t)c)));
        else
            assert_true(e5m2_to_f32((uint8_t)c) == (float)(c & 0x80 ? -v : v));
    }
}

static void buffers(void **st)
{
    (void)st;
    struct buf b;
    buf_init(&b, 100);
    for (int i = 0; i < 30; i++) buf_puts(&b, "abc");
    assert_true(buf_ok(&b));
    assert_int_equal(b.n, 90);
    buf_puts(&b, "0123456789A"); /* over the cap: nothing of it, and it stays bad */
    assert_false(buf_ok(&b));
    assert_int_equal(b.n, 90);
    buf_puts(&b, "x");
    assert_int_equal(b.n, 90);
    buf_clear(&b);
    assert_true(buf_ok(&b));
    buf_printf(&b, "%0*d", 90, 7);
    assert_int_equal(b.n, 90);
    assert_string_equal(b.p + 85, "00007");
    buf_free(&b);
    buf_init(&b, 0);
    char long_text[2000];
    memset(long_text, 'y', 1999);
    long_text[1999] = 0;
    buf_printf(&b, "<%s>", long_text);
    assert_int_equal(b.n, 2001);
    assert_false(buf_reserve(&b, SIZE_MAX - 100));
    buf_free(&b);
    mem_fail_after(1);
    buf_puts(&b, "x");
    assert_false(buf_ok(&b));
    mem_fail_after(0);
    buf_free(&b);
}

static void utf8(void **st)
{
    (void)st;
    char t[4];
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        uint32_t n = utf8_put(t, cp), got;
        bool valid = cp < 0xd800 || cp > 0xdfff;
        uint32_t k = utf8_next(t, n, &got);
        if (valid) {
            assert_int_equal(got, cp);
            assert_int_equal(k, n);
            for (uint32_t cut = 1; cut < n; cut++) {
                assert_int_equal(utf8_next(t, cut, &got), 1);
                assert_int_equal(got, UINT32_MAX);
                assert_int_equal(utf8_whole(t, cut), 0);
            }
            assert_int_equal(utf8_whole(t, n), n);
        } else {
            assert_int_equal(got, UINT32_MAX);
        }
    }
    static const char *const bad[] = {"\xff", "\xc3(", "\xa0\xa1", "\xe2\x82(", "\xf0(\x8c(", "\xed\xa0\x80", "\xc0\xaf", "\xf8\xa1\xa1\xa1\xa1", "\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char s[16];
        snprintf(s, sizeof s, "ab%s", bad[i]);
        assert_int_equal(utf8_check(s, strlen(s)), 2);
        assert_int_equal(utf8_whole(s, strlen(s)), strlen(s)); /* what can never become whole is not waited for */
    }
    struct buf b = {0};
    buf_json_str(&b, "a\"\\\n\t\x01\x7f\xff\xC3\xA9", 10);
    assert_string_equal(b.p, "\"a\\\"\\\\\\n\\t\\u0001\\u007f\xEF\xBF\xBD\xC3\xA9\"");
    buf_free(&b);
}

static const char *pick(const void *ud, size_t i) { return ((const char *const *)ud)[i]; }
static void near(void **st)
{
    (void)st;
    static const char *const names[] = {"temp", "top-k", "top-p", "threads", "tensors", NULL};
    assert_string_equal(near_name("tempp", pick, names, 6), "temp");
    assert_string_equal(near_name("thraeds", pick, names, 6), "threads");
    assert_string_equal(near_name("tens", pick, names, 6), "tensors");
    assert_null(near_name("completely-else", pick, names, 6));
    assert_null(near_name("", pick, names, 6));
    char big[5000];
    memset(big, 'a', 4999);
    big[4999] = 0;
    assert_null(near_name(big, pick, names, 6));
}

static void arenas(void **st)
{
    (void)st;
    struct arena a = {.max = 100000};
    char *last = NULL;
    for (int i = 0; i < 500; i++) {
        char *p = arena_alloc(&a, 1, 100);
        assert_non_null(p);
        assert_int_equal((size_t)p % 16, 0);
        for (int k = 0; k < 100; k++) assert_int_equal(p[k], 0);
        memset(p, 1, 100);
        last = p;
    }
    assert_non_null(arena_alloc(&a, 1, 40000)); /* a big one of its own */
    char *next = arena_alloc(&a, 1, 100);
    assert_non_null(next);
    (void)last;
    assert_null(arena_alloc(&a, 1, 40000)); /* over the cap */
    assert_null(arena_alloc(&a, SIZE_MAX / 2, 4));
    arena_free(&a);
    assert_int_equal(a.used, 0);
    assert_string_equal(arena_strndup(&a, "xyz", 2), "xy");
    arena_free(&a);
}

static void json(void **st)
{
    (void)st;
    json_t *j;
    struct err e;
    struct {
        const char *text;
        int rc;
    } t[] = {{"{\"a\":1}", OK}, {"[1,2,]", E_FORMAT}, {"{\"a\":1,\"a\":2}", E_FORMAT}, {"{} x", E_FORMAT}, {"", E_FORMAT}, {"\"\xff\"", E_FORMAT},
             {"99999999999999999999", E_FORMAT}, {"1e999", E_FORMAT}, {"{'a':1}", E_FORMAT}, {"\"[[[[\"", OK}, {"3", OK}};
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        int rc = json_parse(&j, t[i].text, strlen(t[i].text), 0, "t", &e);
        if (rc != t[i].rc) fail_msg("%s: %d", t[i].text, rc);
        if (rc == OK) json_decref(j);
    }
    char deep[2000];
    memset(deep, '[', 1000);
    memset(deep + 1000, ']', 1000);
    assert_int_equal(json_parse(&j, deep, 2000, 0, "t", &e), E_FORMAT);
    assert_non_null(strstr(e.msg, "deep"));
    assert_int_equal(json_parse(&j, "[1]", 3, 2, "t", &e), E_RANGE);
    assert_int_equal(json_parse(&j, "{\"u\":5,\"n\":-1,\"s\":\"x\\u0000y\",\"f\":2.5,\"b\":true,\"z\":null,\"a\":[]}", 62, 0, "t", &e), OK);
    uint64_t u = 9;
    double f;
    bool b;
    struct str s;
    const json_t *a;
    assert_int_equal(json_get_u64(j, "u", 0, 10, &u, &e), 1);
    assert_int_equal(u, 5);
    assert_int_equal(json_get_u64(j, "none", 0, 10, &u, &e), 0);
    assert_int_equal(json_get_u64(j, "z", 0, 10, &u, &e), 0);
    assert_int_equal(u, 5);
    assert_int_equal(json_get_u64(j, "u", 6, 10, &u, &e), E_FORMAT);
    assert_int_equal(json_get_u64(j, "n", 0, 10, &u, &e), E_FORMAT);
    assert_int_equal(json_get_u64(j, "f", 0, 10, &u, &e), E_FORMAT);
    assert_int_equal(json_get_f64(j, "u", &f, &e), 1);
    assert_true(f == 5);
    assert_int_equal(json_get_str(j, "s", &s, &e), 1);
    assert_int_equal(s.n, 3);
    assert_int_equal(json_get_str(j, "b", &s, &e), E_FORMAT);
    assert_non_null(strstr(e.msg, "boolean"));
    assert_int_equal(json_get_bool(j, "b", &b, &e), 1);
    assert_true(b);
    assert_int_equal(json_get_array(j, "a", &a, &e), 1);
    assert_int_equal(json_get_array(j, "f", &a, &e), E_FORMAT);
    json_decref(j);
}

static void files(void **st)
{
    (void)st;
    char dir[] = "/tmp/hearth-base-XXXXXX", p[100], q[100];
    struct err e;
    struct os_map m;
    struct buf b = {0};
    assert_non_null(mkdtemp(dir));
    snprintf(p, sizeof p, "%s/x", dir);
    assert_int_equal(os_write_file(p, "hello", 5, &e), OK);
    assert_int_equal(os_write_file(p, "hello again", 11, &e), OK); /* replaces as a whole */
    assert_int_equal(os_map(&m, p, &e), OK);
    assert_int_equal(m.n, 11);
    assert_memory_equal(m.p, "hello again", 11);
    os_unmap(&m);
    assert_int_equal(os_read_file(&b, p, 100, &e), OK);
    assert_string_equal(b.p, "hello again");
    buf_clear(&b);
    assert_int_equal(os_read_file(&b, p, 5, &e), E_RANGE);
    buf_free(&b);
    assert_int_equal(os_write_file(p, "", 0, &e), OK);
    assert_int_equal(os_map(&m, p, &e), OK);
    assert_null(m.p);
    os_unmap(&m);
    snprintf(q, sizeof q, "%s/fifo", dir);
    assert_int_equal(mkfifo(q, 0600), 0);
    assert_int_equal(os_map(&m, q, &e), E_FORMAT); /* and does not wait for a writer */
    assert_int_equal(os_map(&m, dir, &e), E_FORMAT);
    assert_int_equal(os_map(&m, "/no/such", &e), E_IO);
    assert_non_null(strstr(e.msg, "/no/such"));
    assert_int_equal(os_write_file("/no/such/dir/file", "x", 1, &e), E_IO);
    snprintf(q, sizeof q, "%s/a/b/c", dir);
    assert_int_equal(os_mkdirs(q, &e), OK);
    assert_true(os_is_dir(q));
    snprintf(q, sizeof q, "%s/x/y", dir);
    assert_int_equal(os_mkdirs(q, &e), E_IO);
    char cmd[120];
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    assert_int_equal(system(cmd), 0);
}

static void machine(void **st)
{
    (void)st;
    uint64_t a = os_now_ns(), b = os_now_ns();
    assert_true(b >= a && os_wall_ns() > 1600000000000000000u);
    assert_true(os_n_cpu() >= 1 && os_n_cpu() <= 4096);
    uint64_t rss = os_rss(); /* first: reading it takes memory, too */
    assert_true(os_peak_rss() >= rss && rss > 100000);
    assert_true(os_mem_avail() > 1000000);
    assert_true(os_random_u64() != os_random_u64());
    char *p = mem_big(5 << 20);
    assert_non_null(p);
    assert_int_equal((size_t)p % (2 << 20), 0);
    p[0] = p[(5 << 20) - 1] = 1;
    mem_big_free(p, 5 << 20);
    assert_null(mem_alloc(SIZE_MAX / 2, 4));
    assert_null(mem_big(SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(errors), cmocka_unit_test(halves), cmocka_unit_test(buffers), cmocka_unit_test(utf8), cmocka_unit_test(near),
                                   cmocka_unit_test(arenas), cmocka_unit_test(json), cmocka_unit_test(files), cmocka_unit_test(machine)};
    return cmocka_run_group_tests_name("base", t, NULL, NULL);
}
