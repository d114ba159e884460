/* The table of element types, and every block format against what gguf-py 0.19.0 dequantised (tests/data/quants; also equal to
 * ggml's C). */
#include "base/buf.h"
#include "base/half.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "model/dtype.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define DIR "tests/data/quants/"

static void blocks_bit_for_bit(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf js = {0};
    assert_int_equal(os_read_file(&js, DIR "index.json", 1 << 20, &e), OK);
    json_t *root;
    assert_int_equal(json_parse(&root, js.p, js.n, 0, DIR "index.json", &e), OK);
    size_t i, seen = 0;
    json_t *o;
    json_array_foreach(root, i, o)
    {
        struct str type;
        uint64_t id, rows, cols, row_bytes;
        assert_int_equal(json_get_str(o, "type", &type, &e), 1);
        assert_int_equal(json_get_u64(o, "ggml_type_id", 0, 1000, &id, &e), 1);
        assert_int_equal(json_get_u64(o, "rows", 1, 1000, &rows, &e), 1);
        assert_int_equal(json_get_u64(o, "cols", 1, 100000, &cols, &e), 1);
        assert_int_equal(json_get_u64(o, "bytes_per_row", 1, 1000000, &row_bytes, &e), 1);
        enum dtype t = dtype_of_gguf((uint32_t)id);
        assert_int_not_equal(t, DT_NONE);
        assert_int_equal(dtype_row_bytes(t, cols), row_bytes);
        char path[200];
        struct buf q = {0}, want = {0};
        snprintf(path, sizeof path, DIR "%.*s.q", (int)type.n, type.p);
        assert_int_equal(os_read_file(&q, path, 1 << 20, &e), OK);
        snprintf(path, sizeof path, DIR "%.*s.f32", (int)type.n, type.p);
        assert_int_equal(os_read_file(&want, path, 1 << 20, &e), OK);
        assert_int_equal(q.n, rows * row_bytes);
        assert_int_equal(want.n, rows * cols * 4);
        float *y = mem_alloc(rows * cols + 1, 4);
        y[rows * cols] = 12345.0f; /* nothing may be written past the last value */
        dtype_table[t].dequant(y, q.p, rows * cols);
        for (size_t k = 0; k < rows * cols; k++) {
            float w;
            memcpy(&w, want.p + 4 * k, 4);
            if (f32_bits(y[k]) != f32_bits(w)) fail_msg("%s value %zu: %a, want %a", path, k, (double)y[k], (double)w);
        }
        assert_true(y[rows * cols] == 12345.0f);
        /* the same from an odd address, one block alone */
        uint8_t *odd = mem_alloc(dtype_table[t].bytes + 1, 1);
        memcpy(odd + 1, q.p, dtype_table[t].bytes);
        dtype_table[t].dequant(y, odd + 1, dtype_table[t].block);
        assert_memory_equal(y, want.p, dtype_table[t].block * 4);
        mem_free(odd);
        mem_free(y);
        buf_free(&q);
        buf_free(&want);
        seen |= (size_t)1 << t;
    }
    json_decref(root);
    buf_free(&js);
    assert_int_equal(seen | 1u << DT_F32, (1u << DT_N) - 1); /* each type but F32, which is a copy, has a reference */
    float in[3] = {1.5f, -0.0f, 3e-42f}, out[3];
    dtype_table[DT_F32].dequant(out, in, 3);
    assert_memory_equal(in, out, sizeof in);
}

static void table(void **state)
{
    (void)state;
    for (unsigned t = 0; t < DT_N; t++) {
        const struct dtype_info *d = &dtype_table[t];
        assert_non_null(d->name);
        assert_non_null(d->dequant);
        assert_true(d->block >= 1 && d->bytes >= 2);
        assert_int_equal(dtype_of_gguf(d->gguf_id), t);
        assert_int_equal(dtype_by_name(d->name), t);
        const char *g = dtype_gguf_name(d->gguf_id); /* the specification's name is ours in capitals */
        assert_non_null(g);
        assert_int_equal(strcasecmp(g, d->name), 0);
        assert_string_equal(dtype_name((enum dtype)t), d->name);
    }
    assert_string_equal(dtype_name(DT_NONE), "none");
    assert_int_equal(dtype_by_name("q9_9"), DT_NONE);
    assert_int_equal(dtype_of_gguf(10), DT_NONE);
    assert_int_equal(dtype_of_gguf(0xffffffff), DT_NONE);
    static const struct {
        uint32_t id;
        const char *name;
    } known[] = {{10, "Q2_K"}, {11, "Q3_K"}, {20, "IQ4_NL"}, {23, "IQ4_XS"}, {26, "I32"},
                 {28, "F64"},  {30, "BF16"}, {35, "TQ2_0"},  {39, "MXFP4"}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) assert_string_equal(dtype_gguf_name(known[i].id), known[i].name);
    assert_null(dtype_gguf_name(200));
    assert_null(dtype_gguf_name(0xffffffff));
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(blocks_bit_for_bit), cmocka_unit_test(table)};
    return cmocka_run_group_tests_name("dtype", t, NULL, NULL);
}
