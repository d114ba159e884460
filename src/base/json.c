#include "base/json.h"
#include "base/mem.h"

#define MAX_DEPTH 512

/* jansson's own depth bound is 2048; ours is stricter and found before parsing, outside strings. */
static bool too_deep(const char *p, size_t n)
{
    uint32_t depth = 0;
    bool in = false;
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (in) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in = false;
        } else if (c == '"') {
            in = true;
        } else if (c == '[' || c == '{') {
            if (++depth > MAX_DEPTH) return true;
        } else if ((c == ']' || c == '}') && depth) {
            depth--;
        }
    }
    return false;
}

int json_parse(json_t **out, const char *p, size_t n, size_t max, const char *what, struct err *e)
{
    json_error_t je;
    *out = NULL;
    if (max == 0) max = (size_t)1 << 30;
    if (n > max) return err_set(e, E_RANGE, "%s: %zu bytes of JSON, at most %zu are read", what, n, max);
    if (n == 0) return err_set(e, E_FORMAT, "%s: empty where JSON is expected", what);
    if (too_deep(p, n)) return err_set(e, E_FORMAT, "%s: JSON nested more than %d levels deep", what, MAX_DEPTH);
    json_t *v = json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);
    if (!v) return err_set(e, E_FORMAT, "%s: line %d, column %d: %s", what, je.line, je.column, je.text);
    *out = v;
    return OK;
}

static const char *type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_NULL: return "null";
    default: return "a boolean";
    }
}

static int wrong(const json_t *v, const char *key, const char *want, struct err *e)
{
    return err_set(e, E_FORMAT, "\"%s\" is %s, %s is expected", key, type_name(v), want);
}

int json_get_u64(const json_t *o, const char *key, uint64_t lo, uint64_t hi, uint64_t *v, struct err *e)
{
    const json_t *j = json_object_get(o, key);
    if (!j || json_is_null(j)) return 0;
    if (!json_is_integer(j)) return wrong(j, key, "an integer", e);
    json_int_t i = json_integer_value(j);
    if (i < 0 || (uint64_t)i < lo || (uint64_t)i > hi)
        return err_set(e, E_FORMAT, "\"%s\" is %lld, %llu to %llu is expected", key, (long long)i,
                       (unsigned long long)lo, (unsigned long long)hi);
    *v = (uint64_t)i;
    return 1;
}

int json_get_f64(const json_t *o, const char *key, double *v, struct err *e)
{
    const json_t *j = json_object_get(o, key);
    if (!j || json_is_null(j)) return 0;
    if (!json_is_number(j)) return wrong(j, key, "a number", e);
    *v = json_number_value(j);
    return 1;
}

int json_get_bool(const json_t *o, const char *key, bool *v, struct err *e)
{
    const json_t *j = json_object_get(o, key);
    if (!j || json_is_null(j)) return 0;
    if (!json_is_boolean(j)) return wrong(j, key, "true or false", e);
    *v = json_is_true(j);
    return 1;
}

int json_get_str(const json_t *o, const char *key, struct str *v, struct err *e)
{
    const json_t *j = json_object_get(o, key);
    if (!j || json_is_null(j)) return 0;
    if (!json_is_string(j)) return wrong(j, key, "a string", e);
    *v = (struct str){json_string_value(j), json_string_length(j)};
    return 1;
}

int json_get_array(const json_t *o, const char *key, const json_t **v, struct err *e)
{
    const json_t *j = json_object_get(o, key);
    if (!j || json_is_null(j)) return 0;
    if (!json_is_array(j)) return wrong(j, key, "an array", e);
    *v = j;
    return 1;
}
