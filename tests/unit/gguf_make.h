/* gguf_make.h: for tests: writes GGUF files piece by piece, right ones and wrong ones, into memory or a temporary folder. */
#pragma once
#include "base/buf.h"
#include "base/mem.h"
#include "base/os.h"
#include "model/gguf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gm_kv {
    char key[80];
    struct buf val; /* type word and value */
};
struct gm_t {
    char name[80];
    uint32_t n_dim, type;
    uint64_t dim[4], off; /* off UINT64_MAX: put behind the one before */
    struct buf data;
};
struct gm {
    struct gm_kv kv[64];
    struct gm_t t[64];
    uint32_t n_kv, n_t, version;
    uint64_t align;
};

static inline void gm_init(struct gm *m)
{
    memset(m, 0, sizeof *m);
    m->version = 3;
    m->align = 32;
}
static inline void gm_free(struct gm *m)
{
    for (uint32_t i = 0; i < m->n_kv; i++) buf_free(&m->kv[i].val);
    for (uint32_t i = 0; i < m->n_t; i++) buf_free(&m->t[i].data);
    gm_init(m);
}
static inline void gm_put_u32(struct buf *b, uint32_t v) { buf_put(b, &v, 4); }
static inline void gm_put_u64(struct buf *b, uint64_t v) { buf_put(b, &v, 8); }
static inline void gm_put_str(struct buf *b, const char *p, size_t n)
{
    gm_put_u64(b, n);
    buf_put(b, p, n);
}

/* The value of `key`, emptied, with its type word: new at the end or in the place of the old one. */
static inline struct buf *gm_key(struct gm *m, const char *key, uint32_t type)
{
    uint32_t i = 0;
    while (i < m->n_kv && strcmp(m->kv[i].key, key) != 0) i++;
    CHECK(i < ARRAY_LEN(m->kv));
    if (i == m->n_kv) m->n_kv++;
    snprintf(m->kv[i].key, sizeof m->kv[i].key, "%s", key);
    buf_clear(&m->kv[i].val);
    gm_put_u32(&m->kv[i].val, type);
    return &m->kv[i].val;
}
static inline void gm_u32(struct gm *m, const char *key, uint32_t v) { gm_put_u32(gm_key(m, key, GGUF_U32), v); }
static inline void gm_f32(struct gm *m, const char *key, float v) { buf_put(gm_key(m, key, GGUF_F32), &v, 4); }
static inline void gm_bool(struct gm *m, const char *key, uint8_t v) { buf_put(gm_key(m, key, GGUF_BOOL), &v, 1); }
static inline void gm_str(struct gm *m, const char *key, const char *v) { gm_put_str(gm_key(m, key, GGUF_STR), v, strlen(v)); }
static inline void gm_raw(struct gm *m, const char *key, uint32_t type, const void *p, size_t n)
{
    buf_put(gm_key(m, key, type), p, n);
}
/* The header of an array; the caller appends the elements. */
static inline struct buf *gm_arr(struct gm *m, const char *key, uint32_t elem, uint64_t n)
{
    struct buf *b = gm_key(m, key, GGUF_ARR);
    gm_put_u32(b, elem);
    gm_put_u64(b, n);
    return b;
}
static inline void gm_drop(struct gm *m, const char *key)
{
    for (uint32_t i = 0; i < m->n_kv; i++)
        if (strcmp(m->kv[i].key, key) == 0) {
            buf_free(&m->kv[i].val);
            memmove(&m->kv[i], &m->kv[i + 1], (--m->n_kv - i) * sizeof m->kv[0]);
            memset(&m->kv[m->n_kv], 0, sizeof m->kv[0]);
            return;
        }
    CHECK(!"no such key");
}

/* A tensor (replaces one of that name) whose data is n bytes of a fixed pattern. d2 0: a vector. */
static inline struct gm_t *gm_tensor(struct gm *m, const char *name, uint32_t type, uint64_t d1, uint64_t d2, size_t n)
{
    uint32_t i = 0;
    while (i < m->n_t && strcmp(m->t[i].name, name) != 0) i++;
    CHECK(i < ARRAY_LEN(m->t));
    if (i == m->n_t) m->n_t++;
    struct gm_t *t = &m->t[i];
    buf_free(&t->data);
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->n_dim = d2 ? 2 : 1;
    t->type = type;
    t->dim[0] = d1;
    t->dim[1] = d2;
    t->off = UINT64_MAX;
    for (size_t k = 0; k < n; k++) buf_putc(&t->data, (char)(k % 4 == 3 ? 0x3e : k % 5)); /* as f32: small positive numbers */
    return t;
}
static inline void gm_drop_tensor(struct gm *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_t; i++)
        if (strcmp(m->t[i].name, name) == 0) {
            buf_free(&m->t[i].data);
            memmove(&m->t[i], &m->t[i + 1], (--m->n_t - i) * sizeof m->t[0]);
            memset(&m->t[m->n_t], 0, sizeof m->t[0]);
            return;
        }
    CHECK(!"no such tensor");
}

/* Tensors t0 .. t1-1 with all keys, as a file. */
static inline void gm_build_part(const struct gm *m, uint32_t t0, uint32_t t1, struct buf *out)
{
    struct buf data = {0};
    buf_clear(out);
    buf_put(out, "GGUF", 4);
    gm_put_u32(out, m->version);
    gm_put_u64(out, t1 - t0);
    gm_put_u64(out, m->n_kv);
    for (uint32_t i = 0; i < m->n_kv; i++) {
        gm_put_str(out, m->kv[i].key, strlen(m->kv[i].key));
        buf_put(out, m->kv[i].val.p, m->kv[i].val.n);
    }
    for (uint32_t i = t0; i < t1; i++) {
        const struct gm_t *t = &m->t[i];
        gm_put_str(out, t->name, strlen(t->name));
        gm_put_u32(out, t->n_dim);
        for (uint32_t k = 0; k < MIN(t->n_dim, 4u); k++) gm_put_u64(out, t->dim[k]);
        gm_put_u32(out, t->type);
        gm_put_u64(out, t->off == UINT64_MAX ? data.n : t->off);
        buf_put(&data, t->data.p, t->data.n);
        while (data.n % m->align) buf_putc(&data, 0);
    }
    while (out->n % m->align) buf_putc(out, 0);
    buf_put(out, data.p, data.n);
    buf_free(&data);
    CHECK(buf_ok(out));
}
static inline void gm_build(const struct gm *m, struct buf *out) { gm_build_part(m, 0, m->n_t, out); }

/* A whole model: width 32, 2 heads of 16, 1 KV head, ffn 64, 40 tokens without tokenizer, `layers` layers, everything F32. */
static inline void gm_tiny(struct gm *m, const char *arch, uint32_t layers)
{
    static const struct {
        const char *name;
        uint32_t cols, rows;
    } mat[] = {{"attn_q", 32, 32},   {"attn_k", 32, 16}, {"attn_v", 32, 16},  {"attn_output", 32, 32},
               {"ffn_gate", 32, 64}, {"ffn_up", 32, 64}, {"ffn_down", 64, 32}};
    char z[80];
    gm_init(m);
    gm_str(m, "general.architecture", arch);
    gm_str(m, "general.name", "tiny");
#define KEY(s) (snprintf(z, sizeof z, "%s." s, arch), z)
    gm_u32(m, KEY("block_count"), layers);
    gm_u32(m, KEY("context_length"), 64);
    gm_u32(m, KEY("embedding_length"), 32);
    gm_u32(m, KEY("feed_forward_length"), 64);
    gm_u32(m, KEY("attention.head_count"), 2);
    gm_u32(m, KEY("attention.head_count_kv"), 1);
    gm_f32(m, KEY("attention.layer_norm_rms_epsilon"), 1e-5f);
    gm_u32(m, KEY("vocab_size"), 40);
#undef KEY
    gm_tensor(m, "token_embd.weight", 0, 32, 40, 32 * 40 * 4);
    gm_tensor(m, "output_norm.weight", 0, 32, 0, 32 * 4);
    gm_tensor(m, "output.weight", 0, 32, 40, 32 * 40 * 4);
    for (uint32_t l = 0; l < layers; l++) {
        for (size_t i = 0; i < ARRAY_LEN(mat); i++) {
            snprintf(z, sizeof z, "blk.%u.%s.weight", l, mat[i].name);
            gm_tensor(m, z, 0, mat[i].cols, mat[i].rows, (size_t)mat[i].cols * mat[i].rows * 4);
        }
        snprintf(z, sizeof z, "blk.%u.attn_norm.weight", l);
        gm_tensor(m, z, 0, 32, 0, 32 * 4);
        snprintf(z, sizeof z, "blk.%u.ffn_norm.weight", l);
        gm_tensor(m, z, 0, 32, 0, 32 * 4);
    }
}

/* A temporary folder, and a file in it. */
static inline const char *gm_dir(void)
{
    static char dir[64];
    if (!dir[0]) {
        snprintf(dir, sizeof dir, "/tmp/hearth-test-XXXXXX");
        CHECK(mkdtemp(dir));
    }
    return dir;
}
static inline void gm_rm_dir(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", gm_dir());
    CHECK(system(cmd) == 0);
}
static inline const char *gm_write(const char *name, const struct buf *b, char path[200])
{
    struct err e = {0};
    snprintf(path, 200, "%s/%s", gm_dir(), name);
    CHECK(os_write_file(path, b->p, b->n, &e) == OK);
    return path;
}
