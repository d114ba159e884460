/* kern_amx_pack.c: the file's quantised blocks -> the AMX level's order (kern_amx.h) and back, bit for bit. Plain C. */
#include "kern/kern_amx.h"
#include <string.h>

/* Where things lie in a file block (ggml's block_* structures, see dtype.c). -1: absent. */
struct blk_fmt {
    int bytes, d, m, s, h, q, bits;
};
static const struct blk_fmt *fmt_of(enum dtype t)
{
    static const struct blk_fmt f[DT_N] = {
        /* clang-format off */
        [DT_Q8_0] = {34, 0, -1, -1, -1, 2, 8},  [DT_Q4_0] = {18, 0, -1, -1, -1, 2, 4},  [DT_Q4_1] = {20, 0, 2, -1, -1, 4, 4},
        [DT_Q5_0] = {22, 0, -1, -1, 2, 6, 5},   [DT_Q5_1] = {24, 0, 2, -1, 4, 8, 5},    [DT_Q4_K] = {144, 0, 2, 4, -1, 16, 4},
        [DT_Q5_K] = {176, 0, 2, 4, 16, 48, 5},  [DT_Q6_K] = {210, 208, -1, 192, 128, 0, 6},
        /* clang-format on */
    };
    return &f[t];
}

size_t amx_pack_bytes(enum dtype t, uint32_t rows, uint32_t cols) { return align_up(rows, 16) * dtype_row_bytes(t, cols); }

/* The codes of 32 values (tile j of 8 in a K-quant block) of a file block as bytes, and back. */
static void codes_get(uint8_t *restrict v, const uint8_t *restrict b, enum dtype t, const struct blk_fmt *f, uint32_t j)
{
    const uint8_t *q = b + f->q;
    if (t == DT_Q8_0) {
        memcpy(v, q, 32);
    } else if (t == DT_Q6_K) {
        const uint8_t *l = q + j / 4 * 64 + (j & 1) * 32, *h = b + f->h + j / 4 * 32;
        int ls = (int)(j >> 1 & 1) * 4, hs = (int)(j & 3) * 2;
        for (int i = 0; i < 32; i++) v[i] = (uint8_t)((l[i] >> ls & 15) | (h[i] >> hs & 3) << 4);
    } else if (t == DT_Q4_K || t == DT_Q5_K) {
        int s = (int)(j & 1) * 4;
        q += j / 2 * 32;
        for (int i = 0; i < 32; i++) v[i] = (uint8_t)(q[i] >> s & 15);
        if (t == DT_Q5_K)
            for (int i = 0; i < 32; i++) v[i] |= (uint8_t)((b[f->h + i] >> j & 1) << 4);
    } else {
        for (int i = 0; i < 16; i++) {
            v[i] = q[i] & 15;
            v[i + 16] = q[i] >> 4;
        }
        if (f->h >= 0)
            for (int i = 0; i < 32; i++) v[i] |= (uint8_t)((b[f->h + i / 8] >> (i & 7) & 1) << 4);
    }
}

/* b was zeroed before the first tile of a block. */
static void codes_put(uint8_t *restrict b, const uint8_t *restrict v, enum dtype t, const struct blk_fmt *f, uint32_t j)
{
    uint8_t *q = b + f->q;
    if (t == DT_Q8_0) {
        memcpy(q, v, 32);
    } else if (t == DT_Q6_K) {
        uint8_t *l = q + j / 4 * 64 + (j & 1) * 32, *h = b + f->h + j / 4 * 32;
        int ls = (int)(j >> 1 & 1) * 4, hs = (int)(j & 3) * 2;
        for (int i = 0; i < 32; i++) {
            l[i] |= (uint8_t)((v[i] & 15) << ls);
            h[i] |= (uint8_t)((v[i] >> 4) << hs);
        }
    } else if (t == DT_Q4_K || t == DT_Q5_K) {
        int s = (int)(j & 1) * 4;
        q += j / 2 * 32;
        for (int i = 0; i < 32; i++) q[i] |= (uint8_t)((v[i] & 15) << s);
        if (t == DT_Q5_K)
            for (int i = 0; i < 32; i++) b[f->h + i] |= (uint8_t)((v[i] >> 4) << j);
    } else {
        for (int i = 0; i < 16; i++) q[i] = (uint8_t)((v[i] & 15) | (v[i + 16] & 15) << 4);
        if (f->h >= 0)
            for (int i = 0; i < 32; i++) b[f->h + i / 8] |= (uint8_t)((v[i] >> 4) << (i & 7));
    }
}

/* Codes of 16 rows -> a packed tile. Eight- and six-bit rows: even k first, then odd. */
static void tile_put(uint8_t *restrict q, const uint8_t (*restrict v)[32], int bits)
{
    uint8_t eo[16 * 32];
    if (bits > 5)
        for (int r = 0; r < 16; r++)
            for (int k = 0; k < 16; k++) {
                eo[r * 32 + k] = v[r][2 * k];
                eo[r * 32 + 16 + k] = v[r][2 * k + 1];
            }
    if (bits == 8) {
        memcpy(q, eo, 512);
    } else if (bits == 6) {
        for (int z = 0; z < 4; z++)
            for (int k = 0; k < 64; k++) {
                const uint8_t *a = eo + z * 128 + k;
                q[z * 64 + k] = (uint8_t)((a[0] & 15) | (a[64] & 15) << 4);
            }
        for (int y = 0; y < 2; y++)
            for (int k = 0; k < 64; k++) {
                const uint8_t *a = eo + y * 256 + k;
                q[256 + y * 64 + k] = (uint8_t)(a[0] >> 4 | (a[64] >> 4) << 2 | (a[128] >> 4) << 4 | (a[192] >> 4) << 6);
            }
    } else if (bits == 5) {
        for (int z = 0; z < 5; z++) {
            uint16_t w[32];
            for (int k = 0; k < 32; k++)
                w[k] = (uint16_t)(v[3 * z][k] | v[3 * z + 1][k] << 5 | v[3 * z + 2][k] << 10 | (v[15][k] >> z & 1) << 15);
            memcpy(q + 64 * z, w, 64);
        }
    } else {
        for (int z = 0; z < 4; z++) {
            uint16_t w[32];
            for (int k = 0; k < 32; k++)
                w[k] = (uint16_t)(v[4 * z][k] | v[4 * z + 1][k] << 4 | v[4 * z + 2][k] << 8 | v[4 * z + 3][k] << 12);
            memcpy(q + 64 * z, w, 64);
        }
    }
}

/* The codes of one row of a packed tile. */
static void tile_get(uint8_t *v, const uint8_t *q, int bits, uint32_t r)
{
    for (uint32_t k = 0; k < 32; k++) {
        uint32_t eo = (k & 1) * 16 + k / 2;
        uint16_t w;
        if (bits == 8) {
            v[k] = q[r * 32 + eo];
        } else if (bits == 6) {
            uint32_t i = (r & 1) * 32 + eo;
            v[k] =
                (uint8_t)((q[r / 4 * 64 + i] >> (r >> 1 & 1) * 4 & 15) | (q[256 + r / 8 * 64 + i] >> (r >> 1 & 3) * 2 & 3) << 4);
        } else if (bits == 5 && r < 15) {
            memcpy(&w, q + r / 3 * 64 + 2 * k, 2);
            v[k] = (uint8_t)(w >> r % 3 * 5 & 31);
        } else if (bits == 5) {
            v[k] = 0;
            for (uint32_t z = 0; z < 5; z++) {
                memcpy(&w, q + z * 64 + 2 * k, 2);
                v[k] |= (uint8_t)((w >> 15) << z);
            }
        } else {
            memcpy(&w, q + r / 4 * 64 + 2 * k, 2);
            v[k] = (uint8_t)(w >> (r & 3) * 4 & 15);
        }
    }
}

/* Offsets inside a packed superblock of nt tiles. */
struct sb_geo {
    size_t d, m, s, q, q_tile, n_s;
};
static struct sb_geo geo_of(enum dtype t, const struct blk_fmt *f, uint32_t nt)
{
    bool kq = f->s >= 0;
    size_t nd = kq ? 1 : nt, o = nd * 32;
    struct sb_geo g = {.n_s = t == DT_Q6_K ? 16 : kq ? 12 : 0};
    g.m = o;
    if (f->m >= 0) o += nd * 32;
    g.s = o;
    o += g.n_s * 16;
    g.q = o;
    g.q_tile = 64 * (size_t)f->bits;
    return g;
}

void amx_pack(enum dtype t, void *dst, const void *file, size_t row_bytes, uint32_t rows, uint32_t cols, uint32_t r0, uint32_t r1)
{
    const struct blk_fmt *f = fmt_of(t);
    uint32_t T = cols / 32;
    bool kq = f->s >= 0;
    size_t panel = 16 * dtype_row_bytes(t, cols), tb = panel / MAX(T, 1u);
    for (uint32_t p0 = r0; p0 < r1; p0 += 16) {
        uint32_t nr = MIN(16u, rows - p0);
        uint8_t *pd = (uint8_t *)dst + p0 / 16 * panel;
        const uint8_t *src = (const uint8_t *)file + p0 * row_bytes;
        if (nr < 16) memset(pd, 0, panel);
        for (uint32_t t0 = 0; t0 < T; t0 += 8) {
            uint32_t nt = MIN(8u, T - t0);
            struct sb_geo g = geo_of(t, f, nt);
            uint8_t *sb = pd + t0 * tb;
            for (uint32_t j = 0; j < nt; j++) {
                uint8_t v[16][32] = {{0}};
                for (uint32_t r = 0; r < nr; r++) {
                    const uint8_t *b = src + r * row_bytes + (size_t)(kq ? t0 / 8 : t0 + j) * f->bytes;
                    codes_get(v[r], b, t, f, j);
                    if (kq && j) continue;
                    size_t at = j * 32 + r * 2;
                    memcpy(sb + g.d + at, b + f->d, 2);
                    if (f->m >= 0) memcpy(sb + g.m + at, b + f->m, 2);
                    for (size_t i = 0; i < g.n_s; i++) sb[g.s + i * 16 + r] = b[f->s + i];
                }
                tile_put(sb + g.q + j * g.q_tile, (const uint8_t(*)[32])v, f->bits);
            }
        }
    }
}

void amx_unpack(enum dtype t, void *file_row, const void *packed, uint32_t cols, uint32_t r)
{
    const struct blk_fmt *f = fmt_of(t);
    uint32_t T = cols / 32, rr = r & 15;
    bool kq = f->s >= 0;
    size_t panel = 16 * dtype_row_bytes(t, cols), tb = panel / MAX(T, 1u);
    const uint8_t *pd = (const uint8_t *)packed + r / 16 * panel;
    memset(file_row, 0, dtype_row_bytes(t, cols));
    for (uint32_t t0 = 0; t0 < T; t0 += 8) {
        uint32_t nt = MIN(8u, T - t0);
        struct sb_geo g = geo_of(t, f, nt);
        const uint8_t *sb = pd + t0 * tb;
        for (uint32_t j = 0; j < nt; j++) {
            uint8_t *b = (uint8_t *)file_row + (size_t)(kq ? t0 / 8 : t0 + j) * f->bytes, v[32];
            tile_get(v, sb + g.q + j * g.q_tile, f->bits, rr);
            codes_put(b, v, t, f, j);
            if (kq && j) continue;
            size_t at = j * 32 + rr * 2;
            memcpy(b + f->d, sb + g.d + at, 2);
            if (f->m >= 0) memcpy(b + f->m, sb + g.m + at, 2);
            for (size_t i = 0; i < g.n_s; i++) b[f->s + i] = sb[g.s + i * 16 + rr];
        }
    }
}
