/* chat.h: messages -> prompt text through a chat template. Any thread. */
#pragma once
#include "model/jinja.h"
#include "model/tok.h"

/* Fills a template's variables: takes `in` = an array of messages, or an object of variables (messages, tools, ...), and returns
 * a new object (owned; it shares the values of `in`) in which these are set where absent: tools and documents = null,
 * add_generation_prompt = true, bos_token and eos_token = the texts in tok ("" without such a token or without tok, which may be
 * NULL). Messages are checked: objects with a string role; content absent, a string, null or a list of objects. E_FORMAT names
 * the message. */
int chat_vars(json_t **out, const json_t *in, const struct tok *tok, struct err *e);

/* One-call form for run and chat: renders `messages` (array, or object of variables as above) with template text tmpl;
 * generation_prompt wins over a variable of the object. E_ARG: tmpl is empty, or the template's own raise_exception; else as
 * jinja_compile and jinja_render. */
int chat_render(struct buf *out, struct str tmpl, const json_t *messages, const struct tok *tok, bool generation_prompt,
                struct err *e);
