/* shape.h: the one description of a model. The loader fills it from a file, the planner from a preset; forward pass and price only read it.
 * Dimension letters: L layers, D width, H query heads, G KV heads, E head size, F feed-forward width, V vocabulary. */
#pragma once
#include "base/base.h"
#include "base/err.h"
#include "model/dtype.h"

enum rope_kind { ROPE_NONE, ROPE_LINEAR, ROPE_FACTORS }; /* FACTORS: a divisor per frequency (llama3 scaling), in the file's rope_freqs tensor or computed */

struct model_shape {
    char arch[32];      /* general.architecture */
    char name[64];      /* general.name, printable, may be empty */
    uint32_t L, D, H, G, E, F, V, max_pos;
    uint32_t n_expert, n_expert_used; /* 0: dense */
    uint32_t rope_dim;  /* rotated leading part of each head, even, <= E */
    bool rope_adjacent; /* pairs are (2i, 2i+1) (GGUF's llama family, whose q/k rows are permuted at conversion), else (i, i+rope_dim/2) */
    enum rope_kind rope;
    float rope_theta, rope_factor; /* linear: positions are divided by rope_factor */
    float norm_eps;
    float attn_scale;   /* 1/sqrt(E) unless the file says otherwise */
    uint32_t window;    /* sliding window: a query sees the last `window` positions, itself included; 0 = all */
    bool tied, qkv_bias, qk_norm;
};                      /* inv (shape_check): H % G == 0, E even, all > 0, bytes of any matrix fit size_t */

struct gguf;
/* Reads every field from GGUF metadata; unknown architecture, scaling or absurd numbers are one line. max_pos: the file's context length. */
int shape_from_gguf(struct model_shape *s, const struct gguf *g, struct err *e);
int shape_check(const struct model_shape *s, const char *what, struct err *e);
/* Derived counts. Parameters read per token by matmuls (embedding excluded unless tied, output included). */
uint64_t shape_params(const struct model_shape *s);
/* KV bytes per token over all layers at elem_bytes per element: 2 * L * G * E * elem_bytes. */
uint64_t shape_kv_bytes(const struct model_shape *s, uint32_t elem_bytes);
/* Architectures read: i from 0, NULL at the end. */
const char *shape_arch_name(size_t i);
/* Named shapes ("llama-3.1-8b"; table with sources in shape_preset.c): fills *s, E_ARG naming the nearest one when there is no such shape. */
int shape_by_name(struct model_shape *s, const char *name, struct err *e);
/* Names of the table: i from 0, NULL at the end. */
const char *shape_preset_name(size_t i);
