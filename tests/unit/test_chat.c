/* Messages to prompt text: the variables that a template sees, what is refused, SmolLM2's template, a tokenizer's special tokens.
 */
#include "base/os.h"
#include "model/chat.h"
#include "model/gguf.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The template of SmolLM2-135M-Instruct (Apache-2.0, tests/data/smollm2/apache-2.0.txt), 368 bytes. */
static const char smollm2[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n"
    "' + message['content'] + '<|im_end|>' + '\n"
    "'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n"
    "' }}{% endif %}";

static json_t *parse(const char *z)
{
    struct err e = {0};
    json_t *v;
    if (json_parse(&v, z, strlen(z), 0, "test", &e) < 0) fail_msg("%s: %s", z, e.msg);
    return v;
}

static void renders(const char *tmpl, const char *messages, bool prompt, const char *want)
{
    struct buf b = {0};
    struct err e = {0};
    json_t *m = parse(messages);
    int rc = chat_render(&b, str_of(tmpl), m, NULL, prompt, &e);
    if (rc < 0) fail_msg("%s: %s", messages, e.msg);
    assert_string_equal(b.p ? b.p : "", want);
    buf_free(&b);
    json_decref(m);
}

static void refused(const char *tmpl, const char *messages, int code, const char *msg)
{
    struct buf b = {0};
    struct err e = {0};
    json_t *m = parse(messages);
    assert_int_equal(chat_render(&b, str_of(tmpl), m, NULL, true, &e), code);
    assert_string_equal(e.msg, msg);
    assert_int_equal(b.n, 0);
    buf_free(&b);
    json_decref(m);
}

static void test_smollm2(void **state)
{
    (void)state;
    assert_int_equal(sizeof smollm2 - 1, 368);
    renders(smollm2, "[{\"role\": \"user\", \"content\": \"Hi\"}]", true,
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    renders(smollm2,
            "[{\"role\": \"system\", \"content\": \"Be terse.\"}, {\"role\": \"user\", \"content\": \"Grüße {{ 1 }}\"}, "
            "{\"role\": \"assistant\", \"content\": \"\"}]",
            false,
            "<|im_start|>system\nBe terse.<|im_end|>\n<|im_start|>user\nGrüße {{ 1 "
            "}}<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n");
    refused(smollm2, "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"part\"}]}]", E_FORMAT,
            "chat template: line 3: can only concatenate str (not \"list\") to str");
}

static void test_variables(void **state)
{
    (void)state;
    static const char all[] = "{{ tools is none }},{{ documents is none }},{{ add_generation_prompt }},[{{ bos_token }}],[{{ "
                              "eos_token }}],{{ extra is defined }},{{ messages|length }}";
    renders(all, "[]", true, "True,True,True,[],[],False,0");
    renders(all,
            "{\"messages\": [{\"role\": \"tool\"}], \"tools\": [1], \"documents\": [], \"bos_token\": \"<s>\", \"extra\": null, "
            "\"add_generation_prompt\": true}",
            false, "False,False,False,[<s>],[],True,1");
    renders("{{ messages[0].content is none }}{{ messages[1].content is defined }}",
            "[{\"role\": \"a\", \"content\": null}, {\"role\": \"a\"}]", true, "TrueFalse");
    renders("{{ messages[0].n }} {{ messages[0].f }}", "[{\"role\": \"a\", \"n\": 9007199254740993, \"f\": 1e16}]", true,
            "9007199254740993 1e+16");

    struct err e = {0};
    json_t *in = parse("{\"messages\": []}"), *v;
    assert_int_equal(chat_vars(&v, in, NULL, &e), OK);
    assert_int_equal(json_object_size(in), 1); /* not changed */
    assert_int_equal(json_object_size(v), 6);
    assert_true(json_is_true(json_object_get(v, "add_generation_prompt")));
    json_decref(in); /* v keeps what it shares */
    assert_int_equal(json_array_size(json_object_get(v, "messages")), 0);
    json_decref(v);
}

static void test_refused(void **state)
{
    (void)state;
    refused("x", "3", E_FORMAT, "an array of messages or an object of variables is expected");
    refused("x", "{}", E_FORMAT, "\"messages\" is missing");
    refused("x", "{\"messages\": {}}", E_FORMAT, "\"messages\" must be an array");
    refused("x", "[1]", E_FORMAT, "messages[0] must be an object");
    refused("x", "[{\"role\": \"user\"}, {\"content\": \"x\"}]", E_FORMAT, "messages[1]: \"role\" must be a string");
    refused("x", "[{\"role\": null}]", E_FORMAT, "messages[0]: \"role\" must be a string");
    refused("x", "[{\"role\": \"user\", \"content\": 5}]", E_FORMAT,
            "messages[0]: \"content\" must be a string, null or a list of parts");
    refused("x", "[{\"role\": \"user\", \"content\": [{}, \"x\"]}]", E_FORMAT, "messages[0]: \"content\"[1] must be an object");
    refused("", "[]", E_ARG, "the model has no chat template");
    refused("{{ raise_exception('only users') }}", "[]", E_ARG, "chat template: line 1: only users");
    refused("\n{{", "[]", E_FORMAT, "chat template: line 2: expected an expression, got end of template");
}

static void test_tokenizer(void **state)
{
    (void)state;
    struct err e = {0};
    struct gguf g;
    struct tok *t = NULL;
    struct buf b = {0};
    if (gguf_open(&g, "tests/data/models/stories260K.gguf", &e) < 0 || tok_open_gguf(&t, &g, &e) < 0) fail_msg("%s", e.msg);
    gguf_close(&g);
    json_t *m = parse("[{\"role\": \"user\", \"content\": \"x\"}]");
    if (chat_render(&b, str_of("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"), m, t, true, &e) < 0)
        fail_msg("%s", e.msg);
    struct str bos = tok_text(t, tok_bos(t)), eos = tok_text(t, tok_eos(t));
    assert_true(bos.n > 0 && eos.n > 0);
    assert_int_equal(b.n, bos.n + 1 + eos.n);
    assert_memory_equal(b.p, bos.p, bos.n);
    assert_memory_equal(b.p + bos.n + 1, eos.p, eos.n);
    buf_free(&b);
    json_decref(m);
    tok_close(t);
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(test_smollm2), cmocka_unit_test(test_variables),
                                   cmocka_unit_test(test_refused), cmocka_unit_test(test_tokenizer)};
    return cmocka_run_group_tests(t, NULL, NULL);
}
