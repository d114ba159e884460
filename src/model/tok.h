/* tok.h: text <-> token ids, from GGUF metadata. BPE over bytes (tokenizer.ggml.model gpt2) with the pre-tokenizer named by
 * tokenizer.ggml.pre, and SentencePiece-style BPE with scores and byte fallback (model llama). A struct tok is read-only after
 * opening: any thread. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "model/gguf.h"

struct tok; /* owned by who opened it */

/* Ids, owned; zero-initialised is empty. */
struct ids {
    int32_t *v;
    size_t n, cap;
};
int ids_push(struct ids *a, int32_t id, struct err *e);
void ids_free(struct ids *a);

/* tokenizer.ggml.token_type */
enum tok_attr { TOK_NORMAL = 1, TOK_UNKNOWN = 2, TOK_CONTROL = 3, TOK_USER = 4, TOK_UNUSED = 5, TOK_BYTE = 6 };

enum {
    TOK_SPECIAL = 1, /* recognise control tokens written in the text; user-defined ones (they are text: runs of spaces,
                      * <tool_call>, ...) always are, as in Hugging Face tokenizers and llama.cpp */
    TOK_ADD = 2,     /* add BOS/EOS as the file says (add_bos_token, add_eos_token); never a second BOS when the text starts
                      * with it */
};

/* E_FORMAT / E_UNSUP with a message naming the file; an unknown `pre` names the nearest known one. The gguf may be closed
 * afterwards: everything is copied. E_AGAIN (message set): the file carries no tokenizer at all; the caller may go on with ids
 * only. */
int tok_open_gguf(struct tok **out, const struct gguf *g, struct err *e);
void tok_close(struct tok *t);

/* Appends the ids of n bytes of text (any bytes; invalid UTF-8 by the rule of tests/data/tokenizer/cases.json) to out. Time is
 * linear in n. E_NOMEM, or E_RANGE for half a gigabyte and more; then out is as before. */
int tok_encode(const struct tok *t, struct ids *out, const char *p, size_t n, unsigned flags, struct err *e);

/* Bytes of one token as it stands inside a text (SentencePiece space restored, byte tokens as their byte); special tokens give
 * their text when special is true, else nothing. Borrowed slice, empty for ids out of range. Not necessarily whole characters. */
struct str tok_piece(const struct tok *t, int32_t id, bool special);

/* Streaming decode: never hands out part of a character. Zero-initialised; fixed size. */
struct tok_stream {
    const struct tok *t; /* borrowed */
    bool special;        /* write special tokens as text */
    bool started;        /* SentencePiece: the one space in front of the first word is dropped */
    uint8_t n_hold;
    char hold[8];
};
void tok_stream_init(struct tok_stream *s, const struct tok *t, bool special, bool strip_first_space);
/* Appends to out the text that token id completes. */
void tok_stream_put(struct tok_stream *s, struct buf *out, int32_t id);
/* Appends U+FFFD for an unfinished character, if there is one. */
void tok_stream_end(struct tok_stream *s, struct buf *out);
/* Whole list at once: exact bytes (also invalid UTF-8), for round trips; SentencePiece's added space stays (tok_adds_space). */
void tok_decode(const struct tok *t, struct buf *out, const int32_t *id, size_t n, bool special);

uint32_t tok_vocab(const struct tok *t);
const char *tok_model(const struct tok *t);           /* "bpe" or "spm" */
const char *tok_pre(const struct tok *t);             /* pre-tokenizer's table name, "" for spm */
struct str tok_text(const struct tok *t, int32_t id); /* as in the file */
enum tok_attr tok_attr(const struct tok *t, int32_t id);
int32_t tok_find(const struct tok *t, struct str text);             /* -1 when absent */
int32_t tok_bos(const struct tok *t), tok_eos(const struct tok *t); /* -1: none */
bool tok_adds_bos(const struct tok *t);
bool tok_adds_space(const struct tok *t); /* SentencePiece: a space is put in front of the text */
/* Any token that ends generation: eos, eot, eom of the metadata, tokenizer.ggml.eos_token_ids list, and the well-known
 * end-of-turn names
 * (<|im_end|>, <|eot_id|>, <end_of_turn>, <|end|>, ...) when they are control tokens. */
bool tok_is_end(const struct tok *t, int32_t id);
struct str tok_chat_template(const struct tok *t); /* tokenizer.chat_template, copied; empty when absent */

/* The known pre-tokenizer names (i from 0; NULL at the end), for help and docs. */
const char *tok_pre_name(size_t i);
