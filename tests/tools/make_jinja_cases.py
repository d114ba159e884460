#!/usr/bin/env python3
"""Writes tests/data/jinja/cases.json: what Python's Jinja2 makes of templates that use each statement, filter, test, method and operator.

  python3 tests/tools/make_jinja_cases.py > tests/data/jinja/cases.json

Needs Jinja2 (3.1.6 was used) and the variables of fuzz_jinja_diff.py. {"vars": ..., "now": seconds, "cases": [{"t": template, "text": ...} or
{"t": template, "error": Python's class}]}
"""
import json, os, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jinja_oracle
from fuzz_jinja_diff import VARS

EXPR = r"""
1 + 2 * 3 - 4
2 ** 3 ** 2
-2 ** 2
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
7 / 2
6 / 2
1e16
1e15
123456789012345678
0.1 + 0.2
1e-5
0.0001
-0.0
1e308 * 10
2.5e-8
1_000
0x1F + 0b11 + 0o17
true + true
"a" * 3
[1, 2] * 2
[1] + [2, 3]
(1,) + (2,)
"a" ~ 1 ~ none ~ true ~ 2.0 ~ [1, 'x']
"a" + "b"
"a" + 1
n + "x"
undefinedname
undefinedname.x
undefinedname + 1
undefinedname == undefinedname
undefinedname is defined
d.missing
d.missing.more
d.k
d["k"]
d["items"]
d.L[1]
l[0], l[-1], l[5]
l[1:], l[:-1], l[::-1], l[::2], l[5:], l[-100:100]
s[0], s[-1], s[1:4], s[::-1], s[::2], s[4:1:-1]
u[0:7], u[-2:], u[::-1]
u|length
ls[1].upper()
range(5)[1:3]|list, range(10, 0, -3)|list, range(3)
range(0)
(1, 2), (1,), ()
[1, [2, "x"], {"a": none, 'b"': 1.5}]
{"a": 1, 2: "b", none: true}
{1: "a", 1.0: "b", true: "c"}
'it\'s', "say \"x\""
"tab\tnew\nback\\ \x41 \u00e9 \101 \z"
q
["it's", 'say "x"', "both ' and \"", "new\nline", "\x07", "é😀"]
"con" "cat"
1 < 2 < 3, 1 < 3 < 2, 1 == 1.0, 1 == true, "a" < "b", [1, 2] < [1, 3]
1 < "a"
none < 1
"ell" in s, "x" in s, 3 in l, 9 not in l, "k" in d, 1 in "a1"
3 in range(5), (1, 2) in [(1, 2)]
"a" in none
not true, not 0, not ""
a and b, z and b, z or b, none or "", 1 and []
true if 1 else false, "x" if z, ("x" if z) is defined
1 if 0 else 2 if 0 else 3
b|abs, (-3.5)|abs
-5|abs
(1, 2, 3)|sum, [1.5, 2]|sum, [[1], [2]]|sum(start=[])
people|sum(attribute="age")
people|map(attribute="age")|sum
people|map(attribute="name")|join(", ")
people|map(attribute="nope", default="-")|join
people|map("length")|list
["a", "b"]|map("upper")|list
people|selectattr("tags")|map(attribute="name")|list
people|rejectattr("age", "gt", 26)|map(attribute="name")|list
people|selectattr("age", "equalto", 30)|list|length
people|selectattr("age", "equalto", 30)|length
messages|selectattr("role", "in", ["user"])|list|length
l|select("odd")|list, l|reject("odd")|list, lm|select|list, lm|reject|list
l|select("divisibleby", 3)|list
l|map("nofilter")|list
l|sort, l|sort(reverse=true), ls|sort, ls|sort(case_sensitive=true), ls|sort(true)
people|sort(attribute="age,name")|map(attribute="name")|list
people|sort(attribute="name")|map(attribute="name")|list
lm|sort
l|unique|list, ["a", "A", "b"]|unique|list, ["a", "A"]|unique(true)|list, people|unique(attribute="age")|map(attribute="name")|list
l|min, l|max, ls|min, ls|max, ls|min(true), []|min, people|max(attribute="age")
l|first, l|last, le|first, s|first, s|last, d|first, range(4)|last
le|last is defined
l|reverse|list, s|reverse, d|reverse|list
l|join, l|join("-"), ls|join(d="/"), people|join(",", "name"), people|join(", ", attribute="age")
l|length, s|count, d|length, le|length
5|length
s|upper, s|lower, u|upper, u|lower, u|title, u|capitalize, ml|title
"hello-world foo(bar) [baz] {x} <y> o'neil"|title, "hello-world o'neil".title()
"ΑΣ ΣΑΣ"|lower, "İ"|lower|length, "ﬁn ŉ ǆ"|upper, "ﬁn ŉ ǆ".title()
s|replace("o", "0"), s|replace("o", "0", 1), s|replace("", "-"), "aaa"|replace("aa", "b"), 121|replace(1, 3)
s|trim, "  x "|trim, "xxaxx"|trim("x"), "--a-"|trim(chars="-")
ml|indent, ml|indent(2), ml|indent(2, true), ml|indent(2, blank=true), ml|indent(">> ", first=true), ""|indent(2, true)
"foo bar baz qux"|truncate(9), "foo bar baz qux"|truncate(9, true), "foo bar baz qux"|truncate(11), "foo bar baz qux"|truncate(11, leeway=0), s|truncate(5, end="")
s|truncate(2)
s|center(20), s|center(21), "ab"|center(5)
s|wordcount, "a_b c-d é"|wordcount
long|wordwrap(20), long|wordwrap(20, false), long|wordwrap(12, wrapstring="|"), long|wordwrap(10, break_on_hyphens=false), ml|wordwrap(5)
"a b c d e f g"|wordwrap(1), "x"|wordwrap(0)
html|escape, html|e|e, html|e|forceescape, html|striptags, (html|safe) ~ "<", (html|e) + "<", ("<a>"|e)|upper
"<!-- c --><p>a  b</p>&lt;x&gt;"|striptags
"%s is %d and %5.2f%%"|format("x", 3, 2.5), "%(a)s-%(b)03d"|format(a=1, b=2), "%r %x %X %o %e %g %c %c"|format("a", 255, 255, 8, 1234.5, 0.0001, "z", 65)
"%-5s|%5s|%05d|%+d|% d|%#x"|format("a", "b", 42, 5, 5, 255)
"%d"|format("x")
"%s"|format
"%s %s" % (1, 2), "%s" % "x", "%s" % [1], "%s" % none
"%s %s" % (1,)
"a/b c?é&="|urlencode, {"a": "b c", "d/": 1}|urlencode, [("x", 1), ("y", "&")]|urlencode
42.55|round, 42.55|round(1), 42.45|round(1, "floor"), 42.41|round(1, "ceil"), 2.5|round, 3.5|round, 2.675|round(2), 1234|round(-2), 1250.0|round(-2), 7|round
42|round(method="x")
"3.7"|int, " 42 "|int, "x"|int, "x"|int(9), "ff"|int(base=16), "0b101"|int(base=0), "1_000"|int, none|int(3), 3.99|int, -3.99|int, true|int, "1e3"|int
"3.25"|float, "x"|float, "x"|float(1.5), 3|float, "inf"|float, "nan"|float, "-1e400"|float, "1_0.5"|float
1|string, none|string, 1.0|string, [1]|string
undefinedname|default("x"), ""|default("x"), ""|default("x", true), none|d("x"), 0|default(1, boolean=true), d.nope|d({})
d|dictsort, d|dictsort(reverse=true), {"b": 1, "A": 2, "a": 3}|dictsort, {"b": 1, "A": 2}|dictsort(true), {"a": 2, "b": 1}|dictsort(by="value")
d|dictsort(by="x")
{"a": 1, "b": 2}|items|list, undefinedname|items|list
5|items|list
range(10)|batch(3)|list, range(10)|batch(3, "x")|list
range(10)|slice(3)|list, range(10)|slice(3, "x")|list
people|groupby("age")|map("first")|list
1000|filesizeformat, 1|filesizeformat, 999|filesizeformat, 1234567|filesizeformat, 1234567|filesizeformat(true), "5e9"|filesizeformat
d|attr("items") is callable, d|attr("k") is defined, s|attr("upper") is callable
"abc"|list, d|list, none|list
d|tojson, u|tojson, u|tojson(ensure_ascii=true), lm|tojson, people|tojson(indent=2), {"b": 1, "a": [true, none, 1.5, {}, []]}|tojson(sort_keys=true, indent=1), (1, 2)|tojson
{"a": 1}|tojson(separators=(",", ":")), [1, 2]|tojson(separators=[", ", ": "]), "a\"\\\n\t\x00\x1f\x7f/</script>"|tojson, {1: 2, none: 3, true: 4, 1.5: 5}|tojson
big|tojson, huge|tojson, small|tojson, "inf"|float|tojson
undefinedname|tojson
{(1, 2): 3}|tojson
s is string, 1 is string, 1 is number, true is number, true is integer, 1 is integer, 1.0 is float, 1 is float
none is none, undefinedname is none, undefinedname is undefined, a is defined
d is mapping, l is mapping, l is sequence, s is sequence, d is sequence, 1 is sequence, l|map("string") is sequence, l|map("string") is iterable
l is iterable, 1 is iterable, none is iterable, undefinedname is iterable
true is true, 1 is true, false is false, 0 is false, true is boolean, 1 is boolean
3 is odd, 3 is even, 9 is divisibleby 3, 9 is divisibleby(2), 2.0 is even
"a" is odd
"abc" is lower, "ABC" is upper, "aBc" is lower, "1" is lower, "É" is upper
1 is eq 1, 1 is equalto(2), 1 is ne 2, 2 is gt 1, 2 is ge 2, 1 is lt 2, 1 is le 0, 1 is greaterthan 0, 1 is lessthan 0
1 is in [1, 2], "k" is in d, "x" is not in ls
"upper" is filter, "nope" is filter, "odd" is test, "nope" is test
none is sameas none, true is sameas true, 1 is sameas true
s.upper is callable, s is callable, range is callable, html|e is escaped, html is escaped
not 1 is odd, 1 is not odd, 1 is odd and 2 is even
s.startswith("Hello"), s.startswith(("x", "H")), s.endswith("d"), s.startswith("W", 6), s.endswith("o", 0, 5)
s.find("o"), s.rfind("o"), s.find("x"), s.index("W"), s.find("o", 5), u.find("你"), u.rfind("é")
s.index("x")
s.count("l"), "aaaa".count("aa"), "abc".count("")
s.split(), s.split("o"), s.split("o", 1), s.rsplit("o", 1), " a  b ".split(), " a  b ".split(" "), "a  b  c".split(none, 1), "a  b  c".rsplit(none, 1), "".split(), "".split("x"), s.split(maxsplit=1)
s.split("")
s.partition(" "), s.rpartition("o"), s.partition("x"), s.rpartition("x")
ml.splitlines(), ml.splitlines(true), "a\r\nb\rc\n".splitlines(), "a\u2028b\x0bc".splitlines()
s.strip("Hd"), "  a ".lstrip(), "  a ".rstrip(), "xyxa".lstrip("xy"), "\u3000a\u00a0".strip()
s.replace("l", "L"), s.replace("l", "L", 2), s.replace("", ".", 3)
s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), "ß".upper(), "ß".casefold(), "ß".capitalize()
",".join(["a", "b"]), "".join([]), "-".join("abc"), ", ".join(d)
",".join([1])
"5".zfill(3), "-5".zfill(4), "a".ljust(3, "."), "a".rjust(3), "a".center(4, "*")
"12".isdigit(), "1.2".isdigit(), "²".isdigit(), "²".isdecimal(), "½".isnumeric(), "abc".isalpha(), "ab1".isalnum(), " \t".isspace(), "".isspace(), "Ab Cd".istitle(), "a".isidentifier(), "1a".isidentifier(), "é".isascii(), "\n".isprintable()
"a\tb".expandtabs(), "a\tb".expandtabs(4), "prefix-x".removeprefix("prefix-"), "x.txt".removesuffix(".txt")
"{} {}".format(1, "a"), "{1} {0}".format(1, 2), "{a}-{b}".format(a=1, b=[1]), "{0[0]} {0[1]}".format([5, 6]), "{{}} {:>5}|{:<5}|{:^5}|".format("a", "b", "c"), "{:05d} {:+.2f} {:,} {:x} {:%} {!r}".format(42, 3.14159, 1234567, 255, 0.25, "q")
"{:.3} {:e} {:g} {:10.3f}| {:_} {:#x} {:08.2f}".format(3.14159, 12345.678, 0.00001, 2.5, 1000000, 255, -3.14159)
"{}".format()
d.get("k"), d.get("x"), d.get("x", 5), d.keys()|list, d.values()|list, d.items()|list, d.keys(), d.values(), {"a": 1}.items()
d.get([])
d.update({}) 
d.pop("k")
l.append(4)
l.index(1), l.count(3), (1, 2, 1).count(1), (1, 2).index(2)
l.index(9)
s.__class__, s.__class__.__mro__
l.append, l.append is defined, d.update is defined
dict(a=1, b=2), dict({"a": 1}, b=2), dict([("x", 1)])
namespace(a=1).a, namespace({"b": 2}).b, namespace(), namespace(a=1)
range(3, 1)|list, range(1, 2, 0)
range(200000)
strftime_now("%Y-%m-%d %H:%M:%S %a %b %j"), strftime_now(format="%d %B %Y")
raise_exception("no " ~ 1)
nosuch()
s()
[1, 2, 3][1], {"a": 5}["a"], {"a": {"b": 7}}.a.b, (1, 2)[0], "abc"[1]
l.0, nest.0.1
"a".upper().lower()|upper|lower ~ "x"
[1, 2,], {"a": 1,}, (1, 2,)
1 if true else undefinedname.x
a.real, a.nothing, none.x
"%s" % d, "%(k)s" % d
huge, small, big, c, 1e100, 5e-324, 1.7976931348623157e308, 100000.0, 123456.789
[1e22, 1e-7]
"a" if undefinedname else "b"
1 + undefinedname|default(2)
loop
d == {"L": [1, 2], "k": "v", "n": 2, "items": "shadow"}, [1] == (1,), nest == [[1, 2], [3], []]
*l
1 +
a b
(1
"unclosed
1 is
l[1
{"a" 1}
a.
a|nofilter
a is notest
1 if
"\x4"
f(a=1, a=2)
f(*l, 1)
"é" == "\u00e9", "Z" < "a", "a" < "é"
9223372036854775807, 9223372036854775807 - 1
joiner()() ~ "x", cycler(1, 2).next(), cycler("a").current
l|random in l
s|attr("nope")|default("none")
s|string|length, (s, 1)|length
nest|sum(start=[]), nest|map("join", "-")|list, nest|map("sum")|list
messages[-1].content[0].text, messages[0]["content"]|trim, messages[1].tool_calls[0].function.arguments|tojson
messages|map(attribute="role")|join(","), messages|map(attribute="content")|select("string")|list|length
messages|last|attr("role")|default("x"), (messages|last).role
messages[1:]|length, messages[::-1][0].role, messages[:1][0].content
"x" ~ "\n" ~ "y"
"a,b;c"|replace(",", ";")|replace(";", " ")
"<think>a</think>b".split("</think>")[-1].lstrip("\n"), "<think>a</think>b".split("<think>")|last
""".strip().split("\n")

STMT = [
    "", "plain\ntext\n", "trailing\n\n", "\r\nmixed\rline\nends\r\n", "{{ 1 }}\n", "{{ 1 }}\n\n", "a\n{{ 1 }}\nb",
    "a{% if t %}b{% endif %}c", "a\n{% if t %}\nb\n{% endif %}\nc", "a\n  {% if t %}  \n  b\n  {% endif %}\nc", "a  {% if t %}b{% endif %}  c",
    "a\n  {%- if t -%}\n  b  \n  {%- endif -%}\n  c", "a\n  {%+ if t +%}\n  b\n  {%+ endif %}\nc", "a \n {{- 1 -}} \n b", "{{+ 5 }}", "{{- 5 -}}",
    "  {# c #}\nx", "x {#- c -#} y", "x\n  {# c +#}\ny", "a{# multi\nline #}b{{ 1 }}", "{# unclosed", "{#a#}{#b#}c", "x {#+ c #} y",
    "{% raw %}{{ x }}{% if %}{% endraw %}z", "a\n  {% raw %}\n {{ }} \n  {% endraw %}\nb", "a {%- raw -%} x {%- endraw -%} b", "{% raw %}x", "{%+ raw %} {%+ endraw +%}\nb",
    "{{ '{{' }}{{ '}}' }}{{ \"{%\" }}", "{{ {'a': {'b': 1}}.a.b }}", "{ { } } {x} # % %}  }}",
    "{% if z %}1{% elif n %}2{% elif a %}3{% else %}4{% endif %}", "{% if z: %}1{% else: %}2{% endif %}",
    "{% for x in l %}{{ x }},{% endfor %}", "{% for x in l %}{{ loop.index }}/{{ loop.length }} {{ loop.index0 }} {{ loop.first }} {{ loop.last }} {{ loop.revindex }} {{ loop.revindex0 }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in le %}a{% else %}none{% endfor %}", "{% for x in l %}a{% else %}none{% endfor %}", "{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}",
    "{% for x in l if x > 5 %}{{ x }}{% else %}nothing{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% continue %}{% else %}E{% endfor %}", "{% for x in l %}{% break %}{% else %}E{% endfor %}", "{% break %}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'añ😀' %}[{{ c }}]{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}", "{% for a, b in [1] %}{{ a }}{% endfor %}", "{% for x in 5 %}{% endfor %}",
    "{% for x in none %}{% endfor %}", "{% for x in undefinedname %}a{% else %}b{% endfor %}", "{% for x in range(3) %}{{ x }}{% for y in range(x) %}{{ loop.index }}{{ x }}{{ y }}{% endfor %}|{{ loop.index }}{% endfor %}",
    "{% for x in nest recursive %}{% if x is iterable %}[{{ loop(x) }}]{% else %}{{ x }}{% endif %}{% endfor %}", "{% for x in [{'n': 1, 'c': [{'n': 2, 'c': []}]}] recursive %}{{ loop.depth }}:{{ x.n }}({{ loop(x.c) }}){% endfor %}",
    "{% for x in l %}{{ loop(x) }}{% endfor %}", "{% for loop in l %}{% endfor %}", "{% for x in l %}{% set loop = 1 %}{% endfor %}",
    "{% for g in people|groupby('age') %}{{ g.grouper }}:{{ g.list|map(attribute='name')|join(',') }};{% endfor %}", "{% for age, ps in people|groupby('age') %}{{ age }}{{ ps|length }} {% endfor %}",
    "{% for x in l|map('string') %}{{ loop.length }}{{ x }}{% endfor %}", "{% set g = l|map('string') %}{{ g|join }}{{ g|join }}", "{% set g = l|select %}{{ g|first }}{{ g|list }}",
    "{% for row in range(7)|batch(3) %}{{ row|join('') }}/{% endfor %}", "{% for a in l %}{% for b in l if b != a %}{{ a }}{{ b }} {% endfor %}{% endfor %}",
    "{% set x = 1 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x = 1, 2 %}{{ x }}", "{% set x %}a{{ s }}b{% endset %}[{{ x }}]", "{% set x | upper | trim %} a {% endset %}[{{ x }}]",
    "{% set ns = namespace(n=0) %}{% for x in l %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}", "{% set x = 0 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}", "{% set a.b = 1 %}", "{% set d.k = 1 %}", "{% set true = 1 %}", "{% set 1 = 1 %}", "{% set x %}",
    "{% if t %}{% set x = 5 %}{% endif %}{{ x }}", "{% if f %}{% set a = 5 %}{% endif %}{{ a }}", "{% for i in l %}{% if i == 1 %}{% set a = 'in' %}{% endif %}{{ a }}{% endfor %}{{ a }}",
    "{% for i in l %}{% if f %}{% set q2 = 1 %}{% endif %}{{ q2 is defined }}{% endfor %}", "{% for i in l %}{% if f %}{% set s = 1 %}{% endif %}{{ s }}{% endfor %}", "{% set s = s ~ '!' %}{{ s }}", "{% for i in l %}{% set s = s ~ i %}{{ s }};{% endfor %}{{ s }}",
    "{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% set s %}{{ s }}{% endset %}[{{ s }}]", "{{ a }}{% set a = 2 %}{{ a }}", "{% for a in l %}{{ a }}{% endfor %}{{ a }}",
    "{% macro m() %}{{ a }}{% endmacro %}{{ m() }}{% set a = 9 %}{{ m() }}", "{% set a = 9 %}{% macro m() %}{{ a }}{% endmacro %}{{ m() }}", "{% macro m() %}{% set a = 3 %}{{ a }}{% endmacro %}{{ m() }}{{ a }}",
    "{% macro m(x, y=2) %}{{ x }}-{{ y }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(y=4, x=5) }} {{ m() }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(z=2) }}",
    "{% macro m(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m(1) }}", "{% macro m(x=y, y=1) %}[{{ x }}{{ y }}]{% endmacro %}{{ m() }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, a=3) }}",
    "{% macro m(x) %}{{ x }}{{ varargs|join(',') }}{% endmacro %}{{ m(1, 2, 3) }}", "{% macro m(x) %}{{ x is defined }}{% endmacro %}{{ m() }}{{ m(none) }}", "{% macro m(x, x) %}{% endmacro %}", "{% macro m(x=1, y) %}{% endmacro %}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{% endcall %}", "{% macro m() %}{% for i in l %}{{ caller(i, 'z') }}{% endfor %}{% endmacro %}{% call(x, y) m() %}[{{ x }}{{ y }}]{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% macro m(caller=none) %}{{ caller }}{% endmacro %}{{ m() }}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}", "{% call s.upper() %}x{% endcall %}", "{% call 5 %}x{% endcall %}",
    "{% macro outer() %}{% macro inner(x) %}({{ x }}){% endmacro %}{{ inner(1) }}{{ inner(a) }}{% endmacro %}{{ outer() }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m }}{{ m.name }}", "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m() %} x {% endmacro %}[{{ m()|trim }}]{{ m() ~ 'y' }}", "{{ m(1) }}{% macro m(x) %}{{ x }}{% endmacro %}",
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}banana{% endfilter %}", "{% filter length %}abc{% endfilter %}", "{% filter nofilter %}{% endfilter %}",
    "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}", "{% with x = 1, y = 2 %}{{ x }}{{ y }}{% endwith %}{{ x is defined }}", "{% with a = 5, b2 = a %}{{ a }}{{ b2 }}{% endwith %}{{ a }}", "{% with x, y = (1, 2) %}{{ x }}{{ y }}{% endwith %}",
    "{% generation %}a{% set q = 2 %}{{ q }}{% endgeneration %}{{ q|length }}", "x\n  {% generation %}\n  y\n  {% endgeneration %}\nz", "{% print 1, s %}", "{% print a %}",
    "{% if f %}{{ a|nofilter }}{% endif %}ok", "{% if t %}{{ a|nofilter }}{% endif %}", "{{ a|nofilter if f else 'x' }}", "{% if f %}{% for x in l %}{{ x|nofilter }}{% endfor %}{% endif %}", "{% if a is notest %}{% endif %}",
    "{% if 'nope' is filter %}{{ 1|nope }}{% else %}no{% endif %}", "{% unknowntag %}", "{% endif %}", "{% if %}{% endif %}", "{% if t %}", "{% for x in l %}", "{% if t %}{% endfor %}", "{% else %}", "{% for %}{% endfor %}", "{{ }}", "{{", "{%", "{% if t",
    "{{ 1 }", "{{ (1 }}", "{{ 1) }}", "{{ [1, 2) }}", "{% set x = %}", "{% macro %}{% endmacro %}", "{{ a ! b }}", "{{ a & b }}", "{{ $ }}", "{{ a ? b }}", "{{ 'a }}",
    "{%- for m in messages -%}<|{{ m.role }}|>{{ m.content if m.content is string else m.content[0].text }}{%- if not loop.last %}\n{% endif -%}{%- endfor -%}",
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}SYS{% endif %}{{ '<' + m['role'] + '>' + (m['content'] | string | trim) + '</>' }}{% endfor %}{% if add_generation_prompt %}X{% endif %}",
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}",
    "{% for m in messages[::-1] %}{% set i = (messages|length - 1) - loop.index0 %}{{ i }}{{ m.role[0] }} {% endfor %}", "{% for tc in messages[1].tool_calls %}{{ tc.function.name }}({% for k, v in tc.function.arguments|items %}{{ k }}={{ v|tojson }}{% endfor %}){% endfor %}",
    "{% set c = cycler('x', 'y') %}{% for i in range(3) %}{{ c.next() }}{% endfor %}{{ c.current }}{{ c.reset() }}{{ c.next() }}", "{% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
    "{% set x = namespace(items=[]) %}{% for i in l %}{% set x.items = x.items + [i] %}{% endfor %}{{ x.items }}", "{% for i in range(3) %}{% set outer_i = i %}{% for j in range(2) %}{{ outer_i }}{{ j }} {% endfor %}{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for x in l if not ns.stop %}{{ x }}{% set ns.stop = true %}{% endfor %}", "{% for x in l %}{% set x = x * 2 %}{{ x }}{% endfor %}", "{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% if a == 1 and b < 0 or n %}yes{% endif %}{% if not (a == 1) %}no{% endif %}{% if messages[0]['role'] == 'user' %}u{% endif %}", "{%- set ml2 -%}\n  x\n  y\n{%- endset -%}\n[{{ ml2 }}]",
    "line1\n{%- if t %}\n\n  a\n\n{%- endif %}\n\nb", "{% if t -%}   a   {%- endif %}", "\t{% if t %}\t\n\tx\n\t{% endif %}\t\ny", "{% if t %}\n{% if t %}\n{{ 1 }}\n{% endif %}\n{% endif %}\n", "{% set x = 1 -%}   \n\n  z", "a{%- set x = 1 %}  \n z",
    "{{ 'a' }}\n  {{- 'b' }}\n  {{ 'c' -}}\n  d", "\n\n{% if t %}x{% endif %}\n\n", "é{% if t %}ü{% endif %}\u2003{%- if t %}z{% endif %}",
    "{{ undefinedname.foo.bar }}", "{{ messages[9].role }}", "{{ messages[0].nope }}x", "{{ messages[0].nope.more }}", "{{ raise_exception('bad ' ~ s) }}", "{% if t %}{{ raise_exception('x') }}{% endif %}",
    "{% set x = d.items() %}{{ x|length }}{{ x|list|length }}{{ x[0] is defined }}", "{{ d.items()|first }}{{ d.values()|last }}{{ d.keys()|sort }}", "{{ (d.items()|list)[0][0] }}",
    "{% set f1 = s.upper %}{{ f1() }}", "{% set r = range %}{{ r(2)|list }}", "{% set range = 5 %}{{ range }}", "{% set x = {'a': [1, {'b': 2}]} %}{{ x.a[1].b }}{{ x['a'][0] }}", "{{ loop is defined }}", "{{ caller is defined }}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% do l.append(1) %}", "{{ l.append(1) }}", "{{ d.__class__.__base__ }}", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ s.format.__globals__ }}", "{{ '{0.__class__}'.format(s) }}",
]


def main():
    env = jinja_oracle.env()
    cases, seen = [], set()
    for t in ["{{ " + e + " }}" for e in EXPR] + STMT:
        if t in seen:
            continue
        seen.add(t)
        r = jinja_oracle.render(env, t, VARS)
        cases.append({"t": t, "text": r["text"]} if "text" in r else {"t": t, "error": r["error"]})
    print(json.dumps({"vars": VARS, "now": jinja_oracle.NOW_UTC}, ensure_ascii=False)[:-1] + ',\n"cases": [')
    print(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases))
    print("]}")


if __name__ == "__main__":
    main()
