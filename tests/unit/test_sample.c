/* test_sample.c: the sampler against plain definitions of each step, its random numbers, and stop strings over every way of cutting a text. */
#include "engine/gen.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define V 50u
static const struct samp_opt off = {.temp = 1, .top_p = 1, .min_p = 0, .typical = 1, .repeat = 1, .last_n = 64, .seed = 1};

static void make(float *x, uint32_t seed)
{
    for (uint32_t i = 0; i < V; i++) x[i] = (float)(samp_uniform(seed, i) * 8 - 4);
}
static int32_t pick(const struct samp_opt *o, const float *x, uint32_t pos)
{
    struct sampler s;
    struct err e;
    assert_int_equal(samp_init(&s, o, V, &e), OK);
    int32_t id = samp_pick(&s, x, pos);
    samp_free(&s);
    return id;
}
/* How often each id is drawn over many positions. */
static void histogram(const struct samp_opt *o, const float *x, uint32_t n, double *freq)
{
    struct sampler s;
    struct err e;
    assert_int_equal(samp_init(&s, o, V, &e), OK);
    for (uint32_t i = 0; i < V; i++) freq[i] = 0;
    for (uint32_t i = 0; i < n; i++) freq[samp_pick(&s, x, i)] += 1.0 / n;
    samp_free(&s);
}
static void softmax(const float *x, double t, double *p)
{
    double z = 0;
    for (uint32_t i = 0; i < V; i++) z += p[i] = exp((double)x[i] / t);
    for (uint32_t i = 0; i < V; i++) p[i] /= z;
}
static void renorm(double *p)
{
    double z = 0;
    for (uint32_t i = 0; i < V; i++) z += p[i];
    for (uint32_t i = 0; i < V; i++) p[i] /= z;
}
static void close_to(const double *f, const double *p, const char *what)
{
    for (uint32_t i = 0; i < V; i++) /* 200,000 draws: six standard deviations */
        if (fabs(f[i] - p[i]) > 6 * sqrt(p[i] * (1 - p[i]) / 200000) + 1e-9) fail_msg("%s: id %u drawn %.5f, expected %.5f", what, i, f[i], p[i]);
}
/* Ids by falling probability. */
static void order(const double *p, uint32_t *o)
{
    for (uint32_t i = 0; i < V; i++) o[i] = i;
    for (uint32_t i = 0; i < V; i++)
        for (uint32_t j = i + 1; j < V; j++)
            if (p[o[j]] > p[o[i]]) {
                uint32_t t = o[i];
                o[i] = o[j];
                o[j] = t;
            }
}

static void uniform_numbers(void **st)
{
    (void)st;
    double sum = 0, lag = 0, bins[64] = {0};
    enum { N = 1 << 16 };
    for (uint32_t i = 0; i < N; i++) {
        double u = samp_uniform(42, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        lag += (u - 0.5) * (samp_uniform(42, i + 1) - 0.5);
        bins[(int)(u * 64)]++;
    }
    assert_true(fabs(sum / N - 0.5) < 0.006);
    assert_true(fabs(lag / N) < 0.002);
    double chi = 0;
    for (int b = 0; b < 64; b++) chi += (bins[b] - N / 64.0) * (bins[b] - N / 64.0) / (N / 64.0);
    assert_true(chi < 120); /* 63 degrees of freedom: 1 in 10^5 */
    assert_true(samp_uniform(1, 5) == samp_uniform(1, 5) && samp_uniform(1, 5) != samp_uniform(2, 5) && samp_uniform(1, 5) != samp_uniform(1, 6));
}

static void greedy(void **st)
{
    (void)st;
    float x[V];
    make(x, 3);
    x[17] = 9;
    x[33] = 9; /* a tie: the lower id */
    struct samp_opt o = off;
    o.temp = 0;
    assert_int_equal(pick(&o, x, 0), 17);
    o.temp = 1e-30f;
    assert_int_equal(pick(&o, x, 0), 17);
    o = off;
    o.top_k = 1;
    assert_int_equal(pick(&o, x, 0), 17);
    for (uint32_t i = 0; i < V; i++) x[i] = -INFINITY;
    assert_int_equal(pick(&off, x, 0), 0);
    for (uint32_t i = 0; i < V; i++) x[i] = NAN;
    assert_int_equal(pick(&off, x, 0), 0);
    make(x, 4);
    x[7] = INFINITY;
    assert_int_equal(pick(&off, x, 0), 7);
}

static void distributions(void **st)
{
    (void)st;
    float x[V];
    double p[V], f[V];
    uint32_t o[V];
    make(x, 5);
    struct samp_opt s = off;
    softmax(x, 1, p);
    histogram(&s, x, 200000, f);
    close_to(f, p, "plain");

    s.temp = 0.6f;
    softmax(x, 0.6, p);
    histogram(&s, x, 200000, f);
    close_to(f, p, "temperature");

    s = off;
    s.top_k = 7;
    softmax(x, 1, p);
    order(p, o);
    for (uint32_t i = 7; i < V; i++) p[o[i]] = 0;
    renorm(p);
    histogram(&s, x, 200000, f);
    close_to(f, p, "top-k");

    s = off;
    s.top_p = 0.8f;
    softmax(x, 1, p);
    order(p, o);
    double run = 0;
    for (uint32_t i = 0; i < V; i++) {
        if (run >= 0.8) p[o[i]] = 0;
        run += p[o[i]];
    }
    renorm(p);
    histogram(&s, x, 200000, f);
    close_to(f, p, "top-p");

    s = off;
    s.min_p = 0.2f;
    softmax(x, 1, p);
    order(p, o);
    for (uint32_t i = 1; i < V; i++)
        if (p[o[i]] < 0.2 * p[o[0]]) p[o[i]] = 0;
    renorm(p);
    histogram(&s, x, 200000, f);
    close_to(f, p, "min-p");

    s = off;
    s.typical = 0.5f;
    softmax(x, 1, p);
    double h = 0, dev[V];
    for (uint32_t i = 0; i < V; i++) h -= p[i] * log(p[i]);
    for (uint32_t i = 0; i < V; i++) dev[i] = -fabs(-log(p[i]) - h);
    order(dev, o);
    run = 0;
    for (uint32_t i = 0; i < V; i++) {
        if (run >= 0.5) {
            p[o[i]] = 0;
            continue;
        }
        run += p[o[i]];
    }
    renorm(p);
    histogram(&s, x, 200000, f);
    close_to(f, p, "typical");

    s = off;
    struct samp_bias b[] = {{3, -INFINITY}, {4, 2}, {-1, 5}, {1000, 5}};
    s.bias = b;
    s.n_bias = 4;
    make(x, 5);
    x[4] += 2;
    softmax(x, 1, p);
    p[3] = 0;
    renorm(p);
    x[4] -= 2;
    histogram(&s, x, 200000, f);
    close_to(f, p, "bias");
}

static void penalties(void **st)
{
    (void)st;
    float x[V] = {0};
    struct samp_opt o = off;
    struct sampler s;
    struct err e;
    o.temp = 0;
    o.repeat = 2;
    o.frequency = 0.25f;
    o.presence = 0.5f;
    o.last_n = 4;
    assert_int_equal(samp_init(&s, &o, V, &e), OK);
    x[1] = 4;
    x[2] = 3.9f;
    assert_int_equal(samp_pick(&s, x, 0), 1);
    samp_accept(&s, 1); /* 4/2 - 0.25 - 0.5 = 1.25 */
    assert_int_equal(samp_pick(&s, x, 0), 2);
    samp_accept(&s, 2); /* 3.9/2 - 0.75 = 1.2 */
    assert_int_equal(samp_pick(&s, x, 0), 1);
    samp_accept(&s, 1); /* twice: 2 - 0.5 - 0.5 = 1.0 */
    assert_int_equal(samp_pick(&s, x, 0), 2);
    x[5] = -1;
    samp_accept(&s, 5);
    samp_accept(&s, 9); /* the window is 4: the first 1 falls out, so 1 is 1.25 again */
    assert_int_equal(samp_pick(&s, x, 0), 1);
    samp_accept(&s, -3);
    samp_accept(&s, 5000); /* foreign ids count for nothing */
    assert_int_equal(samp_pick(&s, x, 0), 1);
    samp_reset(&s);
    assert_int_equal(samp_pick(&s, x, 0), 1);
    assert_true(x[1] == 4); /* the caller's row is untouched */
    samp_free(&s);
}

static void same_seed_same_choice(void **st)
{
    (void)st;
    float x[V];
    make(x, 9);
    struct samp_opt o = off;
    o.top_p = 0.9f;
    uint32_t differ = 0;
    for (uint32_t pos = 0; pos < 100; pos++) {
        int32_t a = pick(&o, x, pos);
        assert_int_equal(a, pick(&o, x, pos));
        struct samp_opt q = o;
        q.seed = 99;
        differ += pick(&q, x, pos) != a;
    }
    assert_true(differ > 50);
}

/* Every cut of the text gives the same output; nothing of a stop string and nothing after it comes out. */
static void stop_strings(void **st)
{
    (void)st;
    static const struct {
        const char *text, *stop[3], *want;
        bool hit;
    } t[] = {{"ABCDEFGHIJKL", {"DEFGHIJ"}, "ABC", true},      {"ABCDEFGHIXKL", {"DEFGHIJ"}, "ABCDEFGHIXKL", false},
             {"aab aaab", {"aaab"}, "aab ", true},           {"one two", {"two", "tw"}, "one ", true},
             {"xyz", {"z", "yz"}, "x", true},                {"ababac", {"abac"}, "ab", true},
             {"end</s", {"</s>"}, "end</s", false},          {"\xC3\xA9\xE6\xBC\xA2!", {"\xE6\xBC\xA2"}, "\xC3\xA9", true},
             {"none", {""}, "none", false}};
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        size_t n = strlen(t[i].text);
        for (uint32_t mask = 0; mask < 1u << (n - 1); mask++) {
            struct stops s = {.v = t[i].stop};
            while (s.n < 3 && t[i].stop[s.n]) s.n++;
            struct buf out = {0};
            size_t from = 0;
            for (size_t k = 1; k <= n; k++)
                if (k == n || mask >> (k - 1) & 1) {
                    stops_put(&s, &out, t[i].text + from, k - from);
                    from = k;
                    if (out.n > strlen(t[i].want) || memcmp(out.p ? out.p : "", t[i].want, out.n) != 0) fail_msg("case %zu: '%s' came out", i, out.p);
                }
            stops_end(&s, &out);
            assert_int_equal(s.hit, t[i].hit);
            assert_string_equal(out.p ? out.p : "", t[i].want);
            stops_free(&s);
            buf_free(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(uniform_numbers), cmocka_unit_test(greedy), cmocka_unit_test(distributions), cmocka_unit_test(penalties),
                                   cmocka_unit_test(same_seed_same_choice), cmocka_unit_test(stop_strings)};
    return cmocka_run_group_tests_name("sample", t, NULL, NULL);
}
