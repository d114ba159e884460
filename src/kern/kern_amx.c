/* kern_amx.c: kernels for CPUs with AMX tiles (bf16). */
#include "kern/kern.h"

void kern_fill_amx(struct kern *k) { k->isa = ISA_AMX; }
