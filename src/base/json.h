/* json.h: reading JSON from outside through jansson, strictly (duplicate keys, trailing text, bad UTF-8 refused) and with limits.
 * Values are jansson's json_t; the getters below give typed fields with messages that name the key. Any thread. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <jansson.h>

/* Parse n bytes. `what` names the source in messages. Nesting over 512 levels and texts over max bytes (0: 1 GiB) are refused.
 * Owned result in *out (json_decref). Integers beyond 64 bits and numbers beyond double are refused. */
int json_parse(json_t **out, const char *p, size_t n, size_t max, const char *what, struct err *e);

/* Typed fields of an object. Absent: returns 0 and leaves *v alone (so the caller sets the default); present with the right type: 1;
 * else E_FORMAT with a message. Borrowed results live as long as the object. */
int json_get_u64(const json_t *o, const char *key, uint64_t lo, uint64_t hi, uint64_t *v, struct err *e);
int json_get_f64(const json_t *o, const char *key, double *v, struct err *e); /* integer or real */
int json_get_bool(const json_t *o, const char *key, bool *v, struct err *e);
int json_get_str(const json_t *o, const char *key, struct str *v, struct err *e);
int json_get_array(const json_t *o, const char *key, const json_t **v, struct err *e);
