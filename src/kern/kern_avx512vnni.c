/* kern_avx512vnni.c: kernels for CPUs with AVX512VNNI. */
#include "kern/kern.h"

void kern_fill_avx512vnni(struct kern *k) { k->isa = ISA_AVX512VNNI; }
