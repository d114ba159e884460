/* Machine limits: every level this machine has gives plausible, ordered figures; bad requests and missing memory are refused. */
#include "base/mem.h"
#include "base/os.h"
#include "kern/limits.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void every_level(void **state)
{
    (void)state;
    struct err e = {0};
    struct pool *p;
    assert_int_equal(pool_open(&p, MIN(os_n_cpu(), 4u), false, &e), OK);
    for (int l = 0; l <= (int)kern_cpu_isa(); l++) {
        struct limits_run *r;
        assert_int_equal(limits_open(&r, p, (enum isa)l, (size_t)32 << 20, &e), OK);
        limits_round(r);
        struct limits a, b;
        limits_get(r, &a);
        assert_true(a.read_gbs > 0.05 && a.read_gbs < 1e5);
        assert_true(a.f32_gflops > 0.05 && a.f32_gflops < 1e7);
        assert_true(a.bf16_gflops > 0 && a.int8_gops > 0 && a.join_ns > 0);
        assert_int_equal(a.vnni_gops > 0, l >= ISA_AVX512VNNI);
        assert_int_equal(a.vbf16_gflops > 0, l >= ISA_AVX512BF16);
        if (l < ISA_AVX512BF16) assert_true(a.bf16_gflops == a.f32_gflops);
        if (l < ISA_AVX512VNNI) assert_true(a.int8_gops == a.f32_gflops);
        limits_round(r); /* the best of all rounds never falls */
        limits_get(r, &b);
        assert_true(b.read_gbs >= a.read_gbs && b.f32_gflops >= a.f32_gflops && b.bf16_gflops >= a.bf16_gflops &&
                    b.int8_gops >= a.int8_gops);
        assert_true(b.join_ns <= a.join_ns);
        limits_close(r);
    }
    pool_close(p);
}

static void alone_and_refused(void **state)
{
    (void)state;
    struct err e = {0};
    struct limits_run *r;
    assert_int_equal(limits_open(&r, NULL, ISA_REF, (size_t)4 << 20, &e), OK);
    limits_round(r);
    limits_close(r);
    limits_close(NULL);
    assert_int_equal(limits_open(&r, NULL, ISA_REF, 1000, &e), E_NOMEM);
    assert_null(r);
    for (uint64_t k = 1; k <= 2; k++) {
        mem_fail_after(k);
        assert_int_equal(limits_open(&r, NULL, ISA_REF, (size_t)4 << 20, &e), E_NOMEM);
        assert_null(r);
        mem_fail_after(0);
    }
    if (kern_cpu_isa() < ISA_AMX) assert_int_equal(limits_open(&r, NULL, ISA_AMX, 0, &e), E_UNSUP);
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(every_level), cmocka_unit_test(alone_and_refused)};
    return cmocka_run_group_tests(t, NULL, NULL);
}
