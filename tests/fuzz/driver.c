/* A small fuzzer for machines without libFuzzer: runs the corpus, then seeded mutations of it, within a fixed budget. It takes
 * libFuzzer's options
 * (-runs=N -seed=S -max_len=N -max_total_time=S -timeout=S -artifact_prefix=P, files and folders), so both are called the same
 * way. An input that crashes, is caught by a sanitizer or takes longer than -timeout is written to P/crash-NAME and the process
 * ends with a signal or exit code. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
/* A target may offer words of its language, NULL-terminated, and whole inputs for when there is no corpus. */
extern const char *const fuzz_words[] __attribute__((weak));
extern const char *const fuzz_seeds[] __attribute__((weak));
void __sanitizer_set_death_callback(void (*f)(void)) __attribute__((weak));

struct input {
    uint8_t *p;
    size_t n;
};
static struct input *corpus;
static size_t n_corpus;
static struct input now; /* being run: what the handlers write */
static char crash_path[4096];
static size_t max_len = 1 << 16;

static void save_input(void)
{
    int fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd >= 0) {
        if (write(fd, now.p, now.n) != (ssize_t)now.n) crash_path[0] = 0;
        close(fd);
    }
    static const char msg[] = "\nfuzz: the input is in ";
    if (write(2, msg, sizeof msg - 1) < 0 || write(2, crash_path, strlen(crash_path)) < 0 || write(2, "\n", 1) < 0) _exit(77);
}
static void on_signal(int sig)
{
    save_input();
    signal(sig, SIG_DFL);
    raise(sig);
}

static uint64_t state;
static uint64_t rnd(void) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static size_t below(size_t n) { return n ? (size_t)(rnd() % n) : 0; }

static void keep(const void *p, size_t n)
{
    corpus = realloc(corpus, (n_corpus + 1) * sizeof *corpus);
    uint8_t *c = malloc(n + 1);
    if (!corpus || !c) abort();
    if (n) memcpy(c, p, n);
    corpus[n_corpus++] = (struct input){c, n};
}

static void load(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        fprintf(stderr, "fuzz: %s: cannot be read\n", path);
        exit(2);
    }
    if (S_ISDIR(st.st_mode)) {
        struct dirent **e;
        int n = scandir(path, &e, NULL, alphasort);
        for (int i = 0; i < n; i++) {
            char sub[4096];
            if (e[i]->d_name[0] != '.' && snprintf(sub, sizeof sub, "%s/%s", path, e[i]->d_name) < (int)sizeof sub) load(sub);
            free(e[i]);
        }
        if (n >= 0) free(e);
        return;
    }
    FILE *f = fopen(path, "rb");
    size_t n = (size_t)st.st_size;
    uint8_t *p = malloc(n + 1);
    if (!f || !p || fread(p, 1, n, f) != n) {
        fprintf(stderr, "fuzz: %s: cannot be read\n", path);
        exit(2);
    }
    fclose(f);
    keep(p, n);
    free(p);
}

/* One change of b (capacity max_len + 64 bytes). */
static void mutate(uint8_t *b, size_t *n)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   2,
                                   0x7f,
                                   0x80,
                                   0xff,
                                   0x100,
                                   0x7fff,
                                   0x8000,
                                   0xffff,
                                   0x10000,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   0x100000000,
                                   0x7fffffffffffffff,
                                   0x8000000000000000,
                                   0xfffffffffffffff0,
                                   0xffffffffffffffff};
    size_t at = below(*n), len, to;
    switch (below(fuzz_words ? 10 : 8)) {
    case 0:
        if (*n) b[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        if (*n) b[at] = (uint8_t)rnd();
        break;
    case 2: { /* a number that arithmetic stumbles over, in 1, 2, 4 or 8 bytes */
        uint64_t v = odd[below(sizeof odd / sizeof *odd)];
        len = (size_t)1 << below(4);
        if (len > *n) break;
        at = below(*n - len + 1);
        if (below(2)) at &= ~(len - 1);
        memcpy(b + at, &v, len);
        break;
    }
    case 3: /* cut out */
        len = below(MIN(*n - at, (size_t)64) + 1);
        memmove(b + at, b + at + len, *n - at - len);
        *n -= len;
        break;
    case 4: /* truncate */
        if (below(4) == 0) *n = at;
        break;
    case 5: /* repeat a piece */
        len = below(MIN(*n - at, (size_t)64) + 1);
        to = below(*n + 1);
        if (*n + len > max_len) break;
        {
            uint8_t piece[64];
            memcpy(piece, b + at, len);
            memmove(b + to + len, b + to, *n - to);
            memcpy(b + to, piece, len);
        }
        *n += len;
        break;
    case 6: { /* a piece of another input over this one */
        const struct input *o = &corpus[below(n_corpus)];
        size_t from = below(o->n);
        len = below(MIN(o->n - from, (size_t)4096) + 1);
        if (at + len > max_len) break;
        memcpy(b + at, o->p + from, len);
        if (at + len > *n) *n = at + len;
        break;
    }
    case 7: /* add or subtract a little */
        if (*n) b[at] = (uint8_t)(b[at] + below(33) - 16);
        break;
    default: { /* a word of the language */
        size_t k = 0;
        while (fuzz_words[k]) k++;
        const char *w = fuzz_words[below(k)];
        len = strlen(w);
        if (*n + len > max_len) break;
        to = below(*n + 1);
        memmove(b + to + len, b + to, *n - to);
        memcpy(b + to, w, len);
        *n += len;
    }
    }
}

static void run(const uint8_t *p, size_t n, unsigned timeout)
{
    /* a heap copy of the exact size, so that sanitizers see the first byte past it */
    uint8_t *c = malloc(n ? n : 1);
    if (!c) abort();
    if (n) memcpy(c, p, n);
    now = (struct input){c, n};
    alarm(timeout);
    LLVMFuzzerTestOneInput(c, n);
    alarm(0);
    free(c);
}

static bool number(const char *arg, const char *name, uint64_t *v)
{
    size_t k = strlen(name);
    if (strncmp(arg, name, k) != 0) return false;
    *v = strtoull(arg + k, NULL, 10);
    return true;
}

int main(int argc, char **argv)
{
    uint64_t runs = 20000, seed = 1, seconds = 0, timeout = 10, len = max_len;
    const char *prefix = "./", *base = strrchr(argv[0], '/');
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            load(argv[i]);
        else if (strncmp(argv[i], "-artifact_prefix=", 17) == 0)
            prefix = argv[i] + 17;
        else if (!number(argv[i], "-runs=", &runs) && !number(argv[i], "-seed=", &seed) && !number(argv[i], "-max_len=", &len) &&
                 !number(argv[i], "-max_total_time=", &seconds) && !number(argv[i], "-timeout=", &timeout)) {
            fprintf(stderr, "fuzz: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    max_len = len;
    snprintf(crash_path, sizeof crash_path, "%scrash-%s", prefix, base ? base + 1 : argv[0]);
    for (size_t i = 0; fuzz_seeds && fuzz_seeds[i]; i++) keep(fuzz_seeds[i], strlen(fuzz_seeds[i]));
    if (n_corpus == 0) keep("", 0);
    static const int sigs[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    for (size_t i = 0; i < sizeof sigs / sizeof *sigs; i++)
        if (!__sanitizer_set_death_callback || sigs[i] == SIGALRM) signal(sigs[i], on_signal);
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_input);

    state = seed;
    time_t start = time(NULL);
    for (size_t i = 0; i < n_corpus; i++) run(corpus[i].p, corpus[i].n, (unsigned)timeout);
    uint8_t *b = malloc(max_len + 8192);
    if (!b) abort();
    uint64_t done = 0;
    for (; done < runs && (seconds == 0 || (uint64_t)(time(NULL) - start) < seconds); done++) {
        const struct input *s = &corpus[below(n_corpus)];
        size_t n = MIN(s->n, max_len);
        memcpy(b, s->p, n);
        for (size_t k = 1 + below(below(4) ? 4 : 40); k > 0; k--) mutate(b, &n);
        run(b, n, (unsigned)timeout);
    }
    printf("%zu inputs, %llu mutations, seed %llu\n", n_corpus, (unsigned long long)done, (unsigned long long)seed);
    free(b);
    for (size_t i = 0; i < n_corpus; i++) free(corpus[i].p);
    free(corpus);
    return 0;
}
