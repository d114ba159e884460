/* kern_amx.h: AMX tile instructions as the kern_amx*.c files use them (Intel SDM vol. 2, chapter "Intel AMX instruction set
 * reference"). Written as inline assembly with a memory clobber: gcc's intrinsics don't tell the compiler that a tile load reads
 * memory. Every gemm or attention call loads its own tile configuration and releases it at the end, so nothing is kept between
 * calls. */
#pragma once
#include "base/base.h"

#define AMX_LOAD(t, p, stride)                                                                                                   \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"((const void *)(p)), "r"((size_t)(stride)) : "memory")
#define AMX_LOAD_ONCE(t, p, stride) /* with the hint to spare the cache */                                                       \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #t ::"r"((const void *)(p)), "r"((size_t)(stride)) : "memory")
#define AMX_STORE(t, p, stride)                                                                                                  \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"((void *)(p)), "r"((size_t)(stride)) : "memory")
#define AMX_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::)
/* c[16][n] += a[16][32] b[16 pairs][n][2]: for each row of a, products of even and of odd k are summed apart (k ascending, f32
 * fused multiply-add, denormals as zero), their sum is added to c. A row of c depends on its row of a alone, a column on its
 * column of b alone. */
#define AMX_DP(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

struct amx_cfg { /* the 64 bytes of LDTILECFG, palette 1 */
    uint8_t palette, start_row, zero[14];
    uint16_t colsb[16];
    uint8_t rows[16];
};
static inline void amx_config(const struct amx_cfg *c) { __asm__ volatile("ldtilecfg %0" ::"m"(*c) : "memory"); }
static inline void amx_release(void) { __asm__ volatile("tilerelease" ::: "memory"); }

/* Packed weights of the AMX level, made by kern_amx_pack.c, read by kern_amx.c: panels of 16 rows (the last padded with zeros),
 * each in superblocks of up to 8 tiles (a tile: 16 rows x 32 k; nt: tiles of the superblock), of as many bytes as the file's:
 *   f16 d[nt][16], f16 m[nt][16] (Q4_1, Q5_1), then q[nt];
 *   K-quants (nt = 8 always): f16 d[16], f16 dmin[16], u8 s[12][16] (the block's 12 scale bytes), q[8];
 *   Q6_K: f16 d[16], i8 s[16][16], q[8].
 * q of a tile:
 *   Q8_0        i8 [16 rows][16 even k, 16 odd k]
 *   four bits   u16 [4][32 k]: nibble i of word [z][k] is row 4z+i
 *   five bits   u16 [5][32 k]: bits 5i.. of word [z][k] are row 3z+i, bit 15 is bit z of row 15
 *   Q6_K        u8 [4][2][even, odd k]: low nibble of byte [z][i] is row 4z+i, high nibble row 4z+2+i; then
 *               u8 [2][2][even, odd k]: bits 2f.. of byte [y][i] are the high bits of row 8y+2f+i */
#include "model/dtype.h"
enum { AMX_LAYOUT = 3 }; /* mat.layout of packed weights */
size_t amx_pack_bytes(enum dtype t, uint32_t rows, uint32_t cols);
void amx_pack(enum dtype t, void *dst, const void *file, size_t row_bytes, uint32_t rows, uint32_t cols, uint32_t r0,
              uint32_t r1);
void amx_unpack(enum dtype t, void *file_row, const void *packed, uint32_t cols, uint32_t r);

struct kern;
void amx_fill_attn(struct kern *k); /* kern_amx_attn.c; k has the level below */
