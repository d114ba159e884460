/* gguf.h: GGUF v2/v3 files (also split in several), mapped, fully validated before any field is used.
 * Format: the GGUF specification in the ggml repository, docs/gguf.md. Any thread for reading after gguf_open.
 * Every message starts with the file's path (its end, when long). */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/os.h"
#include "model/dtype.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STR,
    GGUF_ARR,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_N
};

/* A metadata value: bytes in the map, already bounds-checked. For arrays: `type` is GGUF_ARR, `elem` the element type (never
 * GGUF_ARR: arrays of arrays are refused), n the count, p the first element. For strings: n bytes at p. Else one value at p
 * (unaligned). */
struct gguf_kv {
    struct str key; /* UTF-8 without control characters */
    enum gguf_type type, elem;
    uint64_t n;
    const uint8_t *p;
};
/* inv: n_elem is the product of dim, dim[0] is a multiple of the type's block, bytes fits the file, data is 8-byte aligned, no
 * two tensors share a byte. */
struct gguf_tensor {
    struct str name; /* UTF-8 without control characters, 1..256 bytes */
    uint32_t n_dim;  /* 1..4 */
    uint64_t dim[4]; /* fastest first, none is 0, 1 beyond n_dim */
    enum dtype dt;
    const uint8_t *data; /* in the map; borrowed until gguf_close */
    uint64_t bytes, n_elem;
    uint16_t file; /* which split */
};
struct gguf {
    const char *path;                    /* as given, owned by the arena */
    struct os_map *map;                  /* n_file of them; in the order of the split */
    const char **file_path;              /* n_file of them */
    bool borrowed;                       /* the map is the caller's memory (gguf_open_mem) */
    uint32_t n_file, version, alignment; /* alignment: of the first file */
    struct gguf_kv *kv;                  /* in file order; of a split's first part */
    uint32_t n_kv;
    struct gguf_tensor *t; /* in file order, part after part; n_t may be 0 (a file with a vocabulary only) */
    uint32_t n_t;
    uint64_t tensor_bytes;
    /* indices by (length, bytes) of key or name: look-up and duplicate check in n log n, whatever a file holds */
    uint32_t *kv_sorted, *t_sorted;
    struct arena arena;
};

/* Maps and validates path (its siblings too when it is one file of a split). On failure nothing is left open and e names the file
 * and the fault. Any tensor type outside dtype_table is refused with its name and the tensor's (E_UNSUP). No allocation is sized
 * by a count that the file's own length cannot hold. */
int gguf_open(struct gguf *g, const char *path, struct err *e);
/* The same for n bytes at p, borrowed until gguf_close, 8-byte aligned (E_ARG otherwise); `name` stands for the path in messages.
 * A part of a split is refused. */
int gguf_open_mem(struct gguf *g, const char *name, const void *p, size_t n, struct err *e);
/* Safe on a zeroed struct and after a failed open. */
void gguf_close(struct gguf *g);
/* The path as messages show it: whole, or "..." and its last 90 bytes. Static storage of the caller: buf of 96. */
const char *gguf_show_path(const char *path, char buf[96]);
/* Sets "PATH: text" in e and returns code: how the readers of a file's contents (shape, weights, tokenizer) word their faults. */
int gguf_fail(const struct gguf *g, struct err *e, int code, const char *fmt, ...) ATTR_PRINTF(4, 5);

/* NULL when absent. */
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name);

/* Typed values. Absent: 0, *v untouched. Present: 1. Wrong type or outside [lo, hi]: E_FORMAT naming file, key, value and what is
 * wanted. Any integer type is accepted for u64 (negative refused), f32 and f64 (finite) for f64. */
int gguf_u64(const struct gguf *g, const char *key, uint64_t lo, uint64_t hi, uint64_t *v, struct err *e);
int gguf_f64(const struct gguf *g, const char *key, double *v, struct err *e);
int gguf_bool(const struct gguf *g, const char *key, bool *v, struct err *e);
int gguf_str(const struct gguf *g, const char *key, struct str *v, struct err *e);
/* An array with elements of one type (GGUF_STR, GGUF_F32, or GGUF_I32 which also takes GGUF_U32). */
int gguf_arr(const struct gguf *g, const char *key, enum gguf_type elem, const struct gguf_kv **v, struct err *e);
/* Element access: strings must be walked in order (cur starts at kv->p); numbers by index. */
struct str gguf_next_str(const uint8_t **cur);
float gguf_arr_f32(const struct gguf_kv *kv, uint64_t i);
int32_t gguf_arr_i32(const struct gguf_kv *kv, uint64_t i);

/* "u32", "string", ... */
const char *gguf_type_name(enum gguf_type t);
/* Element i (0 for a scalar) of any number type as text for people ("1e-05", "true"); strings need gguf_next_str. */
void gguf_put_number(struct buf *out, const struct gguf_kv *kv, uint64_t i);
