/* The model's shape from metadata: every family and key, every refusal with its words, derived counts against models with
 * published numbers. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/os.h"
#include "model/shape.h"
#include "unit/gguf_make.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int shape_of(struct model_shape *s, const struct gm *m, struct err *e)
{
    struct buf b = {0};
    struct gguf g;
    gm_build(m, &b);
    int rc = gguf_open_mem(&g, "x.gguf", b.p, b.n, e);
    assert_int_equal(rc, OK);
    rc = shape_from_gguf(s, &g, e);
    gguf_close(&g);
    buf_free(&b);
    return rc;
}
static struct model_shape good(const struct gm *m)
{
    struct model_shape s;
    struct err e = {0};
    if (shape_of(&s, m, &e) != OK) fail_msg("%s", e.msg);
    return s;
}
static void bad(const struct gm *m, int code, const char *want)
{
    struct model_shape s;
    struct err e = {0};
    int rc = shape_of(&s, m, &e);
    if (rc != code || strncmp(e.msg, "x.gguf: ", 8) != 0 || !strstr(e.msg, want))
        fail_msg("status %d (want %d), '%s' has no '%s'", rc, code, e.msg, want);
}

static void families(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        bool adjacent, qk_norm;
    } want[] = {{"llama", true, false}, {"mistral", true, false}, {"qwen2", false, false}, {"qwen3", false, true}};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        struct gm m;
        gm_tiny(&m, want[i].arch, 2);
        struct model_shape s = good(&m);
        assert_string_equal(shape_arch_name(i), want[i].arch);
        assert_string_equal(s.arch, want[i].arch);
        assert_string_equal(s.name, "tiny");
        assert_int_equal(s.rope_adjacent, want[i].adjacent);
        assert_int_equal(s.qk_norm, want[i].qk_norm);
        assert_true(s.L == 2 && s.D == 32 && s.H == 2 && s.G == 1 && s.E == 16 && s.F == 64 && s.V == 40 && s.max_pos == 64);
        assert_true(s.rope_dim == 16 && s.rope == ROPE_NONE && s.rope_theta == 10000.0f && s.rope_factor == 1.0f);
        assert_true(s.norm_eps == 1e-5f && s.attn_scale == 0.25f && s.window == 0 && s.n_expert == 0);
        assert_false(s.tied);
        assert_false(s.qkv_bias);
        gm_free(&m);
    }
    assert_null(shape_arch_name(ARRAY_LEN(want)));
}

static void every_key(void **state)
{
    (void)state;
    struct gm m;
    const double theta = 5e5;
    const uint64_t pos = 131072;
    gm_tiny(&m, "llama", 1);
    gm_raw(&m, "llama.context_length", GGUF_U64, &pos, 8);
    gm_u32(&m, "llama.attention.key_length", 24);
    gm_u32(&m, "llama.attention.value_length", 24);
    gm_u32(&m, "llama.rope.dimension_count", 12);
    gm_raw(&m, "llama.rope.freq_base", GGUF_F64, &theta, 8);
    gm_u32(&m, "llama.attention.sliding_window", 4096);
    gm_f32(&m, "llama.attention.scale", 0.125f);
    gm_tensor(&m, "blk.0.attn_q.bias", 0, 48, 0, 192);
    gm_drop_tensor(&m, "output.weight");
    struct model_shape s = good(&m);
    assert_true(s.E == 24 && s.rope_dim == 12 && s.rope_theta == 5e5f && s.window == 4096 && s.attn_scale == 0.125f &&
                s.max_pos == 131072);
    assert_true(s.tied && s.qkv_bias);

    /* one KV head per query head when the key is absent; neutral values of keys that other families use */
    gm_drop(&m, "llama.attention.head_count_kv");
    gm_f32(&m, "llama.logit_scale", 1.0f);
    gm_f32(&m, "llama.attn_logit_softcapping", 0.0f);
    gm_bool(&m, "llama.attention.causal", 1);
    gm_u32(&m, "llama.expert_count", 0);
    gm_str(&m, "general.name", "a\xff\n very long name that goes on and on, longer than its place in the shape\xc3\xa9");
    s = good(&m);
    assert_int_equal(s.G, 2);
    assert_true(strncmp(s.name, "a?? very long", 13) == 0 && strlen(s.name) < sizeof s.name);
    gm_free(&m);
}

static void rope(void **state)
{
    (void)state;
    struct gm m;
    struct model_shape s;
    gm_tiny(&m, "llama", 1);
    gm_f32(&m, "llama.rope.scaling.factor", 4.0f); /* without a type: linear */
    s = good(&m);
    assert_true(s.rope == ROPE_LINEAR && s.rope_factor == 4.0f);
    gm_str(&m, "llama.rope.scaling.type", "linear");
    s = good(&m);
    assert_true(s.rope == ROPE_LINEAR && s.rope_factor == 4.0f);
    gm_str(&m, "llama.rope.scaling.type", "none");
    s = good(&m);
    assert_true(s.rope == ROPE_NONE && s.rope_factor == 1.0f);
    gm_str(&m, "llama.rope.scaling.type", "yarn");
    bad(&m, E_UNSUP, "rope scaling of type \"yarn\"");
    gm_str(&m, "llama.rope.scaling.type", "linear");
    gm_tensor(&m, "rope_freqs.weight", 0, 8, 0, 32);
    bad(&m, E_UNSUP, "both linear rope scaling and rope_freqs.weight");
    gm_drop(&m, "llama.rope.scaling.type");
    gm_drop(&m, "llama.rope.scaling.factor");
    s = good(&m);
    assert_true(s.rope == ROPE_FACTORS && s.rope_factor == 1.0f);
    gm_drop_tensor(&m, "rope_freqs.weight");
    gm_f32(&m, "llama.rope.scale_linear", 2.0f);
    s = good(&m);
    assert_true(s.rope == ROPE_LINEAR && s.rope_factor == 2.0f);
    gm_f32(&m, "llama.rope.scale_linear", -2.0f);
    bad(&m, E_FORMAT, "key llama.rope.scale_linear: -2");
    gm_free(&m);
}

static void vocabulary(void **state)
{
    (void)state;
    struct gm m;
    gm_tiny(&m, "llama", 1);
    struct buf *b = gm_arr(&m, "tokenizer.ggml.tokens", GGUF_STR, 3); /* the tokenizer decides; weights_bind compares */
    for (int i = 0; i < 3; i++) gm_put_str(b, "x", 1);
    assert_int_equal(good(&m).V, 3);
    gm_arr(&m, "tokenizer.ggml.tokens", GGUF_STR, 0);
    bad(&m, E_FORMAT, "tokenizer.ggml.tokens has 0 entries");
    gm_u32(&m, "tokenizer.ggml.tokens", 3);
    bad(&m, E_FORMAT, "key tokenizer.ggml.tokens: u32 where an array of string is wanted");
    gm_drop(&m, "tokenizer.ggml.tokens");
    gm_drop(&m, "llama.vocab_size");
    assert_int_equal(good(&m).V, 40); /* from the embedding */
    gm_drop_tensor(&m, "token_embd.weight");
    bad(&m, E_FORMAT, "no way to know the vocabulary's size");
    gm_free(&m);
}

static void refusals(void **state)
{
    (void)state;
    struct gm m;
    static const char *const required[] = {"general.architecture",
                                           "llama.block_count",
                                           "llama.context_length",
                                           "llama.embedding_length",
                                           "llama.feed_forward_length",
                                           "llama.attention.head_count",
                                           "llama.attention.layer_norm_rms_epsilon"};
    for (size_t i = 0; i < ARRAY_LEN(required); i++) {
        char want[100];
        gm_tiny(&m, "llama", 1);
        gm_drop(&m, required[i]);
        snprintf(want, sizeof want, "key %s is missing", required[i]);
        bad(&m, E_FORMAT, want);
        gm_free(&m);
    }
    static const struct {
        const char *key;
        uint32_t v;
        int code;
        const char *want;
    } num[] = {
        {"llama.block_count", 0, E_FORMAT, "key llama.block_count: 0; 1 to 4096 is wanted"},
        {"llama.block_count", 2147483648u, E_FORMAT, "key llama.block_count: 2147483648"},
        {"llama.context_length", 0, E_FORMAT, "key llama.context_length: 0"},
        {"llama.context_length", 4000000000u, E_FORMAT, "key llama.context_length"},
        {"llama.embedding_length", 0, E_FORMAT, "key llama.embedding_length: 0"},
        {"llama.embedding_length", 4294967295u, E_FORMAT, "key llama.embedding_length"},
        {"llama.embedding_length", 33, E_FORMAT, "2 heads do not divide the width 33"},
        {"llama.embedding_length", 2, E_FORMAT, "head size 1 is odd"},
        {"llama.feed_forward_length", 0, E_FORMAT, "key llama.feed_forward_length: 0"},
        {"llama.feed_forward_length", 4294967295u, E_FORMAT, "key llama.feed_forward_length"},
        {"llama.attention.head_count", 0, E_FORMAT, "key llama.attention.head_count: 0"},
        {"llama.attention.head_count", 3, E_FORMAT, "3 heads do not divide the width 32"},
        {"llama.attention.head_count", 4294967295u, E_FORMAT, "key llama.attention.head_count"},
        {"llama.attention.head_count_kv", 0, E_FORMAT, "key llama.attention.head_count_kv: 0"},
        {"llama.attention.head_count_kv", 3, E_FORMAT, "2 heads are no multiple of 3 KV heads"},
        {"llama.attention.head_count_kv", 4, E_FORMAT, "2 heads are no multiple of 4 KV heads"},
        {"llama.attention.key_length", 0, E_FORMAT, "key llama.attention.key_length: 0"},
        {"llama.attention.key_length", 17, E_FORMAT, "head size 17 is odd"},
        {"llama.attention.key_length", 4294967295u, E_FORMAT, "key llama.attention.key_length"},
        {"llama.attention.value_length", 32, E_UNSUP, "heads of 16 values for keys and 32 for values"},
        {"llama.rope.dimension_count", 15, E_FORMAT, "rope.dimension_count is 15, not even"},
        {"llama.rope.dimension_count", 18, E_FORMAT, "key llama.rope.dimension_count: 18; 2 to 16"},
        {"llama.rope.dimension_count", 0, E_FORMAT, "key llama.rope.dimension_count: 0"},
        {"llama.vocab_size", 0, E_FORMAT, "key llama.vocab_size: 0"},
        {"llama.vocab_size", 4294967295u, E_FORMAT, "key llama.vocab_size"},
        {"llama.expert_count", 8, E_UNSUP, "a sparse model (llama.expert_count is 8) is not supported yet"},
        {"llama.attention.sliding_window_pattern", 6, E_UNSUP, "sliding_window_pattern"},
    };
    for (size_t i = 0; i < ARRAY_LEN(num); i++) {
        gm_tiny(&m, "llama", 1);
        gm_u32(&m, num[i].key, num[i].v);
        bad(&m, num[i].code, num[i].want);
        gm_free(&m);
    }
    static const struct {
        const char *key;
        float v;
        int code;
    } flt[] = {
        {"llama.attention.layer_norm_rms_epsilon", -1.0f, E_FORMAT},
        {"llama.attention.layer_norm_rms_epsilon", NAN, E_FORMAT},
        {"llama.attention.layer_norm_rms_epsilon", 2.0f, E_FORMAT},
        {"llama.rope.freq_base", 0.0f, E_FORMAT},
        {"llama.rope.freq_base", INFINITY, E_FORMAT},
        {"llama.rope.scaling.factor", NAN, E_FORMAT},
        {"llama.attention.scale", -1.0f, E_FORMAT},
        {"llama.logit_scale", 0.5f, E_UNSUP},
        {"llama.embedding_scale", 12.0f, E_UNSUP},
        {"llama.attn_logit_softcapping", 50.0f, E_UNSUP},
        {"llama.final_logit_softcapping", 30.0f, E_UNSUP},
        {"llama.attention.clamp_kqv", 8.0f, E_UNSUP},
    };
    for (size_t i = 0; i < ARRAY_LEN(flt); i++) {
        gm_tiny(&m, "llama", 1);
        gm_f32(&m, flt[i].key, flt[i].v);
        bad(&m, flt[i].code, flt[i].key);
        gm_free(&m);
    }
    gm_tiny(&m, "llama", 1);
    gm_bool(&m, "llama.attention.causal", 0);
    bad(&m, E_UNSUP, "attention.causal is false");
    gm_drop(&m, "llama.attention.causal");
    gm_bool(&m, "llama.use_parallel_residual", 1);
    bad(&m, E_UNSUP, "use_parallel_residual");
    gm_drop(&m, "llama.use_parallel_residual");
    gm_str(&m, "llama.block_count", "one");
    bad(&m, E_FORMAT, "key llama.block_count: string where an integer is wanted");
    gm_u32(&m, "general.architecture", 1);
    bad(&m, E_FORMAT, "key general.architecture: u32 where a string is wanted");
    gm_str(&m, "general.architecture", "lama");
    bad(&m, E_UNSUP, "architecture \"lama\" is not supported (known: llama, mistral, qwen2, qwen3; nearest: llama)");
    gm_str(&m, "general.architecture", "gpt\xff\x01oss-and-a-name-of-more-than-forty-eight-bytes-in-all");
    bad(&m, E_UNSUP, "architecture \"gpt??oss-and");
    gm_free(&m);
}

/* Published configurations (config.json of each model on Hugging Face); parameters = all matrices of a step, counted by hand
 * there. */
static void counts(void **state)
{
    (void)state;
    struct err e = {0};
    struct model_shape s = {.L = 30,
                            .D = 576,
                            .H = 9,
                            .G = 3,
                            .E = 64,
                            .F = 1536,
                            .V = 49152,
                            .max_pos = 8192,
                            .rope_dim = 64,
                            .rope_theta = 1e5f,
                            .rope_factor = 1,
                            .norm_eps = 1e-5f,
                            .attn_scale = 0.125f,
                            .tied = true}; /* SmolLM2-135M: 134,515,008 with 61 norms of 576 */
    assert_int_equal(shape_check(&s, "smollm2", &e), OK);
    assert_int_equal(shape_params(&s), 134515008u - 61u * 576u);
    assert_int_equal(shape_kv_bytes(&s, 2), 23040);
    struct model_shape b = {.L = 126,
                            .D = 16384,
                            .H = 128,
                            .G = 8,
                            .E = 128,
                            .F = 53248,
                            .V = 128256,
                            .max_pos = 131072,
                            .rope_dim = 128,
                            .rope_theta = 5e5f,
                            .rope_factor = 1,
                            .norm_eps = 1e-5f,
                            .attn_scale = 0.088f}; /* Llama 3.1 405B: 405,853,388,800 in all */
    assert_int_equal(shape_check(&b, "405b", &e), OK);
    assert_true(shape_params(&b) == 405853388800u - (uint64_t)128256 * 16384 - 253u * 16384u);
    assert_int_equal(shape_kv_bytes(&b, 2), 516096);
    b.n_expert = 8;
    assert_int_equal(shape_check(&b, "x", &e), E_FORMAT);
    b.n_expert_used = 2;
    assert_int_equal(shape_check(&b, "x", &e), OK);
    assert_true(shape_params(&b) ==
                405853388800u - (uint64_t)128256 * 16384 - 253u * 16384u + 126u * ((uint64_t)3 * 16384 * 53248 + 8 * 16384));
    s.H = 10;
    assert_int_equal(shape_check(&s, "x", &e), E_FORMAT);
    assert_string_equal(e.msg, "x: 10 heads are no multiple of 3 KV heads");
    s.H = 9;
    s.rope_theta = NAN;
    assert_int_equal(shape_check(&s, "x", &e), E_FORMAT);
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(families),   cmocka_unit_test(every_key), cmocka_unit_test(rope),
                                   cmocka_unit_test(vocabulary), cmocka_unit_test(refusals),  cmocka_unit_test(counts)};
    return cmocka_run_group_tests_name("shape", t, NULL, NULL);
}
