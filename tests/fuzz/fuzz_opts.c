/* The command line as outside input: words parted by newlines, the first being the command. Whatever they are, parsing ends with
 * a status and, if that is an error, one line of message; helps and pages can be made for whatever command was named. */
#include "cmd/opts.h"
#include <stdlib.h>
#include <string.h>

extern const char *const fuzz_words[];
extern const char *const fuzz_seeds[];
const char *const fuzz_words[] = {
    "--",         "\n-",        "=",       ",",    "-inf",       "\n--ids\n",  "\n--stop\n", "\n--logit-bias\n", "\n--var\n",
    "\n-n",       "run\n",      "--no-",   "0x",   "1e9",        "K",          "--temp=",    "--isa\n",          "--now\n",
    "-vq",        "\n--json",   "bench\n", "\xff", "template\n", "tokenize\n", "eval\n",     "help\n",           "--generate\n",
    "NAME=VALUE", "2024-02-29", NULL};
const char *const fuzz_seeds[] = {
    "run\nm.gguf\n-p\nhello\n--temp\n0.5\n--top-k\n40\n--stop\nEND\n--stop\n\n\n-n5\n--json",
    "run\nm\n--ids\n1,2,3\n--logit-bias\n5=-inf,7=2.5\n--seed=18446744073709551615\n--isa\navx2\n--kv\nbf16",
    "template\nx.jinja\n-f\nm.json\n--var\na=1\n--var\nb=\n--now\n2024-07-26 09:30:00\n--no-generation-prompt",
    "bench\nm\n--batch\n1,2,4\n--context\n100\n--repeat\n3",
    "eval\nm\n--ids\nids.json\n--bos\nno\n--top\n20",
    "tokenize\nm\n-\n--decode",
    "chat\nm\n--load\na\n--save\nb\n--system\nx",
    "inspect\n--tensors\nm",
    "help\nrun",
    "--generate\nman",
    NULL};

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (n > 4096) return 0;
    char text[4097], *argv[260] = {text + n};
    int argc = 1;
    memcpy(text, p, n);
    text[n] = 0;
    for (char *s = text; argc < 256;) {
        argv[argc++] = s;
        s = strchr(s, '\n');
        if (!s) break;
        *s++ = 0;
    }
    struct opts o;
    struct err e = {0};
    int rc = opts_parse(&o, argc, argv, &e);
    if (rc < 0 && (e.msg[0] == 0 || strchr(e.msg, '\n'))) abort();
    if (rc >= 0 && rc != OPT_ASK_HELP && rc != OPT_ASK_VERSION && !o.model && !o.generate) abort();
    if (rc == OPT_ASK_HELP) {
        struct buf b = {0};
        opt_help_cmd(&b, &opts_prog, o.cmd, (uint32_t)n % 200);
        if (!buf_ok(&b) || b.n == 0) abort();
        buf_free(&b);
    }
    opts_free(&o);
    return 0;
}
