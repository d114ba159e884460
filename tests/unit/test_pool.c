#include "base/pool.h"
#include "base/os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <cmocka.h>

struct job {
    _Atomic uint32_t hit[300];
    uint64_t sum;
    uint64_t part[300];
};
static void piece(void *ud, uint32_t i, uint32_t n, uint32_t w)
{
    struct job *j = ud;
    assert_true(i < n && w < 8);
    atomic_fetch_add_explicit(&j->hit[i], 1, memory_order_relaxed);
    j->part[i] = (uint64_t)i * 3 + j->sum; /* reads what the caller wrote just before */
}

static void every_piece_once(void **st)
{
    (void)st;
    for (uint32_t t = 1; t <= 4; t++) {
        struct pool *p;
        struct err e;
        assert_int_equal(pool_open(&p, t, false, &e), OK);
        assert_int_equal(pool_size(p), t);
        static struct job j;
        for (uint32_t r = 0; r < 3000; r++) {
            uint32_t n = r % 257;
            j.sum = r;
            for (uint32_t i = 0; i < n; i++) {
                j.hit[i] = 0;
                j.part[i] = 0;
            }
            pool_run(p, piece, &j, n);
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(j.hit[i], 1);
                assert_int_equal(j.part[i], (uint64_t)i * 3 + r); /* visible without another fence */
            }
        }
        pool_close(p);
    }
}

static void sleeping_workers_wake(void **st)
{
    (void)st;
    struct pool *p;
    struct err e;
    assert_int_equal(pool_open(&p, 2, true, &e), OK);
    static struct job j;
    for (int r = 0; r < 30; r++) {
        uint64_t t = os_now_ns();
        while (os_now_ns() - t < 1000000) /* long enough for the spin to run out */
            ;
        for (uint32_t i = 0; i < 16; i++) j.hit[i] = 0;
        pool_run(p, piece, &j, 16);
        for (uint32_t i = 0; i < 16; i++) assert_int_equal(j.hit[i], 1);
    }
    assert_int_equal(pool_joins(p), 30);
    pool_close(p);
}

static void null_pool_and_bad_sizes(void **st)
{
    (void)st;
    static struct job j;
    pool_run(NULL, piece, &j, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(j.hit[i], 1);
    struct pool *p;
    struct err e;
    assert_int_equal(pool_open(&p, 0, false, &e), E_RANGE);
    assert_int_equal(pool_open(&p, 5000, false, &e), E_RANGE);
    assert_int_equal(pool_joins(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(every_piece_once), cmocka_unit_test(sleeping_workers_wake),
                                   cmocka_unit_test(null_pool_and_bad_sizes)};
    return cmocka_run_group_tests(t, NULL, NULL);
}
