/* dtype.h: element types of weights, activations and KV. One row each: name, block, bytes, GGUF id, how to dequantise. */
#pragma once
#include "base/base.h"
#include "base/buf.h"

enum dtype {
    DT_F32, DT_F16, DT_BF16, DT_Q8_0, DT_Q4_0, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q4_K, DT_Q5_K, DT_Q6_K,
    DT_N,
    DT_NONE = DT_N,
};

struct dtype_info {
    const char *name;       /* "q4_k": lower case, as on the command line and in reports */
    uint32_t gguf_id;       /* ggml_type number of the GGUF specification */
    uint32_t block, bytes;  /* values per block, bytes per block */
    /* n values (a multiple of block) of raw file blocks -> f32, bit for bit as ggml's dequantize_row_* and gguf-py do (tests/data/quants). */
    void (*dequant)(float *y, const void *x, size_t n);
};
extern const struct dtype_info dtype_table[DT_N];

static inline const char *dtype_name(enum dtype t) { return t < DT_N ? dtype_table[t].name : "none"; }
/* Bytes of a row of n values; n must be a multiple of the block. */
static inline size_t dtype_row_bytes(enum dtype t, size_t n) { return n / dtype_table[t].block * dtype_table[t].bytes; }
/* By GGUF type number; DT_NONE when hearth does not read it. */
enum dtype dtype_of_gguf(uint32_t id);
/* The GGUF specification's name of any type number ("Q2_K"), also of those not read; NULL when the number has no name. */
const char *dtype_gguf_name(uint32_t id);
enum dtype dtype_by_name(const char *name);
