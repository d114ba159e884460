/* kern.c: which kernel level this machine can run, and the table filled up to it. The only kernel file that knows the
 * architecture: levels of another one have no row in fill_table and so do not exist. */
#include "kern/kern.h"
#include <string.h>

static const char *const names[ISA_N] = {"ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};

const char *isa_name(enum isa i) { return (unsigned)i < ISA_N ? names[i] : "none"; }

enum isa isa_by_name(const char *s)
{
    for (unsigned i = 0; i < ISA_N; i++)
        if (strcmp(s, names[i]) == 0) return (enum isa)i;
    return ISA_N;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static void (*const fill_table[ISA_N])(struct kern *k) = {
    kern_fill_ref, kern_fill_avx2, kern_fill_avx512, kern_fill_avx512vnni, kern_fill_avx512bf16, kern_fill_amx,
};

/* XCR0: which register states the operating system saves (Intel SDM vol. 1, 13.3: bits 1-2 SSE and AVX, 5-7 AVX-512, 17-18 AMX
 * tiles). */
static uint64_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* Tile data is 8 KiB of state per thread: Linux hands it out only to a process that asks (arch_prctl(2), ARCH_REQ_XCOMP_PERM,
 * kernel 5.16). */
static bool ask_tiles(void)
{
    enum { REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) == 0;
}

static bool all(uint32_t reg, uint32_t bits) { return (reg & bits) == bits; }
#define BIT(n) (1u << (n))

/* Feature bits: Intel SDM vol. 2, CPUID. */
static enum isa detect(void)
{
    uint32_t a, b, c, d, b7, c7, d7, a71 = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, BIT(27) | BIT(28) | BIT(12) | BIT(29)))
        return ISA_REF; /* OSXSAVE AVX FMA F16C */
    uint64_t x = read_xcr0();
    if ((x & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) return ISA_REF;
    if (!all(b7, BIT(5) | BIT(8))) return ISA_REF; /* AVX2 BMI2 */
    if (a >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    if ((x & 0xe6) != 0xe6 || !all(b7, BIT(16) | BIT(17) | BIT(30) | BIT(31))) return ISA_AVX2;   /* AVX512 F DQ BW VL */
    if (!all(c7, BIT(11))) return ISA_AVX512;                                                     /* AVX512_VNNI */
    if (!all(a71, BIT(5))) return ISA_AVX512VNNI;                                                 /* AVX512_BF16 */
    if (!all(d7, BIT(22) | BIT(24) | BIT(25)) || (x & 0x60000) != 0x60000) return ISA_AVX512BF16; /* AMX BF16, TILE, INT8 */
    return ask_tiles() ? ISA_AMX : ISA_AVX512BF16;
}
#else
static void (*const fill_table[ISA_N])(struct kern *k) = {kern_fill_ref};

static enum isa detect(void) { return ISA_REF; }
#endif

enum isa kern_cpu_isa(void)
{
    static int seen = -1; /* the same answer whoever computes it */
    int s = __atomic_load_n(&seen, __ATOMIC_RELAXED);
    if (s < 0) {
        s = (int)detect();
        __atomic_store_n(&seen, s, __ATOMIC_RELAXED);
    }
    return (enum isa)s;
}

void kern_init(struct kern *k, enum isa level)
{
    CHECK(level <= kern_cpu_isa());
    memset(k, 0, sizeof *k);
    for (unsigned i = 0; i <= level; i++)
        if (fill_table[i]) fill_table[i](k);
}
