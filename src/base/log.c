#include "base/log.h"
#include "base/os.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum log_level level = LOG_INFO;
void log_set_level(enum log_level l) { level = l; }

void log_line(enum log_level l, const char *fmt, ...)
{
    static const char *const head[] = {"hearth: ", "hearth: warning: ", "", "debug: "};
    if (l > level) return;
    char s[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s%s\n", head[l], s); /* one call: lines of threads do not mix */
}

void progress_begin(struct progress *p, const char *what, const char *unit, uint64_t total)
{
    *p = (struct progress){.what = what, .unit = unit, .total = MAX(total, (uint64_t)1), .start_ns = os_now_ns()};
    p->on = level >= LOG_INFO && isatty(STDERR_FILENO);
}

void progress_at(struct progress *p, uint64_t done)
{
    if (!p->on) return;
    uint64_t now = os_now_ns();
    if (p->last_ns && now - p->last_ns < 100000000u) return;
    p->last_ns = now;
    double f = (double)MIN(done, p->total) / (double)p->total, s = (double)(now - p->start_ns) * 1e-9;
    uint32_t w = os_term_width();
    uint32_t bar = w > 70 ? 30 : 10, full = (uint32_t)(f * bar);
    char b[32];
    for (uint32_t i = 0; i < bar; i++) b[i] = i < full ? '#' : '.';
    b[bar] = 0;
    fprintf(stderr, "\r%s [%s] %3.0f %%", p->what, b, f * 100);
    if (w > 70 && s > 0.3) fprintf(stderr, "  %.4g %s/s, %.0f s left", (double)done / s, p->unit, f > 0 ? s / f - s : 0);
    fputs("\033[K", stderr);
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->on && p->last_ns) fputs("\r\033[K", stderr);
    p->on = false;
}
