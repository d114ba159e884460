/* tok_make.h: for tests: small tokenizers as GGUF metadata. */
#pragma once
#include "unit/gguf_make.h"

#define G "tokenizer.ggml."

static inline void byte_char(struct buf *b, unsigned c)
{
    unsigned next = 0x100;
    for (unsigned i = 0; i <= c; i++) {
        bool self = (i >= 0x21 && i <= 0x7E) || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        if (i == c) buf_utf8(b, self ? i : next);
        next += !self;
    }
}

/* A byte-level BPE: ids 0..255 the bytes, then the merges' results in order, then the tokens `extra` with their types. */
struct tiny_tok {
    const char *text;
    int32_t type;
};
static inline void tiny_bpe(struct gm *m, const char *pre, const char *const *merges, size_t n_merge,
                            const struct tiny_tok *extra, size_t n_extra)
{
    gm_init(m);
    gm_str(m, "general.architecture", "llama");
    gm_str(m, G "model", "gpt2");
    gm_str(m, G "pre", pre);
    uint64_t n = 256 + n_merge + n_extra;
    struct buf *b = gm_arr(m, G "tokens", GGUF_STR, n);
    for (unsigned i = 0; i < 256; i++) {
        struct buf z = {0};
        byte_char(&z, i);
        gm_put_str(b, z.p, z.n);
        buf_free(&z);
    }
    for (size_t i = 0; i < n_merge; i++) {
        char z[200], *sp;
        snprintf(z, sizeof z, "%s", merges[i]);
        sp = strchr(z + 1, ' ');
        memmove(sp, sp + 1, strlen(sp));
        gm_put_str(b, z, strlen(z));
    }
    for (size_t i = 0; i < n_extra; i++) gm_put_str(b, extra[i].text, strlen(extra[i].text));
    b = gm_arr(m, G "token_type", GGUF_I32, n);
    for (uint64_t i = 0; i < n; i++) gm_put_u32(b, i < 256 + n_merge ? 1 : (uint32_t)extra[i - 256 - n_merge].type);
    b = gm_arr(m, G "merges", GGUF_STR, n_merge);
    for (size_t i = 0; i < n_merge; i++) gm_put_str(b, merges[i], strlen(merges[i]));
}

/* SentencePiece: tokens with scores. */
struct spm_tok {
    const char *text;
    float score;
    int32_t type;
};
static inline void tiny_spm(struct gm *m, const struct spm_tok *v, size_t n, bool bytes)
{
    size_t all = n + (bytes ? 256 : 0);
    gm_init(m);
    gm_str(m, "general.architecture", "llama");
    gm_str(m, G "model", "llama");
    struct buf *b = gm_arr(m, G "tokens", GGUF_STR, all);
    for (size_t i = 0; i < all; i++) {
        char z[16];
        snprintf(z, sizeof z, "<0x%02X>", (unsigned)(i - n) & 255);
        const char *p = i < n ? v[i].text : z;
        gm_put_str(b, p, strlen(p));
    }
    b = gm_arr(m, G "scores", GGUF_F32, all);
    for (size_t i = 0; i < all; i++) {
        float s = i < n ? v[i].score : 0;
        buf_put(b, &s, 4);
    }
    b = gm_arr(m, G "token_type", GGUF_I32, all);
    for (size_t i = 0; i < all; i++) gm_put_u32(b, i < n ? (uint32_t)v[i].type : 6);
}
