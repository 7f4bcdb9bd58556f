# Text tests of the two tools. Start them from a build tree:
#
#   lit build/release/test
#
# %onnx-check FILE   onnx.checker with full check on a model or a .off file
# %python            the Python that has the packages of requirements.txt
import os

import lit.formats

if not hasattr(config, "offload_build"):
    lit_config.fatal("start lit on BUILD/test of a build tree, not on test/")

config.name = "offload"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".onnxtxt", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.join(config.offload_source, "test")
config.test_exec_root = os.path.join(config.offload_build, "test", "lit")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.offload_build, "bin"), config.llvm_tools,
     config.environment["PATH"]])
config.environment["OMP_NUM_THREADS"] = "1"
for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "HOME",
             "XDG_CACHE_HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

check = os.path.join(config.test_source_root, "onnx_check.py")
config.substitutions.append(
    ("%onnx-check", "%s %s" % (config.offload_python, check)))
config.substitutions.append(("%python", config.offload_python))
