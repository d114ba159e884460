"""Files that want to do harm: one line on stderr naming the file, exit code 1, within 1 s and 200 MB."""
import json
import os
import subprocess
import sys

from hearth import Case, ROOT, SLOW, hearth

SECONDS, BYTES = 1.0, 200e6


class Hostile(Case):
    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.dir = tempfile.TemporaryDirectory()
        subprocess.run([sys.executable, os.path.join(ROOT, "tests", "tools", "make_bad_files.py"), cls.dir.name], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(cls.dir.name, "manifest.json"), encoding="utf-8") as f:
            cls.files = [x for x in json.load(f) if x["file"].endswith(".gguf")]

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def each(self, *args):
        for x in self.files:
            with self.subTest(file=x["file"], why=x["why"]):
                path = os.path.join(self.dir.name, x["file"])
                r = hearth(args[0], path, *args[1:])
                if x["expect"] == "ok":
                    self.assertEqual(r.code, 0, r)
                else:
                    self.one_line(r, 1, path)
                self.assertLess(r.seconds, SECONDS * SLOW)
                self.assertLess(r.rss, BYTES * max(1, SLOW / 2))

    def test_there_are_enough(self):
        self.assertGreaterEqual(len(self.files), 42)
        self.assertEqual([x["file"] for x in self.files if x["expect"] == "ok"], ["ok-tiny.gguf"])

    def test_inspect(self):
        self.each("inspect")

    def test_inspect_json(self):
        self.each("inspect", "--json", "--tensors")

    def test_run(self):
        self.each("run", "--ids", "1,2", "-n", "1", "--temp", "0")

    def test_tokenize(self):
        """tokenize needs no tensors, so it may accept more; it must never do worse than one line"""
        for x in self.files:
            with self.subTest(file=x["file"]):
                r = hearth("tokenize", os.path.join(self.dir.name, x["file"]), "-p", "abc", "--ids")
                self.assertIn(r.code, (0, 1), r)
                self.assertLessEqual(r.err.count("\n"), 1, r)
