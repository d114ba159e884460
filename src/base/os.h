/* os.h: the operating system: files, clocks, cores, memory. Any thread unless said. */
#pragma once
#include "base/buf.h"
#include "base/err.h"

/* A file mapped read-only. p is NULL for an empty file. Owned; unmap with os_unmap. */
struct os_map {
    const uint8_t *p;
    size_t n;
};
int os_map(struct os_map *m, const char *path, struct err *e);
void os_unmap(struct os_map *m);
/* Tell the kernel that [off, off+n) of the map will be needed soon / is not needed any more (its pages may be dropped). */
void os_map_want(const struct os_map *m, size_t off, size_t n);
void os_map_drop(const struct os_map *m, size_t off, size_t n);

/* Whole file (or "-": stdin) into out; over max bytes is E_RANGE. */
int os_read_file(struct buf *out, const char *path, size_t max, struct err *e);
/* Write n bytes so that path has either its old or the whole new content: written beside it, flushed, renamed. */
int os_write_file(const char *path, const void *p, size_t n, struct err *e);
bool os_is_file(const char *path);
bool os_is_dir(const char *path);
/* mkdir -p. */
int os_mkdirs(const char *path, struct err *e);
/* The cache folder for models: $HEARTH_CACHE, else $XDG_CACHE_HOME/hearth, else ~/.cache/hearth. */
void os_cache_dir(struct buf *out);

uint64_t os_now_ns(void);  /* monotonic */
uint64_t os_wall_ns(void); /* since 1970 */
uint64_t os_random_u64(void);

/* Cores that this process may use: affinity mask, cut by the cgroup's CPU quota rounded down, at least 1. */
uint32_t os_n_cpu(void);
/* Pin the calling thread to the i-th core of the affinity mask the process started with (i modulo their number). */
void os_pin(uint32_t i);
uint64_t os_peak_rss(void);  /* bytes: the most this process ever had resident */
uint64_t os_rss(void);       /* bytes resident now; *file of it backed by files when file != NULL */
uint64_t os_rss_file(void);
uint64_t os_mem_avail(void); /* bytes that could still be had without swapping, cgroup limit included */
uint32_t os_term_width(void); /* columns of stderr's terminal, 80 when unknown */
