/* kern_avx2.c: kernels for CPUs with AVX2. */
#include "kern/kern.h"

void kern_fill_avx2(struct kern *k) { k->isa = ISA_AVX2; }
