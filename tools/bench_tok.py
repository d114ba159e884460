#!/usr/bin/env python3
"""Tokenizer speed: hearth against tiktoken, same vocabulary, same pattern, one thread, cold (a new process for every run), A B A B.

  bench_tok.py [--vocab ggml-vocab-llama-bpe.gguf] [--runs 5] [--mb 10] [--cc gcc] [--python PYTHON_WITH_TIKTOKEN]

Text: MB megabytes of this Python's standard library, the licences and docs under /usr/share and the texts of tests/data/tokenizer/cases.json,
no file twice, UTF-8 only. Then the growth of hearth's time from n to 2n on that text and on 1 MB -> 2 MB of one letter, of spaces, and of
prose without any space. Needs tiktoken (pip install tiktoken) and gguf-py (pip install gguf) for the comparison; without them only hearth runs.
The tiktoken ranks are the ids of the GGUF's normal tokens, the pattern is the llama-bpe one. Prints one line per figure."""
import argparse, hashlib, json, os, statistics, subprocess, sys, sysconfig, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def files():
    lib = sysconfig.get_path("stdlib")
    for top, suffix in ((lib, (".py",)), ("/usr/share/common-licenses", ("",)), ("/usr/share/doc", ("copyright", ".txt", ".md", "README", "NEWS"))):
        for d, dirs, names in sorted(os.walk(top)):
            dirs.sort()
            if "site-packages" in d:
                continue
            for n in sorted(names):
                if n.endswith(suffix) and not os.path.islink(os.path.join(d, n)):
                    yield os.path.join(d, n)


def corpus(size):
    seen, parts, total = set(), [], 0
    cases = os.path.join(ROOT, "tests/data/tokenizer/cases.json")
    texts = "\n".join(json.load(open(cases, encoding="utf-8"))["texts"]) if os.path.exists(cases) else ""
    by_top = {}
    for f in files():
        by_top.setdefault(f.startswith("/usr/share"), []).append(f)
    # the docs first, up to half, so that a small /usr/share leaves the rest to the library
    for docs, limit in ((True, size // 2), (False, size)):
        for f in by_top.get(docs, []):
            if total >= limit:
                break
            try:
                b = open(f, "rb").read()
                b.decode("utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            h = hashlib.sha256(b).digest()
            if h in seen or b"\0" in b:
                continue
            seen.add(h)
            parts.append(b)
            total += len(b)
    b = texts.encode() + b"".join(parts)
    return b[:size].decode("utf-8", "ignore").encode()


def ranks(vocab):
    from gguf import GGUFReader
    f = GGUFReader(vocab).fields
    toks, typ = f["tokenizer.ggml.tokens"].contents(), f["tokenizer.ggml.token_type"].contents()
    keep = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    m = {chr(b): b for b in keep}
    m.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in keep)})
    return {bytes(m[c] for c in t): i for i, t in enumerate(toks) if typ[i] == 1}


def child_tiktoken(vocab, path):
    import tiktoken
    enc = tiktoken.Encoding("bench", pat_str=PATTERN, mergeable_ranks=ranks(vocab), special_tokens={})
    text = open(path, encoding="utf-8", newline="").read()
    t = time.perf_counter_ns()
    ids = enc.encode_ordinary(text)
    t = time.perf_counter_ns() - t
    h = 1469598103934665603
    for i in ids:
        h = (h ^ i) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    print(t, len(ids), "%016x" % h)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = os.environ.get("HEARTH_SHARED", os.path.join(ROOT, "../shared"))
    a.add_argument("--vocab", default=os.path.join(shared, "data/tokenizer/ggml-vocab-llama-bpe.gguf"))
    a.add_argument("--runs", type=int, default=5)
    a.add_argument("--mb", type=float, default=10)
    a.add_argument("--cc", default="gcc")
    a.add_argument("--build", default=os.path.join(ROOT, "build"), help="folder with libhearth.a")
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.child:
        return child_tiktoken(*o.child)
    with tempfile.TemporaryDirectory() as tmp:
        exe = os.path.join(tmp, "bench_tok")
        lib = os.path.join(o.build, "libhearth.a")
        if not os.path.exists(lib):
            sys.exit("bench_tok.py: no %s: run make first, or name the folder with --build" % lib)
        subprocess.run([o.cc, "-O2", "-std=c11", "-D_GNU_SOURCE", "-I" + os.path.join(ROOT, "src"),
                        os.path.join(ROOT, "tools/bench_tok.c"), lib, "-o", exe, "-pthread", "-lpcre2-8", "-lutf8proc", "-ljansson", "-lm"], check=True)
        file = lambda name, b: (open(os.path.join(tmp, name), "wb").write(b), os.path.join(tmp, name))[1]
        run = lambda *c: subprocess.run(c, check=True, capture_output=True, text=True).stdout.split()
        text = corpus(int(o.mb * 1e6))
        path = file("text", text)
        have = subprocess.run([o.python, "-c", "import tiktoken, gguf"], capture_output=True).returncode == 0
        ours, theirs = [], []
        for _ in range(o.runs):
            ours.append(run(exe, o.vocab, path))
            if have:
                theirs.append(run(o.python, os.path.abspath(__file__), "--child", o.vocab, path))
        ms = lambda r: statistics.median(int(x[0]) for x in r) / 1e6

        def show(name, r):
            runs = " ".join("%.0f" % (int(x[0]) / 1e6) for x in r)
            print("%-9s %8.1f ms  %6.1f MB/s  %s ids  (%s)" % (name, ms(r), len(text) / 1e3 / ms(r), r[0][1], runs))

        print("text: %d bytes, sha256 %s" % (len(text), hashlib.sha256(text).hexdigest()))
        show("hearth", ours)
        if have:
            show("tiktoken", theirs)
            print("ratio     %8.2f  (tiktoken's time / hearth's; ids %s)" % (ms(theirs) / ms(ours), "equal" if ours[0][1:] == theirs[0][1:] else "DIFFER"))
        else:
            print("tiktoken: not run (pip install tiktoken gguf, or --python)")
        print("open      %8.1f ms" % (statistics.median(int(run(exe, o.vocab, "open")[0]) for _ in range(o.runs)) / 1e6))
        solid = b"".join(text.split())[:2000000]
        letters = bytes(c for c in text if 97 <= c <= 122)[:2000000]
        for name, b in (("text", text), ("letter", b"a" * 2000000), ("spaces", b" " * 2000000), ("no space", solid), ("letters", letters)):
            half = file("half", b[:len(b) // 2])
            whole = file("whole", b)
            pairs = [[int(run(exe, o.vocab, f)[0]) / 1e6 for f in (half, whole)] for _ in range(o.runs)]
            t1, t2 = (statistics.median(p[i] for p in pairs) for i in (0, 1))
            print("growth    %-9s %8.1f ms -> %8.1f ms  x %.2f" % (name, t1, t2, statistics.median(p[1] / p[0] for p in pairs)))


main()
