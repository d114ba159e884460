/* hearth: the table of commands. What they do is in src/cmd; where the forward pass is: src/engine/fwd.c (docs/map.md). */
#include "base/log.h"
#include "base/os.h"
#include "cmd/cmd.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int (*const command[CMD_N])(const struct opts *) = {
    [CMD_RUN] = cmd_run,         [CMD_CHAT] = cmd_chat,         [CMD_EVAL] = cmd_eval,         [CMD_BENCH] = cmd_bench,
    [CMD_INSPECT] = cmd_inspect, [CMD_TOKENIZE] = cmd_tokenize, [CMD_TEMPLATE] = cmd_template,
};

/* Columns for help: $COLUMNS when it is a sane number, else the terminal's. */
static uint32_t columns(void)
{
    const char *s = getenv("COLUMNS");
    unsigned long v = s ? strtoul(s, NULL, 10) : 0;
    return v >= 40 && v <= 1000 ? (uint32_t)v : MIN(os_term_width(), 130u);
}

static int print(struct buf *b)
{
    int rc = buf_ok(b) ? EXIT_OK : EXIT_FAILED;
    if (b->n) fwrite(b->p, 1, b->n, stdout);
    buf_free(b);
    return rc;
}

static int print_help(const struct opts *o)
{
    struct buf b = {0};
    if (o->cmd == CMD_HELP && o->n_arg == 0)
        opt_help(&b, &opts_prog, columns());
    else
        opt_help_cmd(&b, &opts_prog, o->cmd, columns());
    return print(&b);
}

static int generate(const char *what)
{
    static const struct {
        const char *name;
        void (*make)(struct buf *, const struct opt_prog *);
    } doc[] = {{"man", opt_man}, {"bash", opt_bash}, {"zsh", opt_zsh}, {"fish", opt_fish}, {"options-md", opt_markdown}};
    struct buf b = {0};
    for (size_t i = 0; i < ARRAY_LEN(doc); i++)
        if (strcmp(doc[i].name, what) == 0) doc[i].make(&b, &opts_prog);
    return print(&b);
}

static int dispatch(struct opts *o, int argc, char **argv)
{
    struct err e = {0};
    int rc = opts_parse(o, argc, argv, &e);
    if (rc == OPT_ASK_HELP) return print_help(o);
    if (rc == OPT_ASK_VERSION) {
        printf("%s %s\n", opts_prog.name, opts_prog.version);
        return EXIT_OK;
    }
    if (rc < 0) {
        log_line(LOG_ERROR, "%s", e.msg);
        return rc == E_NOMEM ? EXIT_FAILED : EXIT_USE;
    }
    if (o->generate) return generate(o->generate);
    log_set_level(o->quiet ? LOG_ERROR : o->verbose ? LOG_DEBUG : LOG_INFO);
    return command[o->cmd](o);
}

int main(int argc, char **argv)
{
    struct opts o;
    int rc = dispatch(&o, argc, argv);
    opts_free(&o);
    /* a full disk must not look like success */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        log_line(LOG_ERROR, "cannot write to standard output: %s", strerror(errno));
        if (rc == EXIT_OK) rc = EXIT_FAILED;
    }
    return rc;
}
