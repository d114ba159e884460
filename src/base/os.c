#include "base/os.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int os_map(struct os_map *m, const char *path, struct err *e)
{
    *m = (struct os_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a FIFO must not hang the open */
    if (fd < 0) return err_set(e, E_IO, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    int rc = OK;
    if (fstat(fd, &st) != 0) {
        rc = err_set(e, E_IO, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        rc = err_set(e, E_FORMAT, "%s: not a regular file", path);
    } else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            rc = err_set(e, E_IO, "%s: cannot map %lld bytes: %s", path, (long long)st.st_size, strerror(errno));
        else
            *m = (struct os_map){p, (size_t)st.st_size};
    }
    close(fd);
    return rc;
}

void os_unmap(struct os_map *m)
{
    if (m->p) munmap((void *)(uintptr_t)m->p, m->n);
    *m = (struct os_map){0};
}

static void advise(const struct os_map *m, size_t off, size_t n, int how)
{
    if (!m->p || off >= m->n) return;
    n = MIN(n, m->n - off);
    size_t a = how == MADV_DONTNEED ? align_up(off, 4096) : off & ~(size_t)4095;
    size_t z = off + n == m->n ? off + n : (how == MADV_DONTNEED ? (off + n) & ~(size_t)4095 : off + n);
    if (z > a) madvise((void *)(uintptr_t)(m->p + a), z - a, how);
}
void os_map_want(const struct os_map *m, size_t off, size_t n) { advise(m, off, n, MADV_WILLNEED); }
void os_map_drop(const struct os_map *m, size_t off, size_t n) { advise(m, off, n, MADV_DONTNEED); }

int os_read_file(struct buf *out, const char *path, size_t max, struct err *e)
{
    bool in = strcmp(path, "-") == 0;
    int fd = in ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return err_set(e, E_IO, "%s: cannot open: %s", path, strerror(errno));
    int rc = OK;
    for (;;) {
        if (!buf_reserve(out, 65536)) {
            rc = err_set(e, E_NOMEM, "%s: out of memory after %zu bytes", path, out->n);
            break;
        }
        ssize_t k = read(fd, out->p + out->n, 65536);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            rc = err_set(e, E_IO, "%s: cannot read: %s", path, strerror(errno));
            break;
        }
        if (k == 0) break;
        out->n += (size_t)k;
        out->p[out->n] = 0;
        if (out->n > max) {
            rc = err_set(e, E_RANGE, "%s: larger than the limit of %zu bytes", path, max);
            break;
        }
    }
    if (!in) close(fd);
    return rc;
}

int os_write_file(const char *path, const void *p, size_t n, struct err *e)
{
    char tmp[PATH_MAX];
    int k = snprintf(tmp, sizeof tmp, "%s.tmp.%ld", path, (long)getpid());
    if (k < 0 || (size_t)k >= sizeof tmp) return err_set(e, E_ARG, "%s: path too long", path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return err_set(e, E_IO, "%s: cannot create: %s", tmp, strerror(errno));
    const char *s = p;
    int rc = OK;
    while (n > 0) {
        ssize_t w = write(fd, s, n);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) {
            rc = err_set(e, E_IO, "%s: cannot write: %s", path, strerror(errno));
            break;
        }
        s += w;
        n -= (size_t)w;
    }
    if (rc == OK && fsync(fd) != 0) rc = err_set(e, E_IO, "%s: cannot flush: %s", path, strerror(errno));
    if (close(fd) != 0 && rc == OK) rc = err_set(e, E_IO, "%s: cannot close: %s", path, strerror(errno));
    if (rc == OK && rename(tmp, path) != 0) rc = err_set(e, E_IO, "%s: cannot rename: %s", path, strerror(errno));
    if (rc != OK) unlink(tmp);
    return rc;
}

bool os_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}
bool os_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int os_mkdirs(const char *path, struct err *e)
{
    char p[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof p) return err_set(e, E_ARG, "folder name of %zu bytes", n);
    memcpy(p, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (p[i] != '/' && p[i] != 0) continue;
        char c = p[i];
        p[i] = 0;
        if (mkdir(p, 0755) != 0 && errno != EEXIST) return err_set(e, E_IO, "%s: cannot create: %s", p, strerror(errno));
        p[i] = c;
    }
    return OK;
}

void os_cache_dir(struct buf *out)
{
    const char *v = getenv("HEARTH_CACHE");
    if (v && *v) {
        buf_puts(out, v);
        return;
    }
    v = getenv("XDG_CACHE_HOME");
    if (v && *v) {
        buf_printf(out, "%s/hearth", v);
        return;
    }
    v = getenv("HOME");
    buf_printf(out, "%s/.cache/hearth", v && *v ? v : ".");
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
uint64_t os_now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
uint64_t os_wall_ns(void) { return clock_ns(CLOCK_REALTIME); }

uint64_t os_random_u64(void)
{
    uint64_t v;
    if (getrandom(&v, sizeof v, 0) == (ssize_t)sizeof v) return v;
    return os_wall_ns() * 0x9E3779B97F4A7C15u ^ (uint64_t)getpid();
}

/* The mask the process started with, kept before any thread is pinned. */
static cpu_set_t start_mask;
static pthread_once_t mask_once = PTHREAD_ONCE_INIT;
static void get_mask(void)
{
    if (sched_getaffinity(0, sizeof start_mask, &start_mask) != 0 || CPU_COUNT(&start_mask) == 0) {
        CPU_ZERO(&start_mask);
        CPU_SET(0, &start_mask);
    }
}

/* First number of a small kernel file ("max" or absence: false). */
static bool read_num(const char *path, double *a, double *b)
{
    FILE *f = fopen(path, "re");
    if (!f) return false;
    char s[128];
    size_t n = fread(s, 1, sizeof s - 1, f);
    fclose(f);
    s[n] = 0;
    char *end;
    *a = strtod(s, &end);
    if (end == s) return false;
    if (b) {
        char *end2;
        *b = strtod(end, &end2);
        if (end2 == end) return false;
    }
    return true;
}

/* This process's cgroup folder: of version 2 ("0::/path"), or of the named controller of version 1. */
static bool cgroup_path(const char *ctrl, char *out, size_t cap)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f) return false;
    char line[512];
    bool ok = false;
    while (!ok && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *c1 = strchr(line, ':'), *c2 = c1 ? strchr(c1 + 1, ':') : NULL;
        if (!c2) continue;
        *c2 = 0;
        bool match = ctrl ? strstr(c1 + 1, ctrl) != NULL : c1[1] == 0;
        if (match) ok = snprintf(out, cap, "%s", c2 + 1) < (int)cap;
    }
    fclose(f);
    return ok;
}

/* Smallest value over the cgroup and all its parents; quota in cores, or memory in bytes. */
static double cgroup_min(const char *ctrl, const char *base, const char *file, const char *file2)
{
    char cg[400], path[700];
    double best = -1;
    if (!cgroup_path(ctrl, cg, sizeof cg)) return best;
    for (;;) {
        double a, b = 1;
        bool ok;
        if (file2) { /* v1 cpu: quota and period are two files */
            snprintf(path, sizeof path, "%s%s/%s", base, cg, file);
            ok = read_num(path, &a, NULL);
            snprintf(path, sizeof path, "%s%s/%s", base, cg, file2);
            ok = ok && read_num(path, &b, NULL);
        } else {
            snprintf(path, sizeof path, "%s%s/%s", base, cg, file);
            ok = strcmp(file, "cpu.max") == 0 ? read_num(path, &a, &b) : read_num(path, &a, NULL);
        }
        if (ok && a > 0 && b > 0 && (best < 0 || a / b < best)) best = a / b;
        char *s = strrchr(cg, '/');
        if (!s || cg[0] == 0) break;
        *s = 0;
    }
    return best;
}

uint32_t os_n_cpu(void)
{
    pthread_once(&mask_once, get_mask);
    uint32_t n = (uint32_t)CPU_COUNT(&start_mask);
    double q = cgroup_min(NULL, "/sys/fs/cgroup", "cpu.max", NULL);
    if (q < 0) q = cgroup_min("cpu", "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us");
    if (q > 0 && q < n) n = q < 1 ? 1 : (uint32_t)q;
    return MAX(n, 1u);
}

void os_pin(uint32_t i)
{
    pthread_once(&mask_once, get_mask);
    uint32_t k = i % (uint32_t)CPU_COUNT(&start_mask);
    for (int c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, &start_mask) || k-- > 0) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(c, &one);
        pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        return;
    }
}

/* "Name:   123 kB" of /proc/self/status or /proc/meminfo, in bytes; 0 when absent. */
static uint64_t proc_kb(const char *path, const char *name)
{
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    char line[256];
    uint64_t v = 0;
    size_t n = strlen(name);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, name, n) == 0 && line[n] == ':') {
            v = strtoull(line + n + 1, NULL, 10) * 1024;
            break;
        }
    fclose(f);
    return v;
}
uint64_t os_peak_rss(void) { return proc_kb("/proc/self/status", "VmHWM"); }
uint64_t os_rss(void) { return proc_kb("/proc/self/status", "VmRSS"); }
uint64_t os_rss_file(void) { return proc_kb("/proc/self/status", "RssFile"); }

uint64_t os_mem_avail(void)
{
    uint64_t a = proc_kb("/proc/meminfo", "MemAvailable");
    double lim = cgroup_min(NULL, "/sys/fs/cgroup", "memory.max", NULL);
    if (lim < 0) lim = cgroup_min("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", NULL);
    if (lim > 0) {
        uint64_t used = proc_kb("/proc/self/status", "RssAnon"), l = lim > 9e18 ? UINT64_MAX : (uint64_t)lim;
        a = MIN(a, l > used ? l - used : 0);
    }
    struct rlimit r;
    if (getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY) {
        uint64_t used = proc_kb("/proc/self/status", "VmSize");
        a = MIN(a, r.rlim_cur > used ? r.rlim_cur - used : 0);
    }
    return a;
}

uint32_t os_term_width(void)
{
    struct winsize w;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}
