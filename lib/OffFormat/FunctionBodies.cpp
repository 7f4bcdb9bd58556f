// Bodies of the `offload` operators, written as ONNX text.
//
// In:  an operator, its overload, which of its parts have less than a byte an
//      element.
// Out: the function that a `.off` carries, in plain ONNX.
// Not: messages (Onnx/OffFunctions makes them, the runtime compares), what a
//      queue, a place or the order is: these have no meaning in numbers
//      (docs/format.md).
// How: the copies are made from one pattern; the others are written out. The
//      text is parsed by ONNX's own parser, so what stands here is what
//      `--emit=text` shows.
//
// The updates are float32 operations that IEEE 754 rounds one by one, in this
// order; the kernels of the runtime do the same ones, so host, device and any
// other ONNX runtime give the same bits. AdamW's two powers are taken in double
// and rounded once, because a float power is not rounded the same everywhere.

#include "offload/OffFormat/FunctionBodies.h"

#include <algorithm>
#include <cassert>

namespace offload {

namespace {

constexpr OffFunction kFunctions[] = {
    {"Stage", "", 1, 2, 1},
    {"Stage", "two", 2, 3, 2},
    {"Stage", "three", 3, 4, 3},
    {"Stage", "four", 4, 5, 4},
    {"Wait", "", 1, 2, 1},
    {"Release", "", 0, 1, 1},
    {"Join", "", 0, 2, 1},
    {"GradTransfer", "", 1, 2, 1},
    {"GradTransfer", "two", 2, 3, 2},
    {"GradTransfer", "three", 3, 4, 3},
    {"GradTransfer", "four", 4, 5, 4},
    {"Fetch", "", 1, 2, 1},
    {"Fetch", "two", 2, 3, 2},
    {"Fetch", "three", 3, 4, 3},
    {"Fetch", "four", 4, 5, 4},
    {"SGD", "", 0, 4, 1},
    {"AdamW", "", 0, 11, 3},
    {"Linear", "", 0, 3, 1},
};

constexpr std::string_view kRelease = R"(
Release (value) => (token) { token = Constant <value: tensor = bool {1}> () })";

// An operand that the body leaves unread may have any type but those of less
// than a byte, ONNX Runtime says.
constexpr std::string_view kReleaseSubByte = R"(
Release (value) => (token) {
  seen = CastLike (value, value)
  token = Constant <value: tensor = bool {1}> ()
})";

constexpr std::string_view kJoin = R"(
Join (first, second) => (token) {
  token = Constant <value: tensor = bool {1}> ()
})";

constexpr std::string_view kSgd = R"(
SGD (w, g, lr, apply) => (w_next) {
  d = Mul (lr, g)
  moved = Sub (w, d)
  w_next = Where (apply, moved, w)
})";

// Loshchilov and Hutter, "Decoupled weight decay regularization": the decay is
// applied to the weight before the step. `step` counts from 1.
constexpr std::string_view kAdamW = R"(
AdamW (w, g, m, v, lr, beta1, beta2, epsilon, decay, step, apply)
    => (w_next, m_next, v_next) {
  one = Constant <value: tensor = float {1}> ()
  one_wide = Constant <value: tensor = double {1}> ()
  rest1 = Sub (one, beta1)
  m_kept = Mul (beta1, m)
  m_added = Mul (rest1, g)
  m_new = Add (m_kept, m_added)
  rest2 = Sub (one, beta2)
  v_kept = Mul (beta2, v)
  g_part = Mul (rest2, g)
  v_added = Mul (g_part, g)
  v_new = Add (v_kept, v_added)
  step_wide = Cast <to: int = 11> (step)
  beta1_wide = Cast <to: int = 11> (beta1)
  beta2_wide = Cast <to: int = 11> (beta2)
  power1 = Pow (beta1_wide, step_wide)
  power2 = Pow (beta2_wide, step_wide)
  bias1_wide = Sub (one_wide, power1)
  bias2_wide = Sub (one_wide, power2)
  bias1 = Cast <to: int = 1> (bias1_wide)
  bias2 = Cast <to: int = 1> (bias2_wide)
  rate = Div (lr, bias1)
  bias2_root = Sqrt (bias2)
  v_root = Sqrt (v_new)
  scaled = Div (v_root, bias2_root)
  bottom = Add (scaled, epsilon)
  direction = Div (m_new, bottom)
  change = Mul (rate, direction)
  shrink = Mul (lr, decay)
  keep = Sub (one, shrink)
  w_kept = Mul (w, keep)
  moved = Sub (w_kept, change)
  w_next = Where (apply, moved, w)
  m_next = Where (apply, m_new, m)
  v_next = Where (apply, v_new, v)
})";

constexpr std::string_view kLinear = R"(
Linear (x, w, b) => (y) {
  product = MatMul (x, w)
  y = Add (product, b)
})";

/// "Stage (host_a, host_b, after) => (device_a, device_b) { ... }". One part
/// has no letter.
std::string copyText(const OffFunction &function, std::string_view from,
                     std::string_view to, uint32_t subByteParts) {
  std::string inputs, outputs, body;
  for (unsigned i = 0; i < function.parts; ++i) {
    std::string letter =
        function.parts == 1 ? std::string() : std::string{'_', char('a' + i)};
    std::string in = std::string(from) + letter, out = std::string(to) + letter;
    inputs += in + ", ";
    outputs += (i ? ", " : "") + out;
    body += out;
    body += subByteParts >> i & 1 ? " = CastLike (" + in + ", " + in + ") "
                                  : " = Identity (" + in + ") ";
  }
  return std::string(function.op) + " (" + inputs + "after) => (" + outputs +
         ") { " + body + "}";
}

} // namespace

std::span<const OffFunction> offFunctions() { return kFunctions; }

const OffFunction *findOffFunction(std::string_view op,
                                   std::string_view overload) {
  for (const OffFunction &function : kFunctions)
    if (function.op == op && function.overload == overload)
      return &function;
  return nullptr;
}

std::string offFunctionText(const OffFunction &function,
                            uint32_t subByteParts) {
  if (function.op == "Stage")
    return copyText(function, "host", "device", subByteParts);
  if (function.op == "Wait")
    return copyText(function, "value", "ready", subByteParts);
  if (function.op == "GradTransfer" || function.op == "Fetch")
    return copyText(function, "device", "host", subByteParts);
  if (function.op == "Release")
    return std::string(subByteParts & 1 ? kReleaseSubByte : kRelease);
  if (function.op == "Join")
    return std::string(kJoin);
  if (function.op == "SGD")
    return std::string(kSgd);
  if (function.op == "AdamW")
    return std::string(kAdamW);
  assert(function.op == "Linear" && "a row without a body");
  return std::string(kLinear);
}

std::vector<std::string> offFunctionForms(const OffFunction &function) {
  std::vector<std::string> forms;
  for (uint32_t mask = 0; mask < 1u << std::max(function.parts, 1u); ++mask) {
    std::string text = withoutBlanks(offFunctionText(function, mask));
    if (std::find(forms.begin(), forms.end(), text) == forms.end())
      forms.push_back(std::move(text));
  }
  return forms;
}

std::string withoutBlanks(std::string_view text) {
  std::string packed;
  for (char c : text)
    if (c != ' ' && c != '\n')
      packed += c;
  return packed;
}

} // namespace offload
