/* limits.c: machine limits, measured by all workers of the pool at once.
 *
 * A probe is one pool_run with a piece per worker. Pieces wait for each other before they start, so that each worker has one, and
 * the rate is total work over (last end - last start). Every round runs each probe once and takes some 0.15 s; limits_get gives
 * the best of all rounds. Reading: LIM_ORDER_N access orders (in order; the same with prefetch; two streams; 16 rows interleaved,
 * without and with prefetch) each over a slice of a region larger than any cache; slices move on through the region, so that a
 * slice comes back only after all the rest was read. */
#include "kern/limits.h"
#include "base/mem.h"
#include "base/os.h"
#include "kern/limits_unit.h"
#include <stdatomic.h>

enum {
    CALC_NS = 8000000, /* length of a compute probe */
    SLICE = 160 << 20, /* bytes read by a read probe */
    JOINS = 200,
    GATHER_NS = 20000000, /* longest wait for the other pieces */
};

enum unit { U_F32, U_BF16, U_INT8, U_VNNI, U_VBF16, U_N };

struct limits_run {
    struct pool *pool; /* borrowed; NULL: this thread alone */
    uint32_t n;        /* workers */
    enum isa isa;
    uint8_t *mem; /* owned, mem_big */
    size_t bytes, at;
    lim_calc_fn *calc[U_N];
    lim_read_fn *read;
    uint64_t iters[U_N]; /* so that a probe takes about CALC_NS */
    double best[U_N], read_best, join_best; /* over all rounds */
    double last[U_N], read_last, join_last; /* of the latest round */
};

/* One probe: shared by its pieces. */
struct probe {
    struct limits_run *r;
    enum unit unit;
    enum lim_order order;
    bool read;
    size_t at, each; /* a worker's part of the slice */
    _Atomic uint32_t here;
    _Atomic uint64_t start, end; /* latest of all pieces */
    _Atomic uint64_t work, sink;
};

static void raise_to(_Atomic uint64_t *a, uint64_t v)
{
    uint64_t o = atomic_load_explicit(a, memory_order_relaxed);
    while (o < v && !atomic_compare_exchange_weak_explicit(a, &o, v, memory_order_relaxed, memory_order_relaxed)) continue;
}

static void probe_piece(void *ud, uint32_t i, uint32_t n, uint32_t w)
{
    struct probe *p = ud;
    (void)w;
    atomic_fetch_add_explicit(&p->here, 1, memory_order_acq_rel);
    uint64_t t0 = os_now_ns(), t = t0;
    while (atomic_load_explicit(&p->here, memory_order_acquire) < n && t - t0 < GATHER_NS) t = os_now_ns();
    raise_to(&p->start, os_now_ns());
    uint64_t work;
    if (p->read) {
        atomic_fetch_xor_explicit(&p->sink, p->r->read(p->r->mem + p->at + i * p->each, p->each, p->order), memory_order_relaxed);
        work = p->each;
    } else {
        work = p->r->calc[p->unit](p->r->iters[p->unit]);
    }
    raise_to(&p->end, os_now_ns());
    atomic_fetch_add_explicit(&p->work, work, memory_order_relaxed);
}

/* Work per nanosecond: 1e9 operations or bytes per second. */
static double probe_run(struct probe *p)
{
    pool_run(p->r->pool, probe_piece, p, p->r->n);
    uint64_t ns = atomic_load(&p->end) - atomic_load(&p->start);
    return ns ? (double)atomic_load(&p->work) / (double)ns : 0;
}

static void touch_piece(void *ud, uint32_t i, uint32_t n, uint32_t w)
{
    struct limits_run *r = ud;
    (void)w;
    size_t a = r->bytes / n * i, b = i + 1 == n ? r->bytes : a + r->bytes / n;
    for (; a < b; a += 4096) r->mem[a] = 1; /* an untouched page would be the one zero page, in cache */
}

static void nothing(void *ud, uint32_t i, uint32_t n, uint32_t w)
{
    (void)ud;
    (void)i;
    (void)n;
    (void)w;
}

#if defined(__x86_64__)
static void pick(struct limits_run *r)
{
    lim_calc_fn **c = r->calc;
    r->read = r->isa >= ISA_AVX512 ? lim_read_avx512 : lim_read_base;
    c[U_F32] = r->isa >= ISA_AVX512 ? lim_f32_avx512 : r->isa >= ISA_AVX2 ? lim_f32_avx2 : lim_f32_base;
    c[U_VNNI] = r->isa >= ISA_AVX512VNNI ? lim_int8_avx512vnni : NULL;
    c[U_VBF16] = r->isa >= ISA_AVX512BF16 ? lim_bf16_avx512bf16 : NULL;
    c[U_BF16] = r->isa >= ISA_AMX ? lim_bf16_amx : NULL;
    c[U_INT8] = r->isa >= ISA_AMX ? lim_int8_amx : NULL;
}
#else
static void pick(struct limits_run *r)
{
    r->read = lim_read_base;
    r->calc[U_F32] = lim_f32_base;
}
#endif

int limits_open(struct limits_run **out, struct pool *pool, enum isa level, size_t bytes, struct err *e)
{
    *out = NULL;
    if (level > kern_cpu_isa()) return err_set(e, E_UNSUP, "limits: this machine has no %s", isa_name(level));
    uint32_t n = pool_size(pool);
    size_t part = (size_t)LIM_CHUNK * n, avail = os_mem_avail();
    if (bytes == 0) bytes = MIN((size_t)1 << 30, avail / 2);
    bytes = bytes / part * part;
    if (bytes == 0) return err_set(e, E_NOMEM, "limits: %zu bytes of free memory are too few to measure reading", avail);
    struct limits_run *r = mem_zalloc(1, sizeof *r);
    if (!r) return err_set(e, E_NOMEM, "limits: out of memory");
    r->pool = pool;
    r->n = n;
    r->isa = level;
    r->bytes = bytes;
    r->mem = mem_big(bytes);
    if (!r->mem) {
        mem_free(r);
        return err_set(e, E_NOMEM, "limits: %zu bytes to measure reading could not be had", bytes);
    }
    pool_run(pool, touch_piece, r, n);
    pick(r);
    for (int u = 0; u < U_N; u++) {
        if (!r->calc[u]) continue;
        uint64_t t = 0;
        for (r->iters[u] = 1000; t < CALC_NS / 8; r->iters[u] *= 2) {
            uint64_t t0 = os_now_ns();
            r->calc[u](r->iters[u]);
            t = os_now_ns() - t0;
        }
        r->iters[u] *= 4;
    }
    *out = r;
    return OK;
}

void limits_round(struct limits_run *r)
{
    uint32_t n = r->n;
    for (int u = 0; u < U_N; u++) {
        if (!r->calc[u]) continue;
        struct probe p = {.r = r, .unit = (enum unit)u};
        double v = probe_run(&p);
        r->last[u] = v;
        r->best[u] = MAX(r->best[u], v);
    }
    r->read_last = 0;
    size_t each = MIN((size_t)SLICE, r->bytes) / n / LIM_CHUNK * LIM_CHUNK;
    for (int o = 0; o < LIM_ORDER_N; o++) {
        if (r->at + each * n > r->bytes) r->at = 0;
        struct probe p = {.r = r, .read = true, .order = (enum lim_order)o, .at = r->at, .each = each};
        double v = probe_run(&p);
        r->read_last = MAX(r->read_last, v);
        r->at += each * n;
    }
    r->read_best = MAX(r->read_best, r->read_last);
    r->join_last = 0;
    for (int k = 0; k < 5; k++) {
        uint64_t t0 = os_now_ns();
        for (int i = 0; i < JOINS; i++) pool_run(r->pool, nothing, NULL, n);
        double ns = (double)(os_now_ns() - t0) / JOINS;
        if (r->join_last == 0 || ns < r->join_last) r->join_last = ns;
    }
    if (r->join_best == 0 || r->join_last < r->join_best) r->join_best = r->join_last;
}

static void fill(struct limits *best, const double *b, double read, double join)
{
    double vbf16 = b[U_VBF16], vnni = b[U_VNNI];
    *best = (struct limits){
        .read_gbs = read, .f32_gflops = b[U_F32], .vnni_gops = vnni, .vbf16_gflops = vbf16, .join_ns = join};
    /* VDPBF16PS can be slower than expanding to f32 (Sapphire Rapids) */
    best->bf16_gflops = b[U_BF16] > 0 ? b[U_BF16] : MAX(vbf16, b[U_F32]);
    best->int8_gops = b[U_INT8] > 0 ? b[U_INT8] : vnni > 0 ? vnni : b[U_F32];
}

void limits_get(const struct limits_run *r, struct limits *best) { fill(best, r->best, r->read_best, r->join_best); }
void limits_last(const struct limits_run *r, struct limits *last) { fill(last, r->last, r->read_last, r->join_last); }

void limits_close(struct limits_run *r)
{
    if (!r) return;
    mem_big_free(r->mem, r->bytes);
    mem_free(r);
}

/* ---- loops without instruction-set extensions */

uint64_t lim_f32_base(uint64_t iters)
{
    typedef float v4 __attribute__((vector_size(16)));
    v4 c[10] = {{0}}, x = {1, 1, 1, 1}, y = {1e-6f, 1e-6f, 1e-6f, 1e-6f};
    __asm__ volatile("" : "+x"(x), "+x"(y)); /* unknown to the compiler */
    for (uint64_t i = 0; i < iters; i++) {
        for (int j = 0; j < 10; j++) c[j] = c[j] * x + y;
        __asm__ volatile("" : "+x"(x));
    }
    for (int j = 0; j < 10; j++) __asm__ volatile("" ::"x"(c[j]));
    return iters * 10 * 4 * 2;
}

uint64_t lim_read_base(const void *p, size_t n, enum lim_order o)
{
    const uint64_t *q = p;
    uint64_t s[8] = {0};
    size_t m = n / 8, streams = o == LIM_TWO ? 2 : o == LIM_ROWS || o == LIM_ROWS_AHEAD ? 16 : 1, part = m / streams;
    bool ahead = o == LIM_AHEAD || o == LIM_ROWS_AHEAD;
    for (size_t i = 0; i < part; i += 8)
        for (size_t r = 0; r < streams; r++) {
            const uint64_t *b = q + r * part + i;
            if (ahead) __builtin_prefetch(b + 256);
            for (int j = 0; j < 8; j++) s[j] += b[j];
        }
    return s[0] ^ s[1] ^ s[2] ^ s[3] ^ s[4] ^ s[5] ^ s[6] ^ s[7];
}
