#include "cmd/line.h"
#include "base/mem.h"
#include "base/os.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_LIBEDIT
#include <editline/readline.h>
#endif

#define MAX_LINE ((size_t)1 << 20)
static char *hist; /* owned */

static bool plain(struct buf *out)
{
    buf_clear(out);
    for (;;) {
        char c;
        ssize_t n = read(STDIN_FILENO, &c, 1); /* unbuffered: nothing is taken from who reads after us */
        if (n < 0 && errno == EINTR) return false;
        if (n <= 0) return out->n > 0;
        if (c == '\n') return true;
        if (out->n < MAX_LINE) buf_putc(out, c);
    }
}

void line_history(const char *path)
{
    mem_free(hist);
    hist = mem_strndup(path, strlen(path));
}

#ifdef HAVE_LIBEDIT
static bool begun;
bool line_read(struct buf *out, const char *prompt)
{
    if (!isatty(STDIN_FILENO)) return plain(out);
    if (!begun) {
        rl_readline_name = (char *)(uintptr_t) "hearth";
        using_history();
        stifle_history(1000);
        if (hist) read_history(hist);
        begun = true;
    }
    char *s = readline(prompt);
    if (!s) return false;
    buf_clear(out);
    buf_puts(out, s);
    if (*s) add_history(s);
    free(s); /* libedit's own allocation */
    return buf_ok(out);
}
void line_save(void)
{
    if (begun && hist) write_history(hist);
    mem_free(hist);
    hist = NULL;
}
#else
bool line_read(struct buf *out, const char *prompt)
{
    if (isatty(STDIN_FILENO)) {
        fputs(prompt, stderr);
        fflush(stderr);
    }
    return plain(out);
}
void line_save(void)
{
    mem_free(hist);
    hist = NULL;
}
#endif
