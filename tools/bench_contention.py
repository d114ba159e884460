#!/usr/bin/env python3
"""How much decode speed is left when another process keeps one core busy: quiet and busy runs in turn, medians, one ratio.

  tools/bench_contention.py MODEL [--pairs N] [--tokens N] [--core C]

The other process is a loop pinned to one core; it ends with each run. Not a timed test: it prints what it saw.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPIN = "import os\nos.sched_setaffinity(0, {%d})\nwhile True: pass\n"


def decode(model, tokens):
    out = subprocess.run([os.path.join(ROOT, "build", "hearth"), "run", model, "--ids", "1,2,3,4", "-n", str(tokens), "--ignore-eos", "--temp", "0", "--json", "--quiet"],
                         stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)["decode_tokens_per_s"]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("model")
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    a = p.parse_args()
    quiet, busy = [], []
    decode(a.model, 4)
    for i in range(a.pairs):
        quiet.append(decode(a.model, a.tokens))
        other = subprocess.Popen([sys.executable, "-c", SPIN % a.core])
        try:
            busy.append(decode(a.model, a.tokens))
        finally:
            other.kill()
            other.wait()
        print("pair %d: quiet %.1f, busy %.1f tokens/s" % (i + 1, quiet[-1], busy[-1]), file=sys.stderr)
    q, b = statistics.median(quiet), statistics.median(busy)
    print(json.dumps({"quiet_tokens_per_s": q, "busy_tokens_per_s": b, "ratio": b / q, "pairs": a.pairs, "core": a.core}))


if __name__ == "__main__":
    main()
