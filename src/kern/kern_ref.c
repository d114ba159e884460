/* kern_ref.c: every slot of the kernel table in plain C with f32 arithmetic: the executable specification that all other levels
 * are tested against, and the level that runs everywhere. Sums over K use 16 lanes and one fixed tree, which compilers vectorise
 * without reordering float arithmetic on their own; exp and sqrt are libm's. Weights stay in the file's layout. */
#include "base/half.h"
#include "kern/kern.h"
#include <math.h>
#include <string.h>

#define LANES 16
#define WROWS 4 /* weight rows expanded at a time: an activation row then serves four dots from the first cache */

/* Four floats: a vector register on every architecture (a GNU vector, because compilers keep an array of 16 sums in memory). */
typedef float f4 __attribute__((vector_size(16)));

static inline f4 f4_load(const float *p)
{
    f4 v;
    memcpy(&v, p, 16);
    return v;
}

/* The order of every sum over K at this level: lane j adds products j, j+16, j+32, ...; then lanes fold by 8, 4, 2, 1. */
static float dot16(const float *a, const float *b, uint32_t k)
{
    f4 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    uint32_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        s0 += f4_load(a + i) * f4_load(b + i);
        s1 += f4_load(a + i + 4) * f4_load(b + i + 4);
        s2 += f4_load(a + i + 8) * f4_load(b + i + 8);
        s3 += f4_load(a + i + 12) * f4_load(b + i + 12);
    }
    float s[LANES];
    memcpy(s, &s0, 16);
    memcpy(s + 4, &s1, 16);
    memcpy(s + 8, &s2, 16);
    memcpy(s + 12, &s3, 16);
    for (int j = 0; i < k; i++, j++) s[j] += a[i] * b[i];
    for (int h = LANES / 2; h; h /= 2)
        for (int j = 0; j < h; j++) s[j] += s[j + h];
    return s[0];
}

/* ---- activations */

static size_t act_bytes_f32(uint32_t n, uint32_t k) { return (size_t)n * act_f32_ld(k) * 4; }

static void act_prep_f32(void *xa, const float *x, size_t ldx, uint32_t n, uint32_t k, uint32_t i0, uint32_t i1)
{
    (void)n;
    size_t ld = act_f32_ld(k);
    for (uint32_t i = i0; i < i1; i++) {
        float *d = (float *)xa + i * ld;
        memcpy(d, x + i * ldx, (size_t)k * 4);
        memset(d + k, 0, (ld - k) * 4);
    }
}

static size_t act_bytes_bf16(uint32_t n, uint32_t k) { return (size_t)ceil_div_u32(n, 16) * ceil_div_u32(k, 32) * 1024; }

static void act_prep_bf16(void *xa, const float *x, size_t ldx, uint32_t n, uint32_t k, uint32_t i0, uint32_t i1)
{
    uint32_t nb = ceil_div_u32(k, 32);
    for (uint32_t i = i0; i < align_up(i1, 16); i++) {
        uint16_t *d = (uint16_t *)xa + (size_t)(i / 16) * nb * 512 + i % 16 * 32;
        for (uint32_t b = 0; b < nb; b++, d += 512)
            for (uint32_t j = 0; j < 32; j++) d[j] = i < n && b * 32 + j < k ? f32_to_bf16(x[i * ldx + b * 32 + j]) : 0;
    }
}

static size_t act_bytes_q8(uint32_t n, uint32_t k)
{
    struct act_q8 a;
    act_q8_view(&a, NULL, n, k);
    return a.bytes;
}

static void act_prep_q8(void *xa, const float *x, size_t ldx, uint32_t n, uint32_t k, uint32_t i0, uint32_t i1)
{
    struct act_q8 a;
    act_q8_view(&a, xa, n, k);
    for (uint32_t i = i0; i < i1; i++) {
        uint32_t h = MIN(16, n - i / 16 * 16);
        for (uint32_t b = 0; b < a.nb; b++) {
            const float *p = x + i * ldx + b * 32;
            size_t at = act_q8_at(&a, i, b, h);
            float m = 0;
            for (int j = 0; j < 32; j++) m = fabsf(p[j]) > m ? fabsf(p[j]) : m;
            /* below 2^-100 the inverse would overflow, and nothing that small moves a sum: the block is zero */
            float inv = m >= 0x1p-100f ? 127.0f / m : 0, sc = m >= 0x1p-100f ? m / 127.0f : 0;
            int32_t s[2] = {0, 0};
            for (int j = 0; j < 32; j++) {
                float t = p[j] * inv;
                t = t < 127.0f ? t : 127.0f; /* not-a-number ends here too */
                t = t > -127.0f ? t : -127.0f;
                int q = (int)nearbyintf(t);
                a.q[at * 32 + j] = (int8_t)q;
                s[j / 16] += q;
            }
            a.scale[at] = sc;
            a.ssum[at] = sc * (float)(s[0] + s[1]);
            a.n8[at] = -8 * (s[0] + s[1]);
            a.n128[at] = -128 * (s[0] + s[1]);
            a.n32[at * 2] = -32 * s[0];
            a.n32[at * 2 + 1] = -32 * s[1];
        }
    }
}

/* ---- gemm */

static void gemm(float *y, size_t ldy, const void *xa, const struct mat *w, uint32_t n, uint32_t r0, uint32_t r1, void *scratch)
{
    uint32_t k = w->cols;
    size_t ld = act_f32_ld(k);
    float *wf = scratch;
    for (uint32_t r = r0; r < r1; r += WROWS) {
        uint32_t h = MIN(WROWS, r1 - r);
        for (uint32_t j = 0; j < h; j++)
            dtype_table[w->dt].dequant(wf + (size_t)j * k, (const uint8_t *)w->w + (size_t)(r + j) * w->row_bytes, k);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < h; j++)
                y[i * ldy + r + j] = dot16((const float *)xa + i * ld, wf + (size_t)j * k, k) + (w->bias ? w->bias[r + j] : 0);
    }
}

/* ---- norm, rotation, activation */

static void rmsnorm(float *y, size_t ldy, const float *x, size_t ldx, const float *g, uint32_t n, uint32_t d, float eps)
{
    for (uint32_t i = 0; i < n; i++) {
        const float *a = x + i * ldx;
        float *o = y + i * ldy, r = 1.0f / sqrtf(dot16(a, a, d) / (float)d + eps);
        for (uint32_t j = 0; j < d; j++) o[j] = a[j] * r * g[j];
    }
}

static void rope(float *x, const float *cs, uint32_t rope_dim, bool adjacent)
{
    uint32_t half = rope_dim / 2;
    for (uint32_t i = 0; i < half; i++) {
        float *p = adjacent ? x + 2 * i : x + i, *q = adjacent ? p + 1 : p + half;
        float a = *p, b = *q, c = cs[2 * i], s = cs[2 * i + 1];
        *p = a * c - b * s;
        *q = a * s + b * c;
    }
}

static void silu_mul(float *y, size_t ldy, const float *gu, size_t ldgu, uint32_t n, uint32_t f)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < f; j++) {
            float g = gu[i * ldgu + j];
            y[i * ldy + j] = g / (1.0f + expf(-g)) * gu[i * ldgu + f + j];
        }
}

static void add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] += y[i];
}

/* ---- attention */

static void kv_put_f32(void *kblk, void *vblk, const float *k, const float *v, uint32_t E, uint32_t slot)
{
    float *kd = (float *)kblk + slot * 2, *vd = (float *)vblk + (size_t)(slot / 2) * E * 2 + slot % 2;
    for (uint32_t e = 0; e < E; e++) {
        kd[e / 2 * 32 + e % 2] = k[e];
        vd[2 * e] = v[e];
    }
}

static void kv_put_bf16(void *kblk, void *vblk, const float *k, const float *v, uint32_t E, uint32_t slot)
{
    uint16_t *kd = (uint16_t *)kblk + slot * 2, *vd = (uint16_t *)vblk + (size_t)(slot / 2) * E * 2 + slot % 2;
    for (uint32_t e = 0; e < E; e++) {
        kd[e / 2 * 32 + e % 2] = f32_to_bf16(k[e]);
        vd[2 * e] = f32_to_bf16(v[e]);
    }
}

/* Pair i of a run of stored values. */
static inline void kv_pair(float *lo, float *hi, const uint8_t *p, size_t i, bool bf16)
{
    if (bf16) {
        uint32_t u;
        memcpy(&u, p + 4 * i, 4);
        *lo = f32_of_bits(u << 16);
        *hi = f32_of_bits(u & 0xffff0000u);
    } else {
        memcpy(lo, p + 8 * i, 4);
        memcpy(hi, p + 8 * i + 4, 4);
    }
}

/* Scores add up over e ascending, values over positions ascending. */
static inline void span_one(const struct attn_job *j, const float *q, uint32_t lo, uint32_t hi, float *o, bool bf16)
{
    uint32_t E = j->E;
    float p[KERN_SPAN], m = -INFINITY, l = 0, *acc = o + 2;
    for (uint32_t b = lo / 16; b <= (hi - 1) / 16; b++) {
        const uint8_t *k = j->k + j->blk[b] * j->blk_bytes;
        float s[16] = {0};
        for (uint32_t e = 0; e < E / 2; e++)
            for (uint32_t t = 0; t < 16; t++) {
                float a, c;
                kv_pair(&a, &c, k, e * 16 + t, bf16);
                s[t] += q[2 * e] * a;
                s[t] += q[2 * e + 1] * c;
            }
        for (uint32_t t = 0; t < 16; t++) {
            uint32_t pos = b * 16 + t;
            float v = pos >= lo && pos < hi ? s[t] * j->scale : -INFINITY;
            p[pos % KERN_SPAN] = v;
            m = v > m ? v : m;
        }
    }
    for (uint32_t pos = lo; pos < hi; pos++) {
        float w = expf(p[pos % KERN_SPAN] - m);
        const uint8_t *v = j->v + j->blk[pos / 16] * j->blk_bytes + (size_t)(pos % 16 / 2) * E * 2 * (bf16 ? 2 : 4);
        l += w;
        for (uint32_t e = 0; e < E; e++) {
            float a, c;
            kv_pair(&a, &c, v, e, bf16);
            acc[e] += w * (pos % 2 ? c : a);
        }
    }
    o[0] = m;
    o[1] = l;
}

static inline void attn_span(const struct attn_job *j, uint32_t span, float *part, bool bf16)
{
    for (uint32_t i = 0; i < j->n_q; i++) {
        uint32_t lo, hi;
        attn_visible(j, span, j->pos0 + i, &lo, &hi);
        for (uint32_t h = 0; h < j->n_h; h++) {
            float *o = part + (size_t)(i * j->n_h + h) * (j->E + 2);
            memset(o, 0, (size_t)(j->E + 2) * 4);
            o[0] = -INFINITY;
            if (lo < hi) span_one(j, j->q + i * j->ldq + (size_t)h * j->E, lo, hi, o, bf16);
        }
    }
}

static void attn_span_f32(const struct attn_job *j, uint32_t span, float *part, void *scratch)
{
    (void)scratch;
    attn_span(j, span, part, false);
}

static void attn_span_bf16(const struct attn_job *j, uint32_t span, float *part, void *scratch)
{
    (void)scratch;
    attn_span(j, span, part, true);
}

static size_t attn_scratch(uint32_t E)
{
    (void)E;
    return 64; /* nothing is kept there; never 0, so that a caller may take its size for an allocation */
}

static void attn_merge(float *a, const float *b, uint32_t n, uint32_t E)
{
    for (uint32_t i = 0; i < n; i++, a += E + 2, b += E + 2) {
        if (b[0] == -INFINITY) continue;
        float m = a[0] > b[0] ? a[0] : b[0], fa = expf(a[0] - m), fb = expf(b[0] - m);
        a[0] = m;
        for (uint32_t e = 1; e < E + 2; e++) a[e] = a[e] * fa + b[e] * fb;
    }
}

static void attn_end(float *y, size_t ldy, const float *part, uint32_t n_q, uint32_t n_h, uint32_t E)
{
    for (uint32_t i = 0; i < n_q; i++)
        for (uint32_t h = 0; h < n_h; h++, part += E + 2) {
            float r = part[1] > 0 ? 1.0f / part[1] : 0;
            for (uint32_t e = 0; e < E; e++) y[i * ldy + (size_t)h * E + e] = part[2 + e] * r;
        }
}

/* ---- candidates */

static void topk(float *val, int32_t *id, uint32_t k, float *max, float *lse, const float *logits, uint32_t v)
{
    uint32_t n = 0;
    float m = -INFINITY;
    for (uint32_t i = 0; i < v; i++) {
        float x = logits[i];
        m = x > m ? x : m;
        if (x != x || (n == k && (k == 0 || x <= val[k - 1]))) continue; /* an equal later one never displaces an earlier */
        uint32_t at = n < k ? n++ : k - 1;
        for (; at > 0 && val[at - 1] < x; at--) {
            val[at] = val[at - 1];
            id[at] = id[at - 1];
        }
        val[at] = x;
        id[at] = (int32_t)i;
    }
    for (; n < k; n++) {
        val[n] = -INFINITY;
        id[n] = -1;
    }
    double s = 0;
    if (m > -INFINITY && m < INFINITY)
        for (uint32_t i = 0; i < v; i++) s += exp((double)logits[i] - (double)m);
    *max = m;
    *lse = s > 0 || s != s ? (float)((double)m + log(s)) : m; /* not-a-number stays visible here */
}

void kern_fill_ref(struct kern *k)
{
    k->isa = ISA_REF;
    for (unsigned t = 0; t < DT_N; t++)
        k->gemm[t] = (struct kern_gemm){.act = ACT_F32, .unit = 1, .scratch_col = 4 * WROWS, .gemm = gemm};
    k->act_bytes[ACT_F32] = act_bytes_f32;
    k->act_bytes[ACT_BF16] = act_bytes_bf16;
    k->act_bytes[ACT_Q8] = act_bytes_q8;
    k->act_prep[ACT_F32] = act_prep_f32;
    k->act_prep[ACT_BF16] = act_prep_bf16;
    k->act_prep[ACT_Q8] = act_prep_q8;
    k->rmsnorm = rmsnorm;
    k->rope = rope;
    k->kv_put[KV_F32] = kv_put_f32;
    k->kv_put[KV_BF16] = kv_put_bf16;
    k->attn_span[KV_F32] = attn_span_f32;
    k->attn_span[KV_BF16] = attn_span_bf16;
    k->attn_scratch = attn_scratch;
    k->attn_merge = attn_merge;
    k->attn_end = attn_end;
    k->silu_mul = silu_mul;
    k->add = add;
    k->topk = topk;
}
