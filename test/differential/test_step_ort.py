"""The `.off` of a training step in stock ONNX Runtime, against numpy.

The step of Inputs/step.onnxtxt runs four times with its states carried over, a
changing rate and one update left out. AdamW's body is compared bit for bit: its
operations are rounded one by one, so there is one right answer. Copies of 2- and
4-bit parts must load and change nothing."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parent))
import toolkit  # noqa: E402

INPUTS = Path(__file__).parents[1] / "Inputs"
STATES = {"w1": "w1_next", "b1": "b1_next", "w2": "w2_next", "w3": "w3_next", "head": "head_next"}
STEPS = [(1e-4, True), (2e-4, True), (2e-4, False), (5e-5, True)]  # (lr, apply)


def initial_states(rng):
    def weight(rows, columns):
        return (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    return {"w1": weight(1024, 1024), "b1": rng.standard_normal(1024).astype(np.float32), "w2": weight(1024, 1024),
            "w3": weight(1024, 1024), "head": weight(1024, 16)}


def reference_step(x, t, lr, apply, s):
    """(loss, next states) of the network that the file's text describes."""
    x2 = x.reshape(8, 1024)
    h1 = x2 @ s["w1"] + s["b1"]
    h2 = h1 @ s["w2"]
    y = h2 @ s["w3"]
    error = y @ s["head"] - t
    dz = error + error
    dy = dz @ s["head"].T
    dh2 = dy @ s["w3"].T
    dh1 = dh2 @ s["w2"].T
    gradients = {"head": y.T @ dz, "w3": h2.T @ dy, "w2": h1.T @ dh2, "w1": x2.T @ dh1, "b1": dh1.sum(axis=0)}
    after = {name: s[name] - lr * gradients[name] for name in s} if apply else dict(s)
    return np.float32((error * error).sum()), after


class Step(unittest.TestCase):
    def test_four_steps(self):
        rng = np.random.default_rng(7)
        with tempfile.TemporaryDirectory() as folder:
            off = Path(folder) / "step.off"
            toolkit.call("offload-opt", INPUTS / "step.onnxtxt", "-o", off)
            onnx.checker.check_model(str(off), full_check=True)
            session = toolkit.onnxruntime_session(off)
        got = initial_states(rng)
        want = dict(got)
        token = np.array(True)
        losses = []
        for number, (lr, apply) in enumerate(STEPS):
            lr = np.float32(lr)
            x = rng.standard_normal((2, 4, 1024)).astype(np.float32)
            t = rng.standard_normal((8, 16)).astype(np.float32)
            names = [output.name for output in session.get_outputs()]
            feeds = {"x": x, "t": t, "lr": np.array(lr), "apply": np.array(apply), "x_idle": token, **got}
            outputs = dict(zip(names, session.run(None, feeds)))
            before = want
            loss, want = reference_step(x, t, lr, apply, before)
            token = outputs["x_free"]
            self.assertEqual(token.dtype, np.bool_)
            losses.append(loss)
            with self.subTest(step=number):
                self.assertLess(toolkit.relative_error(outputs["loss"], loss), 1e-4)
                for name, after in STATES.items():
                    if not apply:
                        self.assertEqual(outputs[after].tobytes(), got[name].tobytes(), name)
                        continue
                    # The change, not the weight, which hides it.
                    change, right = outputs[after] - got[name], want[name] - before[name]
                    self.assertLess(toolkit.relative_error(change, right), 2e-3, name)
                    self.assertLess(toolkit.relative_error(outputs[after], want[name]), 1e-4, name)
            got = {name: outputs[after] for name, after in STATES.items()}
        self.assertEqual(len(set(losses)), len(STEPS))


class StepOnHostDevice(unittest.TestCase):
    """The same four steps by the runtime, in one session and one after another,
    each queue delayed: ONNX Runtime's losses and states."""

    def prepare(self, folder):
        rng = np.random.default_rng(7)
        self.off = folder / "step.off"
        toolkit.call("offload-opt", INPUTS / "step.onnxtxt", "-o", self.off)
        self.states = initial_states(rng)
        self.feeds = [{"x": rng.standard_normal((2, 4, 1024)).astype(np.float32),
                       "t": rng.standard_normal((8, 16)).astype(np.float32),
                       "lr": np.array(lr, np.float32), "apply": np.array(apply)} for lr, apply in STEPS]
        for number, feeds in enumerate(self.feeds):
            np.savez(folder / ("in_%d.npz" % number), **feeds)
        for name, value in self.states.items():
            np.save(folder / (name + ".npy"), value)

    def wanted(self):
        """ONNX Runtime's loss of the last step and its states after it."""
        session = toolkit.onnxruntime_session(self.off)
        names = [output.name for output in session.get_outputs()]
        states, token = self.states, np.array(True)
        for feeds in self.feeds:
            outputs = dict(zip(names, session.run(None, {**feeds, **states, "x_idle": token})))
            states = {name: outputs[after] for name, after in STATES.items()}
            token = outputs["x_free"]
        return outputs["loss"], states

    def run_steps(self, folder, *flags):
        inputs = [flag for number in range(len(STEPS)) for flag in ("--inputs", folder / ("in_%d.npz" % number))]
        states = [flag for name in STATES for flag in ("--state", "%s=%s" % (name, folder / (name + ".npy")))]
        stats, _ = toolkit.call("offload-run", self.off, "--device=host", *inputs, *states, "--output", folder / "out.npz",
                                "--output-state", folder / "states.npz", "--stats=json", *flags)
        with np.load(folder / "out.npz") as out, np.load(folder / "states.npz") as after:
            return out["loss"], {name: after[name] for name in STATES}, json.loads(stats)

    def test_four_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            self.prepare(folder)
            right_loss, right = self.wanted()
            loss, states, stats = self.run_steps(folder)
            self.assertLess(toolkit.relative_error(loss, right_loss), 1e-4)
            for name in STATES:
                moved, wanted = states[name] - self.states[name], right[name] - self.states[name]
                self.assertGreater(float(np.abs(wanted).max()), 0)
                self.assertLess(toolkit.relative_error(moved, wanted), 2e-3, name)
            for key in ("h2d_bytes", "d2h_bytes", "peak_device_bytes"):
                self.assertEqual(stats["measured"][key], stats["predicted"][key], key)
            for queue in ("compute", "h2d", "d2h", "host"):
                with self.subTest(delayed=queue):
                    slow_loss, slow, _ = self.run_steps(folder, "--poison", "--delay=%s:1:5" % queue)
                    self.assertEqual(slow_loss.tobytes(), loss.tobytes())
                    self.assertTrue(toolkit.same_bits(slow, states))


ADAMW = """<ir_version: 10, opset_import: ["": 21, "offload": 1]>
adamw (float[64,8] w, float[64,8] g, float[64,8] m, float[64,8] v, float lr, float beta1, float beta2, float epsilon,
    float decay, int64 step, bool apply) => (float[64,8] w_next, float[64,8] m_next, float[64,8] v_next)
{
  [update] w_next, m_next, v_next = offload.AdamW (w, g, m, v, lr, beta1, beta2, epsilon, decay, step, apply)
}
"""


def adamw(w, g, m, v, lr, beta1, beta2, epsilon, decay, step, apply):
    """Each line is float32 and rounded by itself; the powers are double."""
    one = np.float32(1)
    m_next = beta1 * m + (one - beta1) * g
    v_next = beta2 * v + ((one - beta2) * g) * g
    bias1 = np.float32(np.float64(1) - np.power(np.float64(beta1), np.float64(step)))
    bias2 = np.float32(np.float64(1) - np.power(np.float64(beta2), np.float64(step)))
    bottom = np.sqrt(v_next) / np.sqrt(bias2) + epsilon
    w_next = w * (one - lr * decay) - (lr / bias1) * (m_next / bottom)
    return (w_next, m_next, v_next) if apply else (w, m, v)


class AdamW(unittest.TestCase):
    def test_bits_of_five_steps(self):
        rng = np.random.default_rng(11)
        with tempfile.TemporaryDirectory() as folder:
            text, off = Path(folder) / "adamw.onnxtxt", Path(folder) / "adamw.off"
            text.write_text(ADAMW)
            # No pass runs: what is judged is the function that writing adds.
            toolkit.call("offload-opt", text, "--strip", "-o", off)
            onnx.checker.check_model(str(off), full_check=True)
            session = toolkit.onnxruntime_session(off)
        w = rng.standard_normal((64, 8)).astype(np.float32)
        m, v = np.zeros_like(w), np.zeros_like(w)
        scalars = dict(beta1=np.float32(0.9), beta2=np.float32(0.999), epsilon=np.float32(1e-8), decay=np.float32(0.01))
        for step in range(1, 6):
            lr, apply = np.float32(1e-3 / step), step != 3
            g = rng.standard_normal((64, 8)).astype(np.float32)
            feeds = dict(w=w, g=g, m=m, v=v, lr=lr, step=np.int64(step), apply=np.array(apply), **scalars)
            got = session.run(["w_next", "m_next", "v_next"], {k: np.asarray(a) for k, a in feeds.items()})
            want = adamw(w, g, m, v, lr, step=step, apply=apply, **scalars)
            for name, a, b in zip(("w", "m", "v"), got, want):
                self.assertEqual(a.dtype, b.dtype)
                self.assertEqual(a.tobytes(), b.tobytes(), "%s of step %d" % (name, step))
            w, m, v = got

    def test_is_adamw(self):
        """The same update by PyTorch, to a few roundings."""
        import torch
        rng = np.random.default_rng(13)
        w = rng.standard_normal((16, 4)).astype(np.float32)
        theirs = torch.nn.Parameter(torch.tensor(w))
        optimizer = torch.optim.AdamW([theirs], lr=1e-2, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1, foreach=False)
        m, v = np.zeros_like(w), np.zeros_like(w)
        for step in range(1, 8):
            g = rng.standard_normal(w.shape).astype(np.float32)
            theirs.grad = torch.tensor(g)
            optimizer.step()
            w, m, v = adamw(w, g, m, v, np.float32(1e-2), np.float32(0.9), np.float32(0.99), np.float32(1e-8),
                            np.float32(0.1), step, True)
        self.assertLess(toolkit.relative_error(w, theirs.detach().numpy()), 1e-6)


SUB_BYTE = """<ir_version: 10, opset_import: ["": %(opset)d, "offload": 1],
 metadata_props: [
  "offload.form": "Scheduled",
  "offload.value.q_fly": "offset=0 bytes=8",
  "offload.value.s_fly": "offset=512 bytes=4",
  "offload.value.y_dev": "offset=1024 bytes=64"]>
g (%(type)s[16] q, float s) => (float[16] y)
{
  [stage_q] q_fly, s_fly = offload.Stage:two (q, s, "")
  [wait_q] q_dev = offload.Wait (q_fly, "")
  [wait_s] s_dev = offload.Wait (s_fly, "")
  [expand] y_dev = DequantizeLinear (q_dev, s_dev)
  [fetch_y] y = offload.Fetch (y_dev, "")
}
"""


class SubByteCopies(unittest.TestCase):
    def test_every_int4(self):
        for kind, opset, low in (("int4", 21, -8), ("uint4", 21, 0), ("int4", 25, -8)):
            with self.subTest(type=kind, opset=opset), tempfile.TemporaryDirectory() as folder:
                text, off = Path(folder) / "q.onnxtxt", Path(folder) / "q.off"
                text.write_text(SUB_BYTE % {"type": kind, "opset": opset})
                toolkit.call("offload-opt", text, "-o", off)
                onnx.checker.check_model(str(off), full_check=True)
                # numpy has no 4-bit arrays to feed: the values become a constant.
                model = onnx.load(str(off))
                values = list(range(low, low + 16))
                element = getattr(onnx.TensorProto, kind.upper())
                model.graph.initializer.append(onnx.helper.make_tensor("q", element, [16], values))
                del model.graph.input[0]
                import onnxruntime as ort
                session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
                (y,) = session.run(None, {"s": np.array(0.5, np.float32)})
                np.testing.assert_array_equal(y, np.array(values, np.float32) / 2)


if __name__ == "__main__":
    unittest.main()
