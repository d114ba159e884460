"""hearth tokenize: exact ids through the command line, both ways. (The unit tests go through every case; here a share of them.)"""
import json
import os

from hearth import Case, SLOW, STORIES, hearth, shared

EVERY = 30 if SLOW == 1 else 120
SPM = "Once upon a time, there was a little girl."


class Stories(Case):
    """The vocabulary that is in the project: SentencePiece pieces with byte fallback."""

    def ids(self, text, *args):
        return [int(x) for x in self.ok(hearth("tokenize", STORIES, "-f", "-", "--ids", *args, stdin=text)).text.split()]

    def decode(self, ids, *args):
        return self.ok(hearth("tokenize", STORIES, "--decode", "-", *args, stdin=" ".join(map(str, ids)).encode())).out

    def test_reference_ids(self):
        path = os.path.join(os.path.dirname(STORIES), "stories260K.expected.json")
        with open(path, encoding="utf-8") as f:
            ref = json.load(f)
        seen = 0
        for p in ref["prompts"]:
            if p.get("text"):
                seen += 1
                # the text there is the decoded one, with the space that SentencePiece puts in front
                self.assertEqual(self.ids(p["text"][1:].encode(), "--add-special"), p["ids"], p["text"])
        self.assertGreater(seen, 0)

    def test_round_trip(self):
        for text in (SPM, "", " ", "  two  blanks ", "line\nline\n", "\t", "äöü 漢字 🙂", "<s>", "a" * 1000, "\x00\x01"):
            raw = text.encode()
            got = self.decode(self.ids(raw))
            self.assertIn(got, (raw, b" " + raw), text)  # SentencePiece puts one space in front

    def test_invalid_bytes(self):
        for raw in (b"\xff", b"a\xc3(b", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf"):
            got = self.decode(self.ids(raw))
            self.assertIn(got.lstrip(b" "), (raw, raw.decode("utf-8", "replace").encode()), raw)

    def test_special(self):
        plain, special = self.ids(b"<s>"), self.ids(b"<s>", "--special")
        self.assertIn(1, special)
        self.assertNotIn(1, plain)
        self.assertEqual(self.ids(b"x", "--add-special"), [1] + self.ids(b"x"))
        self.assertEqual(self.ids(b"<s>x", "--add-special", "--special").count(1), 1)  # never a second BOS
        self.assertNotIn(b"<s>", self.decode([1]))
        self.assertIn(b"<s>", self.decode([1], "--special"))

    def test_outputs_agree(self):
        ids = self.ids(SPM.encode())
        j = self.ok(hearth("tokenize", STORIES, "-p", SPM, "--json")).json()
        self.assertEqual(j["ids"], ids)
        self.assertEqual("".join(j["pieces"]).strip(), SPM)
        pieces = [json.loads(x) for x in self.ok(hearth("tokenize", STORIES, "-p", SPM, "--pieces")).text.splitlines()]
        self.assertEqual(pieces, j["pieces"])
        table = [x.split("\t") for x in self.ok(hearth("tokenize", STORIES, "-p", SPM)).text.splitlines()]
        self.assertEqual([(int(a), json.loads(b)) for a, b in table], list(zip(ids, pieces)))

    def test_decode_input(self):
        want = self.decode([410, 411, 412])
        for text in ("410,411,412", "[410, 411, 412]", " 410\n411\t412\n"):
            self.assertEqual(self.ok(hearth("tokenize", STORIES, "--decode", "-p", text)).out, want)
        self.assertEqual(self.ok(hearth("tokenize", STORIES, "--decode", "-p", "")).out, b"")
        self.one_line(hearth("tokenize", STORIES, "--decode", "-p", "1 x"), 2, "byte 2", "'x'")
        self.one_line(hearth("tokenize", STORIES, "--decode", "-p", "512"), 2, "512", "vocabulary of 512")
        self.one_line(hearth("tokenize", STORIES, "--decode", "-p", "-1"), 2, "-1")
        self.one_line(hearth("tokenize", STORIES, "--decode", "-p", "99999999999999999999"), 2, "vocabulary")
        self.one_line(hearth("tokenize", STORIES, "--decode", "-p", "1.5"), 2, "token id")
        self.one_line(hearth("tokenize", STORIES, "--decode", "-", stdin=b"1 2 three"), 1, "standard input")

    def test_missing_text_file(self):
        self.one_line(hearth("tokenize", STORIES, "-f", "nosuch.txt"), 1, "nosuch.txt")


class Vocabularies(Case):
    """Published vocabularies (shared data), against the ids of the tokenizers they come from."""

    def check(self, name):
        gguf = shared("tokenizer", "ggml-vocab-%s.gguf" % name)
        with open(shared("tokenizer", "cases.json"), encoding="utf-8") as f:
            texts = json.load(f)["texts"]
        with open(shared("tokenizer", name + ".expected.json"), encoding="utf-8") as f:
            want = json.load(f)
        n = 0
        for i in range(0, len(texts), EVERY):
            for kind, flags in (("plain", []), ("special", ["--special"])):
                if want[kind][i] is None:
                    continue
                r = self.ok(hearth("tokenize", gguf, "-f", "-", "--ids", *flags, stdin=texts[i].encode()))
                self.assertEqual([int(x) for x in r.text.split()], want[kind][i], (kind, texts[i]))
                n += 1
        self.assertGreater(n, 5)
        j = self.ok(hearth("inspect", gguf, "--json")).json()
        self.assertEqual(j["tensors"], 0)
        self.assertIn("tensors", j["missing"])

    def test_gpt_2(self):
        self.check("gpt-2")

    def test_llama_bpe(self):
        self.check("llama-bpe")

    def test_llama_spm(self):
        self.check("llama-spm")

    def test_phi_3(self):
        self.check("phi-3")

    def test_qwen2(self):
        self.check("qwen2")
