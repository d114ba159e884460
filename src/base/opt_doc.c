/* Help, man page and option page, all from the table (opt.h). Texts of the table are ASCII, so bytes are columns. */
#include "base/opt.h"
#include <stdio.h>
#include <string.h>

#define COL 30u /* where the explanations start */

static bool takes(const struct opt *o, uint32_t cmd) { return !o->hidden && (o->cmds >> cmd & 1); }

/* Words of text, wrapped: the cursor is at column `at`, further lines start at column `left`. Ends with a newline. */
static void wrap(struct buf *out, const char *text, uint32_t at, uint32_t left, uint32_t width)
{
    const char *p = text;
    bool first = true;
    while (*p) {
        size_t n = strcspn(p, " ");
        if (!first && at + 1 + n > width) {
            buf_printf(out, "\n%*s", (int)left, "");
            at = left;
        } else if (!first) {
            buf_putc(out, ' ');
            at++;
        }
        buf_put(out, p, n);
        at += (uint32_t)n;
        first = false;
        p += n;
        p += strspn(p, " ");
    }
    buf_putc(out, '\n');
}

/* Paragraphs parted by a blank line. */
static void paragraphs(struct buf *out, const char *text, uint32_t width)
{
    struct buf one = {0};
    for (const char *p = text; *p;) {
        const char *end = strstr(p, "\n\n");
        size_t n = end ? (size_t)(end - p) : strlen(p);
        buf_clear(&one);
        buf_put(&one, p, n);
        if (buf_ok(&one) && one.p) wrap(out, one.p, 0, 0, width);
        p += n;
        if (end) {
            buf_putc(out, '\n');
            p += 2;
        }
    }
    buf_free(&one);
}

/* "-n, --tokens N", "--no-generation-prompt" */
static void spelling(struct buf *out, const struct opt *o)
{
    if (o->letter)
        buf_printf(out, "-%c, ", o->letter);
    else
        buf_puts(out, "    ");
    buf_printf(out, "--%s%s", o->neg ? "no-" : "", o->name);
    if (o->arg) buf_printf(out, " %s", o->arg);
}

/* The sentence with choices, range, default and environment variable. */
static void sentence(struct buf *out, const struct opt *o)
{
    buf_puts(out, o->help);
    /* bounds that nobody meets are not worth a reader's time */
    bool range = (o->kind == OPT_U32 || o->kind == OPT_F32) && (o->lo != 0 || o->hi != 0) && o->hi <= 65536;
    const char *def = o->shown ? o->shown : o->neg ? NULL : o->def;
    if (!range && !def && !o->env && !o->choice) return;
    const char *sep = " (";
    if (o->choice) {
        for (int i = 0; o->choice[i]; i++) buf_printf(out, "%s%s", i ? ", " : sep, o->choice[i]);
        sep = "; ";
    }
    if (range) {
        buf_printf(out, "%s%.10g to %.10g", sep, o->lo, o->hi);
        sep = "; ";
    }
    if (def) {
        buf_printf(out, "%sdefault: %s", sep, def);
        sep = "; ";
    }
    if (o->env) buf_printf(out, "%s%s", sep, o->env);
    buf_putc(out, ')');
}

static void option_lines(struct buf *out, const struct opt *o, uint32_t width)
{
    struct buf s = {0};
    buf_puts(&s, "  ");
    spelling(&s, o);
    uint32_t at = (uint32_t)s.n;
    if (at + 2 > COL) {
        buf_putc(&s, '\n');
        at = 0;
    }
    buf_printf(&s, "%*s", (int)(COL - at), "");
    if (buf_ok(&s)) buf_puts(out, s.p);
    buf_clear(&s);
    sentence(&s, o);
    if (buf_ok(&s)) wrap(out, s.p, COL, COL, width);
    buf_free(&s);
}

/* First option of the next heading that the command has, in the table's order of first appearance; after NULL: the first heading.
 */
static const struct opt *next_group(const struct opt_prog *p, uint32_t cmd, const char *after)
{
    bool seen = !after;
    for (uint32_t i = 0; i < p->n_opt; i++) {
        const struct opt *o = &p->opt[i];
        if (!takes(o, cmd)) continue;
        bool old = false; /* its heading already stood above */
        for (uint32_t j = 0; j < i && !old; j++) old = takes(&p->opt[j], cmd) && strcmp(p->opt[j].group, o->group) == 0;
        if (old) continue;
        if (seen) return o;
        seen = strcmp(o->group, after) == 0;
    }
    return NULL;
}

void opt_help(struct buf *out, const struct opt_prog *p, uint32_t width)
{
    width = MAX(width, 60u) - 1;
    buf_printf(out, "%s %s: %s\n\nUsage: %s COMMAND ...\n\nCommands\n", p->name, p->version, p->about, p->name);
    for (uint32_t c = 0; c < p->n_cmd; c++) {
        if (p->cmd[c].hidden) continue;
        buf_printf(out, "  %-12s", p->cmd[c].name);
        wrap(out, p->cmd[c].help, 14, 14, width);
    }
    buf_putc(out, '\n');
    struct buf s = {0};
    buf_printf(&s,
               "'%s help COMMAND' explains a command and its options. MODEL is a file, or the name of one in the cache "
               "(HEARTH_CACHE, else ~/.cache/%s). "
               "Exit codes: 0 done, 1 failed, 2 wrong use.",
               p->name, p->name);
    if (buf_ok(&s)) wrap(out, s.p, 0, 0, width);
    buf_free(&s);
}

void opt_help_cmd(struct buf *out, const struct opt_prog *p, uint32_t cmd, uint32_t width)
{
    const struct opt_cmd *c = &p->cmd[cmd];
    width = MAX(width, 60u) - 1;
    struct buf s = {0};
    buf_printf(&s, "%s %s: %s", p->name, c->name, c->help);
    if (buf_ok(&s)) wrap(out, s.p, 0, 0, width);
    buf_puts(out, "\nUsage: ");
    buf_clear(&s);
    buf_printf(&s, "%s %s %s", p->name, c->name, c->args);
    if (buf_ok(&s)) wrap(out, s.p, 7, 9, width);
    buf_free(&s);
    if (c->about) {
        buf_putc(out, '\n');
        paragraphs(out, c->about, width);
    }
    for (const struct opt *g = next_group(p, cmd, NULL); g; g = next_group(p, cmd, g->group)) {
        buf_printf(out, "\n%s\n", g->group);
        for (uint32_t i = 0; i < p->n_opt; i++)
            if (takes(&p->opt[i], cmd) && strcmp(p->opt[i].group, g->group) == 0) option_lines(out, &p->opt[i], width);
    }
    if (!c->example) return;
    buf_puts(out, "\nExamples\n");
    for (int i = 0; c->example[i]; i += 2) buf_printf(out, "  %s\n      %s\n", c->example[i], c->example[i + 1]);
}

/* Text for roff: '-' and '\' are escaped, a leading '.' or '\'' too. */
static void roff(struct buf *out, const char *s)
{
    if (*s == '.' || *s == '\'') buf_puts(out, "\\&");
    for (; *s; s++) {
        if (*s == '\\')
            buf_puts(out, "\\e");
        else if (*s == '-')
            buf_puts(out, "\\-");
        else
            buf_putc(out, *s);
    }
}

static void roff_option(struct buf *out, const struct opt *o)
{
    buf_puts(out, ".TP\n\\fB");
    if (o->letter) buf_printf(out, "\\-%c\\fR, \\fB", o->letter);
    buf_puts(out, "\\-\\-");
    if (o->neg) buf_puts(out, "no\\-");
    roff(out, o->name);
    buf_puts(out, "\\fR");
    if (o->arg) {
        buf_puts(out, " \\fI");
        roff(out, o->arg);
        buf_puts(out, "\\fR");
    }
    buf_putc(out, '\n');
    struct buf s = {0};
    sentence(&s, o);
    if (buf_ok(&s)) roff(out, s.p);
    buf_puts(out, ".\n");
    buf_free(&s);
}

void opt_man(struct buf *out, const struct opt_prog *p)
{
    buf_puts(out, ".TH ");
    for (const char *s = p->name; *s; s++) buf_putc(out, *s >= 'a' && *s <= 'z' ? (char)(*s - 32) : *s);
    buf_printf(out, " 1 \"\" \"%s %s\" \"User Commands\"\n.SH NAME\n%s \\- ", p->name, p->version, p->name);
    roff(out, p->about);
    buf_printf(out,
               "\n.SH SYNOPSIS\n.B %s\n.I COMMAND\n.RI [ options ]\n.SH DESCRIPTION\nMODEL is a GGUF file, or the name of one in "
               "the model cache. "
               "Results go to standard output, everything else to standard error.\n",
               p->name);
    for (uint32_t c = 0; c < p->n_cmd; c++) {
        const struct opt_cmd *m = &p->cmd[c];
        if (m->hidden) continue;
        buf_printf(out, ".SH \"%s %s\"\n", p->name, m->name);
        roff(out, m->help);
        buf_puts(out, ".\n.PP\n.B ");
        buf_printf(out, "%s %s ", p->name, m->name);
        roff(out, m->args);
        buf_putc(out, '\n');
        if (m->about) {
            buf_puts(out, ".PP\n");
            roff(out, m->about);
            buf_putc(out, '\n');
        }
        for (const struct opt *g = next_group(p, c, NULL); g; g = next_group(p, c, g->group)) {
            buf_printf(out, ".SS %s\n", g->group);
            for (uint32_t i = 0; i < p->n_opt; i++)
                if (takes(&p->opt[i], c) && strcmp(p->opt[i].group, g->group) == 0) roff_option(out, &p->opt[i]);
        }
        if (!m->example) continue;
        buf_puts(out, ".SS Examples\n");
        for (int i = 0; m->example[i]; i += 2) {
            buf_puts(out, ".TP\n.B ");
            roff(out, m->example[i]);
            buf_putc(out, '\n');
            roff(out, m->example[i + 1]);
            buf_puts(out, ".\n");
        }
    }
    buf_puts(out, ".SH ENVIRONMENT\n.TP\n.B HEARTH_CACHE\nthe folder of models named without a path (default: "
                  "$XDG_CACHE_HOME/hearth, else ~/.cache/hearth).\n");
    for (uint32_t i = 0; i < p->n_opt; i++) {
        const struct opt *o = &p->opt[i];
        bool again = false;
        for (uint32_t j = 0; j < i && o->env; j++) again |= p->opt[j].env && strcmp(p->opt[j].env, o->env) == 0;
        if (!o->env || again) continue;
        buf_printf(out, ".TP\n.B %s\ndefault of \\fB\\-\\-", o->env);
        roff(out, o->name);
        buf_puts(out, "\\fR.\n");
    }
    buf_puts(out, ".SH \"EXIT STATUS\"\n0 done, 1 failed (one line on standard error says why), 2 wrong use.\n");
}

/* Table cells: '|' and '<' are escaped. */
static void cell(struct buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '|') buf_putc(out, '\\');
        if (*s == '<')
            buf_puts(out, "&lt;");
        else
            buf_putc(out, *s);
    }
}

void opt_markdown(struct buf *out, const struct opt_prog *p)
{
    buf_printf(out,
               "# Options\n\nMade by `%s --generate options-md` (`make docs`); a test compares this page with the program.\n",
               p->name);
    for (uint32_t c = 0; c < p->n_cmd; c++) {
        const struct opt_cmd *m = &p->cmd[c];
        if (m->hidden) continue;
        buf_printf(out, "\n## %s %s\n\n`%s %s%s%s`: %s.\n", p->name, m->name, p->name, m->name, *m->args ? " " : "", m->args,
                   m->help);
        if (m->about) buf_printf(out, "\n%s\n", m->about);
        bool any = false;
        for (uint32_t i = 0; i < p->n_opt; i++) {
            const struct opt *o = &p->opt[i];
            if (!takes(o, c) || o->kind == OPT_HELP) continue;
            if (!any) buf_puts(out, "\n| option | meaning |\n|---|---|\n");
            any = true;
            buf_puts(out, "| `");
            if (o->letter) buf_printf(out, "-%c`, `", o->letter);
            buf_printf(out, "--%s%s%s%s` | ", o->neg ? "no-" : "", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
            struct buf s = {0};
            sentence(&s, o);
            if (buf_ok(&s)) cell(out, s.p);
            buf_free(&s);
            buf_puts(out, " |\n");
        }
        if (!m->example) continue;
        buf_puts(out, "\nExamples:\n\n");
        for (int i = 0; m->example[i]; i += 2) buf_printf(out, "    # %s\n    %s\n", m->example[i + 1], m->example[i]);
    }
}
