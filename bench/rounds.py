"""The sides of a comparison, and rounds that alternate between them.

A side is called once a round and returns nanoseconds of wall time. Each does the
whole way: its input from host memory that is registered, its result back there. It
does so twice a turn, and the second time counts: the first one warms up what the
other sides have cooled."""
import json
import statistics
import subprocess
import time

import ml_dtypes
import numpy as np
import torch

WARM_UP = 3
NUMPY_TYPES = {torch.bfloat16: ml_dtypes.bfloat16, torch.float16: np.float16, torch.float32: np.float32,
               torch.int64: np.int64}


def to_numpy(tensor):
    """numpy has no bfloat16 of its own: ml_dtypes has."""
    tensor = tensor.detach().cpu().contiguous()
    return tensor.view(torch.uint8).numpy().view(NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape)


def from_file(path, dtype):
    with np.load(path) as data:
        array = data["y"]
    return torch.from_numpy(array.view(NUMPY_TYPES[dtype]).astype(np.float32))


class ProcessError(RuntimeError):
    pass


class Driver:
    """A session in a process of its own (bench/session_driver.cpp)."""

    def __init__(self, program, off, device, feeds, output, times=False):
        command = [str(program), str(off), device, str(feeds), str(output)] + (["times"] if times else [])
        self.started = time.perf_counter_ns()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.ready = json.loads(self.answer())
        self.ready["process_ns"] = time.perf_counter_ns() - self.started

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise ProcessError(self.process.stderr.read().strip()[-2000:] or "session-driver ended")
        return line

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self.answer()

    def __call__(self):
        return int(self.ask("run 2").split()[-1])

    def again(self):
        """Nanoseconds from loading once more to the result, libraries warm."""
        ready = json.loads(self.ask("again"))
        return ready["load_ns"] + ready["first_run_ns"]

    def statistics(self):
        return json.loads(self.ask("stats"))

    def timeline(self):
        return json.loads(self.ask("timeline"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=120)
        self.process.stdout.close()
        self.process.stderr.close()


class Eager:
    """PyTorch in this process, nothing offloaded, its defaults as they are."""

    def __init__(self, module, example, device):
        self.device, self.module = device, module
        self.example = example.pin_memory() if device != "cpu" else example
        self.result = None
        self.run()   # learns the result's shape

    def forward(self):
        with torch.no_grad():
            return self.module(self.example.to(self.device, non_blocking=True))

    def __call__(self):
        self.run()
        return self.run()

    def run(self):
        start = time.perf_counter_ns()
        out = self.forward()
        if self.result is None:
            self.result = torch.empty(out.shape, dtype=out.dtype, pin_memory=self.device != "cpu")
        self.result.copy_(out, non_blocking=True)
        if self.device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter_ns() - start


def kernels_of(eager):
    """What the card does in one forward pass: nanoseconds of all kernels, and the
    ten that take longest with how often they run."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        eager.run()
    rows = [(e.key, int(e.self_device_time_total * 1e3), e.count) for e in seen.key_averages()
            if e.self_device_time_total]
    rows.sort(key=lambda row: -row[1])
    return {"total_ns": sum(row[1] for row in rows), "longest": rows[:10]}


class Link:
    """Large copies from registered memory to the card; bytes a round in `bytes`."""

    def __init__(self, device, chunk_bytes, copies=4):
        self.device, self.copies = device, copies
        self.bytes = chunk_bytes * copies
        self.source = torch.empty(chunk_bytes, dtype=torch.uint8, pin_memory=device != "cpu")
        self.source.zero_()
        self.target = torch.empty(chunk_bytes, dtype=torch.uint8, device=device)

    def copy(self):
        for _ in range(self.copies):
            self.target.copy_(self.source, non_blocking=True)

    def __call__(self):
        """By the card's own clock, so that waiting for the end is not counted."""
        if self.device == "cpu":
            start = time.perf_counter_ns()
            self.copy()
            return time.perf_counter_ns() - start
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        self.copy()
        last.record()
        last.synchronize()
        return int(first.elapsed_time(last) * 1e6)


def interleave(count, sides):
    """Median and quartiles of `count` rounds; in each all sides run once, in turn."""
    times = {name: [] for name in sides}
    for number in range(WARM_UP + count):
        for name, side in sides.items():
            ns = side()
            if number >= WARM_UP:
                times[name].append(ns)
    return {name: summary(values) for name, values in times.items()}


def summary(values):
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median_ns": statistics.median(values), "low_ns": quartiles[0], "high_ns": quartiles[2]}


def difference(got, want):
    """Largest difference over the largest magnitude."""
    got, want = got.double().reshape(want.shape), want.double().cpu()
    if not bool(torch.isfinite(got).all()):
        return float("inf")
    return float((got - want).abs().max() / want.abs().max().clamp_min(1e-30))
