"""The rules of the house (tools/lint.py, own checks): one test each."""
import importlib.util
import os

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
