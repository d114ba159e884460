/* JSON from outside: parsing never crashes, refuses with a message, and what it accepts can be written and read again as the same
 * value. */
#include "base/json.h"
#include <stdlib.h>
#include <string.h>

extern const char *const fuzz_words[];
extern const char *const fuzz_seeds[];
const char *const fuzz_words[] = {"{",
                                  "}",
                                  "[",
                                  "]",
                                  ":",
                                  ",",
                                  "\"",
                                  "\\u",
                                  "\\ud83d\\ude00",
                                  "\\u0000",
                                  "null",
                                  "true",
                                  "1e9",
                                  "-0",
                                  "1.5",
                                  "9223372036854775807",
                                  "[[[[[[[[",
                                  "{\"a\":",
                                  "\xff",
                                  "1e400",
                                  "\"a\":1,\"a\":2",
                                  NULL};
const char *const fuzz_seeds[] = {"{\"messages\": [{\"role\": \"user\", \"content\": \"h\\u00e9llo \\ud83d\\ude00\"}], \"n\": "
                                  "12, \"t\": 0.5, \"b\": true, \"z\": null}",
                                  "[1, 2.5, -3e-2, \"x\", [], {}]",
                                  "\"text\"",
                                  "0",
                                  "{\"a\": {\"b\": {\"c\": [[[1]]]}}}",
                                  NULL};

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    json_t *v, *w;
    struct err e = {0};
    int rc = json_parse(&v, (const char *)p, n, 1 << 16, "input", &e);
    if (rc != OK) {
        if (rc > 0 || v || e.msg[0] == 0 || strchr(e.msg, '\n')) abort();
        return 0;
    }
    uint64_t u = 0;
    double d = 0;
    bool b = false;
    struct str s = {0};
    const json_t *a = NULL;
    static const char *const key[] = {"messages", "n", "t", "b", "z", "a"};
    for (size_t i = 0; i < ARRAY_LEN(key); i++) {
        if (json_get_u64(v, key[i], 1, 100, &u, &e) == 1 && (u < 1 || u > 100)) abort();
        json_get_f64(v, key[i], &d, &e);
        json_get_bool(v, key[i], &b, &e);
        if (json_get_str(v, key[i], &s, &e) == 1 && utf8_check(s.p, s.n) != s.n) abort();
        json_get_array(v, key[i], &a, &e);
    }
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    if (text) {
        if (json_parse(&w, text, strlen(text), 0, "output", &e) != OK || !json_equal(v, w)) abort();
        json_decref(w);
    }
    free(text);
    json_decref(v);
    return 0;
}
