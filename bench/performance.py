"""Measures speed; started by bench/performance. See bench/README.md.

Each part makes its model, compiles it, compares its result with PyTorch's, measures
in interleaved rounds, prints one line and adds itself to the results file, so what
was measured before a part fails or time runs out is kept."""
import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import torch

import blocks
import exports
import report
import rounds

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 2e-2
DEPTH = 4              # staged weights in flight or in use, where nothing is resident
CHAIN_BUDGETS = 4      # the chain's weights are so many budgets
LOAD_ROUNDS = 5
EXPORT_OPSET = 23
GIB = 2 ** 30


class Bench:
    """What all parts share: programs, device, folder, results."""

    def __init__(self, options):
        self.options, self.device = options, options.device
        self.on_card = self.device != "host"
        self.torch_device = self.device if self.on_card else "cpu"
        self.target = "cuda" if self.on_card else "host"
        self.results = Path(options.results)
        self.folder = Path(tempfile.mkdtemp(prefix="offload-bench-", dir=scratch_folder(options)))
        self.made = {}

    def dtype(self, usual=torch.bfloat16):
        return getattr(torch, self.options.dtype) if self.options.dtype else usual

    def program(self, name):
        return Path(self.options.build) / "bin" / name

    def call(self, *command):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode:
            raise rounds.ProcessError("%s: %s" % (Path(str(command[0])).name, done.stderr.strip()[-2000:]))
        return done.stdout

    def compile(self, model, off, *flags):
        self.call(self.program("offload-opt"), model, "-o", off, "--target=" + self.target, *flags)
        rows = json.loads(self.call(self.program("offload-opt"), off, "--list-weights=json"))
        return {"resident_bytes": sum(r["bytes"] for r in rows if r["decision"] == "resident"),
                "weight_bytes": sum(r["bytes"] for r in rows)}

    def smallest_budget(self, model, *flags):
        out = self.call(self.program("offload-opt"), model, "--plan=json", "--target=" + self.target, *flags)
        return json.loads(out)["smallest_device_memory_bytes"]

    def drive(self, off, feeds, times=False):
        return rounds.Driver(self.program("session-driver"), off, self.device, feeds, self.folder / "out.npz", times)

    def link(self):
        return rounds.Link(self.torch_device, (256 << 20) if not self.options.small else (16 << 20))

    def save(self, name, figures):
        """Beside the parts of earlier calls that wrote to the same file."""
        known = json.loads(self.results.read_text()) if self.results.exists() else {}
        known["machine"] = machine(self)
        known.setdefault("parts", {})[name] = figures
        self.results.write_text(json.dumps(known, indent=1) + "\n")
        print(report.line(name, figures))


def scratch_folder(options):
    """Memory for files of some gigabytes, or else the disk (its page cache)."""
    if options.folder:
        return options.folder
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > 24 * GIB:
        return str(memory)
    return tempfile.gettempdir()


def machine(bench):
    about = {"date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "torch": torch.__version__,
             "command": " ".join(["bench/performance"] + sys.argv[1:]), "device": bench.device}
    if bench.on_card:
        about["card"] = torch.cuda.get_device_name(bench.torch_device)
    return about


def measure(bench, off, module, example, sides):
    """Agreement with PyTorch, then rounds, then the queues' times. `sides`: which of
    "eager" and "link" run beside the session."""
    feeds = bench.folder / "in.npz"
    np.savez(feeds, x=rounds.to_numpy(example))
    others = {"eager": rounds.Eager(module, example, bench.torch_device)}
    if "link" in sides:
        others["link"] = bench.link()
    want = others["eager"].result
    with bench.drive(off, feeds) as driver:
        error = rounds.difference(rounds.from_file(bench.folder / "out.npz", want.dtype), want)
        times = rounds.interleave(bench.options.rounds, {"session": driver, **{k: others[k] for k in sides}})
        figures = {"error": error, "tolerance": TOLERANCE, "rounds": bench.options.rounds, "times": times,
                   "load": driver.ready, "statistics": driver.statistics()}
    if "link" in sides:
        figures["link_bytes_per_second"] = others["link"].bytes / times["link"]["median_ns"] * 1e9
        moved = figures["statistics"]["measured"]["h2d_bytes"]
        figures["bound_ns"] = moved / figures["link_bytes_per_second"] * 1e9
    figures["missing"] = explain(bench, off, feeds, others["eager"], figures)
    return figures


def explain(bench, off, feeds, eager, figures):
    """Adds what tells where time goes; returns what of it could not be had, which
    is no reason to lose the rounds."""
    missing = []
    try:
        with bench.drive(off, feeds, times=True) as driver:
            for _ in range(rounds.WARM_UP):
                driver()
            figures.update(queues=driver.statistics()["queues"], timeline=driver.timeline())
    except Exception as error:
        missing.append("times of queues: %s" % error)
    try:
        if bench.on_card:
            figures["eager_kernels"] = rounds.kernels_of(eager)
    except Exception as error:
        missing.append("PyTorch's kernels: %s" % error)
    return missing


def chain(bench):
    shape = blocks.ChainShape(256, 16, 16) if bench.options.small else blocks.ChainShape()
    weights = blocks.make_weights(shape, bench.torch_device, bench.dtype())
    model, off, data = (bench.folder / ("chain." + suffix) for suffix in ("onnx", "off", "data"))
    blocks.write_chain(shape, weights, model, data.name, blocks.write_data(weights, data))
    budget = sum(w.nbytes for w in weights.values()) // CHAIN_BUDGETS
    figures = bench.compile(model, off, "--device-memory=%d" % budget)
    example = torch.randn(shape.tokens, shape.size).to(bench.dtype())
    figures.update(measure(bench, off, blocks.Chain(weights), example, ("eager", "link")))
    figures.update(device_memory=budget, goal=0.97, at_least=True, against="link",
                   ratio=figures["bound_ns"] / figures["times"]["session"]["median_ns"])
    data.unlink()
    return figures


def block_shape(bench, tokens):
    if not bench.options.small:
        return blocks.BlockShape(), tokens
    return blocks.BlockShape(hidden=256, heads=8, key_heads=2, intermediate=512, blocks=2), tokens // 16


def block_model(bench, tokens):
    """Weights, and their file, are made once for all parts that have blocks."""
    shape, tokens = block_shape(bench, tokens)
    if "blocks" not in bench.made:
        bench.made["blocks"] = blocks.make_weights(shape, bench.torch_device, bench.dtype())
        bench.made["offsets"] = blocks.write_data(bench.made["blocks"], bench.folder / "blocks.data")
    weights = bench.made["blocks"]
    model = bench.folder / ("blocks-%d.onnx" % tokens)
    blocks.write_blocks(shape, tokens, weights, model, "blocks.data", bench.made["offsets"])
    return shape, tokens, weights, model


def compile_streamed(bench, model):
    """At the smallest budget for the depth: nothing but small constants stays."""
    off = model.with_suffix(".off")
    budget = bench.smallest_budget(model, "--depth=%d" % DEPTH)
    figures = bench.compile(model, off, "--device-memory=%d" % budget, "--depth=%d" % DEPTH)
    figures.update(device_memory=budget, depth=DEPTH)
    return off, figures


def streamed_blocks(bench, tokens, against, goal):
    shape, tokens, weights, model = block_model(bench, tokens)
    off, figures = compile_streamed(bench, model)
    example = torch.randn(shape.prompt, shape.hidden).to(bench.dtype())
    figures.update(measure(bench, off, blocks.Blocks(shape, tokens, weights), example, ("eager", "link")))
    other = figures["bound_ns"] if against == "link" else figures["times"]["eager"]["median_ns"]
    figures.update(tokens=tokens, against=against, goal=goal,
                   ratio=figures["times"]["session"]["median_ns"] / other)
    return figures


def exported(bench, make, usual=torch.bfloat16):
    model, off = bench.folder / "exported.onnx", bench.folder / "exported.off"
    start = time.monotonic()
    module, example = exports.export(make, bench.dtype(usual), model, bench.options.small, EXPORT_OPSET)
    export_seconds = time.monotonic() - start
    figures = bench.compile(model, off)
    figures.update(measure(bench, off, module.to(bench.torch_device), example, ("eager",)))
    figures.update(against="eager", goal=1.05, dtype=type_name(bench.dtype(usual)), input=list(example.shape),
                   export_seconds=export_seconds,
                   ratio=figures["times"]["session"]["median_ns"] / figures["times"]["eager"]["median_ns"])
    return figures


def read_through(path):
    """So that every byte is in the page cache."""
    with open(path, "rb", buffering=0) as file:
        while file.read(64 << 20):
            pass


def loading(bench):
    """Processes in turn: a session from load to its first result, and the same bytes
    copied and registered, by the faster of two ways."""
    shape, _, weights, model = block_model(bench, 2048)
    off, figures = compile_streamed(bench, model)
    feeds, data = bench.folder / "in.npz", bench.folder / "blocks.data"
    np.savez(feeds, x=rounds.to_numpy(torch.randn(shape.prompt, shape.hidden).to(bench.dtype())))
    moved = sum(w.nbytes for w in weights.values())
    parts = ("libraries", "trials", "weights")
    seen = {name: [] for name in ("session", "load", *parts, "first_run", "again", "process", "once", "shares")}
    for _ in range(min(LOAD_ROUNDS, bench.options.rounds)):
        read_through(data)
        with bench.drive(off, feeds) as driver:
            for name in ("load", "first_run", "process"):
                seen[name].append(driver.ready[name + "_ns"])
            seen["session"].append(driver.ready["load_ns"] + driver.ready["first_run_ns"])
            load = driver.statistics()["load"]
            for name in parts:
                seen[name].append(load[name + "_ns"])
            seen["again"].append(driver.again())
        for mode in ("once", "shares"):
            out = bench.call(bench.program("load-baseline"), data, bench.device, moved, mode)
            seen[mode].append(json.loads(out)["total_ns"])
    times = {name: rounds.summary(values) for name, values in seen.items()}
    baseline = min(("once", "shares"), key=lambda mode: statistics.median(seen[mode]))
    figures.update(rounds=len(seen["load"]), times=times, bytes=moved, baseline=baseline, against="baseline", goal=2.0,
                   ratio=times["session"]["median_ns"] / times[baseline]["median_ns"])
    return figures


PARTS = {
    "blocks-2048": lambda bench: streamed_blocks(bench, 2048, "link", 1.05),
    "blocks-16384": lambda bench: streamed_blocks(bench, 16384, "eager", 1.05),
    "loading": loading,
    "chain": chain,
    "gpt2": lambda bench: exported(bench, exports.gpt2),
    "resnet50": lambda bench: exported(bench, exports.resnet50, torch.float16),
    "vit-l": lambda bench: exported(bench, exports.vit_l),
}


def run_part(bench, name):
    start = time.monotonic()
    try:
        figures = PARTS[name](bench)
        figures.setdefault("dtype", type_name(bench.dtype()))
        figures["part_seconds"] = time.monotonic() - start
        bench.save(name, figures)
        return report.agrees(figures) and not figures.get("missing")
    except Exception as error:  # the next part may still work
        print("%s: FAILED after %.0f s: %s" % (name, time.monotonic() - start, error))
        if bench.options.trace:
            traceback.print_exc()
        return False
    finally:
        if bench.on_card:
            torch.cuda.empty_cache()


def type_name(dtype):
    return str(dtype).rsplit(".", 1)[-1]


def default_build():
    """Beside this folder in a bundle, in the build tree otherwise."""
    return ROOT if (ROOT / "bin" / "session-driver").exists() else ROOT / "build" / "release"


def read_options():
    parser = argparse.ArgumentParser(prog="bench/performance", description="Measures speed; see bench/README.md.")
    parser.add_argument("parts", nargs="*", metavar="PART", help="of %s; all by default" % ", ".join(PARTS))
    parser.add_argument("--build", default=str(default_build()), help="folder whose bin/ has the programs")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or host to try the benchmark itself")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], help="of all parts")
    parser.add_argument("--small", action="store_true", help="small models, to try the benchmark itself")
    parser.add_argument("--folder", help="where models are written and removed again")
    parser.add_argument("--results", default="performance.json", help="file that results are added to")
    parser.add_argument("--trace", action="store_true", help="print where a part failed")
    parser.add_argument("--write-docs", metavar="RESULTS", help="write the tables of docs/performance.md and end")
    options = parser.parse_args()
    unknown = [p for p in options.parts if p not in PARTS]
    if unknown:
        parser.error("no part %s; parts: %s" % (unknown[0], ", ".join(PARTS)))
    return options


def main():
    options = read_options()
    if options.write_docs:
        report.write_page(ROOT / "docs" / "performance.md", json.loads(Path(options.write_docs).read_text()))
        return 0
    bench = Bench(options)
    try:
        done = [run_part(bench, name) for name in options.parts or PARTS]
    finally:
        shutil.rmtree(bench.folder, ignore_errors=True)
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
