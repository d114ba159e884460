#include "cmd/model_path.h"
#include "base/mem.h"
#include "base/os.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Short names of models that setup.sh fetches. */
static const struct {
    const char *alias, *file;
} alias_table[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"},
    {"smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf"},
};

#define MAX_NAMES 10000u /* of one folder; more are not looked at */

struct names {
    char **v;
    size_t n, cap;
};
static void names_free(struct names *a)
{
    for (size_t i = 0; i < a->n; i++) mem_free(a->v[i]);
    mem_free(a->v);
    *a = (struct names){0};
}
static void names_add(struct names *a, const char *s)
{
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 32;
        char **v = mem_realloc(a->v, cap, sizeof *v);
        if (!v) return; /* fewer suggestions */
        a->v = v;
        a->cap = cap;
    }
    char *c = mem_strndup(s, strlen(s));
    if (c) a->v[a->n++] = c;
}
static const char *name_at(const void *ud, size_t i) { return ((const struct names *)ud)->v[i]; }

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcasecmp(s + n - k, end) == 0;
}

/* Plain names in a folder (gguf_only: models), in the folder's order. An unreadable folder has none. */
static void list_dir(struct names *a, const char *dir, bool gguf_only)
{
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *f; a->n < MAX_NAMES && (f = readdir(d));)
        if (f->d_name[0] != '.' && (!gguf_only || ends_with(f->d_name, ".gguf"))) names_add(a, f->d_name);
    closedir(d);
}

/* The nearest name beside a path that does not exist: its folder, if there is one, is said to be at fault first. */
static int no_such_path(const char *name, struct err *e)
{
    if (access(name, F_OK) == 0) return err_set(e, E_IO, "%s: not a regular file", name);
    const char *slash = strrchr(name, '/');
    char dir[PATH_MAX];
    size_t n = slash ? (size_t)(slash - name) : 0;
    if (n >= sizeof dir) return err_set(e, E_IO, "%.60s...: path too long", name);
    memcpy(dir, name, n);
    dir[n] = 0;
    if (slash && n == 0) memcpy(dir, "/", 2);
    if (!slash) memcpy(dir, ".", 2);
    if (!os_is_dir(dir)) return err_set(e, E_IO, "%s: no such file: there is no folder %s", name, dir);
    struct names a = {0};
    list_dir(&a, dir, false);
    const char *base = slash ? slash + 1 : name, *near = near_name(base, name_at, &a, a.n);
    int rc = near ? err_set(e, E_IO, "%s: no such file, did you mean %.*s%s?", name, slash ? (int)n + 1 : 0, name, near)
                  : err_set(e, E_IO, "%s: no such file", name);
    names_free(&a);
    return rc;
}

/* Index of the cached file that `name` means; -1: none, -2: two start with it (their names in x, y). */
static int find_cached(const struct names *a, const char *name, const char **x, const char **y)
{
    size_t n = strlen(name);
    int hit = -1;
    for (size_t i = 0; i < a->n; i++) {
        size_t k = strlen(a->v[i]) - 5; /* without ".gguf" */
        if (strcasecmp(a->v[i], name) == 0 || (k == n && strncasecmp(a->v[i], name, n) == 0)) return (int)i;
    }
    for (size_t i = 0; i < a->n && n > 0; i++) {
        if (strncasecmp(a->v[i], name, n) != 0) continue;
        if (hit >= 0) {
            *x = a->v[hit];
            *y = a->v[i];
            return -2;
        }
        hit = (int)i;
    }
    return hit;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int model_path(struct buf *out, const char *name, struct err *e)
{
    if (!*name) return err_set(e, E_IO, "the empty string is no model");
    if (os_is_dir(name)) return err_set(e, E_IO, "%s: a folder, not a model file", name);
    if (os_is_file(name)) goto is_path;
    if (strchr(name, '/')) return no_such_path(name, e);

    int rc = OK;
    struct buf dir = {0};
    struct names a = {0};
    os_cache_dir(&dir);
    if (!buf_ok(&dir)) return err_set(e, E_NOMEM, "out of memory");
    list_dir(&a, dir.p, true);
    if (a.n) qsort(a.v, a.n, sizeof *a.v, by_name);
    const char *file = NULL, *x = NULL, *y = NULL;
    for (size_t i = 0; i < ARRAY_LEN(alias_table) && !file; i++)
        if (strcasecmp(alias_table[i].alias, name) == 0) file = alias_table[i].file;
    if (file) {
        size_t at = out->n;
        buf_printf(out, "%s/%s", dir.p, file);
        if (buf_ok(out) && !os_is_file(out->p + at))
            rc = err_set(e, E_IO, "%s: not fetched yet: %s is missing (./setup.sh demo fetches it)", name, out->p + at);
        goto out;
    }
    int hit = find_cached(&a, name, &x, &y);
    if (hit >= 0) {
        buf_printf(out, "%s/%s", dir.p, a.v[hit]);
    } else if (hit == -2) {
        rc = err_set(e, E_IO, "%s: could be %s or %s", name, x, y);
    } else if (ends_with(name, ".gguf") || ends_with(name, ".jinja")) {
        rc = no_such_path(name, e);
    } else {
        /* file names are offered without their ending: that is how they are typed */
        for (size_t i = 0; i < a.n; i++) a.v[i][strlen(a.v[i]) - 5] = 0;
        for (size_t i = 0; i < ARRAY_LEN(alias_table); i++) names_add(&a, alias_table[i].alias);
        const char *near = near_name(name, name_at, &a, a.n);
        if (near)
            rc = err_set(e, E_IO, "%s: neither a file nor a model in %s, did you mean %s?", name, dir.p, near);
        else if ((rc = no_such_path(name, e)) < 0 && !strstr(e->msg, "did you mean"))
            rc = err_set(e, E_IO, "%s: neither a file nor a model in %s", name, dir.p);
    }
out:
    if (rc == OK && !buf_ok(out)) rc = err_set(e, E_NOMEM, "out of memory");
    names_free(&a);
    buf_free(&dir);
    return rc;

is_path:
    buf_puts(out, name);
    return buf_ok(out) ? OK : err_set(e, E_NOMEM, "out of memory");
}
