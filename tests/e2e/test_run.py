"""hearth run, eval, chat and bench on real models: what people type, and what comes out."""
import json
import math
import os
import signal
import subprocess
import time
import unittest

from hearth import BIN, Case, DATA, ROOT, SLOW, STORIES, hearth

CACHE = os.environ.get("HEARTH_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "hearth")
SMOL = os.path.join(CACHE, "SmolLM2-135M-Instruct.Q4_1.gguf")
PARTS = ("prefill", "decode", "seed")


def reference(name):
    with open(os.path.join(DATA, "models", name), encoding="utf-8") as f:
        return json.load(f)


class Stories(Case):
    def run_json(self, *args, **kw):
        return self.ok(hearth("run", STORIES, "--json", *args, **kw)).json()

    def test_reference_text(self):
        for p in reference("stories260K.expected.json")["prompts"]:
            ids = ",".join(map(str, p["ids"]))
            want = p["greedy_ids"][:60]
            j = self.run_json("--ids", ids, "-n", len(want), "--temp", 0, "--isa", "ref", "--ignore-eos")
            self.assertEqual(j["output_ids"], want)
            self.assertEqual(j["prompt_ids"], p["ids"])
            self.assertEqual(j["finish_reason"], "length")
            self.assertEqual(j["usage"], {"prompt_tokens": len(ids.split(",")), "completion_tokens": len(want), "total_tokens": len(p["ids"]) + len(want)})

    def test_text_goes_to_stdout_and_the_rest_to_stderr(self):
        args = ("run", STORIES, "--raw", "-p", "Once upon a time", "-n", 40, "--temp", 0)
        r = self.ok(hearth(*args))
        j = self.ok(hearth(*args, "--json")).json()
        self.assertEqual(r.text, j["text"] + "\n")
        for word in PARTS:
            self.assertIn(word, r.err)
        q = self.ok(hearth(*args, "--quiet"))
        self.assertEqual(q.text, r.text)
        self.assertEqual(q.err, "")
        led = self.ok(hearth(*args, "--ledger")).err
        self.assertIn("| node 0 | net 0 per output token", led)
        self.assertIn("memory peak", led)

    def test_same_seed_same_text(self):
        args = ("--raw", "-p", "Lily went", "-n", 60, "--temp", 1.1)
        a = self.run_json(*args, "--seed", 5)
        b = self.run_json(*args, "--seed", 5, "--batch", 3, "--threads", 1)
        c = self.run_json(*args, "--seed", 6)
        self.assertEqual(a["output_ids"], b["output_ids"])
        self.assertNotEqual(a["output_ids"], c["output_ids"])
        self.assertEqual(a["seed"], 5)
        d = self.run_json(*args)  # a drawn seed is printed and repeats the text
        self.assertEqual(self.run_json(*args, "--seed", d["seed"])["output_ids"], d["output_ids"])

    def test_stop_strings(self):
        args = ("--raw", "-p", "Once upon a time", "-n", 60, "--temp", 0)
        whole = self.run_json(*args)["text"]
        stop = whole[20:27]
        j = self.run_json(*args, "--stop", "no such text", "--stop", stop)
        self.assertEqual(j["text"], whole[: whole.index(stop)])
        self.assertEqual(j["finish_reason"], "stop")
        self.assertEqual(self.ok(hearth("run", STORIES, *args, "--stop", stop)).text, whole[: whole.index(stop)] + "\n")

    def test_lengths(self):
        for n in (1, 2, 7):
            self.assertEqual(len(self.run_json("--ids", "1", "-n", n, "--ignore-eos")["output_ids"]), n)
        j = self.run_json("--ids", "1", "--ctx", 32, "--ignore-eos")  # up to the context: 31 fed, 32 sampled
        self.assertEqual(len(j["output_ids"]), 32)
        self.assertEqual(j["finish_reason"], "length")
        full = self.run_json("--ids", ",".join(["1"] * 32), "--ctx", 32, "--ignore-eos")
        self.assertEqual(len(full["output_ids"]), 1)

    def test_logprobs(self):
        j = self.run_json("--raw", "-p", "The dog", "-n", 8, "--temp", 0, "--logprobs", 5)
        self.assertEqual(len(j["logprobs"]), len(j["output_ids"]))
        for p, i in zip(j["logprobs"], j["output_ids"]):
            self.assertEqual(p["id"], i)
            self.assertEqual(p["top"][0]["id"], i)  # greedy
            self.assertAlmostEqual(p["top"][0]["logprob"], p["logprob"], places=5)
            values = [t["logprob"] for t in p["top"]]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertLessEqual(sum(map(math.exp, values)), 1 + 1e-5)

    def test_bias_and_penalties_change_the_choice(self):
        base = self.run_json("--ids", "1", "-n", 1, "--temp", 0)["output_ids"][0]
        banned = self.run_json("--ids", "1", "-n", 1, "--temp", 0, "--logit-bias", "%d=-inf" % base)["output_ids"][0]
        self.assertNotEqual(base, banned)
        forced = self.run_json("--ids", "1", "-n", 3, "--temp", 0, "--logit-bias", "300=1000", "--ignore-eos")["output_ids"]
        self.assertEqual(forced, [300, 300, 300])
        self.one_line(hearth("run", STORIES, "--ids", "1", "--logit-bias", "99999=1"), 2, "99999")

    def test_prompt_sources_agree(self):
        want = self.run_json("--raw", "-p", "A cat", "-n", 10, "--temp", 0)["output_ids"]
        path = os.path.join(self.temp(), "p.txt")
        with open(path, "w") as f:
            f.write("A cat")
        self.assertEqual(self.run_json("--raw", "-f", path, "-n", 10, "--temp", 0)["output_ids"], want)
        self.assertEqual(self.run_json("--raw", "-", "-n", 10, "--temp", 0, stdin=b"A cat")["output_ids"], want)

    def test_ledger_is_what_one_can_count(self):
        j = self.run_json("--ids", "1,2,3", "-n", 5, "--ignore-eos", "--temp", 0)
        led = j["ledger"]
        self.assertEqual((led["tok_in"], led["tok_out"], led["steps"]), (3, 4, 5))  # the last sampled token is not fed
        self.assertEqual(led["comm"], [])
        decode = [w for w in led["work"] if w["phase"] == "decode"]
        mats = 5 * (4 * 64 * (64 + 32 + 32 + 64) + 4 * 3 * 64 * 172) + 4 * 512 * 64  # F32, 5 layers, 8 heads, 4 KV heads
        norms = 4 * 64 * 11
        rows = 4 * 64
        self.assertEqual(sum(w.get("w_bytes", 0) for w in decode), 4 * (mats + norms + rows))

    def test_bad_use(self):
        self.one_line(hearth("run", STORIES, "--ids", ",".join(["1"] * 40), "--ctx", 32), 1, "40 tokens", "32")
        self.one_line(hearth("run", STORIES, "--ids", "1,512"), 1, "512")
        self.one_line(hearth("run", STORIES, "--ids", "1", "--ctx", 200000000), 1, "--ctx")
        self.one_line(hearth("run", STORIES, "--raw", "-p", b"caf\xe9"), 2, "UTF-8")
        self.one_line(hearth("run", STORIES, "-", stdin=b"\xff"), 2, "UTF-8")
        self.one_line(hearth("run", STORIES, "--raw", "-f", "/no/such/prompt.txt"), 1, "/no/such/prompt.txt")
        r = hearth("run", STORIES, "--raw", "-p", "")
        self.assertIn(r.code, (0, 2), r)  # a lone BOS, or one line that says the prompt is empty

    def test_ctrl_c_ends_with_the_summary(self):
        p = subprocess.Popen([BIN, "run", STORIES, "--ids", "1", "-n", "400", "--ignore-eos", "--isa", "ref", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
        first = p.stdout.read(1)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=30 * SLOW)
        self.assertEqual(p.returncode, 0, err)
        self.assertTrue(first)
        self.assertIn(b"cancelled" if b"cancelled" in err else b"length", err)
        self.assertIn(b"decode", err)

    def test_closed_stdout_is_an_error(self):
        p = subprocess.Popen([BIN, "run", STORIES, "--ids", "1", "-n", "300", "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
        p.stdout.close()
        err = p.stderr.read()
        p.wait(timeout=30 * SLOW)
        p.stderr.close()
        self.assertIn(p.returncode, (1, -signal.SIGPIPE), err)

    def test_isa_levels(self):
        base = None
        for isa in ("ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"):
            r = hearth("run", STORIES, "--ids", "1", "-n", 20, "--temp", 0, "--isa", isa, "--json")
            if r.code == 1 and "this CPU has no" in r.err:
                continue
            ids = self.ok(r).json()["output_ids"]
            base = base or ids
            self.assertEqual(ids, base, isa)


class Eval(Case):
    def test_windows_and_bos(self):
        d = self.temp()
        path = os.path.join(d, "t.txt")
        with open(path, "w") as f:
            f.write("Once upon a time there was a dog. The dog was very big. " * 4)
        n = len(self.ok(hearth("tokenize", STORIES, "-f", path, "--ids")).text.split())
        for ctx in (16, 64, 512):
            j = self.ok(hearth("eval", STORIES, "-f", path, "--ctx", ctx, "--isa", "ref", "--json")).json()
            self.assertEqual(j["tokens"], n)
            self.assertEqual(j["predicted"], n)  # BOS in front of each window: every id is predicted
            k = self.ok(hearth("eval", STORIES, "-f", path, "--ctx", ctx, "--bos", "no", "--isa", "ref", "--json")).json()
            self.assertEqual(k["predicted"], n - -(-n // ctx))
            self.assertAlmostEqual(j["ppl"], math.exp(j["nll"]), places=4)

    def test_top(self):
        d = self.temp()
        path = os.path.join(d, "ids.json")
        p = reference("stories260K.expected.json")["prompts"][0]
        ids = (p["ids"] + p["greedy_ids"])[:50]
        with open(path, "w") as f:
            json.dump(ids, f)
        j = self.ok(hearth("eval", STORIES, "--ids", path, "--isa", "ref", "--top", 3, "--json")).json()
        self.assertEqual(j["predicted"], 49)
        self.assertEqual([len(x) for x in j["ids"]], [3] * 50)
        self.assertEqual(j["argmax"], [x[0] for x in j["ids"]])
        same = sum(a == b for a, b in zip(j["argmax"][len(p["ids"]) - 1 : -1], ids[len(p["ids"]) :]))
        self.assertEqual(same, 50 - len(p["ids"]))  # greedy text is its own argmax

    def test_bad_files(self):
        d = self.temp()
        for name, text, word in (("a.json", "{", "a.json"), ("b.json", "[1,2.5]", "entry 1"), ("c.json", "[1]", "at least 2"), ("d.json", "[1,-4]", "entry 1"), ("e.json", '{"x":1}', "list of token ids"), ("f.json", "[1,512]", "512")):
            path = os.path.join(d, name)
            with open(path, "w") as f:
                f.write(text)
            self.one_line(hearth("eval", STORIES, "--ids", path), 1, word)


class Chat(Case):
    def setUp(self):
        if not os.path.exists(SMOL):
            raise unittest.SkipTest("SmolLM2 is not in the cache")

    def test_conversation(self):
        d = self.temp()
        saved = os.path.join(d, "c.json")
        lines = "/system You are terse.\nSay the word yes.\n/stats\nNow say\\\nno.\n/stats\n/save %s\n/reset\n/nosuch\n/exit\n" % saved
        r = self.ok(hearth("chat", SMOL, "-n", 12, "--temp", 0, stdin=lines.encode(), timeout=120))
        self.assertEqual(r.text.count("\n") >= 2, True)
        with open(saved, encoding="utf-8") as f:
            m = json.load(f)
        self.assertEqual([x["role"] for x in m], ["system", "user", "assistant", "user", "assistant"])
        self.assertEqual(m[3]["content"], "Now say\nno.")
        self.assertIn("no command /nosuch", r.err)
        reused = [int(x.split("reused ")[1].split(";")[0]) for x in r.err.splitlines() if "reused" in x]
        self.assertEqual(reused[0], 0)
        self.assertGreater(reused[1], 10)  # the second turn kept the first one's KV
        # the same conversation in one prompt gives the same second answer: cached == computed
        again = self.ok(hearth("chat", SMOL, "-n", 12, "--temp", 0, "--load", saved, "--save", os.path.join(d, "d.json"), stdin=b"And now?\n", timeout=120))
        self.assertTrue(again.out)
        bad = self.ok(hearth("chat", SMOL, "-n", 2, stdin=b"/load /no/such\n\xff\xfe\n", timeout=120))
        self.assertIn("/no/such", bad.err)
        self.assertIn("UTF-8", bad.err)

    def test_cached_equals_fresh(self):
        d = self.temp()
        first = "Name one colour."
        a = os.path.join(d, "a.json")
        self.ok(hearth("chat", SMOL, "-n", 10, "--temp", 0, "--save", a, stdin=("%s\nAnother one.\n" % first).encode(), timeout=120))
        with open(a, encoding="utf-8") as f:
            m = json.load(f)
        b = os.path.join(d, "b.json")
        with open(b, "w", encoding="utf-8") as f:
            json.dump(m[:2], f)
        c = os.path.join(d, "c.json")
        self.ok(hearth("chat", SMOL, "-n", 10, "--temp", 0, "--load", b, "--save", c, stdin=b"Another one.\n", timeout=120))
        with open(c, encoding="utf-8") as f:
            self.assertEqual(json.load(f)[-1]["content"], m[-1]["content"])


class Smol(Case):
    def setUp(self):
        if not os.path.exists(SMOL):
            raise unittest.SkipTest("SmolLM2 is not in the cache")

    def test_answers_by_name(self):
        j = self.ok(hearth("run", "smollm2", "-p", "What is the capital of France? Answer with one word.", "-n", 20, "--temp", 0, "--json", timeout=120)).json()
        self.assertIn("Paris", j["text"])
        self.assertEqual(j["finish_reason"], "stop")
        self.assertNotIn("<|im_end|>", j["text"])
        self.assertEqual(j["output_ids"][-1], 2)
        self.assertEqual(j["prompt_ids"][0], 1)
        self.assertNotEqual(j["prompt_ids"][1], 1)
        self.assertLess(j["memory"]["peak"], 500e6 * max(1, SLOW))

    def test_a_misspelt_name(self):
        self.one_line(hearth("run", "smolm2", "-p", "x"), 1, "smollm2")

    def test_reference_ids_of_a_chat(self):
        with open(os.path.join(DATA, "smollm2", "reference.json"), encoding="utf-8") as f:
            ref = json.load(f)
        p = [x for x in ref["prompts"] if x["name"] == "english"][0]
        j = self.ok(hearth("run", "smollm2", "--raw", "-p", p["text"], "-n", p["stable_greedy_len"], "--temp", 0, "--json", timeout=120)).json()
        self.assertEqual(j["prompt_ids"], p["ids"])
        self.assertEqual(j["output_ids"], p["greedy_ids"][: p["stable_greedy_len"]])


class Bench(Case):
    def test_json(self):
        j = self.ok(hearth("bench", STORIES, "--prefill", 64, "--decode", 8, "--batch", "1,4", "--repeat", 2, "--json", timeout=120)).json()
        self.assertEqual(sorted(j["limits"]), ["bf16_gflops", "f32_gflops", "int8_gops", "join_ns", "read_gbs"])
        self.assertTrue(all(v > 0 for v in j["limits"].values()), j["limits"])
        self.assertEqual([(x["work"], x["batch"]) for x in j["results"]], [("prefill", 1), ("decode", 1), ("decode", 4)])
        for x in j["results"]:
            self.assertGreater(x["tokens_per_s"], 0)
            self.assertLessEqual(x["spread"][0], x["tokens_per_s"])
            self.assertGreaterEqual(x["spread"][1], x["tokens_per_s"])
            self.assertGreater(x["bytes"], 1e5)


if __name__ == "__main__":
    unittest.main()
