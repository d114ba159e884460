/* Shell completion scripts from the option table (opt.h). They complete commands, options, fixed values, files and the names in
 * the model cache. */
#include "base/opt.h"
#include <string.h>

static bool takes(const struct opt *o, uint32_t cmd) { return !o->hidden && (o->cmds >> cmd & 1); }
static bool has_value(const struct opt *o) { return o->kind != OPT_FLAG && o->kind != OPT_HELP && o->kind != OPT_VERSION; }
static bool has_models(const struct opt_cmd *c) { return strcmp(c->arg_name, "MODEL") == 0; }

static void words(struct buf *out, const char *const *w)
{
    for (int i = 0; w[i]; i++) buf_printf(out, "%s%s", i ? " " : "", w[i]);
}
static void command_words(struct buf *out, const struct opt_prog *p)
{
    for (uint32_t c = 0, n = 0; c < p->n_cmd; c++)
        if (!p->cmd[c].hidden) buf_printf(out, "%s%s", n++ ? " " : "", p->cmd[c].name);
}
static void long_name(struct buf *out, const struct opt *o) { buf_printf(out, "--%s%s", o->neg ? "no-" : "", o->name); }

void opt_bash(struct buf *out, const struct opt_prog *p)
{
    buf_printf(out,
               "# bash completion for %s\n"
               "_%s() {\n"
               "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]} opts= models= dir\n"
               "    COMPREPLY=()\n"
               "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
               "        mapfile -t COMPREPLY < <(compgen -W \"",
               p->name, p->name);
    command_words(out, p);
    buf_puts(out, " --help --version\" -- \"$cur\")\n        return\n    fi\n    case \"$cmd $prev\" in\n");
    for (uint32_t c = 0; c < p->n_cmd; c++) {
        for (uint32_t i = 0; i < p->n_opt; i++) {
            const struct opt *o = &p->opt[i];
            if (!takes(o, c) || !has_value(o)) continue;
            buf_printf(out, "    \"%s --%s\"", p->cmd[c].name, o->name);
            if (o->letter) buf_printf(out, "|\"%s -%c\"", p->cmd[c].name, o->letter);
            if (o->choice) {
                buf_puts(out, ") mapfile -t COMPREPLY < <(compgen -W \"");
                words(out, o->choice);
                buf_puts(out, "\" -- \"$cur\"); return ;;\n");
            } else if (o->kind == OPT_PATH) {
                buf_puts(out,
                         ") compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;\n");
            } else {
                buf_puts(out, ") return ;;\n");
            }
        }
    }
    buf_puts(out, "    esac\n    case $cmd in\n");
    for (uint32_t c = 0; c < p->n_cmd; c++) {
        buf_printf(out, "    %s) opts=\"", p->cmd[c].name);
        for (uint32_t i = 0, n = 0; i < p->n_opt; i++) {
            if (!takes(&p->opt[i], c)) continue;
            if (n++) buf_putc(out, ' ');
            long_name(out, &p->opt[i]);
        }
        buf_printf(out, "\"%s ;;\n", has_models(&p->cmd[c]) ? " models=1" : "");
    }
    buf_puts(out, "    esac\n    if [ \"$cmd\" = help ]; then\n        mapfile -t COMPREPLY < <(compgen -W \"");
    command_words(out, p);
    buf_printf(out,
               "\" -- \"$cur\")\n"
               "        return\n"
               "    fi\n"
               "    case $cur in\n"
               "    -*) mapfile -t COMPREPLY < <(compgen -W \"$opts\" -- \"$cur\") ;;\n"
               "    *)\n"
               "        compopt -o filenames 2>/dev/null\n"
               "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
               "        if [ -n \"$models\" ]; then\n"
               "            dir=${HEARTH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/%s}\n"
               "            mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(cd \"$dir\" 2>/dev/null && compgen -f -X '!*.gguf' -- "
               "\"$cur\")\n"
               "        fi\n"
               "        ;;\n"
               "    esac\n"
               "}\n"
               "complete -F _%s %s\n",
               p->name, p->name, p->name);
}

/* Inside '...' of a shell that doubles or escapes: a quote becomes '\''. In zsh's _arguments specs, ':' '[' ']' are escaped too.
 */
static void quoted(struct buf *out, const char *s, const char *escape)
{
    for (; *s; s++) {
        if (*s == '\'') {
            buf_puts(out, "'\\''");
            continue;
        }
        if (strchr(escape, *s)) buf_putc(out, '\\');
        buf_putc(out, *s);
    }
}

static void zsh_action(struct buf *out, const struct opt *o)
{
    buf_putc(out, ':');
    quoted(out, o->arg ? o->arg : "value", ":[]\\");
    buf_putc(out, ':');
    if (o->choice) {
        buf_putc(out, '(');
        words(out, o->choice);
        buf_putc(out, ')');
    } else if (o->kind == OPT_PATH) {
        buf_puts(out, "_files");
    }
}

void opt_zsh(struct buf *out, const struct opt_prog *p)
{
    buf_printf(out,
               "#compdef %s\n"
               "_%s_models() {\n"
               "    local dir=${HEARTH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/%s}\n"
               "    local -a names\n"
               "    names=($dir/*.gguf(N:t))\n"
               "    compadd -a names\n"
               "    _files\n"
               "}\n"
               "_%s() {\n"
               "    local -a cmds\n"
               "    cmds=(\n",
               p->name, p->name, p->name, p->name);
    for (uint32_t c = 0; c < p->n_cmd; c++) {
        if (p->cmd[c].hidden) continue;
        buf_printf(out, "        '%s:", p->cmd[c].name);
        quoted(out, p->cmd[c].help, ":\\");
        buf_puts(out, "'\n");
    }
    buf_puts(out, "    )\n"
                  "    if (( CURRENT == 2 )); then\n"
                  "        _describe command cmds\n"
                  "        return\n"
                  "    fi\n"
                  "    local cmd=$words[2]\n"
                  "    shift words\n"
                  "    (( CURRENT-- ))\n"
                  "    case $cmd in\n");
    for (uint32_t c = 0; c < p->n_cmd; c++) {
        buf_printf(out, "    %s) _arguments", p->cmd[c].name);
        for (uint32_t i = 0; i < p->n_opt; i++) {
            const struct opt *o = &p->opt[i];
            if (!takes(o, c)) continue;
            for (int both = o->letter ? 0 : 1; both < 2; both++) {
                buf_puts(out, " \\\n        '*");
                if (both)
                    long_name(out, o);
                else
                    buf_printf(out, "-%c", o->letter);
                buf_putc(out, '[');
                quoted(out, o->help, ":[]\\");
                buf_putc(out, ']');
                if (has_value(o)) zsh_action(out, o);
                buf_putc(out, '\'');
            }
        }
        if (has_models(&p->cmd[c])) buf_printf(out, " \\\n        '1:model:_%s_models'", p->name);
        if (strcmp(p->cmd[c].arg_name, "COMMAND") == 0) {
            buf_puts(out, " \\\n        '1:command:(");
            command_words(out, p);
            buf_puts(out, ")'");
        }
        buf_puts(out, " ;;\n");
    }
    buf_printf(out, "    esac\n}\n_%s \"$@\"\n", p->name);
}

void opt_fish(struct buf *out, const struct opt_prog *p)
{
    buf_printf(out,
               "# fish completion for %s\n"
               "function __%s_models\n"
               "    set -l dir ~/.cache/%s\n"
               "    set -q XDG_CACHE_HOME; and set dir $XDG_CACHE_HOME/%s\n"
               "    set -q HEARTH_CACHE; and set dir $HEARTH_CACHE\n"
               "    for f in $dir/*.gguf\n"
               "        basename $f\n"
               "    end\n"
               "end\n"
               "complete -c %s -n __fish_use_subcommand -f -l help -s h -d 'print this help'\n"
               "complete -c %s -n __fish_use_subcommand -f -l version -s V -d 'print the version'\n",
               p->name, p->name, p->name, p->name, p->name, p->name);
    for (uint32_t c = 0; c < p->n_cmd; c++) {
        const struct opt_cmd *m = &p->cmd[c];
        if (m->hidden) continue;
        buf_printf(out, "complete -c %s -n __fish_use_subcommand -f -a %s -d '", p->name, m->name);
        quoted(out, m->help, "");
        buf_puts(out, "'\n");
        for (uint32_t i = 0; i < p->n_opt; i++) {
            const struct opt *o = &p->opt[i];
            if (!takes(o, c)) continue;
            buf_printf(out, "complete -c %s -n '__fish_seen_subcommand_from %s' -l %s%s", p->name, m->name, o->neg ? "no-" : "",
                       o->name);
            if (o->letter) buf_printf(out, " -s %c", o->letter);
            if (has_value(o)) buf_puts(out, o->kind == OPT_PATH ? " -r -F" : " -x");
            if (o->choice) {
                buf_puts(out, " -a '");
                words(out, o->choice);
                buf_putc(out, '\'');
            }
            buf_puts(out, " -d '");
            quoted(out, o->help, "");
            buf_puts(out, "'\n");
        }
        if (has_models(m))
            buf_printf(out, "complete -c %s -n '__fish_seen_subcommand_from %s' -a '(__%s_models)'\n", p->name, m->name, p->name);
        if (strcmp(m->arg_name, "COMMAND") == 0) {
            buf_printf(out, "complete -c %s -n '__fish_seen_subcommand_from %s' -f -a '", p->name, m->name);
            command_words(out, p);
            buf_puts(out, "'\n");
        }
    }
}
