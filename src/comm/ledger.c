/* ledger.c: sums, differences and reports over the ledger. All fields are uint64_t, so they are walked as arrays with names beside them. */
#include "comm/ledger.h"
#include <stdio.h>

static const char *const class_name[] = {"act", "moe", "logit", "kv", "ctl", "load"};
static const char *const kind_name[] = {"allreduce", "allgather", "reducescatter", "alltoall", "p2p", "bcast"};
static const char *const dom_name[] = {"dev", "node", "net", "host", "edge"};
static const char *const phase_name[] = {"decode", "prefill", "idle"};
static const char *const site_name[] = {"embed", "attn", "ffn", "head"};
static const char *const comm_field[] = {"calls", "payload", "syncs", "rounds", "msgs", "bytes", "ns"};
static const char *const work_field[] = {"ops", "flops", "w_bytes", "kv_bytes", "kv_wbytes", "act_bytes", "h2d", "d2h", "dev_syncs", "ns"};
static const char *const top_field[] = {"steps", "mixed_steps", "tok_in", "tok_prefix_hit", "tok_out", "bytes_max_rank"};
#define COMM_F ARRAY_LEN(comm_field)
#define WORK_F ARRAY_LEN(work_field)
#define TOP_F ARRAY_LEN(top_field)
#define NS_COMM (COMM_F - 1)
#define NS_WORK (WORK_F - 1)
_Static_assert(sizeof(struct led_comm) == COMM_F * 8 && sizeof(struct led_work) == WORK_F * 8, "field names match the structs");
_Static_assert(sizeof(struct ledger) == LED_PHASE_N * (LED_CLASS_N * LED_KIND_N * LED_DOM_N * COMM_F + LED_SITE_N * WORK_F) * 8 + TOP_F * 8,
               "the ledger is an array of counters");

static const uint64_t *ctop(const struct ledger *l) { return &l->steps; }

void led_merge(struct ledger *to, const struct ledger *from)
{
    uint64_t *a = (uint64_t *)to, m = MAX(to->bytes_max_rank, from->bytes_max_rank);
    const uint64_t *b = (const uint64_t *)from;
    for (size_t i = 0; i < sizeof *to / 8; i++) a[i] += b[i];
    to->bytes_max_rank = m;
}

void led_since(struct ledger *to, const struct ledger *from)
{
    uint64_t *a = (uint64_t *)to;
    const uint64_t *b = (const uint64_t *)from;
    for (size_t i = 0; i < sizeof *to / 8; i++) {
        CHECK(a[i] >= b[i]);
        a[i] -= b[i];
    }
}

static void differ(struct buf *r, int n, uint64_t a, uint64_t b, const char *what)
{
    if (r && n < 20) buf_printf(r, "%s: %llu against %llu\n", what, (unsigned long long)a, (unsigned long long)b);
}

int led_diff(const struct ledger *a, const struct ledger *b, struct buf *report)
{
    int n = 0;
    char w[128];
    for (int p = 0; p < LED_PHASE_N; p++) {
        for (int c = 0; c < LED_CLASS_N; c++)
            for (int k = 0; k < LED_KIND_N; k++)
                for (int d = 0; d < LED_DOM_N; d++) {
                    const uint64_t *x = (const uint64_t *)&a->comm[p][c][k][d], *y = (const uint64_t *)&b->comm[p][c][k][d];
                    for (size_t f = 0; f < COMM_F; f++) {
                        if (f == NS_COMM || x[f] == y[f]) continue;
                        snprintf(w, sizeof w, "%s %s %s %s %s", phase_name[p], class_name[c], kind_name[k], dom_name[d], comm_field[f]);
                        differ(report, n++, x[f], y[f], w);
                    }
                }
        for (int s = 0; s < LED_SITE_N; s++) {
            const uint64_t *x = (const uint64_t *)&a->work[p][s], *y = (const uint64_t *)&b->work[p][s];
            for (size_t f = 0; f < WORK_F; f++) {
                if (f == NS_WORK || x[f] == y[f]) continue;
                snprintf(w, sizeof w, "%s %s %s", phase_name[p], site_name[s], work_field[f]);
                differ(report, n++, x[f], y[f], w);
            }
        }
    }
    for (size_t f = 0; f < TOP_F; f++)
        if (ctop(a)[f] != ctop(b)[f]) differ(report, n++, ctop(a)[f], ctop(b)[f], top_field[f]);
    return n;
}

void led_density(const struct ledger *l, struct density *out)
{
    *out = (struct density){0};
    double t = l->tok_out ? (double)l->tok_out : 1;
    for (int s = 0; s < LED_SITE_N; s++) {
        const struct led_work *w = &l->work[LED_DECODE][s];
        out->dev_read += (double)(w->w_bytes + w->kv_bytes) / t;
        out->dev_written += (double)w->kv_wbytes / t;
        out->joins += (double)w->dev_syncs / t;
    }
    for (int c = 0; c < LED_LOAD; c++)
        for (int k = 0; k < LED_KIND_N; k++)
            for (int d = 0; d < LED_DOM_N; d++) {
                const struct led_comm *m = &l->comm[LED_DECODE][c][k][d];
                out->syncs[d] += (double)m->syncs / t;
                out->msgs[d] += (double)m->msgs / t;
                out->bytes[d] += (double)m->bytes / t;
            }
}

static void put_bytes(struct buf *o, double b)
{
    static const char *const u[] = {"B", "kB", "MB", "GB", "TB"};
    int i = 0;
    for (; b >= 1000 && i < 4; i++) b /= 1000;
    buf_printf(o, b >= 100 || i == 0 ? "%.0f %s" : "%.1f %s", b, u[i]);
}

static void put_domain(struct buf *o, const char *name, const struct density *d, enum led_dom dom)
{
    if (d->syncs[dom] == 0 && d->msgs[dom] == 0 && d->bytes[dom] == 0) {
        buf_printf(o, " | %s 0", name);
        return;
    }
    buf_printf(o, " | %s %.4g sync %.4g msg %.0f B", name, d->syncs[dom], d->msgs[dom], d->bytes[dom]);
}

void led_line(const struct ledger *l, uint32_t b, uint64_t ctx, struct buf *out)
{
    struct density d;
    led_density(l, &d);
    buf_printf(out, "density B=%u ctx=%llu | dev ", b, (unsigned long long)ctx);
    put_bytes(out, d.dev_read);
    buf_puts(out, " read ");
    put_bytes(out, d.dev_written);
    buf_printf(out, " written %.4g joins", d.joins);
    put_domain(out, "node", &d, LED_NODE);
    put_domain(out, "net", &d, LED_NET);
    buf_puts(out, " per output token");
}

static void json_fields(struct buf *o, const uint64_t *v, const char *const *name, size_t n, const char *head, bool *first)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) any |= v[i] != 0;
    if (!any) return;
    buf_printf(o, "%s{%s", *first ? "" : ",", head);
    *first = false;
    for (size_t i = 0; i < n; i++)
        if (v[i]) buf_printf(o, ",\"%s\":%llu", name[i], (unsigned long long)v[i]);
    buf_putc(o, '}');
}

void led_json(const struct ledger *l, struct buf *o)
{
    char h[160];
    bool first = true;
    buf_putc(o, '{');
    for (size_t f = 0; f < TOP_F; f++) buf_printf(o, "\"%s\":%llu,", top_field[f], (unsigned long long)ctop(l)[f]);
    buf_puts(o, "\"work\":[");
    for (int p = 0; p < LED_PHASE_N; p++)
        for (int s = 0; s < LED_SITE_N; s++) {
            snprintf(h, sizeof h, "\"phase\":\"%s\",\"site\":\"%s\"", phase_name[p], site_name[s]);
            json_fields(o, (const uint64_t *)&l->work[p][s], work_field, WORK_F, h, &first);
        }
    buf_puts(o, "],\"comm\":[");
    first = true;
    for (int p = 0; p < LED_PHASE_N; p++)
        for (int c = 0; c < LED_CLASS_N; c++)
            for (int k = 0; k < LED_KIND_N; k++)
                for (int d = 0; d < LED_DOM_N; d++) {
                    snprintf(h, sizeof h, "\"phase\":\"%s\",\"class\":\"%s\",\"kind\":\"%s\",\"domain\":\"%s\"", phase_name[p], class_name[c],
                             kind_name[k], dom_name[d]);
                    json_fields(o, (const uint64_t *)&l->comm[p][c][k][d], comm_field, COMM_F, h, &first);
                }
    struct density d;
    led_density(l, &d);
    buf_printf(o, "],\"density\":{\"dev_read_bytes\":%.1f,\"dev_written_bytes\":%.1f,\"joins\":%.3f", d.dev_read, d.dev_written, d.joins);
    for (int k = LED_NODE; k <= LED_NET; k++)
        buf_printf(o, ",\"%s\":{\"syncs\":%.6g,\"msgs\":%.6g,\"bytes\":%.6g}", dom_name[k], d.syncs[k], d.msgs[k], d.bytes[k]);
    buf_puts(o, "}}");
}
