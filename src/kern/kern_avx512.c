/* kern_avx512.c: kernels for CPUs with AVX512. */
#include "kern/kern.h"

void kern_fill_avx512(struct kern *k) { k->isa = ISA_AVX512; }
