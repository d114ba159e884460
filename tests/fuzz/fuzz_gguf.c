/* Fuzz entry: any bytes through everything that loading a GGUF does. Built for libFuzzer, or with a plain driver that feeds it a
 * corpus and mutations of it. */
#include "base/mem.h"
#include "unit/load_all.h"
#include <string.h>

/* What the plain driver writes into its inputs. */
extern const char *const fuzz_words[];
const char *const fuzz_words[] = {
    "GGUF",
    "general.architecture",
    "general.alignment",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "llama.block_count",
    "llama.context_length",
    "llama.embedding_length",
    "llama.feed_forward_length",
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.attention.layer_norm_rms_epsilon",
    "llama.attention.sliding_window",
    "llama.rope.dimension_count",
    "llama.rope.freq_base",
    "llama.rope.scaling.type",
    "llama.rope.scaling.factor",
    "llama.vocab_size",
    "llama.expert_count",
    "split.no",
    "split.count",
    "split.tensors.count",
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.chat_template",
    "token_embd.weight",
    "output.weight",
    "output_norm.weight",
    "rope_freqs.weight",
    "blk.0.attn_q.weight",
    "blk.0.attn_q.bias",
    "blk.0.attn_q_norm.weight",
    "blk.0.ffn_down.weight",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e = {0};
    void *p = mem_alloc(n, 1); /* aligned, and exactly n bytes, so that a sanitizer sees the first byte too many */
    if (!p) return 0;
    if (n) memcpy(p, data, n);
    int rc = load_mem(p, n, &e);
    CHECK(rc == OK || (rc < 0 && e.code == rc && e.msg[0]));
    mem_free(p);
    return 0;
}
