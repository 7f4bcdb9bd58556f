"""Each pass has its source, test and text; generated documents are up to date."""
import re
import subprocess
import unittest

from repository import BUILD, ROOT

ROW = re.compile(r'^PASS\(\s*"([^"]+)",\s*(\w+),\s*([\w:]+),\s*([\w:]+),\s*'
                 r'"((?:[^"\\]|\\.|"\s*")+)"\s*\)', re.MULTILINE)


def rows():
    return ROW.findall((ROOT / "passes" / "Passes.def").read_text())


def generated(*flags):
    return subprocess.run([BUILD / "bin" / "offload-opt", *flags], check=True,
                          text=True, stdout=subprocess.PIPE).stdout


class Passes(unittest.TestCase):
    def test_every_row_is_read(self):
        text = (ROOT / "passes" / "Passes.def").read_text()
        count = len(re.findall(r"^PASS\(", text, re.MULTILINE))
        self.assertGreater(count, 0)
        self.assertEqual(len(rows()), count)

    def test_one_name_gives_all(self):
        for flag, name, *_ in rows():
            with self.subTest(flag):
                kebab = re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
                self.assertEqual(flag, kebab)

    def test_every_row_has_its_files(self):
        document = (ROOT / "docs" / "passes.md").read_text()
        for flag, name, *_ in rows():
            with self.subTest(flag):
                self.assertTrue((ROOT / "passes" / (name + ".cpp")).is_file())
                tests = ROOT / "test" / "Passes"
                self.assertTrue((tests / (flag + ".onnxtxt")).is_file() or
                                (tests / (flag + ".test")).is_file())
                self.assertRegex(document, r"(?m)^#+ `?%s`?\s*$" % flag)

    def test_every_source_has_a_row(self):
        known = {name for _, name, *_ in rows()}
        for path in sorted((ROOT / "passes").glob("*.cpp")):
            for name in re.findall(r"^OFFLOAD_DEFINE_PASS\((\w+)\)",
                                   path.read_text(), re.MULTILINE):
                with self.subTest(path.name):
                    self.assertEqual(name, path.stem)
                    self.assertIn(name, known)


class Generated(unittest.TestCase):
    maxDiff = 2000

    def test_passes_document(self):
        self.assertEqual((ROOT / "docs" / "passes.md").read_text(),
                         generated("--passes-doc"))

    def test_operators_document(self):
        self.assertEqual((ROOT / "docs" / "operators.md").read_text(),
                         generated("--list-operators=markdown"))


if __name__ == "__main__":
    unittest.main()
