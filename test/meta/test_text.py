"""House rules that hold for the text of every file."""
import re
import subprocess
import unittest

from repository import ROOT, files, relative

# Places outside of the repository and hosts. Written in parts, so that this file
# does not hold what it looks for.
FORBIDDEN = re.compile("|".join([
    "/" + "work/", r"\.\./" + "shared", "/" + "root/", "/home" + r"/\w",
    "python" + "hosted", "pypi" + r"\.org", "deb" + r"\.debian",
    "issue" + r"s? #?\d"]))
UNFINISHED = re.compile(r"\b(" + "|".join(
    ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
BAD_NAMES = re.compile(r"(?i)^(utils?|helpers?|common|manager)$")


def lines(path):
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []  # binary test input


class Text(unittest.TestCase):
    def find(self, pattern, paths):
        return ["%s:%d: %s" % (relative(path), number, line.strip()[:100])
                for path in paths
                for number, line in enumerate(lines(path), 1)
                if pattern.search(line)]

    def test_speaks_of_itself_alone(self):
        self.assertEqual(self.find(FORBIDDEN, files()), [])

    def test_commit_messages_speak_of_it_alone(self):
        log = subprocess.run(["git", "log", "--format=%h %B"], cwd=ROOT,
                             check=True, text=True, stdout=subprocess.PIPE)
        self.assertEqual(FORBIDDEN.findall(log.stdout), [])

    def test_nothing_is_left_for_later(self):
        self.assertEqual(self.find(UNFINISHED, files()), [])

    def test_names_say_something(self):
        self.assertEqual([relative(p) for p in files()
                          if BAD_NAMES.match(p.stem)], [])

    def test_sources_open_with_prose(self):
        missing = [relative(p) for p in files(".cpp", ".h")
                   if not lines(p) or not lines(p)[0].startswith("//")]
        self.assertEqual(missing, [])

    def test_sources_are_formatted(self):
        sources = files(".cpp", ".h", ".cu")
        done = subprocess.run(
            ["clang-format-19", "--dry-run", "--Werror", *map(str, sources)],
            cwd=ROOT, text=True, stderr=subprocess.PIPE)
        wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr,
                                      re.MULTILINE)))
        self.assertEqual([w.replace(str(ROOT) + "/", "") for w in wrong], [])
        self.assertEqual(done.returncode, 0, done.stderr[-500:])


if __name__ == "__main__":
    unittest.main()
