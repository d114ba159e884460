/* model_path.h: what MODEL on the command line means: a file, or a name under the model cache. Any thread. */
#pragma once
#include "base/buf.h"
#include "base/err.h"

/* Appends the file's path to out. In this order: name is an existing file; an alias ("smollm2") or a file name under
 * os_cache_dir(), with or without ".gguf", whatever the case; the only such file whose name starts with it. Else E_IO with the
 * nearest name known (files beside it when it looks like a path, cached models and aliases otherwise); two files that start with
 * it: E_IO naming both. */
int model_path(struct buf *out, const char *name, struct err *e);
