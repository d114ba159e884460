/* log.h: everything that people read and that is no result goes to stderr through here. Any thread. */
#pragma once
#include "base/base.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
void log_set_level(enum log_level l); /* default LOG_INFO */
/* One line "hearth: text" (errors), "hearth: warning: text", or the text alone (info, debug). */
void log_line(enum log_level l, const char *fmt, ...) ATTR_PRINTF(2, 3);

/* A progress bar on stderr, drawn only when stderr is a terminal and level >= LOG_INFO; at most ten redraws a second.
 * Zero-initialised is closed. */
struct progress {
    const char *what, *unit; /* borrowed until progress_end */
    uint64_t total, start_ns, last_ns;
    bool on;
};
void progress_begin(struct progress *p, const char *what, const char *unit, uint64_t total);
void progress_at(struct progress *p, uint64_t done);
void progress_end(struct progress *p); /* wipes the bar */
