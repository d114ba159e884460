/* The GGUF loader: what it reads, what it refuses and in which words; hostile, cut, mutated and split files. */
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "unit/gguf_make.h"
#include "unit/load_all.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static struct buf tiny; /* ok-tiny.gguf of tests/tools/make_bad_files.py */
static char bad_dir[100];

static int setup(void **state)
{
    (void)state;
    struct err e = {0};
    char cmd[300], path[200];
    snprintf(bad_dir, sizeof bad_dir, "%s/bad", gm_dir());
    snprintf(cmd, sizeof cmd, "python3 tests/tools/make_bad_files.py '%s' > '%s/log'", bad_dir, gm_dir());
    if (system(cmd) != 0) return -1;
    snprintf(path, sizeof path, "%s/ok-tiny.gguf", bad_dir);
    return os_read_file(&tiny, path, 1 << 24, &e);
}
static int teardown(void **state)
{
    (void)state;
    buf_free(&tiny);
    gm_rm_dir();
    return 0;
}

/* A copy of exactly n bytes: a sanitizer sees each byte read behind it. */
static void *exact(const void *p, size_t n)
{
    void *q = mem_alloc(n, 1);
    assert_non_null(q);
    if (n) memcpy(q, p, n);
    return q;
}
static int load_exact(const struct buf *b, struct err *e)
{
    void *p = exact(b->p, b->n);
    int rc = load_mem(p, b->n, e);
    mem_free(p);
    return rc;
}
/* Opens only (no shape, no weights); the message must hold `want`. */
static void refused(const struct gm *m, int code, const char *want)
{
    struct buf b = {0};
    struct err e = {0};
    struct gguf g;
    gm_build(m, &b);
    void *p = exact(b.p, b.n);
    int rc = gguf_open_mem(&g, "x.gguf", p, b.n, &e);
    if (rc == OK) fail_msg("loads, but should say: %s", want);
    assert_int_equal(rc, code);
    assert_int_equal(e.code, code);
    if (strncmp(e.msg, "x.gguf: ", 8) != 0 || !strstr(e.msg, want)) fail_msg("message '%s' has no '%s'", e.msg, want);
    assert_null(g.arena.head); /* nothing is left open */
    mem_free(p);
    buf_free(&b);
}

static void hostile_files(void **state)
{
    (void)state;
    struct buf js = {0};
    struct err e = {0};
    char path[200];
    snprintf(path, sizeof path, "%s/manifest.json", bad_dir);
    assert_int_equal(os_read_file(&js, path, 1 << 20, &e), OK);
    json_t *root, *o;
    assert_int_equal(json_parse(&root, js.p, js.n, 0, path, &e), OK);
    size_t i, n = 0;
    json_array_foreach(root, i, o)
    {
        struct str name, expect;
        assert_int_equal(json_get_str(o, "file", &name, &e), 1);
        assert_int_equal(json_get_str(o, "expect", &expect, &e), 1);
        if (name.n < 5 || memcmp(name.p + name.n - 5, ".gguf", 5) != 0) continue;
        snprintf(path, sizeof path, "%s/%.*s", bad_dir, (int)name.n, name.p);
        e = (struct err){0};
        uint64_t t0 = os_now_ns();
        int rc = load_file(path, &e);
        uint64_t ns = os_now_ns() - t0;
        if (str_eq(expect, "ok")) {
            if (rc != OK) fail_msg("%s: %s", path, e.msg);
        } else {
            if (rc >= 0) fail_msg("%s was not refused", path);
            if (strncmp(e.msg, path, strlen(path)) != 0 || e.msg[strlen(path)] != ':' || strchr(e.msg, '\n'))
                fail_msg("not one line that starts with the file: '%s'", e.msg);
        }
        assert_true(ns < 1000000000u);
        n++;
    }
    assert_int_equal(n, 42);
    assert_true(os_peak_rss() < 200u << 20);
    json_decref(root);
    buf_free(&js);
}

static void cut_anywhere(void **state)
{
    (void)state;
    for (size_t n = 0; n < tiny.n; n += n < 9000 ? 13 : 97) {
        struct err e = {0};
        struct buf b = {.p = tiny.p, .n = n};
        int rc = load_exact(&b, &e);
        if (rc >= 0) fail_msg("a file cut to %zu of %zu bytes loads", n, tiny.n);
        assert_true(strncmp(e.msg, "mem.gguf: ", 10) == 0);
    }
}

static uint64_t rnd(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void mutated(void **state)
{
    (void)state;
    const char *env = getenv("HEARTH_TEST_SEED");
    uint64_t seed = env ? strtoull(env, NULL, 10) : 20260101, s = seed * 2 + 1;
    static const uint64_t edge[] = {0,
                                    1,
                                    2,
                                    0x7f,
                                    0xff,
                                    0xffff,
                                    0x7fffffff,
                                    0xffffffff,
                                    (uint64_t)1 << 32,
                                    (uint64_t)1 << 61,
                                    INT64_MAX,
                                    UINT64_MAX - 31,
                                    UINT64_MAX};
    const size_t head = tiny.n - 106368; /* before the tensor data */
    char *p = exact(tiny.p, tiny.n);
    size_t ok = 0, turns = SANITIZED ? 5000 : 20000;
    print_message("seed %llu (HEARTH_TEST_SEED), %zu mutations\n", (unsigned long long)seed, turns);
    for (size_t i = 0; i < turns; i++) {
        struct err e = {0};
        for (uint64_t k = 1 + rnd(&s) % 3; k > 0; k--) {
            size_t at = rnd(&s) % head;
            switch (rnd(&s) % 4) {
            case 0: p[at] ^= (char)(1 << rnd(&s) % 8); break;
            case 1: p[at] = (char)rnd(&s); break;
            case 2: memcpy(p + at, &edge[rnd(&s) % ARRAY_LEN(edge)], 8); break;
            default: memmove(p + at, p + rnd(&s) % head, 1 + rnd(&s) % 24); break;
            }
        }
        int rc = load_mem(p, tiny.n, &e);
        ok += rc == OK;
        if (rc < 0) {
            assert_true(e.msg[0] != 0);
            assert_null(strchr(e.msg, '\n'));
        }
        memcpy(p, tiny.p, head + 64);
    }
    mem_free(p);
    print_message("%zu of %zu still load\n", ok, turns);
    assert_true(ok > 0 && ok < turns);
    assert_true(SANITIZED || os_peak_rss() < 200u << 20);
}

/* A child with 64 MiB of address space to spare opens a file whose counts lie; returns its exit code: 1 refused as malformed. */
static int open_in_little_memory(const struct buf *b)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err e = {0};
#if !SANITIZED
        FILE *f = fopen("/proc/self/statm", "r");
        unsigned long pages = 0;
        if (!f || fscanf(f, "%lu", &pages) != 1) _exit(9);
        fclose(f);
        struct rlimit lim = {pages * 4096 + (64u << 20), pages * 4096 + (64u << 20)};
        if (setrlimit(RLIMIT_AS, &lim) != 0) _exit(8);
#endif
        int rc = load_mem(b->p, b->n, &e);
        _exit(rc == OK ? 0 : rc == E_FORMAT ? 1 : 2);
    }
    int st;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    assert_true(WIFEXITED(st));
    return WEXITSTATUS(st);
}

static void forged_counts(void **state)
{
    (void)state;
    static const uint64_t n[] = {
        21, 1000, 8192, 1 << 20, 0xffffffff, (uint64_t)1 << 40, (uint64_t)1 << 61, UINT64_MAX / 14, UINT64_MAX};
    struct buf b = {0};
    for (size_t i = 0; i < ARRAY_LEN(n); i++) {
        for (size_t at = 8; at <= 16; at += 8) { /* tensor count, metadata count */
            buf_clear(&b);
            buf_put(&b, tiny.p, tiny.n);
            memcpy(b.p + at, &n[i], 8);
            assert_int_equal(open_in_little_memory(&b), 1);
        }
        struct gm m;
        for (uint32_t elem = 0; elem < GGUF_TYPE_N;
             elem++) { /* an array of n elements at the end of the metadata, 48 bytes there */
            gm_tiny(&m, "llama", 1);
            const uint32_t n_t = m.n_t;
            m.n_t = 1; /* a short file */
            struct buf *v = gm_arr(&m, "x.y", elem, MAX(n[i], 20000u));
            for (int k = 0; k < 6; k++) gm_put_u64(v, 0);
            gm_build(&m, &b);
            assert_int_equal(open_in_little_memory(&b), 1);
            m.n_t = n_t;
            gm_free(&m);
        }
    }
    buf_free(&b);
}

static void no_memory(void **state)
{
    (void)state;
    uint64_t k = 1;
    int rc;
    do {
        struct err e = {0};
        mem_fail_after(k++);
        rc = load_mem(tiny.p, tiny.n, &e);
        mem_fail_after(0);
        if (rc != OK) assert_int_equal(rc, E_NOMEM);
        assert_true(k < 10000);
    } while (rc != OK);
    assert_true(k > 5);
}

static void refusals(void **state)
{
    (void)state;
    struct gm m;
    struct buf *b;
    struct gm_t *t;
    static const uint64_t bad_align[] = {0, 1, 2, 3, 4, 24, 33, 1u << 25};
    static const struct {
        uint32_t type;
        const char *name;
    } types[] = {{10, "Q2_K"}, {11, "Q3_K"}, {20, "IQ4_NL"}, {23, "IQ4_XS"}, {39, "MXFP4"}, {26, "I32"}, {4, "Q4_2"}};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        char want[100];
        gm_tiny(&m, "llama", 1);
        gm_tensor(&m, "blk.0.ffn_up.weight", types[i].type, 32, 64, 8192);
        snprintf(want, sizeof want, "tensor blk.0.ffn_up.weight: type %s is not supported", types[i].name);
        refused(&m, E_UNSUP, want);
        gm_free(&m);
    }
    gm_tiny(&m, "llama", 1);
    gm_tensor(&m, "blk.0.ffn_up.weight", 4711, 32, 64, 8192);
    refused(&m, E_UNSUP, "tensor blk.0.ffn_up.weight: unknown type number 4711");
    gm_free(&m);
    for (size_t i = 0; i < ARRAY_LEN(bad_align); i++) {
        gm_tiny(&m, "llama", 1);
        gm_u32(&m, "general.alignment", (uint32_t)bad_align[i]);
        refused(&m, E_FORMAT, "general.alignment is");
        gm_free(&m);
    }
    gm_tiny(&m, "llama", 1);
    gm_str(&m, "general.alignment", "32");
    refused(&m, E_FORMAT, "key general.alignment: string where an integer is wanted");
    gm_free(&m);

    /* names */
    static const struct {
        const char *key, *want;
    } keys[] = {{"a\nb", "control character in a metadata key"},
                {"\xff\xfe", "a metadata key at byte 24 is not UTF-8"},
                {"", "a metadata key of 0 bytes"}};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        gm_init(&m);
        gm_u32(&m, keys[i].key, 1);
        gm_tensor(&m, "t", 0, 32, 0, 128);
        refused(&m, E_FORMAT, keys[i].want);
        gm_free(&m);
        gm_init(&m);
        gm_tensor(&m, keys[i].key, 0, 32, 0, 128);
        refused(&m, E_FORMAT, "a tensor name");
        gm_free(&m);
    }

    /* values */
    gm_tiny(&m, "llama", 1);
    gm_bool(&m, "a.b", 2);
    refused(&m, E_FORMAT, "key a.b: bool of value 2");
    b = gm_arr(&m, "a.b", GGUF_BOOL, 3);
    buf_put(b, "\1\0\7", 3);
    refused(&m, E_FORMAT, "key a.b: bool of value 7");
    gm_raw(&m, "a.b", GGUF_TYPE_N, "12345678", 8);
    refused(&m, E_FORMAT, "key a.b: unknown value type 13");
    gm_arr(&m, "a.b", GGUF_TYPE_N, 0);
    refused(&m, E_FORMAT, "key a.b: array of unknown type 13");
    b = gm_arr(&m, "a.b", GGUF_ARR, 1);
    gm_put_u32(b, GGUF_U8);
    gm_put_u64(b, 0);
    refused(&m, E_FORMAT, "key a.b: array of arrays");
    b = gm_arr(&m, "a.b", GGUF_U64, (UINT64_MAX / 8) + 2); /* 8 bytes when the product wraps */
    gm_put_u64(b, 0);
    refused(&m, E_FORMAT, "key a.b: array of 2305843009213693953 x u64");
    b = gm_arr(&m, "a.b", GGUF_STR, 2);
    gm_put_str(b, "one", 3);
    gm_put_u64(b, 1 << 30);
    refused(&m, E_FORMAT, "key a.b: string 1 of 2 goes past the end");
    gm_free(&m);

    gm_tiny(&m, "llama", 1);
    gm_u32(&m, "a.b", 1);
    gm_u32(&m, "a.c", 1);
    m.kv[m.n_kv - 1].key[2] = 'b';
    refused(&m, E_FORMAT, "key a.b: given twice");
    gm_free(&m);

    /* tensors */
    gm_tiny(&m, "llama", 1);
    gm_tensor(&m, "z", 8, 48, 2, 3 * 34);
    refused(&m, E_FORMAT, "tensor z: rows of 48 values, q8_0 needs a multiple of 32");
    gm_tensor(&m, "z", 14, 128, 2, 210);
    refused(&m, E_FORMAT, "tensor z: rows of 128 values, q6_k needs a multiple of 256");
    t = gm_tensor(&m, "z", 0, 32, 1, 128);
    t->n_dim = 0;
    refused(&m, E_FORMAT, "tensor z: 0 dimensions");
    t->n_dim = 2;
    t->dim[1] = (uint64_t)1 << 58; /* 2^63 values */
    refused(&m, E_FORMAT, "tensor z: dimension 1 of 288230376151711744 makes the size overflow");
    t->dim[1] = (uint64_t)1 << 57; /* 2^62 values of 4 bytes */
    refused(&m, E_FORMAT, "tensor z: 4611686018427387904 values of f32 overflow");
    t->dim[1] = 2;
    refused(&m, E_FORMAT, "tensor z: 256 bytes at offset");
    t->dim[1] = 1;
    t->off = 16;
    refused(&m, E_FORMAT, "tensor z: offset 16 is not a multiple of the alignment 32");
    t->off = 32;
    refused(&m, E_FORMAT, "share bytes");
    gm_free(&m);
    gm_tiny(&m, "llama", 1);
    m.version = 1;
    refused(&m, E_UNSUP, "GGUF version 1; versions 2 and 3 are read");
    m.version = 0x02000000;
    refused(&m, E_UNSUP, "big-endian GGUF (version 2 byte-swapped)");
    gm_free(&m);
    struct gguf g;
    struct err e = {0};
    _Alignas(16) char odd[64] = {0};
    assert_int_equal(gguf_open_mem(&g, "x", odd + 4, 32, &e), E_ARG);
    assert_int_equal(gguf_open(&g, "/nonexistent/x.gguf", &e), E_IO);
    assert_true(strncmp(e.msg, "/nonexistent/x.gguf: ", 21) == 0);
    gguf_close(&g); /* harmless after a failure */
}

static void reads_all_types(void **state)
{
    (void)state;
    struct gm m;
    struct gguf g;
    struct err e = {0};
    struct buf b = {0}, txt = {0};
    static const uint32_t aligns[] = {8, 32, 64, 4096};
    for (size_t a = 0; a < ARRAY_LEN(aligns) + 1; a++) {
        gm_init(&m);
        if (a < ARRAY_LEN(aligns)) gm_u32(&m, "general.alignment", aligns[a]);
        m.align = a < ARRAY_LEN(aligns) ? aligns[a] : 32;
        m.version = a % 2 ? 2 : 3;
        for (unsigned t = 0; t < DT_N; t++) {
            const struct dtype_info *d = &dtype_table[t];
            gm_tensor(&m, d->name, d->gguf_id, d->block * 2, 3, (size_t)d->bytes * 6);
        }
        gm_build(&m, &b);
        void *p = exact(b.p, b.n);
        assert_int_equal(gguf_open_mem(&g, "x.gguf", p, b.n, &e), OK);
        assert_int_equal(g.n_t, DT_N);
        assert_int_equal(g.n_file, 1);
        assert_int_equal(g.alignment, m.align);
        assert_int_equal(g.version, m.version);
        uint64_t sum = 0;
        for (unsigned t = 0; t < DT_N; t++) {
            const struct gguf_tensor *x = gguf_tensor_find(&g, dtype_table[t].name);
            assert_non_null(x);
            assert_ptr_equal(x, &g.t[t]);
            assert_int_equal(x->dt, t);
            assert_int_equal(x->n_elem, dtype_table[t].block * 6);
            assert_int_equal(x->bytes, dtype_table[t].bytes * 6);
            assert_int_equal(x->dim[2] * x->dim[3], 1);
            assert_int_equal((uintptr_t)(x->data - (const uint8_t *)p) % m.align, 0);
            assert_memory_equal(x->data, m.t[t].data.p, x->bytes);
            sum += x->bytes;
        }
        assert_int_equal(g.tensor_bytes, sum);
        assert_null(gguf_tensor_find(&g, "nosuch"));
        assert_null(gguf_tensor_find(&g, ""));
        gguf_close(&g);
        mem_free(p);
        gm_free(&m);
    }
    buf_free(&b);
    buf_free(&txt);
}

static void typed_values(void **state)
{
    (void)state;
    struct gm m;
    struct gguf g;
    struct err e = {0};
    struct buf b = {0}, txt = {0}, *v;
    const int16_t i16 = -300;
    const int64_t i64 = INT64_MIN;
    const uint64_t u64 = UINT64_MAX;
    const double f64 = 1.0 / 3, nan = __builtin_nan("");
    const uint16_t u16 = 65535;
    const int32_t i32 = 77;
    gm_init(&m);
    gm_raw(&m, "u8", GGUF_U8, "\xc8", 1);
    gm_raw(&m, "i8", GGUF_I8, "\xc8", 1);
    gm_raw(&m, "u16", GGUF_U16, &u16, 2);
    gm_raw(&m, "i16", GGUF_I16, &i16, 2);
    gm_u32(&m, "u32", 4000000000u);
    gm_raw(&m, "i32", GGUF_I32, &i32, 4);
    gm_f32(&m, "f32", 1e-5f);
    gm_bool(&m, "bool", 1);
    gm_str(&m, "str", "h\xc3\xa9llo");
    gm_raw(&m, "u64", GGUF_U64, &u64, 8);
    gm_raw(&m, "i64", GGUF_I64, &i64, 8);
    gm_raw(&m, "f64", GGUF_F64, &f64, 8);
    gm_raw(&m, "nan", GGUF_F64, &nan, 8);
    v = gm_arr(&m, "strs", GGUF_STR, 3);
    gm_put_str(v, "a", 1);
    gm_put_str(v, "", 0);
    gm_put_str(v, "\0\xff", 2);
    v = gm_arr(&m, "ints", GGUF_I32, 2);
    gm_put_u32(v, 5);
    gm_put_u32(v, (uint32_t)-6);
    v = gm_arr(&m, "uints", GGUF_U32, 1);
    gm_put_u32(v, 9);
    v = gm_arr(&m, "floats", GGUF_F32, 2);
    buf_put(v, "\0\0\x80\x3f\0\0\0\xc0", 8);
    gm_arr(&m, "none", GGUF_F32, 0);
    gm_build(&m, &b);
    void *p = exact(b.p, b.n);
    assert_int_equal(gguf_open_mem(&g, "x.gguf", p, b.n, &e), OK);
    assert_int_equal(g.n_t, 0);

    uint64_t x = 42;
    assert_int_equal(gguf_u64(&g, "nosuch", 0, UINT64_MAX, &x, &e), 0);
    assert_int_equal(x, 42);
    static const struct {
        const char *key;
        uint64_t v;
    } good[] = {{"u8", 200}, {"u16", 65535}, {"u32", 4000000000u}, {"i32", 77}, {"u64", UINT64_MAX}};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(gguf_u64(&g, good[i].key, good[i].v, good[i].v, &x, &e), 1);
        assert_true(x == good[i].v);
        assert_int_equal(gguf_u64(&g, good[i].key, 0, good[i].v - 1, &x, &e), E_FORMAT);
    }
    assert_int_equal(gguf_u64(&g, "i8", 0, UINT64_MAX, &x, &e), E_FORMAT);
    assert_string_equal(e.msg, "x.gguf: key i8: -56; 0 to 18446744073709551615 is wanted");
    assert_int_equal(gguf_u64(&g, "i16", 0, UINT64_MAX, &x, &e), E_FORMAT);
    assert_int_equal(gguf_u64(&g, "i64", 0, UINT64_MAX, &x, &e), E_FORMAT);
    assert_string_equal(e.msg, "x.gguf: key i64: -9223372036854775808; 0 to 18446744073709551615 is wanted");
    assert_int_equal(gguf_u64(&g, "i32", 78, 100, &x, &e), E_FORMAT);
    assert_string_equal(e.msg, "x.gguf: key i32: 77; 78 to 100 is wanted");
    assert_int_equal(gguf_u64(&g, "f32", 0, 100, &x, &e), E_FORMAT);
    assert_string_equal(e.msg, "x.gguf: key f32: f32 where an integer is wanted");
    assert_int_equal(gguf_u64(&g, "ints", 0, 100, &x, &e), E_FORMAT);
    assert_string_equal(e.msg, "x.gguf: key ints: array of i32 where an integer is wanted");
    assert_int_equal(gguf_u64(&g, "bool", 0, 100, &x, &e), E_FORMAT);

    double d = 0;
    assert_int_equal(gguf_f64(&g, "f32", &d, &e), 1);
    assert_true(d == (double)1e-5f);
    assert_int_equal(gguf_f64(&g, "f64", &d, &e), 1);
    assert_true(d == f64);
    assert_int_equal(gguf_f64(&g, "nosuch", &d, &e), 0);
    assert_int_equal(gguf_f64(&g, "nan", &d, &e), E_FORMAT);
    assert_int_equal(gguf_f64(&g, "u32", &d, &e), E_FORMAT);
    assert_int_equal(gguf_f64(&g, "floats", &d, &e), E_FORMAT);

    bool y = false;
    assert_int_equal(gguf_bool(&g, "bool", &y, &e), 1);
    assert_true(y);
    assert_int_equal(gguf_bool(&g, "u8", &y, &e), E_FORMAT);
    struct str s;
    assert_int_equal(gguf_str(&g, "str", &s, &e), 1);
    assert_true(str_eq(s, "h\xc3\xa9llo"));
    assert_int_equal(gguf_str(&g, "strs", &s, &e), E_FORMAT);
    assert_string_equal(e.msg, "x.gguf: key strs: array of string where a string is wanted");

    const struct gguf_kv *kv;
    assert_int_equal(gguf_arr(&g, "strs", GGUF_STR, &kv, &e), 1);
    const uint8_t *cur = kv->p;
    assert_int_equal(kv->n, 3);
    assert_true(str_eq(gguf_next_str(&cur), "a"));
    assert_int_equal(gguf_next_str(&cur).n, 0);
    s = gguf_next_str(&cur);
    assert_int_equal(s.n, 2);
    assert_memory_equal(s.p, "\0\xff", 2);
    assert_int_equal(gguf_arr(&g, "ints", GGUF_I32, &kv, &e), 1);
    assert_int_equal(gguf_arr_i32(kv, 0), 5);
    assert_int_equal(gguf_arr_i32(kv, 1), -6);
    assert_int_equal(gguf_arr(&g, "uints", GGUF_I32, &kv, &e), 1);
    assert_int_equal(gguf_arr_i32(kv, 0), 9);
    assert_int_equal(gguf_arr(&g, "floats", GGUF_F32, &kv, &e), 1);
    assert_true(gguf_arr_f32(kv, 0) == 1.0f && gguf_arr_f32(kv, 1) == -2.0f);
    assert_int_equal(gguf_arr(&g, "none", GGUF_F32, &kv, &e), 1);
    assert_int_equal(kv->n, 0);
    assert_int_equal(gguf_arr(&g, "floats", GGUF_STR, &kv, &e), E_FORMAT);
    assert_string_equal(e.msg, "x.gguf: key floats: array of f32 where an array of string is wanted");
    assert_int_equal(gguf_arr(&g, "str", GGUF_STR, &kv, &e), E_FORMAT);
    assert_int_equal(gguf_arr(&g, "nosuch", GGUF_STR, &kv, &e), 0);

    static const char *const keys[] = {"u8", "i8", "i16", "f32", "f64", "bool", "i64", "str"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        gguf_put_number(&txt, gguf_find(&g, keys[i]), 0);
        buf_putc(&txt, ' ');
    }
    gguf_put_number(&txt, gguf_find(&g, "ints"), 1);
    gguf_put_number(&txt, gguf_find(&g, "ints"), 2); /* past the end: nothing */
    assert_string_equal(txt.p, "200 -56 -300 9.99999975e-06 0.33333333333333331 true -9223372036854775808  -6");
    for (unsigned t = 0; t < GGUF_TYPE_N; t++) assert_non_null(gguf_type_name((enum gguf_type)t));
    gguf_close(&g);
    mem_free(p);
    buf_free(&b);
    buf_free(&txt);
    gm_free(&m);
}

/* ---- split files */

static struct gm sm;
static struct buf part[3];

static void split_keys(uint16_t no, uint16_t count, int32_t tensors)
{
    gm_raw(&sm, "split.no", GGUF_U16, &no, 2);
    gm_raw(&sm, "split.count", GGUF_U16, &count, 2);
    gm_raw(&sm, "split.tensors.count", GGUF_I32, &tensors, 4);
}
static void split_write(const char *prefix, uint32_t i, uint32_t n)
{
    char name[100], path[200];
    snprintf(name, sizeof name, "%s-%05u-of-%05u.gguf", prefix, i + 1, n);
    gm_write(name, &part[i], path);
}
static const char *split_path(const char *prefix, uint32_t i, uint32_t n)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s-%05u-of-%05u.gguf", gm_dir(), prefix, i + 1, n);
    return path;
}
static void split_refused(const char *prefix, uint32_t i, const char *want)
{
    struct err e = {0};
    struct gguf g;
    int rc = gguf_open(&g, split_path(prefix, i, 3), &e);
    if (rc >= 0 || !strstr(e.msg, want)) fail_msg("%d '%s' has no '%s'", rc, e.msg, want);
}

static void split_files(void **state)
{
    (void)state;
    struct err e = {0};
    struct gguf g, whole;
    struct buf b = {0};
    gm_tiny(&sm, "llama", 2);
    const uint32_t n = sm.n_t, from[4] = {0, 1, 12, n};
    gm_build(&sm, &b);
    assert_int_equal(gguf_open_mem(&whole, "w", b.p, b.n, &e), OK);
    for (uint16_t i = 0; i < 3; i++) {
        if (i > 0) { /* later parts carry nothing but who they are */
            for (uint32_t k = 0; k < sm.n_kv; k++) buf_free(&sm.kv[k].val);
            sm.n_kv = 0;
        }
        split_keys(i, 3, (int32_t)n);
        gm_build_part(&sm, from[i], from[i + 1], &part[i]);
        split_write("m", i, 3);
    }
    for (uint32_t i = 0; i < 3; i++) {
        int rc = gguf_open(&g, split_path("m", i, 3), &e);
        if (rc < 0) fail_msg("%s", e.msg);
        assert_int_equal(g.n_file, 3);
        assert_int_equal(g.n_t, n);
        assert_int_equal(g.tensor_bytes, whole.tensor_bytes);
        assert_int_equal(g.n_kv, whole.n_kv + 3); /* the first part's */
        assert_string_equal(g.path, split_path("m", 0, 3));
        assert_string_equal(g.file_path[2], split_path("m", 2, 3));
        for (uint32_t k = 0; k < n; k++) {
            const struct gguf_tensor *w = &whole.t[k];
            char name[80];
            snprintf(name, sizeof name, "%.*s", (int)w->name.n, w->name.p);
            const struct gguf_tensor *t = gguf_tensor_find(&g, name);
            assert_non_null(t);
            assert_int_equal(t->file, k < from[1] ? 0 : k < from[2] ? 1 : 2);
            assert_int_equal(t->bytes, w->bytes);
            assert_memory_equal(t->data, w->data, w->bytes);
        }
        assert_int_equal(load_parts(&g, &e), OK);
        gguf_close(&g);
    }
    assert_int_equal(gguf_open_mem(&g, "m.gguf", part[1].p, part[1].n, &e), E_UNSUP);
    assert_string_equal(e.msg, "m.gguf: part 2 of 3 of a split file");

    /* a missing part is named */
    split_write("a", 0, 3);
    split_write("a", 1, 3);
    split_refused("a", 1, "a-00003-of-00003.gguf: cannot open");
    /* two parts in each other's place */
    struct buf t = part[1];
    split_write("b", 0, 3);
    part[1] = part[2];
    split_write("b", 1, 3);
    part[1] = t;
    split_write("b", 2, 3);
    split_refused("b", 0, "says that it is part 3 of 3, its name says 2 of 3");
    /* opened through a later part, whose first part is a later one */
    t = part[0];
    part[0] = part[2];
    split_write("c", 0, 3);
    part[0] = t;
    split_write("c", 1, 3);
    split_write("c", 2, 3);
    split_refused("c", 1, "its name must end in -00003-of-00003.gguf");
    /* a name that is no part's */
    char path[200];
    gm_write("whole.gguf", &part[0], path);
    assert_int_equal(gguf_open(&g, path, &e), E_FORMAT);
    assert_non_null(strstr(e.msg, "its name must end in -00001-of-00003.gguf"));
    /* a tensor in two parts; a total that lies; counts that lie */
    split_keys(2, 3, (int32_t)n);
    gm_build_part(&sm, from[2] - 1, n - 1, &part[2]);
    for (uint32_t i = 0; i < 3; i++) split_write("d", i, 3);
    split_refused("d", 0, "given twice");
    gm_build_part(&sm, from[2], n - 1, &part[2]);
    for (uint32_t i = 0; i < 3; i++) split_write("e", i, 3);
    split_refused("e", 0, "split.tensors.count is 21, the parts hold 20");
    split_keys(3, 3, (int32_t)n);
    gm_build_part(&sm, from[2], n, &part[2]);
    for (uint32_t i = 0; i < 3; i++) split_write("f", i, 3);
    split_refused("f", 0, "key split.no: 3; 0 to 2 is wanted");
    split_keys(2, 65535, (int32_t)n);
    gm_build_part(&sm, from[2], n, &part[2]);
    for (uint32_t i = 0; i < 3; i++) split_write("g", i, 3);
    split_refused("g", 2, "split.count is 65535; at most 9999 parts are read");
    gm_drop(&sm, "split.no");
    split_refused("g", 0, "split.count is 65535");
    /* the last part is cut short */
    split_keys(2, 3, (int32_t)n);
    gm_build_part(&sm, from[2], n, &part[2]);
    part[2].n -= 8;
    for (uint32_t i = 0; i < 3; i++) split_write("h", i, 3);
    split_refused("h", 0, "h-00003-of-00003.gguf: tensor blk.1.");

    gguf_close(&whole);
    gm_free(&sm);
    buf_free(&b);
    for (uint32_t i = 0; i < 3; i++) buf_free(&part[i]);
}

/* ---- sizes and names */

static void many_names(void **state)
{
    (void)state;
    /* 200,000 keys, all of one length, in the worst order for a naive structure: a linear or quadratic step would show */
    struct buf b = {0};
    struct err e = {0};
    struct gguf g;
    const uint32_t n = 200000;
    buf_put(&b, "GGUF", 4);
    gm_put_u32(&b, 3);
    gm_put_u64(&b, 0);
    gm_put_u64(&b, n);
    for (uint32_t i = 0; i < n; i++) {
        char key[40];
        int k = snprintf(key, sizeof key, "some.key.with.a.prefix.%08u", n - i);
        gm_put_str(&b, key, (size_t)k);
        gm_put_u32(&b, GGUF_U32);
        gm_put_u32(&b, i);
    }
    uint64_t t0 = os_now_ns();
    assert_int_equal(gguf_open_mem(&g, "x.gguf", b.p, b.n, &e), OK);
    uint64_t ns = os_now_ns() - t0;
    print_message("%u keys in %.0f ms\n", n, (double)ns / 1e6);
    assert_true(ns < 1000000000u * (SANITIZED ? 5 : 1));
    uint64_t v;
    assert_int_equal(gguf_u64(&g, "some.key.with.a.prefix.00000001", 0, n, &v, &e), 1);
    assert_int_equal(v, n - 1);
    assert_int_equal(gguf_u64(&g, "some.key.with.a.prefix.00200000", 0, n, &v, &e), 1);
    assert_int_equal(v, 0);
    assert_null(gguf_find(&g, "some.key.with.a.prefix.00200001"));
    gguf_close(&g);
    buf_free(&b);
}

static void long_paths(void **state)
{
    (void)state;
    char path[400], show[96];
    struct err e = {0};
    memset(path, 'd', sizeof path);
    memcpy(path, "/tmp/", 5);
    path[250] = '/';
    strcpy(path + 300, "/the-model.gguf");
    assert_string_equal(gguf_show_path("short.gguf", show), "short.gguf");
    const char *s = gguf_show_path(path, show);
    assert_true(strlen(s) <= 95 && strncmp(s, "...", 3) == 0 && strstr(s, "/the-model.gguf"));
    struct gguf g;
    assert_int_equal(gguf_open_mem(&g, path, NULL, 0, &e), E_FORMAT);
    assert_non_null(strstr(e.msg, "/the-model.gguf: empty file"));
}

static void vocabulary_only(void **state)
{
    (void)state;
    const char *shared = getenv("HEARTH_SHARED");
    static const char *const names[] = {"gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2"};
    static const uint64_t tokens[] = {50257, 128256, 32000, 32064, 151936};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[300];
        struct gguf g;
        struct err e = {0};
        snprintf(path, sizeof path, "%s/data/tokenizer/ggml-vocab-%s.gguf", shared ? shared : "../shared", names[i]);
        if (!os_is_file(path)) {
            print_message("%s is not there (HEARTH_SHARED)\n", path);
            skip();
        }
        const struct gguf_kv *kv;
        assert_int_equal(gguf_open(&g, path, &e), OK);
        assert_int_equal(g.n_t, 0);
        assert_int_equal(gguf_arr(&g, "tokenizer.ggml.tokens", GGUF_STR, &kv, &e), 1);
        assert_int_equal(kv->n, tokens[i]);
        assert_int_equal(load_parts(&g, &e), OK);
        gguf_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(hostile_files),   cmocka_unit_test(cut_anywhere), cmocka_unit_test(mutated),
        cmocka_unit_test(forged_counts),   cmocka_unit_test(no_memory),    cmocka_unit_test(refusals),
        cmocka_unit_test(reads_all_types), cmocka_unit_test(typed_values), cmocka_unit_test(split_files),
        cmocka_unit_test(many_names),      cmocka_unit_test(long_paths),   cmocka_unit_test(vocabulary_only),
    };
    return cmocka_run_group_tests_name("gguf", t, setup, teardown);
}
