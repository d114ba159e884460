/* tok_pre.c: the one table of pre-tokenizers: name in tokenizer.ggml.pre -> patterns and flags; and their compilation.
 * The patterns are the truth. Those that tok_split.c has a hand-made splitter for are recognised by their text; all others run on
 * PCRE2 (JIT where there is one). The unit test holds every row's splitter against PCRE2 on the same patterns. A new name is one
 * row. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/mem.h"
#include "model/tok_int.h"
#include <limits.h>
#include <pcre2.h>
#include <stdlib.h>

/* clang-format off */
#define CONTR    "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES   "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3   CONTR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define QWEN2    CONTR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define QWEN35   CONTR "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}" \
                 "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES
#define UPPER    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define GPT4O    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTR "?" \
                 "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" CONTR "?|\\p{N}{1,3}" \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
#define TEKKEN   "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*|\\p{N}" \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
#define DS3_MAIN "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" \
                 "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES
#define DIGIT    "\\p{N}"
#define DIGITS3  "\\p{N}{1,3}"
#define CJK_DS   "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define CJK_DS3  "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define TAIL     "\\s+$"
#define SEED     CONTR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES
#define BAILING  "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*" \
                 "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define BLOOM    " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
#define MINICPM5 CONTR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define DS_WORD  \
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}" \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-" \
    "\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}" \
    "\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}" \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-" \
    "\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}" \
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}" \
    "\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-" \
    "\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}" \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}" \
    "\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}" \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-" \
    "\\x{1E943}]+"
#define DS_PUNCT "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"

/* Sources. JSON: the pattern of the models' own tokenizer.json, as llama.cpp's src/llama-vocab.cpp quotes it (in llama-cpp-python
 * 0.3.36); LCPP: llama.cpp's rendering of a tokenizer.json that composes several pre-tokenizers. */
#define JSON "tokenizer.json, quoted in llama.cpp src/llama-vocab.cpp"
#define LCPP "llama.cpp src/llama-vocab.cpp"
#define HF_GPT2 "GPT-2's encoder.py; Hugging Face ByteLevel"

const struct pre_row pre_table[] = {
    {"default",          {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, 0, LCPP},
    {"gpt-2",            {GPT2}, 0, HF_GPT2},
    {"gpt-4o",           {GPT4O}, 0, JSON},
    {"llama4",           {GPT4O}, 0, JSON},
    {"kanana2",          {GPT4O}, 0, JSON},
    {"minimax-m2",       {GPT4O}, 0, JSON},
    {"mpt",              {GPT2}, 0, LCPP},
    {"olmo",             {GPT2}, 0, LCPP},
    {"phi-2",            {GPT2}, 0, LCPP},
    {"jais",             {GPT2}, 0, LCPP},
    {"exaone4",          {GPT2}, 0, LCPP},
    {"gigachat",         {GPT2}, 0, LCPP},
    {"a.x-4.0",          {GPT2}, 0, LCPP},
    {"mellum",           {GPT2}, 0, LCPP},
    {"trillion",         {GPT2}, 0, LCPP},
    {"granite-docling",  {GPT2}, 0, LCPP},
    {"smollm",           {DIGIT, GPT2}, 0, LCPP},
    {"starcoder",        {DIGIT, GPT2}, 0, LCPP},
    {"refact",           {DIGIT, GPT2}, 0, LCPP},
    {"command-r",        {DIGIT, GPT2}, 0, LCPP},
    {"codeshell",        {DIGIT, GPT2}, 0, LCPP},
    {"exaone",           {DIGIT, GPT2}, 0, LCPP},
    {"minerva-7b",       {DIGIT, GPT2}, 0, LCPP},
    {"mellum2",          {DIGIT, GPT2}, 0, LCPP},
    {"llama-bpe",        {LLAMA3}, PRE_WHOLE | PRE_BOS, JSON},
    {"llama3",           {LLAMA3}, PRE_WHOLE | PRE_BOS, JSON},
    {"llama-v3",         {LLAMA3}, PRE_WHOLE | PRE_BOS, JSON},
    {"falcon3",          {LLAMA3}, PRE_WHOLE | PRE_BOS, JSON},
    {"falcon-h1",        {LLAMA3}, PRE_WHOLE | PRE_BOS, JSON},
    {"pixtral",          {LLAMA3}, PRE_WHOLE | PRE_BOS, JSON},
    {"midm-2.0",         {LLAMA3}, PRE_WHOLE | PRE_BOS, JSON},
    {"lfm2",             {LLAMA3}, PRE_WHOLE | PRE_BOS, JSON},
    {"dbrx",             {LLAMA3}, 0, LCPP},
    {"smaug-bpe",        {LLAMA3}, 0, LCPP},
    {"chatglm-bpe",      {LLAMA3}, 0, LCPP},
    {"glm4",             {LLAMA3}, PRE_WHOLE, LCPP},
    {"qwen2",            {QWEN2}, 0, JSON},
    {"deepseek-r1-qwen", {QWEN2}, 0, JSON},
    {"megrez",           {QWEN2}, 0, LCPP},
    {"stablelm2",        {QWEN2}, 0, JSON},
    {"hunyuan",          {QWEN2}, 0, JSON},
    {"solar-open",       {QWEN2}, 0, JSON},
    {"grok-2",           {QWEN2}, 0, JSON},
    {"kormo",            {QWEN2}, 0, LCPP},
    {"qwen35",           {QWEN35}, 0, JSON},
    {"tekken",           {TEKKEN}, PRE_WHOLE | PRE_BOS, JSON},
    {"deepseek-llm",     {"[\\r\\n]", DS_WORD, DS_PUNCT, TAIL, CJK_DS, "\\p{N}+"}, 0, LCPP},
    {"deepseek-coder",   {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK_DS, DIGIT}, 0, LCPP},
    {"deepseek-v3",      {DIGITS3, CJK_DS3, DS3_MAIN}, 0, "DeepSeek-V3's tokenizer.json"},
    {"hunyuan-dense",    {DIGITS3, CJK_DS3, DS3_MAIN}, 0, LCPP},
    {"joyai-llm",        {DIGITS3, CJK_DS3, DS3_MAIN}, 0, LCPP},
    {"falcon",           {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, 0, LCPP},
    {"seed-coder",       {SEED}, 0, JSON},
    {"bailingmoe",       {BAILING}, 0, JSON},
    {"bailingmoe2",      {BAILING}, 0, JSON},
    {"llada-moe",        {BAILING}, 0, JSON},
    {"minicpm5",         {DIGITS3, MINICPM5}, PRE_WHOLE, JSON},
    {"bloom",            {BLOOM}, 0, LCPP},
    {"poro-chat",        {BLOOM}, 0, LCPP},
    {"viking",           {BLOOM, DIGIT}, 0, LCPP},
};
const size_t pre_table_n = ARRAY_LEN(pre_table);

/* The hand-made splitters by pattern; step fields beyond kind are their parameters. */
static const struct {
    const char *pattern;
    struct pre_step s;
} hand_made[] = {
    {GPT2,     {.kind = PRE_GPT2}},
    {LLAMA3,   {.kind = PRE_CL100K, .word = CL_L, .max_digit = 3}},
    {QWEN2,    {.kind = PRE_CL100K, .word = CL_L, .max_digit = 1}},
    {QWEN35,   {.kind = PRE_CL100K, .word = CL_L | CL_M, .max_digit = 1}},
    {GPT4O,    {.kind = PRE_O200K, .max_digit = 3, .contr = true, .slash = true}},
    {TEKKEN,   {.kind = PRE_O200K, .max_digit = 1, .slash = true}},
    {DS3_MAIN, {.kind = PRE_DS3}},
    {TAIL,     {.kind = PRE_TAIL}},
};
/* clang-format on */

const struct pre_row *pre_find(const char *name)
{
    for (size_t i = 0; i < pre_table_n; i++)
        if (strcmp(pre_table[i].name, name) == 0) return &pre_table[i];
    return NULL;
}
const char *tok_pre_name(size_t i) { return i < pre_table_n ? pre_table[i].name : NULL; }

/* ---- sets of code points ---- */

enum { MAX_RANGE = 256 };
struct pre_set {
    uint64_t bmp[1024]; /* bit per code point below 0x10000 */
    uint32_t classes;   /* beyond: CL_* bits and ranges */
    uint32_t n;
    struct {
        uint32_t lo, hi;
    } r[MAX_RANGE];
};

bool pre_set_has(const struct pre_set *s, uint32_t cp)
{
    if (cp < 0x10000) return s->bmp[cp >> 6] >> (cp & 63) & 1;
    if (tok_class_of(cp) & s->classes) return true;
    for (uint32_t i = 0; i < s->n; i++)
        if (cp >= s->r[i].lo && cp <= s->r[i].hi) return true;
    return false;
}

static bool set_range(struct pre_set *s, uint32_t lo, uint32_t hi)
{
    if (lo > hi || s->n == MAX_RANGE) return false;
    s->r[s->n].lo = lo;
    s->r[s->n++].hi = hi;
    for (uint32_t c = lo; c <= hi && c < 0x10000; c++) s->bmp[c >> 6] |= 1ull << (c & 63);
    return true;
}

/* "\p{X}" at p: its class bit and length, 0 when it is none of the classes known here. */
static uint32_t parse_class(const char *p, size_t *len)
{
    static const struct {
        const char *z;
        uint32_t bit;
    } names[] = {{"\\p{L}", CL_L}, {"\\p{N}", CL_N}, {"\\p{P}", CL_P}, {"\\p{S}", CL_SYM}, {"\\p{M}", CL_M}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strncmp(p, names[i].z, *len = strlen(names[i].z)) == 0) return names[i].bit;
    return 0;
}

/* "\x{HEX}" at *p. */
static bool parse_hex(const char **p, uint32_t *cp)
{
    char *end;
    unsigned long v = strncmp(*p, "\\x{", 3) == 0 ? strtoul(*p + 3, &end, 16) : ULONG_MAX;
    if (v > 0x10FFFF || *end != '}') return false;
    *cp = (uint32_t)v;
    *p = end + 1;
    return true;
}

/* One plain or escaped character at *p. */
static bool parse_char(const char **p, uint32_t *cp)
{
    if (**p == '\\') {
        char c = (*p)[1];
        if (c == 'r' || c == 'n')
            *cp = c == 'r' ? '\r' : '\n';
        else if (c == 'x')
            return parse_hex(p, cp);
        else if (c && strchr("$+-[]\\^|.", c))
            *cp = (unsigned char)c;
        else
            return false;
        *p += 2;
        return true;
    }
    *p += utf8_next(*p, strlen(*p), cp);
    return *cp != UINT32_MAX;
}

/* "[...]" or "\p{X}" at *p into s. False: not of this simple form. */
static bool parse_set(const char **p, struct pre_set *s)
{
    size_t len;
    uint32_t bit, lo, hi;
    memset(s, 0, sizeof *s);
    if ((bit = parse_class(*p, &len))) {
        s->classes = bit;
        *p += len;
    } else {
        if (**p != '[' || (*p)[1] == '^') return false;
        for (++*p; **p != ']';) {
            if (**p == 0) return false;
            if ((bit = parse_class(*p, &len))) {
                s->classes |= bit;
                *p += len;
                continue;
            }
            if (!parse_char(p, &lo)) return false;
            hi = lo;
            if (**p == '-' && (*p)[1] != ']') {
                ++*p;
                if (!parse_char(p, &hi)) return false;
            }
            if (!set_range(s, lo, hi)) return false;
        }
        ++*p;
    }
    for (uint32_t c = 0; c < 0x10000; c++)
        if (tok_class_of(c) & s->classes) s->bmp[c >> 6] |= 1ull << (c & 63);
    return true;
}

/* A pattern "\s?SET", "SET", each followed by nothing, +, {1,3}, or SET three times over. False: another form. */
static bool parse_run(struct pre_step *s, const char *pattern)
{
    const char *p = pattern;
    s->opt_space = strncmp(p, "\\s?", 3) == 0;
    if (s->opt_space) p += 3;
    const char *set = p;
    if (!parse_set(&p, s->set)) return false;
    size_t n = (size_t)(p - set);
    s->min = s->max = 1;
    if (*p == '+') {
        s->max = UINT32_MAX;
        p++;
    } else if (strncmp(p, "{1,3}", 5) == 0) {
        s->max = 3;
        p += 5;
    } else {
        while (strncmp(p, set, n) == 0) {
            p += n;
            s->min = ++s->max;
        }
    }
    s->kind = PRE_RUN;
    return *p == 0 && !(s->opt_space && s->min > 1);
}

/* ---- compilation ---- */

static int step_init(struct pre_step *s, const char *pattern, bool pcre_only, struct err *e)
{
    for (size_t i = 0; !pcre_only && i < ARRAY_LEN(hand_made); i++)
        if (strcmp(pattern, hand_made[i].pattern) == 0) {
            *s = hand_made[i].s;
            return OK;
        }
    if (!pcre_only) {
        s->set = mem_alloc(1, sizeof *s->set);
        if (!s->set) return err_set(e, E_NOMEM, "no memory for the pre-tokenizer");
        if (parse_run(s, pattern)) return OK;
        mem_free(s->set);
        *s = (struct pre_step){0};
    }
    s->kind = PRE_PCRE;
    int code;
    PCRE2_SIZE at;
    s->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_MATCH_INVALID_UTF, &code, &at, NULL);
    if (!s->code) {
        unsigned char msg[128] = "";
        pcre2_get_error_message(code, msg, sizeof msg);
        return err_set(e, E_ARG, "pre-tokenizer pattern, at byte %zu: %s", (size_t)at, (char *)msg);
    }
    pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE); /* without a JIT the interpreter runs: slower, same result */
    return OK;
}

int pre_init(struct pre *x, const struct pre_row *row, bool pcre_only, struct err *e)
{
    tok_class_init();
    *x = (struct pre){0};
    while (x->n_step < PRE_MAX_STEP && row->step[x->n_step]) {
        int rc = step_init(&x->step[x->n_step], row->step[x->n_step], pcre_only, e);
        if (rc < 0) {
            pre_free(x);
            return rc;
        }
        x->n_step++;
    }
    return OK;
}

void pre_free(struct pre *x)
{
    for (uint32_t i = 0; i < x->n_step; i++) {
        mem_free(x->step[i].set);
        if (x->step[i].code) pcre2_code_free(x->step[i].code);
    }
    *x = (struct pre){0};
}

/* ---- PCRE2 steps ---- */

void pre_work_free(struct pre_work *w)
{
    if (w->md) pcre2_match_data_free(w->md);
    if (w->ctx) pcre2_match_context_free(w->ctx);
    if (w->stack) pcre2_jit_stack_free(w->stack);
    *w = (struct pre_work){0};
}

/* Next match of s in p[0, n) from byte i on; none (or PCRE2 gave up: out of memory, a limit): the end. */
static void search(const struct pre_step *s, struct pre_work *w, const char *p, size_t i, size_t n, size_t *start, size_t *end)
{
    *start = *end = n;
    if (!w->md) {
        w->md = pcre2_match_data_create(1, NULL);
        w->ctx = pcre2_match_context_create(NULL);
        w->stack = pcre2_jit_stack_create(32 << 10, 16 << 20, NULL);
        if (w->ctx && w->stack) pcre2_jit_stack_assign(w->ctx, NULL, w->stack);
    }
    if (!w->md) return;
    int rc = pcre2_match(s->code, (PCRE2_SPTR)p, n, i, PCRE2_NOTEMPTY, w->md, w->ctx);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(s->code, (PCRE2_SPTR)p, n, i, PCRE2_NOTEMPTY | PCRE2_NO_JIT, w->md, w->ctx);
    if (rc < 0) return;
    const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(w->md);
    if (ov[0] < i || ov[1] <= ov[0] || ov[1] > n) return; /* \K or the like in a table row: not meaningful here */
    *start = ov[0];
    *end = ov[1];
}

size_t pre_pcre_next(const struct pre_step *s, uint32_t step, struct pre_work *w, const char *p, size_t i, size_t n)
{
    if (w->last[step].p != p || i < w->last[step].from || i > w->last[step].start || w->last[step].end > n) {
        w->last[step].p = p;
        w->last[step].from = i;
        search(s, w, p, i, n, &w->last[step].start, &w->last[step].end);
    }
    return i < w->last[step].start ? w->last[step].start : w->last[step].end;
}
