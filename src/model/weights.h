/* weights.h: a file's tensors bound by name to the places of the forward pass, every shape checked. Views only: the mapped file must stay open. */
#pragma once
#include "model/gguf.h"
#include "model/shape.h"

/* y[N,rows] = x[N,cols] w^T + bias. A view, not owned. */
struct mat {
    const void *w;      /* rows in the file's layout, row_bytes apart; or the device's packed form (layout != 0) */
    const void *file;   /* always the file's rows (embedding look-up, repacking) */
    const float *bias;  /* [rows] or NULL */
    uint32_t rows, cols;
    enum dtype dt;
    uint8_t layout;     /* 0: as in the file; else the packed layout of the kernel table that made it */
    size_t row_bytes;   /* of the file's layout */
    /* FP8: w[r][c] = code * scale[r / scale_rows * scale_ld + c / scale_cols]. Per tensor: scale_rows = rows, scale_cols = cols; per channel: scale_rows = 1,
     * scale_cols = cols; blocks: 128, 128. scale_cols is cols or a multiple of 128. NULL: every scale is 1 (other types: always NULL). */
    const float *scale;
    uint32_t scale_rows, scale_cols, scale_ld;
    const struct gguf_tensor *src; /* NULL for made-up matrices */
};
static inline uint64_t mat_file_bytes(const struct mat *m) { return (uint64_t)m->row_bytes * m->rows; }

struct layer {
    struct mat q, k, v, o, gate, up, down;      /* q [H*E,D] k,v [G*E,D] o [D,H*E] gate,up [F,D] down [D,F] */
    const float *attn_norm, *ffn_norm;          /* [D] */
    const float *q_norm, *k_norm;               /* [E] or NULL */
};
struct weights {
    const struct model_shape *shape; /* borrowed */
    struct mat embed, out;           /* [V,D]; out is embed when tied */
    const float *out_norm;           /* [D] */
    const float *rope_factors;       /* [rope_dim/2] divisors, or NULL */
    struct layer *layer;             /* [L], owned */
    float *made;                     /* owned: vectors that the file stores in another type than F32, converted */
    uint8_t *used;                   /* owned, [g->n_t]: 1 for the tensors bound; the others play no part (vision towers and the like) */
    uint64_t matrix_bytes;           /* file bytes of all matrices used by a step (tied once, untied embedding not) */
};
/* Binds all tensors; the first missing or misshapen one is named with the dims seen and wanted. Tensors that the family does not know and that would change the result
 * (in a layer, or a known name of another family) are E_UNSUP; any others are let be, see used. E_FORMAT for a file without tensors (a vocabulary only).
 * On failure nothing is held. */
int weights_bind(struct weights *w, const struct model_shape *s, const struct gguf *g, struct err *e);
void weights_free(struct weights *w);
/* Calls fn for every matrix of a step in forward order (layers: q k v o gate up down, then out) with the name its tensor has in GGUF ("output.weight" also
 * when tied; valid during the call); stops at the first negative status and returns it. */
int weights_each(struct weights *w, int (*fn)(void *ud, struct mat *m, const char *name), void *ud);
