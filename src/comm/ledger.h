/* ledger.h: the unit of account. Names, units and counting rules are those of docs/ledger.md (communication density, token residency); this is
 * their storage. Planner (dry devices and wires) and engine (real ones) fill the same struct, so "predicted == counted" is an equality of integers.
 * Owned by the engine thread. */
#pragma once
#include "base/buf.h"

enum led_class { LED_ACT, LED_MOE, LED_LOGIT, LED_KV, LED_CTL, LED_LOAD, LED_CLASS_N };                           /* why it crossed */
enum led_kind { LED_ALLREDUCE, LED_ALLGATHER, LED_REDUCESCATTER, LED_ALLTOALL, LED_P2P, LED_BCAST, LED_KIND_N }; /* what it was */
enum led_dom { LED_DEV, LED_NODE, LED_NET, LED_HOST, LED_EDGE, LED_DOM_N }; /* of each message; a sync is NET if any of its messages is */
enum led_phase { LED_DECODE, LED_PREFILL, LED_IDLE, LED_PHASE_N };
enum led_site { LED_EMBED, LED_ATTN, LED_FFN, LED_HEAD, LED_SITE_N };

struct led_comm {
    uint64_t calls, payload;             /* intent: written by comm from the schedule */
    uint64_t syncs, rounds, msgs, bytes; /* fact: written where messages are handed to the wire, by the sender */
    uint64_t ns;
};
struct led_work {
    uint64_t ops, flops;
    uint64_t w_bytes;   /* weights read: file size of each matrix, once per op */
    uint64_t kv_bytes;  /* KV read */
    uint64_t kv_wbytes; /* KV written */
    uint64_t act_bytes; /* activations read and written by the ops */
    uint64_t h2d, d2h;
    uint64_t dev_syncs; /* CPU: joins of the worker pool */
    uint64_t ns;
};
struct ledger {
    struct led_comm comm[LED_PHASE_N][LED_CLASS_N][LED_KIND_N][LED_DOM_N];
    struct led_work work[LED_PHASE_N][LED_SITE_N];
    uint64_t steps, mixed_steps, tok_in, tok_prefix_hit, tok_out, bytes_max_rank;
};

/* Commutative sum (bytes_max_rank: maximum), so ranks reduce in any order. */
void led_merge(struct ledger *to, const struct ledger *from);
/* to -= from, for "since then" reports; from must be an earlier copy of to. */
void led_since(struct ledger *to, const struct ledger *from);
/* 0 when equal in every count but times; else the number of differing counts, the first 20 named in report (may be NULL). */
int led_diff(const struct ledger *a, const struct ledger *b, struct buf *report);

struct density { /* per output token, decode phase (rule R1) */
    double dev_read, dev_written, joins;                  /* bytes, bytes, pool joins or device syncs */
    double syncs[LED_DOM_N], msgs[LED_DOM_N], bytes[LED_DOM_N];
};
void led_density(const struct ledger *l, struct density *out);
/* The report line of rule R11 (one rank) or R1: "density B=1 ctx=300 | dev 12.6 MB read 0.4 MB written 27 joins | node 0 | net 0 per output token". */
void led_line(const struct ledger *l, uint32_t b, uint64_t ctx, struct buf *out);
/* One JSON object with totals per phase and site / domain and class; zero entries left out. */
void led_json(const struct ledger *l, struct buf *out);
