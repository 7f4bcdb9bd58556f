"""The arrows between rooms: who may include whom, by the #include lines."""
import re
import unittest

from repository import files, relative

# Room -> rooms of this project and outside libraries that it may include.
ALLOWED = {
    "OffFormat": set(),
    "IR": {"OffFormat", "llvm"},
    "Onnx": {"IR", "OffFormat", "llvm", "onnx", "google"},
    "Analysis": {"IR", "OffFormat", "llvm"},
    "Schedule": {"Analysis", "IR", "OffFormat", "llvm"},
    "PassManager": {"IR", "OffFormat", "Schedule", "llvm"},
    "passes": {"PassManager", "IR", "Analysis", "Schedule", "OffFormat", "llvm"},
    "Runtime": {"OffFormat", "onnx", "google"},
    "Kernels": {"Runtime", "OffFormat", "ATen", "c10", "torch"},
    "offload-opt": {"PassManager", "Onnx", "IR", "Analysis", "Schedule",
                    "OffFormat", "llvm"},
    "offload-run": {"Runtime", "OffFormat"},
}
LIBRARIES = {"llvm", "onnx", "google", "ATen", "c10", "torch", "cuda"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)
# Textual tables that a room states itself: no arrow.
TABLES = {("PassManager", "Passes.def")}


def room_of(name):
    parts = name.split("/")
    if parts[0] == "lib":
        return "Kernels" if parts[1:3] == ["Runtime", "Kernels"] else parts[1]
    if parts[:2] == ["include", "offload"]:
        return parts[2]
    if parts[0] == "passes":
        return "passes"
    return parts[1] if parts[0] == "tools" and len(parts) > 2 else None


def target_of(path, room, quoted):
    """The room or library that an include line names; None for the standard
    library's and the system's."""
    parts = path.split("/")
    if parts[0] == "offload":
        return parts[1]
    if parts[0] in LIBRARIES:
        return parts[0]
    return room if quoted else None  # a private header lies beside its room


def arrows():
    for path in files(".cpp", ".h", ".def", ".cu"):
        room = room_of(relative(path))
        if room is not None:
            for mark, name in INCLUDE.findall(path.read_text()):
                yield relative(path), room, name, target_of(name, room,
                                                            mark == '"')


class Arrows(unittest.TestCase):
    def test_every_room_is_known(self):
        self.assertEqual({room for _, room, _, _ in arrows()} - set(ALLOWED),
                         set())

    def test_includes_follow_the_arrows(self):
        seen, wrong = 0, []
        for path, room, name, target in arrows():
            seen += 1
            if target not in {None, room} | ALLOWED.get(room, set()):
                wrong.append("%s includes %s" % (path, name))
        self.assertGreater(seen, 100)
        self.assertEqual(wrong, [])

    def test_quoted_headers_lie_in_the_same_folder(self):
        wrong = []
        for path in files(".cpp", ".h", ".def", ".cu"):
            room = room_of(relative(path))
            for mark, name in INCLUDE.findall(path.read_text()):
                own = mark == '"' and name.split("/")[0] not in (
                    LIBRARIES | {"offload"})
                if (room is None or not own or (room, name) in TABLES or
                        (path.parent / name).exists()):
                    continue
                wrong.append("%s includes %s" % (relative(path), name))
        self.assertEqual(wrong, [])

    def test_passes_do_not_include_each_other(self):
        wrong = [(path, name) for path, room, name, _ in arrows()
                 if room == "passes" and not name.startswith("offload/") and
                 name.endswith(".h") and name.split("/")[0] not in LIBRARIES]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
