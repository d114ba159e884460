"""What every e2e test uses: the binary, the data, and one way to run the program with limits. Standard library only."""
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("HEARTH_BIN", os.path.join(ROOT, "build", "hearth"))
BUILD = os.environ.get("HEARTH_BUILD", os.path.join(ROOT, "build"))
SHARED = os.environ.get("HEARTH_SHARED", os.path.join(ROOT, "..", "shared"))
SLOW = float(os.environ.get("HEARTH_SLOW", "1"))  # a sanitizer build: time and memory limits are this much wider
DATA = os.path.join(ROOT, "tests", "data")
STORIES = os.path.join(DATA, "models", "stories260K.gguf")  # 260 thousand parameters, SentencePiece tokenizer, 512 tokens of context


class Run:
    def __init__(self, code, out, err, seconds, rss):
        self.code, self.out, self.err, self.seconds, self.rss = code, out, err, seconds, rss

    @property
    def text(self):
        return self.out.decode("utf-8")

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return "exit code %s, stdout %r, stderr %r" % (self.code, self.out[:300], self.err[:600])


def hearth(*args, stdin=b"", env=None, timeout=60, cwd=None):
    """Runs build/hearth; arguments may be bytes. Output as bytes, stderr as text, wall seconds, peak memory in bytes."""
    argv = [BIN] + [a if isinstance(a, bytes) else str(a) for a in args]
    full = dict(os.environ, **(env or {}))
    full.pop("COLUMNS", None)
    if env and "COLUMNS" in env:
        full["COLUMNS"] = env["COLUMNS"]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=err, env=full, cwd=cwd or ROOT, start_new_session=True)
        late = []

        def kill():
            late.append(1)
            os.killpg(p.pid, signal.SIGKILL)

        timer = threading.Timer(timeout * max(1, SLOW), kill)
        timer.start()
        try:
            p.stdin.write(stdin)
            p.stdin.close()
        except BrokenPipeError:
            pass
        _, status, usage = os.wait4(p.pid, 0)
        seconds = time.monotonic() - start
        timer.cancel()
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text = err.read().decode("utf-8", "replace")
        if late:
            raise AssertionError("no end after %.0f s: %s; stderr: %s" % (seconds, argv, text[-500:]))
        return Run(p.returncode, out.read(), text, seconds, usage.ru_maxrss * 1024)


def shared(*path):
    """A file of the shared data; skips the test when it is not there."""
    p = os.path.join(SHARED, "data", *path)
    if not os.path.exists(p):
        raise unittest.SkipTest("shared data absent: data/" + "/".join(path))
    return p


class Case(unittest.TestCase):
    def one_line(self, r, code, *words):
        """Failed as it should: exit code, nothing on stdout, one line on stderr that holds all words."""
        self.assertEqual(r.code, code, r)
        self.assertEqual(r.out, b"", r)
        self.assertEqual(r.err.count("\n"), 1, r)
        self.assertTrue(r.err.startswith("hearth: "), r)
        for w in words:
            self.assertIn(w, r.err)

    def ok(self, r):
        self.assertEqual(r.code, 0, r)
        return r

    def temp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        return d.name
