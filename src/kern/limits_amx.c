/* limits_amx.c: peaks of the tile unit, on four accumulators from four resident tiles: no loads. */
#include "kern/kern_amx.h"
#include "kern/limits_unit.h"
#include <string.h>

static void begin(int byte)
{
    struct amx_cfg c = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        c.rows[t] = 16;
        c.colsb[t] = 64;
    }
    amx_config(&c); /* clears the tiles */
    uint8_t one[1024];
    memset(one, byte, sizeof one);
    AMX_LOAD(4, one, 64);
    AMX_LOAD(5, one, 64);
    AMX_LOAD(6, one, 64);
    AMX_LOAD(7, one, 64);
}

uint64_t lim_bf16_amx(uint64_t iters)
{
    begin(0x3b); /* bf16 0x3b3b, about 0.003 */
    for (uint64_t i = 0; i < iters; i++) {
        AMX_DP(0, 4, 6);
        AMX_DP(1, 5, 6);
        AMX_DP(2, 4, 7);
        AMX_DP(3, 5, 7);
    }
    amx_release();
    return iters * 4 * (16 * 16 * 32 * 2);
}

uint64_t lim_int8_amx(uint64_t iters)
{
    begin(3);
    for (uint64_t i = 0; i < iters; i++)
        __asm__ volatile("tdpbssd %%tmm6, %%tmm4, %%tmm0\n tdpbssd %%tmm6, %%tmm5, %%tmm1\n tdpbssd %%tmm7, %%tmm4, %%tmm2\n "
                         "tdpbssd %%tmm7, %%tmm5, %%tmm3" ::);
    amx_release();
    return iters * 4 * (16 * 16 * 64 * 2);
}
