"""hearth template: the rendered prompt, exactly and alone, on standard output."""
import json
import os
import time

from hearth import Case, DATA, hearth, shared

TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <there> & \"you\""}]
LINES = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"


class Template(Case):
    def setUp(self):
        self.dir = self.temp()

    def file(self, name, content):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8", newline="") as f:
            f.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def render(self, template, messages, *args, **kw):
        return hearth("template", self.file("t.jinja", template), "-f", self.file("m.json", messages), *args, **kw)

    def test_messages(self):
        self.assertEqual(self.ok(self.render(LINES, TALK)).text, 'system: Be brief.\nuser: Hi <there> & "you"\nassistant:')
        self.assertEqual(self.ok(self.render(LINES, TALK)).err, "")

    def test_no_generation_prompt(self):
        self.assertFalse(self.ok(self.render(LINES, TALK, "--no-generation-prompt")).text.endswith("assistant:"))

    def test_object_of_variables(self):
        v = {"messages": TALK, "add_generation_prompt": False, "color": "blue"}
        self.assertEqual(self.ok(self.render("{{ color }} {{ messages|length }}{{ add_generation_prompt }}", v)).text, "blue 2False")

    def test_stdin(self):
        r = hearth("template", self.file("t.jinja", LINES), "-f", "-", stdin=json.dumps(TALK).encode())
        self.assertIn("user: Hi", self.ok(r).text)

    def test_tools(self):
        tools = self.file("tools.json", [{"type": "function", "function": {"name": "f", "parameters": {}}}])
        self.assertEqual(self.ok(self.render("{% for t in tools %}{{ t.function.name }}{% endfor %}", TALK, "--tools", tools)).text, "f")
        self.one_line(self.render("x", TALK, "--tools", self.file("no.json", {"a": 1})), 1, "no.json", "list")

    def test_var(self):
        t = "{{ a }}|{{ b.c }}|{{ d }}|{{ e }}"
        self.assertEqual(self.ok(self.render(t, TALK, "--var", "a=text", "--var", 'b={"c": [1, 2]}', "--var", "d=true", "--var", 'e="1"')).text, "text|[1, 2]|True|1")
        self.assertEqual(self.ok(self.render("{{ bos_token }}", TALK, "--var", "bos_token=<s>")).text, "<s>")

    def test_now(self):
        t = '{{ strftime_now("%Y-%m-%d %H:%M:%S") }}'
        self.assertEqual(self.ok(self.render(t, TALK, "--now", "2024-07-26 09:30:00")).text, "2024-07-26 09:30:00")
        self.assertEqual(self.ok(self.render(t, TALK, "--now", "2000-02-29")).text, "2000-02-29 00:00:00")
        self.assertEqual(self.ok(self.render(t, TALK, "--now", "2024-12-31 23:59:59", env={"TZ": "Asia/Tokyo"})).text, "2024-12-31 23:59:59")
        before = time.strftime("%Y-%m-%d %H:%M:%S")
        got = self.ok(self.render(t, TALK)).text
        self.assertTrue(before <= got <= time.strftime("%Y-%m-%d %H:%M:%S"), (before, got))

    def test_exact_bytes(self):
        self.assertEqual(self.ok(self.render("a\n\n", TALK)).text, "a\n")  # one newline at the end goes, as in Jinja
        self.assertEqual(self.ok(self.render("", TALK)).text, "")

    def test_refusals(self):
        self.one_line(self.render("{{ raise_exception('roles must alternate') }}", TALK), 1, "t.jinja", "roles must alternate")
        self.one_line(self.render("ok\n{% if %}", TALK), 1, "t.jinja", "line 2")
        self.one_line(self.render("{{ 1 / 0 }}", TALK), 1, "t.jinja", "line 1")
        self.one_line(self.render("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", TALK), 1, "t.jinja")
        self.one_line(self.render("{% for a in range(99999) %}{{ 'x' * 9999 }}{% endfor %}", TALK), 1, "t.jinja")
        self.one_line(self.render("x", "not json"), 1, "m.json")
        self.one_line(self.render("x", [{"content": "no role"}]), 1, "m.json", "role")
        self.one_line(self.render("x", 5), 1, "m.json")
        self.one_line(hearth("template", self.file("t.jinja", "x"), "-f", "nosuch.json"), 1, "nosuch.json")
        self.one_line(hearth("template", os.path.join(self.dir, "u.jinja"), "-f", "nosuch.json"), 1, "did you mean", "t.jinja")

    def test_model_without_template(self):
        stories = os.path.join(DATA, "models", "stories260K.gguf")
        self.one_line(hearth("template", stories, "-f", self.file("m.json", TALK)), 1, stories, "no chat template")


class Published(Case):
    """35 published templates with what transformers makes of 20 conversations (shared data)."""

    def test_all(self):
        with open(shared("chat-templates", "cases.json"), encoding="utf-8") as f:
            cases = json.load(f)
        folder = os.path.dirname(shared("chat-templates", "cases.json"))
        special, d, n = cases["special_tokens"], self.temp(), 0
        for c in cases["cases"]:
            with open(os.path.join(d, c["case"] + ".json"), "w", encoding="utf-8") as f:
                json.dump(dict(special, **c["variables"]), f)
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".expected.json"):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                want = json.load(f)
            for case, x in want["expected"].items():
                with self.subTest(template=want["template"], case=case):
                    r = hearth("template", os.path.join(folder, want["template"]), "-f", os.path.join(d, case + ".json"), "--now", cases["now"])
                    n += 1
                    if "text" in x:
                        self.assertEqual(self.ok(r).out, x["text"].encode())
                    else:
                        self.one_line(r, 1)
        self.assertGreaterEqual(n, 700)
