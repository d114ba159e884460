/* base.h: what every file may use: status codes, attributes, checked size arithmetic, CHECK.
 * Layer L0. No project includes but base. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Status of every function that can fail: OK or one of the negative codes; the message is in struct err. */
enum {
    OK = 0,
    E_NOMEM = -1,  /* memory could not be had, or a stated cap was reached */
    E_IO = -2,     /* the operating system refused (message has strerror) */
    E_FORMAT = -3, /* outside data breaks its own format */
    E_UNSUP = -4,  /* well-formed, but not something hearth does */
    E_ARG = -5,    /* bad use: an option, a call argument */
    E_RANGE = -6,  /* a number outside its limits */
    E_AGAIN = -7,  /* not now: queue full, would block */
    E_PEER = -8,   /* another rank failed or went away */
    E_DEV = -9,    /* a device failed */
};

#define ATTR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define ATTR_NORETURN __attribute__((noreturn))
#define ATTR_UNUSED __attribute__((unused))
#define ATTR_MUST __attribute__((warn_unused_result))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Return the status of a failed call. TRYG jumps to the function's one `out:` label, leaving the status in rc. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_rc_ = (call);                                                                      \
        if (UNLIKELY(try_rc_ < 0)) return try_rc_;                                                 \
    } while (0)
#define TRYG(call)                                                                                 \
    do {                                                                                           \
        rc = (call);                                                                               \
        if (UNLIKELY(rc < 0)) goto out;                                                            \
    } while (0)

/* A programmer's error (never outside input): abort with file and line, in every build. */
ATTR_NORETURN void check_failed(const char *file, int line, const char *what);
#define CHECK(x) (LIKELY(x) ? (void)0 : check_failed(__FILE__, __LINE__, #x))
#ifdef DEBUG
#define DCHECK(x) CHECK(x)
#else
#define DCHECK(x) ((void)0)
#endif

/* Size arithmetic for numbers from outside: true when *r holds the exact result. */
static inline bool mul_ok(size_t a, size_t b, size_t *r) { return !__builtin_mul_overflow(a, b, r); }
static inline bool add_ok(size_t a, size_t b, size_t *r) { return !__builtin_add_overflow(a, b, r); }

/* n rounded up to a multiple of the power of two a. The caller knows that it cannot overflow. */
static inline size_t align_up(size_t n, size_t a) { return (n + a - 1) & ~(a - 1); }
static inline uint32_t ceil_div_u32(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
