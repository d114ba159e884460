"""The reference for src/model/jinja.c: Python Jinja2 set up as transformers' apply_chat_template does it. Used by the tools beside it.
Needs Jinja2 (3.1.6 was used)."""
import datetime, json
import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2024, 7, 26, 9, 30, 0)
NOW_UTC = 1721986200  # the same fields, read as UTC


class Generation(Extension):
    """transformers wraps the body of {% generation %} in a call block, which makes it a scope."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


class Raised(jinja2.exceptions.TemplateError):
    pass


def env():
    def raise_exception(message):
        raise Raised(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    e = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    e.filters["tojson"] = tojson
    e.globals["raise_exception"] = raise_exception
    e.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return e


def render(e, template, variables):
    """{"text": ...} or {"error": class name, "message": ...}"""
    try:
        return {"text": e.from_string(template).render(**json.loads(json.dumps(variables)))}
    except Raised as x:
        return {"error": "raised", "message": str(x)}
    except Exception as x:  # what the template's Python code may throw is no fixed set
        return {"error": type(x).__name__, "message": str(x)}
