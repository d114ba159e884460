/* The tokenizer: goldens of independent programs (tests/data; ../shared/data/tokenizer where that is there), a naive reference on
 * random vocabularies, hand-made splitters against PCRE2, streaming, invalid bytes, hostile metadata, linear work, lack of
 * memory. */
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "model/tok_int.h"
#include "unit/tok_make.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- helpers ---- */

static uint64_t rnd_state = 1;
static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % n;
}

static const char *shared(const char *name)
{
    static char path[400];
    const char *dir = getenv("HEARTH_SHARED");
    snprintf(path, sizeof path, "%s/data/tokenizer/%s", dir ? dir : "../shared", name);
    return path;
}

static struct tok *open_path(const char *path)
{
    struct err e = {0};
    struct gguf g;
    struct tok *t = NULL;
    if (gguf_open(&g, path, &e) < 0 || tok_open_gguf(&t, &g, &e) < 0) fail_msg("%s", e.msg);
    gguf_close(&g);
    return t;
}
static int open_gm(struct gm *m, struct tok **t, struct err *e)
{
    struct buf b = {0};
    struct gguf g;
    char path[200];
    gm_build(m, &b);
    gm_write("tok.gguf", &b, path);
    buf_free(&b);
    int rc = gguf_open(&g, path, e);
    if (rc < 0) fail_msg("gguf itself: %s", e->msg);
    rc = tok_open_gguf(t, &g, e);
    gguf_close(&g);
    return rc;
}
static struct ids encode(const struct tok *t, const char *p, size_t n, unsigned flags)
{
    struct ids v = {0};
    struct err e = {0};
    char *copy = mem_alloc(n, 1); /* exactly n bytes: reading past them shows under ASan */
    assert_non_null(copy);
    if (n) memcpy(copy, p, n);
    if (tok_encode(t, &v, copy, n, flags, &e) < 0) fail_msg("%s", e.msg);
    mem_free(copy);
    return v;
}
static void show(struct buf *b, const int32_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++) buf_printf(b, " %d", v[i]);
    buf_putc(b, 0);
}
static void same_ids(const char *what, const char *text, const struct ids *got, const int32_t *want, size_t n)
{
    if (got->n == n && (n == 0 || memcmp(got->v, want, n * sizeof *want) == 0)) return;
    struct buf a = {0}, b = {0};
    show(&a, got->v, got->n);
    show(&b, want, n);
    fail_msg("%s \"%s\":\n got %s\nwant %s", what, text, a.p, b.p);
}
#define IDS(t, text, flags, ...)                                                                                                 \
    do {                                                                                                                         \
        const int32_t want_[] = {__VA_ARGS__};                                                                                   \
        struct ids got_ = encode(t, text, strlen(text), flags);                                                                  \
        same_ids("ids of", text, &got_, want_, ARRAY_LEN(want_));                                                                \
        ids_free(&got_);                                                                                                         \
    } while (0)

static bool valid(const struct buf *b) { return b->n == 0 || utf8_check(b->p, b->n) == b->n; }
static bool buf_is(const struct buf *b, const char *p, size_t n) { return b->n == n && (n == 0 || memcmp(b->p, p, n) == 0); }

/* p[0, n) with U+FFFD for each maximal invalid part: a second, table-free writing of the rule in the Unicode standard. */
static void replaced(struct buf *out, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        unsigned c = p[i], need = c < 0x80                 ? 0
                                  : c >= 0xC2 && c <= 0xDF ? 1
                                  : c >= 0xE0 && c <= 0xEF ? 2
                                  : c >= 0xF0 && c <= 0xF4 ? 3
                                                           : 9;
        size_t k = 1;
        for (; need != 9 && k <= need && i + k < n; k++) {
            unsigned lo = 0x80, hi = 0xBF;
            if (k == 1) {
                if (c == 0xE0) lo = 0xA0;
                if (c == 0xED) hi = 0x9F;
                if (c == 0xF0) lo = 0x90;
                if (c == 0xF4) hi = 0x8F;
            }
            if (p[i + k] < lo || p[i + k] > hi) break;
        }
        if (need != 9 && k == need + 1)
            buf_put(out, p + i, k);
        else
            buf_puts(out, "\xEF\xBF\xBD");
        i += k;
    }
}

/* encode -> decode gives the text (spm: with one space in front when it adds one); streaming gives it piece by piece, always
 * whole characters, and at every point a prefix of the whole. */
static void round_trip(const struct tok *t, const char *p, size_t n)
{
    struct ids v = encode(t, p, n, 0);
    struct buf whole = {0}, out = {0}, want = {0};
    tok_decode(t, &whole, v.v, v.n, false);
    size_t lead = n && tok_adds_space(t) ? 1 : 0;
    assert_true(whole.n >= lead && (!lead || whole.p[0] == ' '));
    if (utf8_check(p, n) == n) {
        if (whole.n - lead != n || (n && memcmp(whole.p + lead, p, n) != 0))
            fail_msg("round trip of \"%.*s\": \"%.*s\"", (int)n, p, (int)whole.n, whole.p);
    }
    replaced(&want, (const unsigned char *)p, n);
    struct tok_stream s;
    tok_stream_init(&s, t, false, true);
    for (size_t i = 0; i < v.n; i++) {
        tok_stream_put(&s, &out, v.v[i]);
        assert_true(valid(&out));
        if (out.n) assert_true(out.n <= want.n && memcmp(out.p, want.p, out.n) == 0);
    }
    tok_stream_end(&s, &out);
    if (!buf_is(&out, want.p, want.n)) fail_msg("stream of \"%.*s\": \"%.*s\"", (int)n, p, (int)out.n, out.p);
    buf_free(&whole);
    buf_free(&out);
    buf_free(&want);
    ids_free(&v);
}

static json_t *load(const char *path)
{
    struct buf b = {0};
    struct err e = {0};
    json_t *o = NULL;
    if (os_read_file(&b, path, 64 << 20, &e) < 0 || json_parse(&o, b.p, b.n, 0, path, &e) < 0) fail_msg("%s", e.msg);
    buf_free(&b);
    return o;
}

static size_t unhex(const char *z, char *out)
{
    size_t n = 0;
    for (; z[0] && z[1]; z += 2) { /* a half byte at the end is left out */
        char two[3] = {z[0], z[1], 0};
        out[n++] = (char)strtoul(two, NULL, 16);
    }
    return n;
}

/* Round trips of all of cases.json and its invalid bytes. */
static void all_cases(const struct tok *t)
{
    json_t *root = load("tests/data/tokenizer/cases.json"), *x;
    size_t i;
    json_array_foreach(json_object_get(root, "texts"), i, x)
    {
        const char *p = json_string_value(x);
        size_t n = json_string_length(x);
        bool marks = false; /* SentencePiece cannot tell U+2581 from a space */
        for (size_t k = 0; k + 3 <= n; k++) marks = marks || memcmp(p + k, "\xE2\x96\x81", 3) == 0;
        if (!marks || strcmp(tok_model(t), "spm") != 0) round_trip(t, p, n);
    }
    assert_true(i > 300);
    json_array_foreach(json_object_get(root, "invalid_utf8_hex"), i, x)
    {
        char b[64];
        round_trip(t, b, unhex(json_string_value(x), b));
    }
    assert_true(i > 10);
    json_decref(root);
}

/* ---- goldens ---- */

static const char *const vocabs[] = {"gpt-2", "llama-bpe", "qwen2", "llama-spm", "phi-3"};

static struct tok *open_shared(const char *name)
{
    char file[100];
    snprintf(file, sizeof file, "ggml-vocab-%s.gguf", name);
    return os_is_file(shared(file)) ? open_path(shared(file)) : NULL;
}

static void golden_json(void **state)
{
    (void)state;
    json_t *cases = load("tests/data/tokenizer/cases.json");
    size_t seen = 0;
    for (size_t k = 0; k < ARRAY_LEN(vocabs); k++) {
        struct tok *t = open_shared(vocabs[k]);
        if (!t) continue;
        char file[100];
        snprintf(file, sizeof file, "%s.expected.json", vocabs[k]);
        json_t *want = load(shared(file)), *x, *texts = json_object_get(cases, "texts");
        static const char *const kind[] = {"plain", "special"};
        for (unsigned f = 0; f < 2; f++) {
            size_t i;
            json_array_foreach(json_object_get(want, kind[f]), i, x)
            {
                if (json_is_null(x)) continue; /* the oracles disagree */
                const json_t *text = json_array_get(texts, i);
                struct ids got = encode(t, json_string_value(text), json_string_length(text), f ? TOK_SPECIAL : 0), w = {0};
                for (size_t q = 0; q < json_array_size(x); q++)
                    ids_push(&w, (int32_t)json_integer_value(json_array_get(x, q)), NULL);
                same_ids(vocabs[k], json_string_value(text), &got, w.v, w.n);
                ids_free(&got);
                ids_free(&w);
                seen++;
            }
        }
        all_cases(t);
        json_decref(want);
        tok_close(t);
    }
    json_decref(cases);
    if (!seen) {
        print_message("skipped: no %s\n", shared("*.gguf"));
        skip();
    }
    assert_true(seen > 3600);
}

static void golden_inp_out(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t k = 0; k < ARRAY_LEN(vocabs); k++) {
        struct tok *t = open_shared(vocabs[k]);
        if (!t) continue;
        struct buf in = {0}, out = {0};
        struct err e = {0};
        char file[100];
        snprintf(file, sizeof file, "ggml-vocab-%s.gguf.inp", vocabs[k]);
        assert_int_equal(os_read_file(&in, shared(file), 1 << 20, &e), OK);
        snprintf(file, sizeof file, "ggml-vocab-%s.gguf.out", vocabs[k]);
        assert_int_equal(os_read_file(&out, shared(file), 1 << 20, &e), OK);
        buf_putc(&in, 0);
        buf_putc(&out, 0);
        static const char sep[] = "\n__ggml_vocab_test__\n";
        char *line = out.p;
        for (char *p = in.p, *end; p; p = end) {
            end = strstr(p, sep);
            size_t n = end ? (size_t)(end - p) : strlen(p);
            if (end) end += sizeof sep - 1;
            char *nl = strchr(line, '\n');
            if (!nl) break;
            struct ids w = {0};
            for (char *q = line; q < nl;) {
                char *stop;
                long v = strtol(q, &stop, 10);
                if (stop == q || stop > nl) break;
                ids_push(&w, (int32_t)v, NULL);
                q = stop;
            }
            struct ids got = encode(t, p, n, 0);
            same_ids(vocabs[k], "(.inp)", &got, w.v, w.n);
            ids_free(&got);
            ids_free(&w);
            line = nl + 1;
            seen++;
        }
        buf_free(&in);
        buf_free(&out);
        tok_close(t);
    }
    if (!seen) {
        print_message("skipped: no %s\n", shared("*.gguf"));
        skip();
    }
    assert_true(seen >= 5 * 46);
}

/* The trained model in tests/data: ids that its own training tokenizer gave (stories260K.expected.json). */
static void stories(void **state)
{
    (void)state;
    struct tok *t = open_path("tests/data/models/stories260K.gguf");
    assert_string_equal(tok_model(t), "spm");
    assert_string_equal(tok_pre(t), "");
    assert_int_equal(tok_vocab(t), 512);
    assert_int_equal(tok_bos(t), 1);
    assert_int_equal(tok_eos(t), 2);
    assert_true(tok_adds_bos(t) && tok_adds_space(t));
    IDS(t, "Once upon a time, there was a boy named Tom.", TOK_ADD, 1, 403, 407, 261, 378, 432, 383, 286, 261, 268, 414, 422, 395,
        274, 287, 426);
    IDS(t, "The dog", 0, 291, 400, 428);
    IDS(t, "<s>The dog", TOK_ADD | TOK_SPECIAL, 1, 291, 400, 428); /* no second BOS */
    IDS(t, "", TOK_ADD, 1);
    IDS(t, "", 0, );
    IDS(t, "<s>", TOK_SPECIAL, 1);
    assert_true(tok_is_end(t, 2) && !tok_is_end(t, 1) && !tok_is_end(t, -1) && !tok_is_end(t, 512));
    all_cases(t);
    struct buf b = {0};
    const int32_t ids[] = {1, 403, 407, 2};
    tok_decode(t, &b, ids, 4, false);
    assert_true(buf_is(&b, " Once upon", 10));
    buf_clear(&b);
    tok_decode(t, &b, ids, 4, true);
    assert_true(buf_is(&b, "<s> Once upon</s>", 17));
    buf_clear(&b);
    struct tok_stream s; /* the added space goes, but only in front, and only when asked */
    tok_stream_init(&s, t, false, true);
    for (size_t i = 0; i < 4; i++) tok_stream_put(&s, &b, ids[i]);
    for (size_t i = 0; i < 4; i++) tok_stream_put(&s, &b, ids[i]);
    tok_stream_end(&s, &b);
    assert_true(buf_is(&b, "Once upon Once upon", 19));
    buf_free(&b);
    tok_close(t);
}

/* ---- made vocabularies ---- */

static const char *const merges1[] = {"h e",          "l l",           "he ll",          "hell o", "\xC4\xA0 w",       "o r",
                                      "\xC4\xA0w or", "\xC4\xA0wor l", "\xC4\xA0worl d", "1 2",    "\xC4\xA0 \xC4\xA0"};
/* 256 he, 257 ll, 258 hell, 259 hello, 260 _w, 261 or, 262 _wor, 263 _worl, 264 _world, 265 12, 266 __ */
static const struct tiny_tok extra1[] = {{"<|bos|>", 3},     {"<|im_end|>", 3}, {"<tool>", 4}, {"<tool>>", 4},
                                         {"<|im_end|>x", 3}, {"   ", 4},        {"<EOT>", 4},  {"<plain>", 1}};
/* 267 bos, 268 im_end, 269 tool, 270 tool>>, 271, 272 three spaces, 273 EOT, 274 text that is no byte string of merges */

static void tiny_open(struct gm *m) { tiny_bpe(m, "gpt-2", merges1, ARRAY_LEN(merges1), extra1, ARRAY_LEN(extra1)); }

static void bpe_small(void **state)
{
    (void)state;
    struct gm m;
    struct tok *t;
    struct err e = {0};
    tiny_open(&m);
    gm_u32(&m, G "bos_token_id", 267);
    gm_u32(&m, G "eos_token_id", 268);
    gm_u32(&m, G "eot_token_id", 271);
    gm_bool(&m, G "add_bos_token", 1);
    gm_bool(&m, G "add_eos_token", 1);
    uint32_t list[] = {260, 261};
    buf_put(gm_arr(&m, G "eos_token_ids", GGUF_U32, 2), list, sizeof list);
    gm_str(&m, "tokenizer.chat_template", "{{ messages }}");
    if (open_gm(&m, &t, &e) < 0) fail_msg("%s", e.msg);
    gm_free(&m);
    assert_string_equal(tok_model(t), "bpe");
    assert_string_equal(tok_pre(t), "gpt-2");
    assert_false(tok_adds_space(t));
    IDS(t, "hello world", 0, 259, 264);
    IDS(t, "helloworld", 0, 259, 'w', 261, 'l', 'd');
    IDS(t, "hello world", TOK_ADD, 267, 259, 264, 268);
    IDS(t, "", TOK_ADD, 267, 268);
    IDS(t, "<|bos|>hello", TOK_ADD | TOK_SPECIAL, 267, 259, 268);                 /* no second BOS */
    IDS(t, "<|bos|>hello<|im_end|>", TOK_ADD | TOK_SPECIAL, 267, 259, 268);       /* nor EOS */
    IDS(t, "hello<|im_end|>x<|im_end|>", TOK_SPECIAL, 259, 271, 268);             /* longest first */
    IDS(t, "<tool>>hello<tool><tool", 0, 270, 259, 269, '<', 't', 'o', 'o', 'l'); /* user-defined: always */
    IDS(t, "hello    12", 0, 259, 272, ' ', 265);                                 /* leftmost-longest: three spaces, one left */
    struct ids v = encode(t, "<|bos|><|im_end|><EOT><plain>", 29, 0);             /* text alone gives no special token */
    for (size_t i = 0; i < v.n; i++) assert_true(v.v[i] < 256);
    ids_free(&v);
    assert_int_equal(tok_attr(t, 273), TOK_CONTROL); /* ends a text by its name */
    const int32_t ends[] = {268, 271, 260, 261, 273};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) assert_true(tok_is_end(t, ends[i]));
    assert_false(tok_is_end(t, 267));
    assert_int_equal(tok_find(t, str_of("<tool>")), 269);
    assert_int_equal(tok_find(t, str_of("<tool>?")), -1);
    assert_int_equal(tok_find(t, str_of("")), -1);
    assert_true(str_eq(tok_text(t, 264), "\xC4\xA0world") && tok_text(t, 275).n == 0 && tok_text(t, -1).n == 0);
    assert_true(str_eq(tok_piece(t, 264, false), " world") && tok_piece(t, 267, false).n == 0 &&
                str_eq(tok_piece(t, 267, true), "<|bos|>"));
    assert_true(str_eq(tok_piece(t, 269, false), "<tool>"));
    assert_true(str_eq(tok_chat_template(t), "{{ messages }}"));
    all_cases(t);
    tok_close(t);
}

/* The file says nothing of BOS: the pre-tokenizer's own habit counts, when there is a BOS. */
static void bos_default(void **state)
{
    (void)state;
    static const struct {
        const char *pre;
        bool bos, adds;
    } c[] = {{"llama-bpe", true, true},
             {"llama-bpe", false, false},
             {"tekken", true, true},
             {"qwen2", true, false},
             {"gpt-2", true, false}};
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        struct gm m;
        struct tok *t;
        struct err e = {0};
        tiny_bpe(&m, c[i].pre, merges1, ARRAY_LEN(merges1), extra1, ARRAY_LEN(extra1));
        if (c[i].bos) gm_u32(&m, G "bos_token_id", 267);
        if (open_gm(&m, &t, &e) < 0) fail_msg("%s", e.msg);
        assert_int_equal(tok_adds_bos(t), c[i].adds);
        gm_free(&m);
        tok_close(t);
    }
}

/* "Whole piece first" (llama-bpe): a token that the merges cannot reach. */
static void whole_piece(void **state)
{
    (void)state;
    static const struct tiny_tok odd[] = {{"oh", 1}, {"\xC4\xA0oh", 1}};
    for (int whole = 0; whole < 2; whole++) {
        struct gm m;
        struct tok *t;
        struct err e = {0};
        tiny_bpe(&m, whole ? "llama-bpe" : "gpt-2", merges1, ARRAY_LEN(merges1), odd, 2);
        if (open_gm(&m, &t, &e) < 0) fail_msg("%s", e.msg);
        gm_free(&m);
        if (whole)
            IDS(t, "oh oh ohoh", 0, 267, 268, ' ', 'o', 'h', 'o', 'h');
        else
            IDS(t, "oh oh", 0, 'o', 'h', ' ', 'o', 'h');
        tok_close(t);
    }
}

/* A vocabulary without tokens for bytes that valid UTF-8 never has: U+FFFD in their place. */
static void missing_bytes(void **state)
{
    (void)state;
    struct gm m;
    struct tok *t;
    struct err e = {0};
    tiny_open(&m);
    struct buf *b = gm_arr(&m, G "token_type", GGUF_I32, 275);
    for (uint32_t i = 0; i < 275; i++) {
        gm_put_u32(b, i >= 267 && i < 274 ? (uint32_t)extra1[i - 267].type : i == 0xFF || i == 0xC0 ? 4 : 1);
    }
    if (open_gm(&m, &t, &e) < 0) fail_msg("%s", e.msg);
    gm_free(&m);
    struct ids v = encode(t, "a\xFF\xC0z", 4, 0);
    struct buf out = {0};
    tok_decode(t, &out, v.v, v.n, false);
    assert_true(buf_is(&out, "a\xEF\xBF\xBD\xEF\xBF\xBDz", 8));
    ids_free(&v);
    buf_free(&out);
    tok_close(t);
}

static void spm_small(void **state)
{
    (void)state;
    static const struct spm_tok v[] = {{"<unk>", 0, 2},
                                       {"<s>", 0, 3},
                                       {"</s>", 0, 3},
                                       {"\xE2\x96\x81", -3, 1},
                                       {"a", -4, 1},
                                       {"b", -5, 1},
                                       {"ab", -1, 1},
                                       {"ba", -1, 1},
                                       {"\xE2\x96\x81"
                                        "a",
                                        -2, 1},
                                       {"s>", -1, 1},
                                       {"<", -9, 1},
                                       {"s", -9, 1},
                                       {">", -9, 1},
                                       {"<end>", 0, 4}};
    for (int bytes = 0; bytes < 2; bytes++) {
        struct gm m;
        struct tok *t;
        struct err e = {0};
        tiny_spm(&m, v, ARRAY_LEN(v), bytes);
        gm_str(&m, "general.name", "My Phi-3 clone");
        if (open_gm(&m, &t, &e) < 0) fail_msg("%s", e.msg);
        gm_free(&m);
        IDS(t, "ab", 0, 3, 6);     /* best score first: ab before _a */
        IDS(t, "aba", 0, 3, 6, 4); /* equal scores: leftmost */
        IDS(t, "a", 0, 8);
        IDS(t, "<s>", 0, 3, 10, 9);            /* text never merges into a control token */
        IDS(t, "a<s>a", TOK_SPECIAL, 8, 1, 8); /* a space again behind a special token */
        IDS(t, "<end> \n a", 0, 13, 8);        /* phi-3: whitespace behind a special token goes ... */
        IDS(t, "<s> a", TOK_SPECIAL, 1, 3, 8); /* ... but not behind <s> */
        if (bytes)
            IDS(t, "\xC3\xA9", 0, 3, 14 + 0xC3, 14 + 0xA9);
        else
            IDS(t, "\xC3\xA9", 0, 3, 0);
        tok_close(t);
    }
    struct gm m; /* no space in front */
    struct tok *t;
    struct err e = {0};
    tiny_spm(&m, v, ARRAY_LEN(v), true);
    gm_bool(&m, G "add_space_prefix", 0);
    gm_bool(&m, G "add_bos_token", 0);
    if (open_gm(&m, &t, &e) < 0) fail_msg("%s", e.msg);
    gm_free(&m);
    IDS(t, "ab a", TOK_ADD, 6, 8);
    IDS(t, "ab", 0, 6);
    all_cases(t);
    tok_close(t);
}

/* ---- against a naive reference ---- */

/* Merges by the definition: symbols as strings, each step looks at all pairs. */
static void naive(const struct tok *t, struct ids *out, const char *p, size_t n)
{
    size_t at[600], k = 0;
    assert_true(n < 599);
    for (size_t i = 0; i < n; k++) {
        uint32_t cp;
        at[k] = i;
        i += tok_model(t)[0] == 's' ? utf8_next(p + i, n - i, &cp) : 1;
    }
    at[k] = n;
    const struct tok_map *map = &t->by_plain;
    const char *blob = t->spm ? t->text : t->raw;
    const uint32_t *off = t->spm ? t->text_off : t->raw_off;
#define FIND(a, b) tok_map_get(t, map, blob, off, p + (a), (b) - (a), tok_key(t, p + (a), (b) - (a), (b) - (a)))
    for (;;) {
        uint64_t best = UINT64_MAX;
        size_t where = 0;
        for (size_t i = 0; i + 1 < k; i++) {
            uint64_t r = UINT64_MAX;
            if (t->spm) {
                int32_t id = FIND(at[i], at[i + 2]);
                if (id >= 0) r = t->rank[id];
            } else {
                uint64_t x = tok_merge_get(t, FIND(at[i], at[i + 1]), FIND(at[i + 1], at[i + 2]));
                if (x != UINT64_MAX) r = x >> 32;
            }
            if (r < best) {
                best = r;
                where = i;
            }
        }
        if (best == UINT64_MAX) break;
        memmove(&at[where + 1], &at[where + 2], (k - where - 1) * sizeof at[0]);
        k--;
    }
    for (size_t i = 0; i < k; i++) {
        int32_t id = FIND(at[i], at[i + 1]);
        if (id >= 0)
            ids_push(out, id, NULL);
        else
            for (size_t q = at[i]; q < at[i + 1]; q++) ids_push(out, t->byte_id[(unsigned char)p[q]], NULL);
    }
#undef FIND
}

/* Piece p[0, n) with windows of the given length. */
static void piece(const struct tok *t, struct ids *out, const char *p, size_t n, uint32_t window, uint64_t *steps)
{
    struct tok_work w;
    struct err e = {0};
    assert_int_equal(tok_work_init(&w, t, out, 0, &e), OK);
    w.base = p;
    w.base_n = n;
    w.window = window;
    assert_int_equal(tok_piece_encode(&w, 0, n), OK);
    if (steps) *steps = w.steps;
    tok_work_free(&w);
}

/* A random vocabulary over few letters: merges in random order, so that ranks need not grow with length. */
static struct tok *random_tok(bool spm, unsigned letters)
{
    static char text[400][64];
    size_t n = 0;
    struct gm m;
    struct tok *t;
    struct err e = {0};
    while (n < letters) {
        static const char *const set[] = {"a", "b", "c", "\xC3\xA9", "d"};
        snprintf(text[n], 64, "%s", set[spm ? n : n % 3]);
        n++;
    }
    static char merge[400][140];
    const char *list[400];
    size_t n_merge = 0, want = 20 + rnd(100);
    for (int tries = 0; n_merge < want && tries < 4000; tries++) {
        const char *a = text[rnd((uint32_t)n)], *b = text[rnd((uint32_t)n)];
        char z[64];
        if (strlen(a) + strlen(b) > 12 + rnd(19)) continue;
        snprintf(z, sizeof z, "%.31s%.31s", a, b);
        bool known = false;
        for (size_t i = 0; i < n && !known; i++) known = strcmp(text[i], z) == 0;
        if (known) continue;
        memcpy(text[n++], z, sizeof z);
        snprintf(merge[n_merge], 140, "%s %s", a, b);
        list[n_merge] = merge[n_merge];
        n_merge++;
    }
    if (!spm) {
        for (size_t i = n_merge - 1; i > 0; i--) { /* any order of merges is a legal file */
            size_t k = rnd((uint32_t)i + 1);
            const char *x = list[i];
            list[i] = list[k];
            list[k] = x;
        }
        tiny_bpe(&m, "gpt-2", list, n_merge, NULL, 0);
    } else {
        struct spm_tok v[400];
        for (size_t i = 0; i < n; i++) v[i] = (struct spm_tok){text[i], -(float)rnd(rnd(2) ? 10 : 1000), 1};
        tiny_spm(&m, v, n, true);
    }
    if (open_gm(&m, &t, &e) < 0) fail_msg("%s", e.msg);
    gm_free(&m);
    return t;
}

static void random_vocabularies(void **state)
{
    (void)state;
    size_t seams = 0;
    for (int round = 0; round < 120; round++) {
        bool spm = round & 1;
        unsigned letters = spm ? 1 + rnd(5) : 1 + rnd(3);
        rnd_state = (uint64_t)round * 977 + 5;
        struct tok *t = random_tok(spm, letters);
        for (int k = 0; k < 12; k++) {
            char p[600];
            size_t n = 0, want = k % 2 ? 1 + rnd(90) : 100 + rnd(450);
            unsigned period = 1 + rnd(9), from = rnd(40);
            while (n < want) { /* random, then periodic: the hard case for windows */
                static const char *const set[] = {"a", "b", "c", "\xC3\xA9", "d"};
                const char *z = set[rnd(letters)];
                if (n > from + period && rnd(30) && k % 3 && !spm)
                    p[n] = p[n - period], n++;
                else
                    memcpy(p + n, z, strlen(z)), n += strlen(z);
            }
            struct ids a = {0}, b = {0}, c = {0};
            naive(t, &a, p, n);
            piece(t, &b, p, n, 1u << 30, NULL);
            same_ids("one window", "", &b, a.v, a.n);
            uint32_t window = 8 + rnd(120);
            piece(t, &c, p, n, window, NULL);
            same_ids("windows", "", &c, a.v, a.n);
            seams += n > 96 ? n / window : 0;
            ids_free(&a);
            ids_free(&b);
            ids_free(&c);
        }
        tok_close(t);
    }
    assert_true(seams > 2000);
}

/* ---- splitters ---- */

static size_t split_all(const struct pre *x, const char *p, size_t n, size_t *out)
{
    size_t *a = mem_alloc(n + 1, sizeof *a), *b = mem_alloc(n + 1, sizeof *b), na = n ? 1 : 0;
    struct pre_work w = {0};
    a[0] = n;
    for (uint32_t s = 0; s < x->n_step; s++) {
        size_t nb = 0, from = 0;
        for (size_t k = 0; k < na; from = a[k++])
            for (size_t i = 0, len = a[k] - from; i < len;) {
                size_t end = pre_next(x, s, &w, p + from, i, len);
                assert_true(end > i && end <= len);
                b[nb++] = from + end;
                i = end;
            }
        size_t *z = a;
        a = b;
        b = z;
        na = nb;
    }
    memcpy(out, a, na * sizeof *a);
    mem_free(a);
    mem_free(b);
    pre_work_free(&w);
    return na;
}

/* Characters around every class that some pattern tells apart; none whose category changed in recent Unicode versions. */
static void random_text(struct buf *b)
{
    static const char *const pool[] = {
        "abcxyzstdmrelv",
        "ABCXYZSTDM",
        "0123456789",
        "      ",
        " \t\n\r\v\f\n\r",
        ".,;:!?'\"()[]{}<>-_=+*/\\|@#$%^&~`",
        "''''sStTmMdDreRElLvV",
        "\xC3\xA4\xC3\xB6\xC3\x89\xC3\x9F\xC7\x85\xC5\xBF",
        "\xD0\xB0\xD0\x91\xD0\xB3\xCE\xA9",
        "\xE4\xB8\x80\xE4\xB8\x81\xE9\xBE\xA5\xE9\xBE\xA6\xE3\x81\x82\xE3\x82\xA0\xE3\x83\xBF",
        "\xEA\xB0\x80\xED\x9E\xA3",
        "\xD8\xA7\xD8\xA8",
        "\xCC\x81\xCC\x88\xE0\xA4\xBF\xE0\xA5\x80",
        "\xF0\x9F\x98\x80\xF0\x9F\x8F\xBD\xE2\x80\x8D\xEF\xB8\x8F",
        "\x01\x1b\x7f\xEF\xBF\xBD\xE2\x80\x8B\xEE\x80\x80",
        "\xEF\xBC\x91\xD9\xA3\xC2\xBD\xC2\xB2\xE2\x85\xA3",
        "\xF0\x90\x90\x80\xF0\x90\x90\xA8\xF0\xA0\x9C\x8E\xF0\x9D\x95\xAC",
        "\xCA\xB0\xCB\x91\xC2\xAA\xC2\xBA",
        "\xE3\x80\x82\xEF\xBC\x81\xE2\x80\x98\xE3\x80\x80\xEF\xBC\x9A\xC2\xA0\xC2\x85\xE2\x80\x83",
    };
    for (uint32_t k = 1 + rnd(12); k > 0; k--) {
        const char *p = pool[rnd(ARRAY_LEN(pool))];
        size_t n = strlen(p);
        for (uint32_t i = 1 + rnd(4); i > 0; i--) {
            size_t at = rnd((uint32_t)n);
            while (at && ((unsigned char)p[at] & 0xC0) == 0x80) at--;
            uint32_t cp;
            buf_put(b, p + at, utf8_next(p + at, n - at, &cp));
        }
    }
}

static void splitters_equal_pcre(void **state)
{
    (void)state;
    size_t fast = 0;
    for (size_t r = 0; r < pre_table_n; r++) {
        struct pre hand, ref;
        struct err e = {0};
        if (pre_init(&hand, &pre_table[r], false, &e) < 0 || pre_init(&ref, &pre_table[r], true, &e) < 0)
            fail_msg("%s: %s", pre_table[r].name, e.msg);
        bool same = r > 0; /* rows with the patterns of the row above need no second run */
        for (size_t i = 0; same && i < PRE_MAX_STEP; i++)
            same =
                pre_table[r].step[i] == pre_table[r - 1].step[i] ||
                (pre_table[r].step[i] && pre_table[r - 1].step[i] && strcmp(pre_table[r].step[i], pre_table[r - 1].step[i]) == 0);
        for (uint32_t i = 0; i < hand.n_step; i++) fast += hand.step[i].kind != PRE_PCRE;
        rnd_state = r + 1;
        for (int k = 0; k < (same ? 20 : 4000); k++) {
            struct buf b = {0};
            size_t x[400], y[400];
            random_text(&b);
            assert_true(b.n < 400);
            size_t nx = split_all(&hand, b.p, b.n, x), ny = split_all(&ref, b.p, b.n, y);
            if (nx != ny || memcmp(x, y, nx * sizeof *x) != 0) {
                size_t i = 0;
                while (i < nx && i < ny && x[i] == y[i]) i++;
                fail_msg("%s: \"%s\": piece %zu ends at %zu, PCRE2 says %zu", pre_table[r].name, b.p, i, i < nx ? x[i] : 0,
                         i < ny ? y[i] : 0);
            }
            buf_free(&b);
        }
        pre_free(&hand);
        pre_free(&ref);
    }
    assert_true(fast > 60);
}

/* Facts that PCRE2 cannot witness, from the patterns' meaning. */
static void splitter_facts(void **state)
{
    (void)state;
    static const struct {
        const char *pre, *text, *pieces; /* pieces: text with | between */
    } c[] = {
        {"llama-bpe",
         "It'S I'\xC5\xBF"
         "a 12345",
         "It|'S| I|'\xC5\xBF|a| |123|45"},
        {"qwen2", "12a", "1|2|a"},
        {"gpt-2", "I'M it's 12345  x", "I|'|M| it|'s| 12345| | x"},
        {"gpt-4o", "HTTPServer don't CamelCase", "HTTPServer| don't| Camel|Case"},
        {"tekken", "don't CamelCase a/b/\n", "don|'t| Camel|Case| a|/b|/\n"},
        {"deepseek-v3", "12345 abc!def \n\n x", "123|45| abc|!def| \n\n| x"},
        {"falcon", "12345", "123|45"},
        {"smollm", "a12", "a|1|2"},
        {"default", "12345", "123|45"},
    };
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        struct pre x;
        struct err e = {0};
        struct buf got = {0};
        size_t ends[100], from = 0;
        assert_int_equal(pre_init(&x, pre_find(c[i].pre), false, &e), OK);
        size_t n = split_all(&x, c[i].text, strlen(c[i].text), ends);
        for (size_t k = 0; k < n; from = ends[k++]) {
            if (k) buf_putc(&got, '|');
            buf_put(&got, c[i].text + from, ends[k] - from);
        }
        assert_string_equal(got.p, c[i].pieces);
        buf_free(&got);
        pre_free(&x);
    }
}

static void table_names(void **state)
{
    (void)state;
    static const char *const must[] = {"default",          "gpt-2",       "gpt-4o",   "mpt",       "smollm",
                                       "llama-bpe",        "llama3",      "llama-v3", "falcon3",   "qwen2",
                                       "deepseek-r1-qwen", "megrez",      "qwen35",   "tekken",    "deepseek-llm",
                                       "deepseek-coder",   "deepseek-v3", "falcon",   "starcoder", "refact",
                                       "command-r",        "olmo",        "dbrx",     "phi-2",     "stablelm2"};
    for (size_t i = 0; i < ARRAY_LEN(must); i++) assert_non_null(pre_find(must[i]));
    size_t n = 0;
    while (tok_pre_name(n)) n++;
    assert_int_equal(n, pre_table_n);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(pre_table[i].source);
        assert_ptr_equal(pre_find(pre_table[i].name), &pre_table[i]); /* no name twice */
    }
    assert_null(pre_find("gpt2"));
}

/* ---- refusals ---- */

struct bad {
    int code;
    const char *say; /* in the message */
    void (*make)(struct gm *m);
};
static void put_list(struct gm *m, const char *key, const char *const *v, size_t n)
{
    struct buf *b = gm_arr(m, key, GGUF_STR, n);
    for (size_t i = 0; i < n; i++) gm_put_str(b, v[i], strlen(v[i]));
}
static void b_no_model(struct gm *m) { gm_drop(m, G "model"); }
static void b_nothing(struct gm *m) { gm_drop(m, G "model"), gm_drop(m, G "tokens"); }
static void b_none(struct gm *m) { gm_str(m, G "model", "none"); }
static void b_model(struct gm *m) { gm_str(m, G "model", "bert"); }
static void b_pre(struct gm *m) { gm_str(m, G "pre", "qwen-2"); }
static void b_pre_far(struct gm *m) { gm_str(m, G "pre", "zzzzzzzzzzzzzzzzzz"); }
static void b_pre_type(struct gm *m) { gm_u32(m, G "pre", 1); }
static void b_no_tokens(struct gm *m) { gm_drop(m, G "tokens"); }
static void b_tokens_empty(struct gm *m) { gm_arr(m, G "tokens", GGUF_STR, 0); }
static void b_tokens_type(struct gm *m) { gm_u32(m, G "tokens", 3); }
static void b_no_merges(struct gm *m) { gm_drop(m, G "merges"); }
static void b_merges_empty(struct gm *m) { gm_arr(m, G "merges", GGUF_STR, 0); }
static void b_merge_word(struct gm *m) { put_list(m, G "merges", (const char *const[]){"h e", "hello"}, 2); }
static void b_merge_half(struct gm *m) { put_list(m, G "merges", (const char *const[]){"h e", "he "}, 2); }
static void b_types_short(struct gm *m) { gm_put_u32(gm_arr(m, G "token_type", GGUF_I32, 1), 1); }
static void b_type_value(struct gm *m)
{
    struct buf *b = gm_arr(m, G "token_type", GGUF_I32, 275);
    for (int i = 0; i < 275; i++) gm_put_u32(b, i == 200 ? 77 : 1);
}
static void b_scores_short(struct gm *m) { gm_put_u32(gm_arr(m, G "scores", GGUF_F32, 1), 1); }
static void b_eos(struct gm *m) { gm_u32(m, G "eos_token_id", 4000000000u); }
static void b_bos(struct gm *m) { gm_u32(m, G "bos_token_id", 275); }
static void b_unk(struct gm *m) { gm_u32(m, G "unknown_token_id", 275); }
static void b_eot(struct gm *m) { gm_u32(m, G "eot_token_id", 999); }
static void b_eos_list(struct gm *m) { gm_put_u32(gm_arr(m, G "eos_token_ids", GGUF_I32, 1), 0xFFFFFFFFu); }
static void b_add_bos(struct gm *m) { gm_u32(m, G "add_bos_token", 1); }
static void b_twins(struct gm *m)
{
    struct gm x;
    struct tiny_tok e[8];
    memcpy(e, extra1, sizeof e);
    e[7].text = "<tool>";
    tiny_bpe(&x, "gpt-2", merges1, ARRAY_LEN(merges1), e, 8);
    gm_free(m);
    *m = x;
}
static void b_long_special(struct gm *m)
{
    static char z[600];
    struct gm x;
    struct tiny_tok e[1] = {{z, 3}};
    memset(z, 'x', sizeof z - 1);
    tiny_bpe(&x, "gpt-2", merges1, ARRAY_LEN(merges1), e, 1);
    gm_free(m);
    *m = x;
}
static void b_long_token(struct gm *m)
{
    static char z[70000];
    struct gm x;
    struct tiny_tok e[1] = {{z, 1}};
    memset(z, 'x', sizeof z - 1);
    tiny_bpe(&x, "gpt-2", merges1, ARRAY_LEN(merges1), e, 1);
    gm_free(m);
    *m = x;
}
static void b_spm_no_scores(struct gm *m) { gm_str(m, G "model", "llama"); }
static void b_spm_nan(struct gm *m)
{
    gm_str(m, G "model", "llama");
    struct buf *b = gm_arr(m, G "scores", GGUF_F32, 275);
    for (int i = 0; i < 275; i++) gm_put_u32(b, i == 9 ? 0x7FC00000u : 0);
}

static void refusals(void **state)
{
    (void)state;
    static const struct bad bad[] = {
        {E_FORMAT, "tokenizer.ggml.model is missing", b_no_model},
        {E_AGAIN, "no tokenizer in this file", b_nothing},
        {E_AGAIN, "no tokenizer in this file", b_none},
        {E_UNSUP, "\"bert\"", b_model},
        {E_UNSUP, "\"qwen-2\"; the nearest known one is \"qwen2\"", b_pre},
        {E_UNSUP, "\"zzzzzzzzzzzzzzzzzz\"", b_pre_far},
        {E_FORMAT, "tokenizer.ggml.pre", b_pre_type},
        {E_FORMAT, "tokenizer.ggml.tokens is missing", b_no_tokens},
        {E_FORMAT, "tokenizer.ggml.tokens: empty", b_tokens_empty},
        {E_FORMAT, "tokenizer.ggml.tokens", b_tokens_type},
        {E_FORMAT, "tokenizer.ggml.merges is missing", b_no_merges},
        {E_FORMAT, "tokenizer.ggml.merges: empty", b_merges_empty},
        {E_FORMAT, "entry 1, \"hello\"", b_merge_word},
        {E_FORMAT, "entry 1, \"he \"", b_merge_half},
        {E_FORMAT, "tokenizer.ggml.token_type: 1 entries for 275 tokens", b_types_short},
        {E_FORMAT, "token 200 has type 77", b_type_value},
        {E_FORMAT, "tokenizer.ggml.scores: 1 entries for 275 tokens", b_scores_short},
        {E_FORMAT, "tokenizer.ggml.eos_token_id: 4000000000", b_eos},
        {E_FORMAT, "tokenizer.ggml.bos_token_id: 275", b_bos},
        {E_FORMAT, "tokenizer.ggml.unknown_token_id: 275", b_unk},
        {E_FORMAT, "tokenizer.ggml.eot_token_id: 999", b_eot},
        {E_FORMAT, "tokenizer.ggml.eos_token_ids: entry 0 is -1", b_eos_list},
        {E_FORMAT, "tokenizer.ggml.add_bos_token", b_add_bos},
        {E_FORMAT, "tokens 269 and 274 are both \"<tool>\"", b_twins},
        {E_FORMAT, "special token 267 has 599 bytes", b_long_special},
        {E_FORMAT, "token 267 has 69999 bytes", b_long_token},
        {E_FORMAT, "tokenizer.ggml.scores is missing", b_spm_no_scores},
        {E_FORMAT, "score of token 9 is not a number", b_spm_nan},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct gm m;
        struct tok *t = NULL;
        struct err e = {0};
        tiny_open(&m);
        bad[i].make(&m);
        int rc = open_gm(&m, &t, &e);
        if (rc != bad[i].code || t || !strstr(e.msg, bad[i].say) || !strstr(e.msg, "tok.gguf: "))
            fail_msg("case %zu: code %d, \"%s\"; wanted %d, \"%s\"", i, rc, e.msg, bad[i].code, bad[i].say);
        assert_null(strchr(e.msg, '\n'));
        gm_free(&m);
    }
}

/* Merges of tokens that a cut vocabulary no longer has are skipped; of equal ones the first counts. */
static void odd_but_fine(void **state)
{
    (void)state;
    struct gm m;
    struct tok *t;
    struct err e = {0};
    tiny_open(&m);
    put_list(&m, G "merges", (const char *const[]){"zz z", "h zz", "z z", "h e", "h e", "< plain>"}, 6);
    if (open_gm(&m, &t, &e) < 0) fail_msg("%s", e.msg);
    gm_free(&m);
    IDS(t, "hezzz", 0, 256, 'z', 'z', 'z');
    tok_close(t);
    tiny_open(&m); /* no pre: split as "default", with a warning */
    gm_drop(&m, G "pre");
    if (open_gm(&m, &t, &e) < 0) fail_msg("%s", e.msg);
    gm_free(&m);
    assert_string_equal(tok_pre(t), "default");
    tok_close(t);
}

/* ---- work and memory ---- */

static void fill(struct buf *b, int kind, size_t n)
{
    while (b->n < n) {
        switch (kind) {
        case 0: buf_putc(b, 'l'); break;
        case 1: buf_putc(b, ' '); break;
        case 2: buf_puts(b, "helloworlhelldehelo"); break;
        case 3: buf_putc(b, (char)('a' + rnd(26))); break;
        case 4: buf_puts(b, "\xE4\xB8\xAD"); break;
        case 5: buf_puts(b, "A\xE4\xB8\xAD"); break;
        case 6: buf_puts(b, "<"); break;
        case 7: buf_puts(b, " \n"); break;
        case 8: buf_putc(b, '1'); break;
        default: buf_puts(b, "\xFF"); break;
        }
    }
}

/* Twice the text, at most 2.05 times the work; and no splitter is slow on any of these (a quadratic one would need hours). */
static void linear(void **state)
{
    (void)state;
    static const char *const rows[] = {"gpt-2",       "llama-bpe", "gpt-4o",     "tekken", "deepseek-llm",
                                       "deepseek-v3", "default",   "seed-coder", "bloom"};
    struct tok *spm = open_path("tests/data/models/stories260K.gguf");
    for (size_t r = 0; r <= ARRAY_LEN(rows); r++) {
        struct gm m;
        struct tok *t = spm;
        struct err e = {0};
        if (r < ARRAY_LEN(rows)) {
            tiny_bpe(&m, rows[r], merges1, ARRAY_LEN(merges1), extra1, ARRAY_LEN(extra1));
            if (open_gm(&m, &t, &e) < 0) fail_msg("%s", e.msg);
            gm_free(&m);
        }
        for (int kind = 0; kind < 10; kind++) {
            uint64_t steps[2];
            for (size_t k = 0; k < 2; k++) {
                struct buf b = {0};
                struct ids v = {0};
                rnd_state = 7;
                fill(&b, kind, (size_t)100000 << k);
                uint64_t t0 = os_now_ns();
                assert_int_equal(tok_encode_steps(t, &v, b.p, b.n, TOK_SPECIAL, &steps[k], &e), OK);
                assert_true(os_now_ns() - t0 < 20000000000u);
                buf_free(&b);
                ids_free(&v);
            }
            if (steps[1] > steps[0] * 2.05 + 1000)
                fail_msg("%s, kind %d: %llu steps, then %llu", rows[r % ARRAY_LEN(rows)], kind, (unsigned long long)steps[0],
                         (unsigned long long)steps[1]);
        }
        tok_close(t);
    }
}

/* Every allocation fails once: an error, nothing leaked, out as it was. */
static void no_memory(void **state)
{
    (void)state;
    struct gm m;
    struct buf b = {0}, text = {0};
    struct gguf g;
    struct tok *t;
    struct err e = {0};
    char path[200];
    tiny_open(&m);
    gm_str(&m, "tokenizer.chat_template", "x");
    gm_build(&m, &b);
    gm_write("tok.gguf", &b, path);
    assert_int_equal(gguf_open(&g, path, &e), OK);
    int rc = E_NOMEM;
    uint64_t n = 1;
    for (; rc < 0 && n < 1000; n++) {
        mem_fail_after(n);
        rc = tok_open_gguf(&t, &g, &e);
        mem_fail_after(0);
        if (rc < 0) assert_int_equal(rc, E_NOMEM);
    }
    assert_true(rc == OK && n > 3);
    fill(&text, 2, 5000);
    rc = E_NOMEM;
    struct ids v = {0};
    ids_push(&v, 42, &e);
    for (n = 1; n < 1000; n++) {
        mem_fail_after(n);
        rc = tok_encode(t, &v, text.p, text.n, 0, &e);
        mem_fail_after(0);
        if (rc == OK && n > 20) break;
        if (rc < 0) assert_true(rc == E_NOMEM && v.n == 1 && v.v[0] == 42);
        v.n = 1;
    }
    assert_int_equal(rc, OK);
    ids_free(&v);
    buf_free(&b);
    buf_free(&text);
    gm_free(&m);
    gguf_close(&g);
    tok_close(t);
}

static void too_long(void **state)
{
    (void)state;
    struct tok *t = open_path("tests/data/models/stories260K.gguf");
    struct ids v = {0};
    struct err e = {0};
    assert_int_equal(tok_encode(t, &v, "", (size_t)1 << 30, 0, &e), E_RANGE); /* refused before it is read */
    tok_close(t);
}

/* Random bytes, valid or not, through every made tokenizer: round trip and streaming. */
static void random_bytes(void **state)
{
    (void)state;
    struct gm m;
    struct tok *t[2];
    struct err e = {0};
    tiny_open(&m);
    if (open_gm(&m, &t[0], &e) < 0) fail_msg("%s", e.msg);
    gm_free(&m);
    t[1] = open_path("tests/data/models/stories260K.gguf");
    for (int k = 0; k < 6000; k++) {
        struct buf b = {0};
        rnd_state = (uint64_t)k;
        for (uint32_t n = rnd(6); n > 0; n--) {
            if (rnd(3))
                random_text(&b);
            else
                buf_putc(&b, (char)rnd(256));
        }
        for (int i = 0; i < 2; i++) round_trip(t[i], b.p ? b.p : "", b.n);
        buf_free(&b);
    }
    tok_close(t[0]);
    tok_close(t[1]);
}

static int cleanup(void **state)
{
    (void)state;
    gm_rm_dir();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stories),
        cmocka_unit_test(golden_json),
        cmocka_unit_test(golden_inp_out),
        cmocka_unit_test(bpe_small),
        cmocka_unit_test(bos_default),
        cmocka_unit_test(whole_piece),
        cmocka_unit_test(missing_bytes),
        cmocka_unit_test(spm_small),
        cmocka_unit_test(random_vocabularies),
        cmocka_unit_test(splitters_equal_pcre),
        cmocka_unit_test(splitter_facts),
        cmocka_unit_test(table_names),
        cmocka_unit_test(refusals),
        cmocka_unit_test(odd_but_fine),
        cmocka_unit_test(linear),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(too_long),
        cmocka_unit_test(random_bytes),
    };
    return cmocka_run_group_tests_name("tok", tests, NULL, cleanup);
}
