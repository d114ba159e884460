"""The rules of the house (tools/lint.py, own checks): one test each."""
import importlib.util
import os
import subprocess

from hearth import BUILD, Case, ROOT

spec = importlib.util.spec_from_file_location("lint", os.path.join(ROOT, "tools", "lint.py"))
lint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lint)


class Rules(Case):
    def check(self, what):
        found = lint.run_check(what, BUILD)
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_layers(self):
        self.check(lint.check_layers)

    def test_headers(self):
        self.check(lint.check_headers)

    def test_symbols(self):
        self.check(lint.check_symbols)

    def test_rules(self):
        self.check(lint.check_rules)

    def test_shape(self):
        self.check(lint.check_shape)

    def test_options_page(self):
        self.check(lint.check_options_page)


class Make(Case):
    def make(self, *args):
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        p = subprocess.run(["make", "BUILD=" + os.path.relpath(BUILD, ROOT), *args], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True)
        self.assertEqual(p.returncode, 0, p.stdout)
        return p.stdout

    def test_install(self):
        d = self.temp()
        self.make("install", "DESTDIR=" + d, "PREFIX=/opt/hearth")
        have = [os.path.relpath(os.path.join(p, f), d) for p, _, names in os.walk(d) for f in names]
        for f in ("bin/hearth", "share/man/man1/hearth.1", "share/bash-completion/completions/hearth", "share/zsh/site-functions/_hearth",
                  "share/fish/vendor_completions.d/hearth.fish", "share/doc/hearth/README.md", "share/doc/hearth/LICENSE", "share/doc/hearth/options.md"):
            self.assertIn("opt/hearth/" + f, have)
            self.assertGreater(os.path.getsize(os.path.join(d, "opt/hearth", f)), 100)
        self.assertTrue(all(x.startswith("opt/hearth/") for x in have))
        self.assertTrue(os.access(os.path.join(d, "opt/hearth/bin/hearth"), os.X_OK))
        self.make("uninstall", "DESTDIR=" + d, "PREFIX=/opt/hearth")
        self.assertEqual([f for _, _, names in os.walk(d) for f in names], [])

    def test_help_names_every_target(self):
        text = self.make("help")
        for target in ("check", "lint", "fuzz", "install", "docs", "compdb", "clean"):
            self.assertIn("make " + target, text)

    def test_a_missing_library_is_named(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "PKG_CONFIG"))}
        env.update(PKG_CONFIG_LIBDIR=self.temp(), PKG_CONFIG_PATH="")
        p = subprocess.run(["make", "BUILD=" + os.path.join(self.temp(), "b")], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(p.returncode, 2)
        self.assertEqual(p.stdout.count("\n"), 1, p.stdout)
        for word in ("jansson", "libutf8proc", "apt-get install libjansson-dev libpcre2-dev libutf8proc-dev"):
            self.assertIn(word, p.stdout)
