#!/usr/bin/env python3
"""Random templates through hearth's Jinja and Python's Jinja2; any difference is printed.

  cc -O2 -std=c11 -D_GNU_SOURCE -Isrc tests/tools/jinja_driver.c build/libhearth.a -ljansson -lutf8proc -lpcre2-8 -lm -pthread -o /tmp/jinja_driver
  python3 tests/tools/fuzz_jinja_diff.py /tmp/jinja_driver [SECONDS] [SEED]

Both must give the same text, or both an error. Not compared: texts with object addresses, and what hearth documents as different (integers beyond
64 bits, its bounds).
"""
import json, os, random, re, subprocess, sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jinja_oracle

VARS = {
    "a": 1, "b": -7, "c": 3.5, "z": 0, "t": True, "f": False, "n": None, "s": "Hello World", "e": "", "u": "Straße ÀÉ 你好 😀 ǆx",
    "ml": "one\n  two\n\nthree  ", "q": "it's \"quoted\" \\ back\ttab", "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "lm": [1, "x", None, 2.0, True],
    "d": {"k": "v", "n": 2, "items": "shadow", "L": [1, 2]}, "de": {}, "nest": [[1, 2], [3], []], "num": "42", "fl": "3.25", "html": "<b>&amp; 'x'</b>",
    "people": [{"name": "Bob", "age": 30, "tags": ["x", "y"]}, {"name": "alice", "age": 25, "tags": []}, {"name": "Carol", "age": 30}],
    "messages": [{"role": "user", "content": "Hi  "}, {"role": "assistant", "content": "Hello <x>", "tool_calls": [{"function": {"name": "f", "arguments": {"q": 1}}}]},
                 {"role": "user", "content": [{"type": "text", "text": "part"}]}],
    "big": 9007199254740993, "small": 1e-7, "huge": 1e22, "long": "The quick brown-fox jumps over the lazy dog -- and then well-known things happen; aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa end.",
}
NAMES = list(VARS) + ["undefinedname", "x", "y", "i"]
STRS = ["'a'", "'l'", "'o W'", "''", "' '", "'\\n'", "'name'", "'age'", "'x'", "'k'", "'é'", "'0'", "'%s'", "'ß'", "'role'", "'tags.0'", "'-'", "\"it's\"", "'{}'", "'key'", "'value'",
        "'user'", "'lower'", "'\\u00e4\\x41'", "'a,b'", "'name,age'"]
INTS = ["0", "1", "2", "3", "-1", "-2", "5", "10", "100", "7"]
FLOATS = ["0.5", "1.0", "2.25", "1e3", "-0.0", "1.5e-5", "2.675"]
FILTERS = {
    "abs": [], "attr": ["s"], "batch": ["i", "e"], "capitalize": [], "center": ["i"], "count": [], "d": ["e", "b"], "default": ["e", "b"], "dictsort": ["b", "s", "b"],
    "escape": [], "e": [], "filesizeformat": ["b"], "first": [], "float": ["e"], "forceescape": [], "format": ["e", "e"], "groupby": ["s", "e", "b"],
    "indent": ["i", "b", "b"], "int": ["e", "i"], "join": ["s", "s"], "last": [], "length": [], "list": [], "lower": [], "items": [], "map": ["s"], "min": ["b", "s"],
    "max": ["b", "s"], "reject": ["T"], "rejectattr": ["s", "T"], "replace": ["s", "s", "i"], "reverse": [], "round": ["i", "R"], "safe": [], "select": ["T"],
    "selectattr": ["s", "T"], "slice": ["i", "e"], "sort": ["b", "b", "s"], "string": [], "striptags": [], "sum": ["s", "e"], "title": [], "tojson": ["b", "i"], "trim": ["s"],
    "truncate": ["i", "b", "s", "i"], "unique": ["b", "s"], "upper": [], "urlencode": [], "wordcount": [], "wordwrap": ["i", "b", "s", "b"],
}
KW = {"default": ["default_value", "boolean"], "dictsort": ["case_sensitive", "by", "reverse"], "tojson": ["ensure_ascii", "indent"], "indent": ["width", "first", "blank"],
      "sort": ["reverse", "case_sensitive", "attribute"], "join": ["d", "attribute"], "round": ["precision", "method"], "map": ["attribute"], "min": ["case_sensitive", "attribute"],
      "truncate": ["length", "killwords", "end", "leeway"], "groupby": ["attribute", "default", "case_sensitive"], "int": ["default", "base"], "sum": ["attribute", "start"]}
TESTS = {"odd": [], "even": [], "divisibleby": ["i"], "defined": [], "undefined": [], "none": [], "boolean": [], "false": [], "true": [], "integer": [], "float": [], "lower": [],
         "upper": [], "string": [], "mapping": [], "number": [], "sequence": [], "iterable": [], "callable": [], "in": ["e"], "eq": ["e"], "equalto": ["e"], "ne": ["e"], "gt": ["e"],
         "ge": ["e"], "lt": ["e"], "le": ["e"], "filter": [], "test": [], "escaped": []}
METHODS = {"upper": [], "lower": [], "title": [], "capitalize": [], "swapcase": [], "strip": ["s"], "lstrip": ["s"], "rstrip": ["s"], "split": ["s", "i"], "rsplit": ["s", "i"], "startswith": ["s"],
           "endswith": ["s"], "find": ["s", "i", "i"], "rfind": ["s", "i"], "count": ["s"], "replace": ["s", "s", "i"], "join": ["e"], "splitlines": ["b"], "isdigit": [], "isalpha": [],
           "isalnum": [], "isspace": [], "isupper": [], "islower": [], "istitle": [], "isnumeric": [], "isidentifier": [], "isprintable": [], "isascii": [], "center": ["i", "s"], "ljust": ["i", "s"],
           "rjust": ["i", "s"], "zfill": ["i"], "partition": ["s"], "rpartition": ["s"], "removeprefix": ["s"], "removesuffix": ["s"], "expandtabs": ["i"], "format": ["e", "e"], "casefold": [],
           "index": ["e"], "get": ["s", "e"], "keys": [], "values": [], "items": [], "append": ["e"], "pop": [], "update": ["e"], "copy": [], "sort": []}


class Gen:
    def __init__(self, rnd):
        self.r = rnd

    def pick(self, xs):
        return self.r.choice(xs)

    def some(self, p):
        return self.r.random() < p

    def arg(self, kind, depth):
        if self.some(0.12):
            return self.expr(depth - 1)
        if kind == "s":
            return self.pick(STRS)
        if kind == "i":
            return self.pick(INTS)
        if kind == "b":
            return self.pick(["true", "false"])
        if kind == "R":
            return self.pick(["'common'", "'ceil'", "'floor'"])
        if kind == "T":
            return "'" + self.pick(list(TESTS)) + "'"
        return self.expr(depth - 1)

    def args(self, kinds, depth, names=None):
        n = self.r.randint(0, len(kinds)) if not self.some(0.6) else min(1, len(kinds))
        out = []
        for k in range(n):
            a = self.arg(kinds[k], depth)
            if names and k < len(names) and (self.some(0.4) or (out and "=" in out[-1].split("'")[0])):
                a = names[k] + "=" + a
            out.append(a)
        return out

    def call(self, name, kinds, depth, names=None, force=False):
        a = self.args(kinds, depth, names)
        if name in ("map",) and self.some(0.5):
            a = [self.pick(["'upper'", "'length'", "'string'", "attribute='name'", "attribute='age', default=0", "'trim'", "'int'", "'default', 'zz'"])]
        return name + ("(" + ", ".join(a) + ")" if a or force else "")

    def primary(self, depth):
        k = self.r.random()
        if k < 0.45 or depth <= 0:
            return self.pick(NAMES)
        if k < 0.6:
            return self.pick(STRS)
        if k < 0.75:
            return self.pick(INTS)
        if k < 0.8:
            return self.pick(FLOATS)
        if k < 0.84:
            return self.pick(["true", "false", "none", "True", "None"])
        if k < 0.89:
            return "[" + ", ".join(self.expr(depth - 1) for _ in range(self.r.randint(0, 3))) + "]"
        if k < 0.92:
            return "{" + ", ".join(self.pick(STRS + ["1", "none"]) + ": " + self.expr(depth - 1) for _ in range(self.r.randint(0, 3))) + "}"
        if k < 0.95:
            return "(" + ", ".join(self.expr(depth - 1) for _ in range(self.r.randint(1, 3))) + self.pick(["", ","]) + ")"
        return "range(" + ", ".join(self.arg("i", depth) for _ in range(self.r.randint(1, 3))) + ")"

    def postfix(self, depth):
        e = self.primary(depth)
        while self.some(0.35) and depth > 0:
            k = self.r.random()
            if k < 0.3:
                e += "." + self.pick(["name", "age", "k", "n", "items", "L", "0", "1", "role", "content", "tags", "foo", "_x", "__class__"])
            elif k < 0.5:
                e += "[" + self.pick(INTS + STRS) + "]"
            elif k < 0.65:
                p = [self.pick(["", *INTS, "none"]) for _ in range(3)]
                e += "[" + ":".join(p[: self.r.randint(2, 3)]) + "]"
            else:
                m = self.pick(list(METHODS))
                e += "." + self.call(m, METHODS[m], depth, force=True)
        while self.some(0.3) and depth > 0:
            if self.some(0.75):
                f = self.pick(list(FILTERS))
                e += "|" + self.call(f, FILTERS[f], depth, KW.get(f))
                if f in ("map", "select", "reject", "selectattr", "rejectattr", "batch", "slice", "unique", "items", "reverse") and self.some(0.8):
                    e += "|list"
            else:
                t = self.pick(list(TESTS))
                e += " is " + self.pick(["", "", "not "]) + self.call(t, TESTS[t], depth)
        return e

    def expr(self, depth):
        if depth <= 0:
            return self.postfix(0)
        k = self.r.random()
        if k < 0.5:
            return self.postfix(depth)
        if k < 0.72:
            op = self.pick(["+", "-", "*", "/", "//", "%", "**", "~", "+", "~"])
            return self.expr(depth - 1) + " " + op + " " + self.expr(depth - 1)
        if k < 0.82:
            op = self.pick(["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
            x = self.expr(depth - 1) + " " + op + " " + self.expr(depth - 1)
            return x + (" < " + self.expr(depth - 1) if self.some(0.15) else "")
        if k < 0.9:
            return self.expr(depth - 1) + self.pick([" and ", " or "]) + self.expr(depth - 1)
        if k < 0.93:
            return "not " + self.expr(depth - 1)
        if k < 0.95:
            return self.pick(["-", "+"]) + self.postfix(depth - 1)
        if k < 0.98:
            return self.expr(depth - 1) + " if " + self.expr(depth - 1) + self.pick(["", " else " + self.expr(depth - 1)])
        return "(" + self.expr(depth - 1) + ")"

    def tag(self, inner):
        return "{%" + self.pick(["", "", "", "-", "+"]) + " " + inner + " " + self.pick(["", "", "", "-", "+"]) + "%}"

    def text(self):
        return self.pick(["", " ", "\n", "  \n", "abc", "x\n  ", "\n\n", "  ", "\t", "{ ", "} ", "# ", "é\n", "<|im|>"])

    def loopexpr(self):
        return self.pick(["loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.revindex0", "loop.previtem", "loop.nextitem",
                          "loop.cycle('p', 'q')", "loop.depth", "loop.changed(x)", "loop"])

    def body(self, depth, inloop=False):
        return "".join(self.stmt(depth, inloop) for _ in range(self.r.randint(1, 3)))

    def stmt(self, depth, inloop=False):
        k = self.r.random()
        out = self.text()
        if k < 0.3 or depth <= 0:
            e = self.loopexpr() if inloop and self.some(0.5) else self.expr(2)
            return out + "{{" + self.pick(["", "", "-"]) + " " + e + " " + self.pick(["", "", "-"]) + "}}" + self.text()
        if k < 0.42:
            x = self.tag("if " + self.expr(2)) + self.body(depth - 1, inloop)
            if self.some(0.3):
                x += self.tag("elif " + self.expr(2)) + self.body(depth - 1, inloop)
            if self.some(0.4):
                x += self.tag("else") + self.body(depth - 1, inloop)
            return out + x + self.tag("endif")
        if k < 0.6:
            tgt = self.pick(["x", "x", "i", "x, y", "y"])
            it = self.pick(["l", "ls", "people", "messages", "d.items()", "d|dictsort", "range(4)", "nest", "s", "le", "d", "lm", self.expr(1), "ml.splitlines()", "ls|select|list", "l|map('string')"])
            x = self.tag("for " + tgt + " in " + it + (" if " + self.pick(["x", "x != 1", "loop.index", self.expr(1)]) if self.some(0.25) else ""))
            x += self.body(depth - 1, True)
            if self.some(0.2):
                x += self.tag("if " + self.pick(["loop.index > 2", "x", self.expr(1)])) + self.tag(self.pick(["break", "continue"])) + self.tag("endif")
            if self.some(0.2):
                x += self.tag("else") + self.body(depth - 1, False)
            return out + x + self.tag("endfor")
        if k < 0.72:
            return out + self.tag("set " + self.pick(["x", "y", "i", "s", "x, y", "ns.v", "a"]) + " = " + self.pick([self.expr(2), self.expr(2), "1, 2", "namespace(v=1)", "x"]))
        if k < 0.77:
            return out + self.tag("set " + self.pick(["x", "y", "s"]) + self.pick(["", " | upper", " | trim"])) + self.body(depth - 1, inloop) + self.tag("endset")
        if k < 0.83:
            name = self.pick(["m", "g"])
            sig = self.pick(["", "x", "x, y=2", "x, y=x", "caller=none"])
            use = self.pick(["{{ x }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ y }}{{ a }}"])
            return out + self.tag("macro " + name + "(" + sig + ")") + self.body(depth - 1) + use + self.tag("endmacro") + "{{ " + name + "(" + self.pick(
                ["", "1", "1, 2", "y=3", "x=4", "1, 2, 3", "z=1"]) + ") }}"
        if k < 0.86:
            return out + self.tag("call" + self.pick(["", "(x)"]) + " " + self.pick(["m()", "g(1)"])) + self.body(depth - 1) + self.tag("endcall")
        if k < 0.89:
            return out + self.tag("filter " + self.pick(["upper", "trim", "indent(2)", "replace('a', 'b')", "title|length"])) + self.body(depth - 1, inloop) + self.tag("endfilter")
        if k < 0.92:
            return out + self.tag("with " + self.pick(["x = 1", "x = a, y = x", "", "x = " + self.expr(1)])) + self.body(depth - 1, inloop) + self.tag("endwith")
        if k < 0.94:
            return out + "{#" + self.pick(["", "-"]) + " note " + self.pick(["", "-", "+"]) + "#}" + self.text()
        if k < 0.96:
            return out + self.tag("raw") + self.pick(["{{ x }}", " {% if %} ", "\n{# #}"]) + self.tag("endraw") + self.text()
        if k < 0.98:
            return out + self.tag("generation") + self.body(depth - 1, inloop) + self.tag("endgeneration")
        return out + self.tag("for x in nest recursive") + "{{ x }}" + self.pick(["{{ loop(x) if x is iterable else '' }}", "{{ loop.depth }}{% if x is iterable %}{{ loop(x) }}{% endif %}"]) + self.tag("endfor")

    def template(self):
        pre = self.pick(["", "", "{% set ns = namespace(v=0) %}", "{% macro m(x, y='d') %}[{{ x }}|{{ y }}{{ caller() if caller else '' }}]{% endmacro %}"])
        return pre + self.body(3) + self.text()


ADDRESS = re.compile(r"0x[0-9a-f]{6,}|<(function|built-in|bound|class|generator|slot|method)|object at|TemplateReference|_GroupTuple|reverseiterator|dict_reverse|Cycler", re.I)


def bigint(x):
    return x and re.search(r"\d{19,}", x)


def main():
    drv = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    secs = float(sys.argv[2]) if len(sys.argv) > 2 else 30
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
    print("seed", seed, flush=True)
    rnd = random.Random(seed)
    gen, env = Gen(rnd), jinja_oracle.env()
    end = time.time() + secs
    n = ok = bad = skipped = 0
    while time.time() < end and bad < 40:
        t = gen.template() if rnd.random() < 0.6 else "{{ " + gen.expr(3) + " }}"
        if re.search(r"\*\*.*\*\*|\d{3,} *\*\*|\*\* *(100|\(|big|huge)|\* *(big|huge)|(big|huge) *\*", t):
            continue
        # (-2 ** x with a constant 2 alone is -(2 ** x) in Jinja2, by the way in which it writes out constants)
        if re.search(r"- *[\d.e]+ *\*\*|'\]\[[^\]]*:|(\d|[Tt]rue|[Ff]alse|[Nn]one|\})\[[^\[\]'\"]*:", t):  # folded as a constant where alone in {{ }}, then by other rules
            continue
        want = jinja_oracle.render(env, t, VARS)
        if want.get("error") == "MemoryError" or (want.get("text") and len(want["text"]) > 1000000):
            continue
        drv.stdin.write(json.dumps({"t": t, "v": VARS, "now": jinja_oracle.NOW_UTC}) + "\n")
        drv.stdin.flush()
        line = drv.stdout.readline()
        if not line:
            print("DRIVER DIED on", json.dumps(t))
            return 1
        got = json.loads(line)
        n += 1
        if want.get("text") is not None and (ADDRESS.search(want["text"]) or bigint(want["text"])):
            skipped += 1
            continue
        if re.search(r"'<'[],]", want.get("text") or ""):  # an address, character by character
            skipped += 1
            continue
        if want.get("text") is not None:
            ok += 1
        if want.get("text") != got.get("text"):
            if got.get("code") == -6 and "64 bits" in got.get("error", ""):
                skipped += 1
                continue
            bad += 1
            print("DIFF", json.dumps(t, ensure_ascii=False), "\n  want", json.dumps(want, ensure_ascii=False)[:600], "\n  got ", json.dumps(got, ensure_ascii=False)[:600], flush=True)
    print(n, "templates,", ok, "rendered,", skipped, "not comparable,", bad, "differ")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
