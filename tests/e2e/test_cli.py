"""The command line: help, options, wrong use, exit codes, models by name."""
import os
import shutil
import subprocess

from hearth import BIN, Case, ROOT, STORIES, hearth

COMMANDS = ["run", "chat", "eval", "bench", "inspect", "tokenize", "template", "help", "version"]


class Help(Case):
    def test_general(self):
        r = self.ok(hearth("--help"))
        for c in COMMANDS:
            self.assertRegex(r.text, r"(?m)^  %s +\S" % c)
        self.assertEqual(r.err, "")
        for other in (["-h"], ["help"], ["help", "--help"]):
            self.assertIn("help", self.ok(hearth(*other)).text)
        self.assertEqual(self.ok(hearth("help")).out, r.out)

    def test_every_command(self):
        for c in COMMANDS:
            r = self.ok(hearth("help", c))
            self.assertTrue(r.text.startswith("hearth %s: " % c), r)
            self.assertIn("Usage: hearth " + c, r.text)
            if c != "help":  # its --help is the general page
                self.assertEqual(self.ok(hearth(c, "--help")).out, r.out)
                self.assertEqual(self.ok(hearth(c, "-h")).out, r.out)
            if c != "version":
                self.assertIn("\nExamples\n", r.text)

    def test_width(self):
        for width in (60, 80, 120):
            for c in COMMANDS:
                page, _, examples = self.ok(hearth("help", c, env={"COLUMNS": str(width)})).text.partition("\nExamples\n")
                for line in page.split("\n"):
                    self.assertLess(len(line), width, line)
        self.assertGreater(len(hearth("help", "run", env={"COLUMNS": "60"}).text.split("\n")), len(hearth("help", "run", env={"COLUMNS": "120"}).text.split("\n")))

    def test_help_wins_over_faults(self):
        self.assertEqual(self.ok(hearth("run", "--help", "--nosuch")).out, hearth("help", "run").out)
        self.assertEqual(self.ok(hearth("run", "--help", env={"HEARTH_THREADS": "many"})).out, hearth("help", "run").out)

    def test_version(self):
        with open(os.path.join(ROOT, "VERSION")) as f:
            want = "hearth %s\n" % f.read().strip()
        for args in (["--version"], ["-V"], ["version"]):
            self.assertEqual(self.ok(hearth(*args)).text, want)

    def test_generated_pages(self):
        man = self.ok(hearth("--generate", "man")).text
        self.assertTrue(man.startswith(".TH HEARTH 1 "))
        self.assertIn("\\-\\-repeat\\-penalty", man)
        for c in COMMANDS:
            self.assertIn('.SH "hearth %s"' % c, man)
        if shutil.which("groff"):
            p = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=man, text=True, capture_output=True)
            self.assertEqual((p.returncode, p.stderr), (0, ""))
        for shell in ("zsh", "fish"):
            script = self.ok(hearth("--generate", shell)).text
            self.assertIn("--ignore-eos" if shell == "zsh" else "-l ignore-eos", script)
            if shutil.which(shell):
                p = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
                self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.one_line(hearth("--generate", "pdf"), 2, "pdf", "man, bash, zsh, fish")

    def complete(self, *words, env=None):
        """What bash offers for the last word."""
        script = hearth("--generate", "bash").text + """
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _hearth 2>/dev/null; printf '%s\\n' "${COMPREPLY[@]}"
"""
        p = subprocess.run(["bash", "-c", script, "bash", *words], text=True, capture_output=True, env=dict(os.environ, **(env or {})), cwd=ROOT)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        return p.stdout.split()

    def test_bash_completion(self):
        self.assertEqual(self.complete("hearth", "to"), ["tokenize"])
        self.assertEqual(self.complete("hearth", "run", "m", "--isa", "avx512b"), ["avx512bf16"])
        self.assertEqual(self.complete("hearth", "run", "m", "--top"), ["--top-k", "--top-p"])
        self.assertEqual(self.complete("hearth", "template", "m", "--no-g"), ["--no-generation-prompt"])
        self.assertEqual(self.complete("hearth", "eval", "m", "-f", "READ"), ["README.md"])
        self.assertEqual(self.complete("hearth", "help", "be"), ["bench"])
        cache = self.temp()
        open(os.path.join(cache, "Tiny.gguf"), "w").close()
        self.assertEqual(self.complete("hearth", "run", "Tin", env={"HEARTH_CACHE": cache}), ["Tiny.gguf"])


class WrongUse(Case):
    def test_no_command(self):
        self.one_line(hearth(), 2, "no command", "hearth --help")

    def test_unknown_command(self):
        self.one_line(hearth("rnu"), 2, "rnu", "did you mean 'run'?")
        self.one_line(hearth("tokenise", "x"), 2, "'tokenize'")
        self.one_line(hearth("help", "inspct"), 2, "'inspect'")
        self.one_line(hearth("zzzzzz"), 2, "zzzzzz", "hearth --help")

    def test_unknown_option(self):
        self.one_line(hearth("run", "m", "--tmep", "1"), 2, "--tmep", "did you mean --temp?")
        self.one_line(hearth("run", "m", "--ignore-eso"), 2, "--ignore-eos")
        self.one_line(hearth("inspect", "m", "--tensor"), 2, "--tensors")
        self.one_line(hearth("run", "m", "--qqqqqq"), 2, "--qqqqqq", "hearth help run")
        self.one_line(hearth("run", "m", "-z"), 2, "-z")
        self.one_line(hearth("run", "m", "-temp", "1"), 2, "--temp")
        self.one_line(hearth("--versoin"), 2, "--version")
        self.one_line(hearth("run", "m", b"--\xff\xfe"), 2)

    def test_option_of_another_command(self):
        self.one_line(hearth("run", "m", "-p", "x", "--pieces"), 2, "--pieces", "'tokenize'")
        self.one_line(hearth("eval", "m", "-f", "x", "--temp", "1"), 2, "--temp", "'run'")

    def test_bad_values(self):
        for args, words in [
                (["--temp", "hot"], ["--temp", "'hot'", "0 to 100"]), (["--temp", "-1"], ["'-1'"]), (["--temp=nan"], ["'nan'"]), (["--temp", "1e999"], ["1e999"]),
                (["--temp", "inf"], ["inf"]), (["--temp", ""], ["''"]), (["--temp", "1x"], ["'1x'"]), (["--temp", " 1"], ["' 1'"]),
                (["--top-p", "1.01"], ["--top-p", "0 to 1"]), (["-n", "0"], ["-n", "'0'"]), (["-n", "-3"], ["'-3'"]), (["-n", "4294967296"], ["4294967296"]),
                (["-n5x"], ["'5x'"]), (["--threads", "0"], ["--threads", "1 to 1024"]), (["--top-k", "1.5"], ["'1.5'"]),
                (["--seed", "18446744073709551616"], ["--seed"]), (["--seed", "-1"], ["--seed"]), (["--isa", "sse9"], ["'sse9'", "ref, avx2"]),
                (["--kv", "q8"], ["f32, bf16"]), (["--logit-bias", "5"], ["ID=BIAS"]), (["--logit-bias", "5=x"], ["ID=BIAS"]),
                (["--logit-bias", "-5=1"], ["ID=BIAS"]), (["--stop", ""], ["--stop"]), (["--json=1"], ["takes no value"]), (["--temp"], ["needs a value"]),
                (["--verbose", "--quiet"], ["--quiet"])]:
            with self.subTest(args=args):
                self.one_line(hearth("run", "m", "-p", "x", *args), 2, *words)
        self.one_line(hearth("run", "m", "--ids", "1,,2"), 2, "--ids")
        self.one_line(hearth("run", "m", "--ids", ""), 2, "--ids")
        self.one_line(hearth("run", "m", "--ids", "1,2147483648"), 2, "2147483648")
        self.one_line(hearth("run", "m", "--ids", "1,-2"), 2, "-2")
        self.one_line(hearth("bench", "m", "--batch", "1,0"), 2, "--batch", "'0'")
        for now in ("yesterday", "2024-02-30 00:00:00", "2024-13-01", "2024-07-26 24:00:00", "2024-07-26 09:30", "0000-01-01"):
            self.one_line(hearth("template", "m", "-f", "x", "--now", now), 2, "--now", now)
        self.one_line(hearth("template", "m", "-f", "x", "--var", "novalue"), 2, "--var", "NAME=VALUE")

    def test_environment(self):
        self.one_line(hearth("run", "m", "-p", "x", env={"HEARTH_THREADS": "many"}), 2, "HEARTH_THREADS", "'many'")
        self.one_line(hearth("run", "m", "-p", "x", env={"HEARTH_ISA": "mmx"}), 2, "HEARTH_ISA", "mmx")
        self.ok(hearth("inspect", STORIES, env={"HEARTH_THREADS": "many"}))  # not an option of inspect

    def test_words(self):
        self.one_line(hearth("run"), 2, "MODEL is missing")
        self.one_line(hearth("inspect"), 2, "MODEL is missing")
        self.one_line(hearth("inspect", "a", "b"), 2, "'b'", "one word too many")
        self.one_line(hearth("run", "m", "hello"), 2, "'hello'", "-p")
        self.one_line(hearth("version", "x"), 2, "'x'")

    def test_contradictions(self):
        self.one_line(hearth("run", "m"), 2, "no prompt")
        self.one_line(hearth("run", "m", "-p", "a", "-f", "b"), 2, "more than one prompt")
        self.one_line(hearth("run", "m", "-", "--ids", "1"), 2, "more than one prompt")
        self.one_line(hearth("run", "m", "--ids", "1", "--system", "x"), 2, "--system")
        self.one_line(hearth("eval", "m"), 2, "-f FILE")
        self.one_line(hearth("eval", "m", "-f", "a", "--ids", "b"), 2, "either")
        self.one_line(hearth("tokenize", "m"), 2, "no text")
        self.one_line(hearth("tokenize", "m", "-p", "x", "--ids", "--pieces"), 2, "only one of")
        self.one_line(hearth("template", "m"), 2, "-f MESSAGES.json")

    def test_invalid_utf8(self):
        for c in ("run", "tokenize"):
            self.one_line(hearth(c, STORIES, "-p", b"ab\xffc"), 2, "byte 2", "0xff", "UTF-8")
            self.one_line(hearth(c, STORIES, "-p", b"\xed\xa0\x80"), 2, "byte 0")


class Spelling(Case):
    """One option, every way to write it."""

    def ids(self, *args):
        return self.ok(hearth("tokenize", *args)).text

    def test_forms(self):
        want = self.ids(STORIES, "-p", "Once upon", "--ids")
        for args in ([STORIES, "-pOnce upon", "--ids"], ["--ids", "-p", "Once upon", STORIES], [STORIES, "--prompt=Once upon", "--ids"], ["--ids", "--prompt", "Once upon", "--", STORIES],
                     ["-v", "--ids", "-p", "Once upon", STORIES], ["-vpOnce upon", STORIES, "--ids"]):
            self.assertEqual(self.ids(*args), want)
        self.assertEqual(self.ok(hearth("tokenize", STORIES, "-", "--ids", stdin=b"Once upon")).text, want)
        self.assertEqual(self.ok(hearth("tokenize", STORIES, "-f", "-", "--ids", stdin=b"Once upon")).text, want)

    def test_value_that_looks_like_an_option(self):
        self.assertIn('"--"', self.ok(hearth("tokenize", STORIES, "-p", "--", "--json")).text.replace('"-", "-"', '"--"'))
        self.assertEqual(self.ids(STORIES, "-p", "--json", "--ids"), self.ids(STORIES, "--prompt=--json", "--ids"))

    def test_last_one_wins(self):
        self.assertEqual(self.ids(STORIES, "-p", "x", "-p", "Once", "--ids"), self.ids(STORIES, "-p", "Once", "--ids"))


class Models(Case):
    def test_missing(self):
        self.one_line(hearth("inspect", "nosuchthing.gguf"), 1, "nosuchthing.gguf", "no such file")
        self.one_line(hearth("inspect", "no/such/model.gguf"), 1, "there is no folder no/such")
        self.one_line(hearth("inspect", "nosuchthing"), 1, "nosuchthing")
        self.one_line(hearth("inspect", ""), 1, "empty")
        self.one_line(hearth("inspect", ROOT), 1, "a folder")
        self.one_line(hearth("inspect", "/dev/null"), 1, "/dev/null: not a regular file")

    def test_misspelt_file(self):
        self.one_line(hearth("inspect", STORIES.replace("260K", "206K")), 1, "did you mean %s?" % STORIES)
        self.one_line(hearth("inspect", "stories260.gguf", cwd=os.path.dirname(STORIES)), 1, "did you mean stories260K.gguf?")

    def test_names_in_the_cache(self):
        cache = self.temp()
        shutil.copy(STORIES, os.path.join(cache, "Stories-260K.F32.gguf"))
        env = {"HEARTH_CACHE": cache}
        for name in ("Stories-260K.F32.gguf", "stories-260k.f32", "STORIES", "stories-2"):
            self.assertIn("Stories-260K", self.ok(hearth("inspect", name, env=env)).text)
        self.one_line(hearth("inspect", "stoires-260k.f32", env=env), 1, "did you mean Stories-260K.F32?")
        self.one_line(hearth("inspect", "smolm2", env=env), 1, "did you mean smollm2?")
        self.one_line(hearth("inspect", "smollm2", env=env), 1, "not fetched yet", "setup.sh")
        shutil.copy(STORIES, os.path.join(cache, "Stories-15M.gguf"))
        self.one_line(hearth("inspect", "stories", env=env), 1, "Stories-15M.gguf", "Stories-260K.F32.gguf")

    def test_truncated(self):
        d = self.temp()
        with open(STORIES, "rb") as f:
            whole = f.read()
        for n in (0, 3, 20, 1000, 20000, len(whole) // 2, len(whole) - 1):
            path = os.path.join(d, "cut-%d.gguf" % n)
            with open(path, "wb") as f:
                f.write(whole[:n])
            self.one_line(hearth("inspect", path), 1, path)

    def test_inspect(self):
        r = self.ok(hearth("inspect", STORIES))
        for w in ("llama", "8 query heads", "vocabulary 512", "f32", "47", "512 tokens", "spm"):
            self.assertIn(w, r.text)
        j = self.ok(hearth("inspect", STORIES, "--json", "--tensors")).json()
        self.assertEqual(j["shape"]["layers"], 5)
        self.assertEqual((j["shape"]["width"], j["shape"]["heads"], j["shape"]["kv_heads"], j["shape"]["vocab"]), (64, 8, 4, 512))
        self.assertEqual(j["tensors"], len(j["tensor_list"]))
        self.assertEqual(j["tensor_bytes"], sum(t["bytes"] for t in j["tensor_list"]))
        self.assertEqual(sum(t["count"] for t in j["types"]), j["tensors"])
        self.assertEqual(j["memory"]["kv_per_token_f32"], 2 * 5 * 4 * 8 * 4)
        self.assertEqual(j["bytes"], os.path.getsize(STORIES))

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            p = subprocess.run([BIN, "inspect", STORIES], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(p.returncode, 1)
        self.assertIn("standard output", p.stderr)
