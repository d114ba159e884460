#!/usr/bin/env python3
"""Run the tests of one build folder and count them. Python standard library only.

  tests/run.py [--build DIR] [--kind unit,fuzz,e2e] [--timeout S] [--fuzz-seconds S] [--slow F] [--results FILE] [-v] [NAME ...]
  tests/run.py --total FILE ...

Kinds: unit = the cmocka programs DIR/tests/test_*, fuzz = the seeded drivers DIR/tests/fuzz_*, e2e = tests/e2e/test_*.py
(unittest). NAME picks programs or files (test_buf, fuzz_gguf, test_cli). Every skip is listed with its reason; with CI=true a
skip that tests/skips.txt does not foresee is a failure. The last line is "N passed, N failed, N skipped"; exit code 1 when
anything failed. --results writes the counts as JSON, --total adds such files up and prints one last line for all.
What tests find in the environment: HEARTH_BUILD and HEARTH_BIN (build folder and binary), HEARTH_SHARED (shared data, may be
absent), HEARTH_SLOW (how much slower than a release build the binary is: 1, sanitizers 10).
"""
import argparse
import fnmatch
import json
import os
import re
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TAP = re.compile(r"(not ok|ok) \d+ (- |# SKIP )(\S.*)$")


class Result:
    def __init__(self, program):
        self.program, self.ok, self.failed, self.skipped, self.output, self.seconds = program, [], [], [], "", 0.0

    def fail(self, name, why=""):
        self.failed.append((name, why))


def run_program(cmd, timeout, env):
    """Output (stdout and stderr together), exit code; None when the time ran out. The whole process group dies then."""
    p = subprocess.Popen(cmd, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         start_new_session=True)
    try:
        out, _ = p.communicate(timeout=timeout)
        return out.decode("utf-8", "replace"), p.returncode
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, _ = p.communicate()
        return out.decode("utf-8", "replace"), None
    except BaseException:  # Ctrl-C, SIGTERM: nothing is left running
        os.killpg(p.pid, signal.SIGKILL)
        raise


def ended(code, timeout):
    if code is None:
        return "no end after %d s" % timeout
    return "killed by signal %d (%s)" % (-code, signal.Signals(-code).name) if code < 0 else "exit code %d" % code


def reason_of(text):
    """The last line that a test printed before it skipped."""
    lines = [x.strip() for x in text if x.strip() and not x.startswith("#")]
    return re.sub(r"^skip(ped)?\s*:\s*", "", lines[-1], flags=re.I) if lines else "no reason given"


def run_unit(path, opt, env):
    r = Result(os.path.basename(path))
    r.output, code = run_program([path], opt.timeout, dict(env, CMOCKA_MESSAGE_OUTPUT="TAP"))
    planned, before = 0, []
    for line in r.output.splitlines():
        if re.fullmatch(r"1\.\.\d+", line):
            planned += int(line[3:])
            continue
        m = TAP.search(line)
        if not m:
            before.append(line)
            continue
        if m.group(2) == "# SKIP ":
            r.skipped.append((m.group(3), reason_of(before + [line[:m.start()]])))
        elif m.group(1) == "ok":
            r.ok.append(m.group(3))
        else:
            r.fail(m.group(3))
        before = []
    missing = planned - len(r.ok) - len(r.failed) - len(r.skipped)
    for i in range(max(missing, 0)):
        r.fail("(test %d)" % (planned - missing + i + 1), "not run: " + ended(code, opt.timeout))
    if not r.failed and (code != 0 or planned == 0):
        r.fail("(end)", ended(code, opt.timeout) if code != 0 else "no tests in it")
    return r


def run_fuzz(path, opt, env):
    r = Result(os.path.basename(path))
    corpus = os.path.join("tests", "fuzz", "corpus", r.program[len("fuzz_"):])
    cmd = [path, "-runs=%d" % opt.fuzz_runs, "-seed=1", "-max_total_time=%d" % opt.fuzz_seconds,
           "-artifact_prefix=%s/" % os.path.dirname(path)]
    if os.path.isdir(os.path.join(ROOT, corpus)):
        cmd.append(corpus)
    r.output, code = run_program(cmd, opt.timeout, env)
    if code == 0:
        r.ok.append("seeded_mutations")
    else:
        r.fail("seeded_mutations", ended(code, opt.timeout))
    return r


def run_e2e(path, opt, env):
    r = Result(os.path.basename(path)[:-3])
    r.output, code = run_program([sys.executable, "-B", os.path.abspath(__file__), "--child", path], opt.e2e_timeout, env)
    ends = False
    for line in r.output.splitlines():
        if not line.startswith("@@"):
            continue
        kind, name, why = (line[2:].split("\t") + ["", ""])[:3]
        if kind == "ok":
            r.ok.append(name)
        elif kind == "skip":
            r.skipped.append((name, why))
        elif kind == "fail":
            r.fail(name, why)
        ends |= kind == "end"
    if not ends:
        r.fail("(end)", ended(code, opt.e2e_timeout))
    return r


def child(path):
    """One unittest file, in a process of its own: one @@ line per test."""
    import importlib.util
    import unittest

    def say(kind, test, why=""):
        name = getattr(test, "_testMethodName", None) or str(test).split(" ")[0]
        print("@@%s\t%s\t%s" % (kind, name, " ".join(str(why).split())), flush=True)

    class Talk(unittest.TestResult):
        def addSuccess(self, test):
            say("ok", test)

        def addSkip(self, test, reason):
            say("skip", test, reason)

        def addFailure(self, test, err):
            print(self._exc_info_to_string(err, test), flush=True)
            say("fail", test, str(err[1]).splitlines()[0] if str(err[1]) else err[0].__name__)

        addError = addFailure

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err is not None:
                print(subtest._subDescription(), self._exc_info_to_string(err, test), flush=True)
                say("fail", test, "%s: %s" % (subtest._subDescription(), str(err[1]).splitlines()[0] if str(err[1]) else err[0].__name__))

        def addExpectedFailure(self, test, err):
            say("fail", test, "expected failures are not used here")

        def addUnexpectedSuccess(self, test):
            say("fail", test, "unexpected success")

    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    unittest.defaultTestLoader.loadTestsFromModule(module).run(Talk())
    say("end", "end")


def foreseen():
    rows = []
    with open(os.path.join(ROOT, "tests", "skips.txt"), encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                rows.append(re.split(r"\s{2,}", line.strip()) + ["*"])
    return rows


def last_line(n):
    return "%d passed, %d failed, %d skipped" % (n["passed"], n["failed"], n["skipped"])


def total(files):
    n = {"passed": 0, "failed": 0, "skipped": 0}
    for f in files:
        with open(f, encoding="utf-8") as h:
            for k, v in json.load(h).items():
                n[k] += v
    print(last_line(n))
    return 1 if n["failed"] or not n["passed"] else 0


def find(opt):
    out = []
    if "unit" in opt.kind:
        d = os.path.join(opt.build, "tests")
        have = sorted(os.listdir(d)) if os.path.isdir(d) else []
        srcs = [x[:-2] for x in sorted(os.listdir(os.path.join(ROOT, "tests", "unit"))) if re.fullmatch(r"test_\w+\.c", x)]
        out += [(x, run_unit, os.path.join(d, x)) for x in srcs if x in have or not opt.names or x in opt.names]
    if "fuzz" in opt.kind:
        d = os.path.join(ROOT, "tests", "fuzz")
        srcs = [x[:-2] for x in sorted(os.listdir(d)) if re.fullmatch(r"fuzz_\w+\.c", x)] if os.path.isdir(d) else []
        out += [(x, run_fuzz, os.path.join(opt.build, "tests", x)) for x in srcs]
    if "e2e" in opt.kind:
        d = os.path.join(ROOT, "tests", "e2e")
        srcs = [x[:-3] for x in sorted(os.listdir(d)) if re.fullmatch(r"test_\w+\.py", x)] if os.path.isdir(d) else []
        out += [(x, run_e2e, os.path.join(d, x + ".py")) for x in srcs]
    if opt.names:
        for name in opt.names:
            if not any(fnmatch.fnmatch(x[0], name) for x in out):
                sys.exit("run.py: no test program is called %s" % name)
        out = [x for x in out if any(fnmatch.fnmatch(x[0], name) for name in opt.names)]
    return [x for x in out if x[0] not in opt.but.split(",")]


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--child":
        return child(sys.argv[2])
    if len(sys.argv) > 2 and sys.argv[1] == "--total":
        return total(sys.argv[2:])
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default="build")
    a.add_argument("--kind", default="unit,fuzz,e2e")
    a.add_argument("--timeout", type=int, default=300, help="seconds for one unit test program")
    a.add_argument("--e2e-timeout", type=int, default=300, help="seconds for one e2e file")
    a.add_argument("--fuzz-runs", type=int, default=50000)
    a.add_argument("--fuzz-seconds", type=int, default=10)
    a.add_argument("--slow", type=float, default=1)
    a.add_argument("--but", default="", help="programs left out, comma-separated")
    a.add_argument("--results")
    a.add_argument("-v", "--verbose", action="store_true", help="name every test")
    a.add_argument("names", nargs="*")
    opt = a.parse_args()
    opt.kind = opt.kind.split(",")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    opt.build = os.path.abspath(opt.build)
    opt.timeout, opt.e2e_timeout = opt.timeout * max(1, opt.slow / 2), opt.e2e_timeout * max(1, opt.slow / 2)
    env = dict(os.environ, HEARTH_BUILD=opt.build, HEARTH_BIN=os.path.join(opt.build, "hearth"), HEARTH_SLOW=str(opt.slow),
               PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8")
    env.setdefault("HEARTH_SHARED", os.path.join(ROOT, "..", "shared"))
    for k in [k for k in env if k.startswith("HEARTH_") and k not in ("HEARTH_BUILD", "HEARTH_BIN", "HEARTH_SLOW", "HEARTH_SHARED", "HEARTH_CACHE")]:
        del env[k]  # a developer's own defaults must not change what is tested

    rules, n, skips, failures = foreseen(), {"passed": 0, "failed": 0, "skipped": 0}, [], []
    for name, how, path in find(opt):
        t = time.monotonic()
        try:
            r = how(path, opt, env)
        except OSError as x:
            r = Result(name)
            r.fail("(start)", str(x))
        r.seconds = time.monotonic() - t
        for test, why in r.skipped:
            full = "%s::%s" % (name, test)
            rule = next((x for x in rules if fnmatch.fnmatch(full, x[0]) and fnmatch.fnmatch(why, x[1])), None)
            skips.append((full, why, rule))
            if rule is None and os.environ.get("CI", "").lower() in ("true", "1"):
                r.fail(test, "skipped, but tests/skips.txt does not foresee it: " + why)
        n["passed"] += len(r.ok)
        n["failed"] += len(r.failed)
        n["skipped"] += len(r.skipped) - sum(1 for f in r.failed if f[1].startswith("skipped, but"))
        word = "FAIL" if r.failed else "ok" if r.ok or not r.skipped else "skip"
        print("%-5s %-24s %4d passed %3d failed %3d skipped  %6.1f s" % (word, name, len(r.ok), len(r.failed), len(r.skipped), r.seconds), flush=True)
        if opt.verbose:
            for test in r.ok:
                print("        ok    " + test)
        for test, why in r.failed:
            failures.append("%s::%s%s" % (name, test, ": " + why if why else ""))
            print("        FAIL  %s%s" % (test, ": " + why if why else ""))
        if r.failed:
            lines = [x for x in r.output.splitlines() if not x.startswith("@@")]
            for line in lines[-80:]:
                print("        | " + line)
    if skips:
        print("\nskipped:")
        for full, why, rule in skips:
            print("  %s: %s%s" % (full, why, "" if rule else "  [not in tests/skips.txt]"))
    if failures:
        print("\nfailed:")
        for f in failures:
            print("  " + f)
    if opt.results:
        with open(opt.results, "w", encoding="utf-8") as f:
            json.dump(n, f)
    print(last_line(n))
    return 1 if n["failed"] or not n["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
