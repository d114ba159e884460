/* batch.h: what one step computes. Filled by the scheduler (or a simple loop), read by forward pass and device; lives until the step's end. */
#pragma once
#include "base/base.h"

typedef uint32_t blk_id; /* index of a KV block in the pool */

/* Rows 0..n_dec-1 are decode rows (one per sequence), the rest prompt rows (a mixed step: rule R3). Rows of one sequence are consecutive positions.
 * inv: q_off ascending, q_off[0] == 0, q_off[n_seq] == n_tok; every block a row writes has one holder; positions of sequence s up to its last row are covered by
 * blk[blk_off[s] ...]. */
struct batch {
    uint32_t n_tok, n_seq, n_dec;
    const int32_t *tok;      /* [n_tok] */
    const uint32_t *pos;     /* [n_tok] */
    const uint32_t *q_off;   /* [n_seq+1] first row of each sequence */
    const blk_id *blk;       /* block tables one after another */
    const uint32_t *blk_off; /* [n_seq] start of each table in blk */
    const uint32_t *out_row; /* [n_out] rows whose logits are wanted, ascending */
    uint32_t n_out;
    uint64_t step;
};
