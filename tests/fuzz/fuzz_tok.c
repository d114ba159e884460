/* Fuzz entry: texts through tokenizers of every pre-tokenizer kind, and back: decode(encode(x)) is x, streaming gives valid
 * UTF-8, and the same text as a part of a longer one does no harm. An input that begins with "GGUF" is a vocabulary itself: when
 * it is accepted, texts are encoded with it. */
#include "base/log.h"
#include "model/tok_int.h"
#include "unit/tok_make.h"

extern const char *const fuzz_words[], *const fuzz_seeds[];
const char *const fuzz_words[] = {"hello",
                                  " world",
                                  "<|bos|>",
                                  "<tool>",
                                  "'ll",
                                  "'S",
                                  "\r\n",
                                  " \n ",
                                  "12345",
                                  "\xE4\xB8\xAD\xE6\x96\x87",
                                  "\xCC\x81",
                                  "\xF0\x9F\x98\x80",
                                  "\xE2\x96\x81",
                                  "\xEF\xBF\xBD",
                                  "\xFF\xFE",
                                  "HTTPServer",
                                  "\xC7\x85",
                                  "\xE3\x80\x80",
                                  "   ",
                                  "!!!",
                                  NULL};
const char *const fuzz_seeds[] = {"hello world 12345 it's\n\n  I'LL go!\n",
                                  "A\xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80\xCC\x81 <tool>x<|bos|>",
                                  "\xFF\xC3(\xE2\x82 \xF0\x9F", NULL};

static const char *const merges[] = {"h e", "l l",  "he ll", "hell o", "\xC4\xA0 w", "\xC4\xA0w orld", "1 2", "\xC4\xA0 \xC4\xA0",
                                     "o r", "or l", "orl d"};
static const struct tiny_tok extra[] = {{"<|bos|>", 3}, {"<tool>", 4}, {"   ", 4}};

static struct tok *open_gm(struct gm *m)
{
    struct buf b = {0};
    struct gguf g;
    struct err e = {0};
    struct tok *t = NULL;
    gm_build(m, &b);
    CHECK(gguf_open_mem(&g, "mem.gguf", b.p, b.n, &e) == OK);
    CHECK(tok_open_gguf(&t, &g, &e) == OK);
    gguf_close(&g);
    buf_free(&b);
    gm_free(m);
    return t;
}

static void use(const struct tok *t, const char *p, size_t n, unsigned flags, bool exact)
{
    struct ids v = {0};
    struct buf whole = {0}, out = {0};
    struct tok_stream s;
    CHECK(tok_encode(t, &v, p, n, flags, NULL) == OK);
    tok_decode(t, &whole, v.v, v.n, true);
    tok_stream_init(&s, t, true, true);
    for (size_t i = 0; i < v.n; i++) {
        CHECK(v.v[i] >= 0 && (uint32_t)v.v[i] < tok_vocab(t));
        size_t before = out.n;
        tok_stream_put(&s, &out, v.v[i]);
        CHECK(out.n == before || utf8_check(out.p + before, out.n - before) == out.n - before);
    }
    tok_stream_end(&s, &out);
    if (exact) {
        size_t lead = n && tok_adds_space(t) ? 1 : 0;
        CHECK(whole.n == n + lead && (n == 0 || memcmp(whole.p + lead, p, n) == 0));
    }
    ids_free(&v);
    buf_free(&whole);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const rows[] = {"gpt-2",        "llama-bpe",   "qwen35",  "gpt-4o",    "tekken",
                                       "deepseek-llm", "deepseek-v3", "default", "seed-coder"};
    static struct tok *t[ARRAY_LEN(rows) + 1];
    if (!t[0]) {
        static const struct spm_tok v[] = {
            {"<unk>", 0, 2}, {"<|bos|>", 0, 3}, {"\xE2\x96\x81", -3, 1},   {"h", -4, 1},    {"e", -5, 1},           {"he", -1, 1},
            {"l", -6, 1},    {"ll", -1, 1},     {"\xE2\x96\x81he", -2, 1}, {"hell", -2, 1}, {"\xE4\xB8\xAD", -9, 1}};
        struct gm m;
        log_set_level(LOG_ERROR);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            tiny_bpe(&m, rows[i], merges, ARRAY_LEN(merges), extra, ARRAY_LEN(extra));
            t[i] = open_gm(&m);
        }
        tiny_spm(&m, v, ARRAY_LEN(v), true);
        t[ARRAY_LEN(rows)] = open_gm(&m);
    }
    char *p = mem_alloc(n, 1); /* exactly n bytes, for the sanitizers */
    if (!p) return 0;
    if (n) memcpy(p, data, n);
    if (n > 4 && memcmp(p, "GGUF", 4) == 0) {
        struct gguf g;
        struct err e = {0};
        struct tok *x = NULL;
        if (gguf_open_mem(&g, "mem.gguf", p, n, &e) == OK && tok_open_gguf(&x, &g, &e) == OK) {
            for (unsigned f = 0; f < 4; f++) use(x, p, n, f, false);
        }
        tok_close(x);
        gguf_close(&g);
    } else {
        bool marks = false; /* SentencePiece cannot tell U+2581 from a space */
        for (size_t i = 0; i + 3 <= n; i++) marks = marks || memcmp(p + i, "\xE2\x96\x81", 3) == 0;
        for (size_t i = 0; i < ARRAY_LEN(t); i++) {
            bool spm = i == ARRAY_LEN(rows);
            use(t[i], p, n, 0, !spm || !marks);
            use(t[i], p, n, TOK_SPECIAL | TOK_ADD, false);
        }
    }
    mem_free(p);
    return 0;
}
