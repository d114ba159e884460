/* load_all.h: for tests: everything that `inspect` and `run` do to a file before they use it. */
#pragma once
#include "model/gguf.h"
#include "model/shape.h"
#include "model/tok.h"
#include "model/weights.h"

static inline int load_parts(const struct gguf *g, struct err *e)
{
    struct model_shape s;
    struct weights w;
    struct tok *t = NULL;
    int rc = tok_open_gguf(&t, g, e);
    if (rc == E_AGAIN) rc = OK; /* no tokenizer: ids only */
    if (rc == OK && g->n_t) {
        rc = shape_from_gguf(&s, g, e);
        if (rc == OK) rc = weights_bind(&w, &s, g, e);
        if (rc == OK) weights_free(&w);
    }
    if (t) tok_close(t);
    return rc;
}
static inline int load_file(const char *path, struct err *e)
{
    struct gguf g;
    int rc = gguf_open(&g, path, e);
    if (rc == OK) rc = load_parts(&g, e);
    gguf_close(&g);
    return rc;
}
static inline int load_mem(const void *p, size_t n, struct err *e)
{
    struct gguf g;
    int rc = gguf_open_mem(&g, "mem.gguf", p, n, e);
    if (rc == OK) rc = load_parts(&g, e);
    gguf_close(&g);
    return rc;
}
