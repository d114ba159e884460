/* chat.h: messages -> prompt text through a chat template. */
#pragma once
#include "model/jinja.h"
#include "model/tok.h"

/* Fills a template's variables: takes `in` = an array of messages, or an object of variables (messages, tools, ...), and returns a new object
 * (owned) with bos_token/eos_token/... of tok (may be NULL) and add_generation_prompt = true where absent. Messages are checked: objects with a string role; content
 * a string, null or a list of parts. */
int chat_vars(json_t **out, const json_t *in, const struct tok *tok, struct err *e);

/* One-call form for run and chat: renders `messages` (array) with template text tmpl. */
int chat_render(struct buf *out, struct str tmpl, const json_t *messages, const struct tok *tok, bool generation_prompt, struct err *e);
