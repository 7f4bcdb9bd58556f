"""Counts cases, and starts the programs of a bundle, for the parts of gpu_test.py."""
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SIDE_BY_SIDE = 4   # processes on one card, where none is asked what it takes of it


class Judge:
    def __init__(self, bundle, device="cuda:0", models=()):
        self.bundle, self.device, self.passed, self.failed = bundle, device, 0, []
        self.on_card = device.startswith("cuda:")
        self.wanted = models
        self.pool, self.servers = ThreadPoolExecutor(SIDE_BY_SIDE), threading.local()

    def count(self, name, problem="", figures=""):
        """One line a case."""
        if problem:
            problem = " ".join(str(problem).split())
            self.failed.append("%s: %s" % (name, problem))
            print("FAIL %s: %s" % (name, problem))
        else:
            self.passed += 1
            print("ok   %s%s" % (name, figures and ": " + figures))

    def models(self):
        """Folders of the models that are asked for."""
        found = sorted(p for p in (self.bundle / "models").iterdir() if p.is_dir())
        missing = set(self.wanted) - {p.name for p in found}
        if missing:
            raise RuntimeError("the bundle has no model " + ", ".join(sorted(missing)))
        return [p for p in found if not self.wanted or p.name in self.wanted]

    def samples(self):
        """One model of each kind of network, and one with quantized weights; or those that are asked for."""
        if self.wanted:
            return self.models()
        chosen = []
        for kind in ("gpt2", "mobilenet", "bert", "llama", "vit", "resnet"):
            chosen += [p for p in self.models() if p.name.startswith(kind) and "+" not in p.name][:1]
        return chosen + [p for p in self.models() if "+" in p.name][:1]

    def call(self, *command, seconds=300, **environment):
        """Exit code (None: it took too long), standard output, standard error."""
        try:
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=seconds,
                                  env={**os.environ, **environment})
            return done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            text = late.stdout or b""
            return None, text.decode(errors="replace") if isinstance(text, bytes) else text, "took over %d s" % seconds

    def program(self, name):
        return self.bundle / "bin" / name

    def run(self, off, *flags, device=None):
        """Outputs and statistics of the model's feeds by a process of its own; RuntimeError where it fails."""
        return self.outcome_of(off, flags, device, self.call_alone)

    def run_served(self, off, *flags, device=None):
        """The same by a process that runs many, one for each thread of `beside`."""
        return self.outcome_of(off, flags, device, self.call_served)

    def outcome_of(self, off, flags, device, call):
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "out.npz"
            code, text, err = call(off, "--device=" + (device or self.device), "--inputs", off.parent / "feeds.npz",
                                   "--output", out, "--stats=json", *flags)
            if code != 0:
                raise RuntimeError("exit code %s: %s" % (code, shortened(err)))
            return arrays(out), json.loads(text)

    def call_alone(self, *words):
        return self.call(self.program("offload-run"), *words)

    def call_served(self, *words):
        server = getattr(self.servers, "server", None)
        if not server or not server.is_running():
            server = self.servers.server = Server(self.program("run-many"))
        code, out, err = server.call([str(word) for word in words])
        if code != 0:   # a lost context would fail all that follow
            server.stop()
        return code, out, err

    def beside(self, calls):
        """(result, None) or (None, error) of each call, in their order; several run at a time."""
        def outcome(call):
            try:
                return call(), None
            except (RuntimeError, OSError, ValueError, KeyError) as error:
                return None, "%s: %s" % (type(error).__name__, error)
        return list(self.pool.map(outcome, calls))


class Server:
    """A process of run-many; it ends with this one, whose end of its standard input closes."""

    def __init__(self, program):
        self.err = tempfile.TemporaryFile()
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err, text=True)

    def is_running(self):
        return self.process.poll() is None

    def stop(self):
        self.process.kill()
        self.process.wait()

    def call(self, words, seconds=120):
        """As Judge.call; where it takes too long or crashes, the process is gone."""
        start = time.monotonic()
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            answer = json.loads(line)
            return answer["code"], answer["out"], answer["err"]
        self.process.wait()
        if time.monotonic() - start >= seconds:
            return None, "", "took over %d s" % seconds
        self.err.seek(0)
        return self.process.returncode, "", self.err.read().decode(errors="replace")


def shortened(text):
    """Its beginning, which says what, and its end."""
    text = text.strip()
    return text if len(text) < 1500 else text[:900] + " ... " + text[-500:]


def arrays(path):
    """By name, of an .npz."""
    import toolkit
    return toolkit.load_arrays(path)


def worst_error(outputs, want):
    """Infinite where an output is missing."""
    import toolkit
    return max(toolkit.relative_error(outputs[k], want[k]) if k in outputs else float("inf") for k in want)


def find_tool(name, folder):
    """In PATH, else there; None where it is not."""
    return shutil.which(name) or shutil.which(name, path=folder)
