#!/usr/bin/env python3
"""The house rules that a compiler does not check. Python standard library; outside tools only where present.

  tools/lint.py [--build DIR] [--own] [--list]

Own checks (also run by `make check`, tests/e2e/test_repo.py): layers, header self-containment, symbol prefixes, allocation and output
rules, file shape, option page. Then cppcheck, shellcheck and clang-format where installed. Exit code 1 when something is wrong.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# module -> what its files may include: a module, or one header of it (docs/architecture: layers)
LAYERS = {
    "base": ["base"],
    "model": ["model", "base"],
    "kern": ["kern", "base", "model/weights.h", "model/dtype.h", "model/shape.h"],
    "comm": ["comm", "base", "model/dtype.h"],
    "dev": ["dev", "kern", "model", "base", "comm/ledger.h"],
    "engine": ["engine", "dev", "comm", "model", "base"],
    "cmd": ["cmd", "engine", "dev", "comm", "kern", "model", "base"],
    "main.c": ["cmd", "base"],
}
# single files that see less than their module
NARROW = {"engine/fwd.c": (["engine/fwd.h", "engine/kv.h", "dev", "comm", "model/shape.h", "model/weights.h", "base/base.h", "base/err.h"],
                           "the forward pass sees no backend, no socket, no clock")}
# module -> prefixes of its external symbols
PREFIX = {
    "base": "arena_ buf_ str_ utf8_ near_name err_ check_failed json_ log_ progress_ mem_ opt_ os_ pool_ ring_",
    "model": "dtype_ gguf_ shape_ weights_ tok_ pre_ ids_ jinja_ chat_ st_ hf_",
    "kern": "kern_ isa_ amx_ limits_ lim_",
    "comm": "comm_ led_ wire_ fabric_",
    "dev": "dev_",
    "engine": "fwd_ acts_ gen_ stops_ seq_ kv_ radix_ sched_ sample_ samp_ engine_ place_",
    "cmd": "cmd_ opts_ model_path line_",
}
# headers that are no contract but a body: their includers define what they need first
TEMPLATES = {"kern/kern_simd.h": "the vector type and its primitives"}
# files that free what a library allocated with malloc
FOREIGN = {"cmd/cmd_chat.c": "json_dumps", "cmd/line.c": "getline and libedit"}
ALLOC = re.compile(r"(?<![.>\w])(malloc|calloc|realloc|free|strdup|strndup|asprintf|vasprintf|getline|alloca)\s*\(")
PRINT = re.compile(r"\b(printf|fprintf|vprintf|vfprintf|puts|putchar|fputs|fputc|putc|fwrite|perror)\s*\(")
QUIT = re.compile(r"\b(exit|_exit|abort|quick_exit)\s*\(")


def sh(*cmd):
    return subprocess.run(cmd, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def files(*patterns):
    return sorted(f for p in patterns for f in glob.glob(os.path.join(ROOT, p), recursive=True) if os.path.isfile(f))


def rel(path):
    return os.path.relpath(path, ROOT)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def code_only(text):
    """Comments and string contents blanked, line numbers kept."""
    def blank(m):
        s = m.group(0)
        return re.sub(r"[^\n]", " ", s) if s[0] == "/" else s[0] + " " * (len(s) - 2) + s[-1]
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", blank, text, flags=re.S)


def each_line(text):
    return enumerate(text.split("\n"), 1)


def check_layers():
    """a file includes only its own layer's headers, or lower ones"""
    for f in files("src/**/*.[ch]"):
        name = os.path.relpath(f, os.path.join(ROOT, "src"))
        module = name.split("/")[0]
        allowed, why = NARROW.get(name, (LAYERS.get(module), "layers"))
        if allowed is None:
            yield "%s: module %s is not in the table of layers (tools/lint.py)" % (rel(f), module)
            continue
        for n, line in each_line(read(f)):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if m and m.group(1).split("/")[0] not in allowed and m.group(1) not in allowed and "/" in m.group(1):
                yield "%s:%d: includes %s (%s)" % (rel(f), n, m.group(1), why)
            elif m and "/" not in m.group(1):
                yield "%s:%d: includes %s without its module" % (rel(f), n, m.group(1))
            if re.match(r"\s*#\s*include\s+<\w*intrin\.h>", line) and module != "kern":
                yield "%s:%d: intrinsics outside kern" % (rel(f), n)


def check_headers():
    """every header compiles alone and has #pragma once"""
    flags = "-std=c11 -D_GNU_SOURCE -Isrc -Wall -Wextra -Werror -fsyntax-only -x c".split()
    isa = "-mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mamx-tile -mamx-bf16 -mamx-int8".split()
    libs = sh("pkg-config", "--cflags", "jansson", "libpcre2-8", "libutf8proc").stdout.split()
    for f in files("src/**/*.h"):
        if "#pragma once" not in read(f):
            yield "%s: no #pragma once" % rel(f)
        if os.path.relpath(f, os.path.join(ROOT, "src")) in TEMPLATES:
            continue
        extra = isa if "intrin.h" in read(f) else []
        r = subprocess.run([os.environ.get("CC", "gcc")] + flags + extra + libs + ["-"], cwd=ROOT, text=True, input='#include "%s"\n' % os.path.relpath(f, os.path.join(ROOT, "src")),
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if r.returncode:
            yield "%s: does not compile alone: %s" % (rel(f), r.stdout.strip().split("\n")[0])


def check_symbols(build):
    """external symbols carry their module's prefix"""
    seen = False
    for o in sorted(glob.glob(os.path.join(build, "src", "*", "*.o"))):
        module = os.path.basename(os.path.dirname(o))
        if not os.path.exists(os.path.join(ROOT, "src", module, os.path.basename(o)[:-2] + ".c")):
            continue  # left over from a file that is gone
        seen = True
        prefixes = tuple(PREFIX.get(module, "").split())
        for line in sh("nm", "-g", "--defined-only", o).stdout.splitlines():
            name = line.split()[-1]
            if not name.startswith(prefixes or ("\0",)) and not name.startswith(("__asan", "__odr_asan", "___asan", "__tsan", "__sancov", "__start_", "__stop_")):
                yield "src/%s/%s.c: external symbol %s (wanted: static, or one of %s)" % (module, os.path.basename(o)[:-2], name, " ".join(prefixes))
    if not seen:
        yield "%s holds no objects: run make first" % build


def check_rules():
    """allocation, output, exit only where they belong; no left-overs"""
    for f in files("src/**/*.[ch]"):
        name = os.path.relpath(f, os.path.join(ROOT, "src"))
        module = name.split("/")[0]
        for n, line in each_line(code_only(read(f))):
            m = ALLOC.search(line)
            if m and module != "base" and not (name in FOREIGN and m.group(1) in ("free", "getline")):
                yield "%s:%d: %s: memory comes from base/mem.h" % (rel(f), n, m.group(1))
            m = PRINT.search(line)
            if m and name not in ("base/log.c", "base/err.c", "main.c") and module != "cmd":
                yield "%s:%d: %s: messages go through base/log.h, results through a command" % (rel(f), n, m.group(1))
            m = QUIT.search(line)
            if m and name != "base/err.c":
                yield "%s:%d: %s: errors are values (CHECK for a programmer's error)" % (rel(f), n, m.group(1))
            if re.search(r"#\s*define\s+_GNU_SOURCE", line):
                yield "%s:%d: _GNU_SOURCE is set by the Makefile" % (rel(f), n)


def check_shape():
    """widths, lengths, blanks, left-overs"""
    limits = {"src/engine/fwd.c": 400, "Makefile": 250}
    for f in files("src/**/*.[ch]", "tests/**/*.[ch]", "tests/**/*.py", "tools/*.py", "setup.sh", ".ci/run", "Makefile", "*.md", "docs/*.md"):
        name, text = rel(f), read(f)
        lines = text.split("\n")
        c = name.endswith((".c", ".h"))
        limit = limits.get(name, 1500 if name.startswith("tests/") else 1100)
        if len(lines) - 1 > limit and name != "docs/options.md":
            yield "%s: %d lines, at most %d" % (name, len(lines) - 1, limit)
        if text and not text.endswith("\n"):
            yield "%s: no newline at the end" % name
        for n, line in each_line(text):
            if c and name.startswith("src/") and len(line) > 200:
                yield "%s:%d: %d columns; 130 are aimed at" % (name, n, len(line))
            if re.search(r"[ \t]+$", line) and not name.endswith((".md", ".py")):
                yield "%s:%d: blanks at the end" % (name, n)
            if c and "\t" in line:
                yield "%s:%d: a tab" % (name, n)
            if re.search(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", line):
                yield "%s:%d: unfinished business: %s" % (name, n, line.strip()[:60])
            if re.search(r"(?<![\w.])/(work|tmp/w|root|home/\w+)/", line):
                yield "%s:%d: a path of somebody's machine" % (name, n)


def check_options_page(build):
    """docs/options.md is what the program says"""
    program = os.path.join(build, "hearth")
    if not os.path.exists(program):
        yield "%s is not built" % program
        return
    r = subprocess.run([program, "--generate", "options-md"], stdout=subprocess.PIPE, text=True)
    path = os.path.join(ROOT, "docs", "options.md")
    if r.returncode or not os.path.exists(path) or read(path) != r.stdout:
        yield "docs/options.md differs from the option table: run make docs"


OWN = [check_layers, check_headers, check_symbols, check_rules, check_shape, check_options_page]


def run_check(check, build):
    return list(check(build) if check.__code__.co_argcount else check())


def outside():
    """(tool, findings) of the tools that are installed; None: not installed"""
    if shutil.which("cppcheck"):
        # nullPointerArithmetic: it takes offsets computed from a checked NULL for uses; invalidPointerCast: raw blocks of a file are what this is about;
        # constStatement: an enum in a comma expression of the error macros; negativeIndex, uninitvar: loops it does not follow (gcc and ASan do)
        quiet = ["--suppress=" + x for x in ("missingIncludeSystem unknownMacro invalidPrintfArgType_sint nullPointerArithmetic invalidPointerCast "
                                             "constStatement negativeIndex uninitvar").split()]
        r = sh("cppcheck", "--enable=warning,performance,portability", "--inline-suppr", "--error-exitcode=1", "--quiet", "--std=c11", "-Isrc", "-D_GNU_SOURCE", "-D__x86_64__",
               *quiet, "-j2", "--template={file}:{line}: {id}: {message}", "src")
        yield "cppcheck", [] if r.returncode == 0 else r.stdout.strip().split("\n")
    else:
        yield "cppcheck", None
    if shutil.which("shellcheck"):
        r = sh("shellcheck", "-f", "gcc", *[f for f in ("setup.sh", ".ci/run") if os.path.exists(os.path.join(ROOT, f))])
        yield "shellcheck", [] if r.returncode == 0 else r.stdout.strip().split("\n")
    else:
        yield "shellcheck", None
    fmt = next((x for x in ("clang-format", "clang-format-14", "clang-format-19") if shutil.which(x)), None)
    if fmt:
        differ = [rel(f) for f in files("src/**/*.[ch]") if sh(fmt, "--dry-run", "-Werror", f).returncode]
        print("lint: %s would change %d files (told, not counted): %s" % (fmt, len(differ), " ".join(differ[:12])))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default="build")
    a.add_argument("--own", action="store_true", help="own checks only")
    a.add_argument("--list", action="store_true", help="report the longest files")
    opt = a.parse_args()
    opt.build = os.path.abspath(opt.build)
    bad = 0
    for check in OWN:
        found = run_check(check, opt.build)
        bad += len(found)
        print("lint: %-14s %s" % (check.__name__[6:], "ok" if not found else "%d found" % len(found)))
        for x in found:
            print("  " + x)
    if not opt.own:
        for tool, found in outside():
            print("lint: %-14s %s" % (tool, "not installed" if found is None else "ok" if not found else "%d found" % len(found)))
            for x in found or []:
                print("  " + x)
            bad += len(found or [])
    if opt.list:
        sizes = sorted(((read(f).count("\n"), rel(f)) for f in files("src/**/*.[ch]")), reverse=True)
        wide = sum(len(x) > 130 for f in files("src/**/*.[ch]") for x in read(f).split("\n"))
        print("lint: %d lines over 130 columns" % wide)
        print("lint: longest files: " + ", ".join("%s %d" % (f, n) for n, f in sizes[:10]))
    print("lint: %s" % ("clean" if not bad else "%d findings" % bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
