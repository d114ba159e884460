/* tok_class.c: Unicode character classes as one bit set per code point, in a two-stage table (pages of 256), filled once from
 * utf8proc's general categories. \s is White_Space of the Unicode standard (PropList.txt), as in the regular expressions of Rust
 * and Python. */
#include "model/tok_int.h"
#include <pthread.h>
#include <utf8proc.h>

uint8_t tok_class_page[0x1100];
uint16_t tok_class_row[256][256];

static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static uint16_t class_of(uint32_t c)
{
    unsigned v = 0;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: v = CL_L | CL_UP; break;
    case UTF8PROC_CATEGORY_LL: v = CL_L | CL_LOW; break;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: v = CL_L | CL_LX; break;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: v = CL_M; break;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: v = CL_N; break;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: v = CL_P; break;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: v = CL_SYM; break;
    default: break; /* separators, controls, unassigned */
    }
    if (is_space(c)) v |= CL_S;
    if (c == '\r' || c == '\n') v |= CL_CRLF;
    return (uint16_t)v;
}

static void build(void)
{
    uint32_t n_row = 0;
    for (uint32_t page = 0; page < 0x1100; page++) {
        /* Planes 4 to 13, 15 and 16 hold no character of any class; asking for each would cost more than all the rest. */
        uint32_t plane = page >> 8;
        bool empty = (plane >= 4 && plane != 14) || (plane == 14 && (page & 255) >= 16);
        CHECK(n_row < 256);
        uint16_t *row = tok_class_row[n_row];
        for (uint32_t i = 0; i < 256; i++) row[i] = empty ? 0 : class_of(page << 8 | i);
        uint32_t same = 0;
        while (same < n_row && memcmp(tok_class_row[same], row, sizeof tok_class_row[0]) != 0) same++;
        tok_class_page[page] = (uint8_t)same;
        if (same == n_row) n_row++;
    }
}

void tok_class_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    CHECK(pthread_once(&once, build) == 0);
}
