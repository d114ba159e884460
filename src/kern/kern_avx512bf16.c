/* kern_avx512bf16.c: kernels for CPUs with AVX512_BF16 and no usable AMX (Zen 4, Cooper Lake). */
#include "kern/kern.h"

void kern_fill_avx512bf16(struct kern *k) { k->isa = ISA_AVX512BF16; }
