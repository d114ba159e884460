/* dev_dry.c: a device that computes nothing. The forward pass over it fills the ledger (the wrappers in dev.c count) and touches no tensor memory,
 * so a 405B step is counted in microseconds: the planner's way of counting by running. Joins: what the CPU device would make is not known here, so 0. */
#include "dev/dev.h"

static int dry_open(struct dev *d, const struct dev_opt *o, struct err *e)
{
    (void)d, (void)o, (void)e;
    return OK;
}
static void dry_close(struct dev *d) { (void)d; }
static int dry_alloc(struct dev *d, size_t bytes, bool sparse, void **out, struct err *e)
{
    (void)d, (void)bytes, (void)sparse, (void)e;
    *out = NULL;
    return OK;
}
static void dry_free(struct dev *d, void *p, size_t bytes) { (void)d, (void)p, (void)bytes; }
static void dry_get(struct dev *d, void *host, const void *p, size_t bytes) { (void)d, (void)host, (void)p, (void)bytes; }
static int dry_mat_load(struct dev *d, struct mat *m, struct err *e)
{
    (void)d, (void)m, (void)e;
    return OK;
}
static int dry_model(struct dev *d, const struct model_shape *m, const float *factors, struct err *e)
{
    (void)d, (void)m, (void)factors, (void)e;
    return OK;
}
static void dry_step(struct dev *d, const struct batch *b) { (void)d, (void)b; }
static void dry_embed(struct dev *d, float *y, const struct mat *w) { (void)d, (void)y, (void)w; }
static void dry_norm(struct dev *d, float *y, const float *x, const float *g, uint32_t n, uint32_t dim, float eps)
{
    (void)d, (void)y, (void)x, (void)g, (void)n, (void)dim, (void)eps;
}
static void dry_mm(struct dev *d, float *y, const float *x, const struct mat *const *w, uint32_t n_w, uint32_t n)
{
    (void)d, (void)y, (void)x, (void)w, (void)n_w, (void)n;
}
static void dry_rope(struct dev *d, float *qkv, const float *qn, const float *kn, const struct kv_view *kv, uint32_t layer)
{
    (void)d, (void)qkv, (void)qn, (void)kn, (void)kv, (void)layer;
}
static void dry_attend(struct dev *d, float *y, const float *qkv, const struct kv_view *kv, uint32_t layer)
{
    (void)d, (void)y, (void)qkv, (void)kv, (void)layer;
}
static void dry_glu(struct dev *d, float *y, const float *gu, uint32_t n, uint32_t f) { (void)d, (void)y, (void)gu, (void)n, (void)f; }
static void dry_add(struct dev *d, float *x, const float *y, uint32_t n, uint32_t dim) { (void)d, (void)x, (void)y, (void)n, (void)dim; }
static void dry_rows(struct dev *d, float *y, const float *x, const uint32_t *row, uint32_t n, uint32_t dim)
{
    (void)d, (void)y, (void)x, (void)row, (void)n, (void)dim;
}
static void dry_topk(struct dev *d, struct cand *c, const float *logits, uint32_t n, uint32_t v, uint32_t k)
{
    (void)d, (void)logits, (void)v, (void)k;
    for (uint32_t i = 0; i < n; i++) c[i].n = 0;
}
static int dry_sync(struct dev *d, struct err *e)
{
    (void)d, (void)e;
    return OK;
}
static uint64_t dry_joins(struct dev *d)
{
    (void)d;
    return 0;
}

const struct dev_ops dev_dry = {
    .name = "dry", .open = dry_open, .close = dry_close, .alloc = dry_alloc, .free = dry_free, .get = dry_get, .mat_load = dry_mat_load,
    .model = dry_model,
    .step_begin = dry_step, .embed = dry_embed, .rmsnorm = dry_norm, .matmul = dry_mm, .rope_kv = dry_rope, .attend = dry_attend,
    .glu = dry_glu, .add = dry_add, .rows = dry_rows, .topk = dry_topk, .sync = dry_sync, .joins = dry_joins,
};
