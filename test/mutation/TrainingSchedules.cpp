// Training steps of some Linears, in all the ways in which they may be
// scheduled: the forms of test/Inputs/step.onnxtxt, written by a program.
//
// In:  a seed.
// Out: ONNX's text of form Scheduled.
// Not: proofs. Each step is right by how it is built: who takes whose place
//      waits for it by name below.
// How: layer i's weight lies in place i % places, its gradient in buffer
//      i % buffers. Weights of the last layers stay across the turn, others are
//      staged a second time. Nodes are made queue by queue in one order, which
//      a random merge of the queues then keeps. Ranges are laid out in a random
//      order with random gaps.

#include "Compiler.h"
#include "Schedules.h"

#include "offload/Onnx/Export.h"
#include "offload/Onnx/Import.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <vector>

namespace offload::mutation {

namespace {

using Names = std::vector<std::string>;

struct Item {
  unsigned queue; // 0 compute, 1 h2d, 2 d2h, 3 host
  std::string text;
  Names makes, reads;
};

std::string joined(const Names &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + (name.empty() ? "\"\"" : name);
  return text;
}

std::string numbered(const char *stem, unsigned i, const char *suffix = "") {
  return stem + std::to_string(i) + suffix;
}

class TrainingStep {
public:
  explicit TrainingStep(uint32_t seed) : random(seed) {
    layers = static_cast<unsigned>(random.number(3, 5));
    rows = random.number(2, 6);
    width = 8 * random.number(1, 3);
    out = random.number(2, 8);
    places = static_cast<unsigned>(random.number(1, layers - 1));
    buffers = static_cast<unsigned>(random.number(1, layers - 1));
    sharesReturns = random.chance(50);
    alternatesGradients = random.chance(50);
    for (unsigned i = 1; i <= layers; ++i) {
      hasBias[i] = random.chance(40);
      spills[i] = i + 2 <= layers && random.chance(60);
      // A weight that is staged again must have been read before its update.
      updatesFirst[i] = i + places > layers && random.chance(50);
    }
  }

  std::string text() {
    addForward();
    addLoss();
    for (unsigned i = layers; i >= 1; --i)
      addBackward(i);
    add(0, "release_x", {"x_free"}, "Release", {"x_dev"});
    layOut();
    std::ostringstream text;
    printHead(text);
    printSignature(text);
    text << "{\n";
    merge(text);
    text << "}\n";
    return text.str();
  }

private:
  void add(unsigned queue, const std::string &node, const Names &makes,
           const std::string &op, const Names &reads,
           const std::string &attributes = "") {
    bool isOffload = op == "SGD" || op == "Wait" || op == "Release" ||
                     op.starts_with("Stage") || op.starts_with("Fetch") ||
                     op.starts_with("GradTransfer");
    items.push_back({queue,
                     "  [" + node + "] " + joined(makes) + " = " +
                         (isOffload ? "offload." : "") + op + " " + attributes +
                         "(" + joined(reads) + ")\n",
                     makes, reads});
  }
  void stageWeight(unsigned i, const std::string &after) {
    std::string w = numbered("w", i), b = numbered("b", i);
    if (hasBias[i])
      add(1, "stage_" + w, {w + "_fly", b + "_fly"}, "Stage:two",
          {w, b, after});
    else
      add(1, "stage_" + w, {w + "_fly"}, "Stage", {w, after});
    place("weight" + std::to_string(i % places), w + "_fly", 4 * width * width);
    if (hasBias[i])
      place("weight" + std::to_string(i % places), b + "_fly", 4 * width);
  }
  /// `value` lies in `block`: at its start, or behind the weight where it is a
  /// bias that rides along.
  void place(const std::string &block, const std::string &value,
             int64_t bytes) {
    bool rides = value[0] == 'b' && block.starts_with("weight");
    int64_t at = rides ? alignUp(4 * width * width) : 0;
    held[block].push_back({value, at, bytes});
  }

  void addForward();
  void addLayer(unsigned i);
  void addLoss();
  void addBackward(unsigned i);
  void addInputGradient(unsigned i);
  void addWeightGradient(unsigned i);
  void stageReturn(unsigned i);
  void layOut();
  void printHead(std::ostream &text) const;
  void printSignature(std::ostream &text) const;
  void merge(std::ostream &text);

  struct Held {
    std::string value;
    int64_t at, bytes;
  };
  static constexpr int64_t kScratchBytes = 4096;
  static int64_t alignUp(int64_t bytes) { return (bytes + 511) / 512 * 512; }

  Random random;
  unsigned layers, places, buffers;
  int64_t rows, width, out;
  bool sharesReturns, alternatesGradients;
  std::array<bool, 8> hasBias{}, spills{}, updatesFirst{};
  std::array<std::string, 8> activationBlock;
  std::string lastReturn; // reader of what lies in the shared place
  std::vector<Item> items;
  std::map<std::string, std::vector<Held>> held; // by block
  std::map<std::string, int64_t> offsets;        // of values
  std::map<std::string, int64_t> sizes;
  int64_t scratchOffset = 0, end = 0;
};

//===-- Nodes -------------------------------------------------------------===//

void TrainingStep::addForward() {
  add(1, "stage_x", {"x_fly"}, "Stage", {"x", "x_idle"});
  place("x", "x_fly", 4 * rows * width);
  bool targetFirst = random.chance(50);
  auto stageTarget = [&] {
    add(1, "stage_t", {"t_fly"}, "Stage", {"t", ""});
    place("t", "t_fly", 4 * rows * out);
  };
  if (targetFirst)
    stageTarget();
  for (unsigned i = 1; i <= places; ++i)
    stageWeight(i, "");
  if (!targetFirst)
    stageTarget();
  add(0, "wait_x", {"x_dev"}, "Wait", {"x_fly", ""});
  for (unsigned i = 1; i <= layers; ++i)
    addLayer(i);
}

void TrainingStep::addLayer(unsigned i) {
  std::string w = numbered("w", i), b = numbered("b", i), h = numbered("h", i);
  std::string operand = i == 1 ? "x_dev" : numbered("h", i - 1);
  add(0, "wait_" + w, {w + "_dev"}, "Wait", {w + "_fly", ""});
  if (hasBias[i])
    add(0, "wait_" + b, {b + "_dev"}, "Wait", {b + "_fly", ""});
  bool takesPlace = i > 2 && spills[i - 2];
  if (takesPlace) {
    // Layer i writes where a spilled activation lay.
    add(0, "wait_spill_" + numbered("h", i - 2), {operand + "_ok"}, "Wait",
        {operand, numbered("h", i - 2, "_host")});
    operand += "_ok";
  }
  if (hasBias[i])
    add(0, "fc" + std::to_string(i), {h}, "Gemm",
        {operand, w + "_dev", b + "_dev"});
  else
    add(0, "fc" + std::to_string(i), {h}, "MatMul", {operand, w + "_dev"});
  activationBlock[i] = takesPlace ? activationBlock[i - 2] : h;
  place(activationBlock[i], h, 4 * rows * width);
  if (spills[i])
    add(2, "spill_" + h, {h + "_host"}, "Fetch", {h, ""});
  if (i + places <= layers) {
    add(0, "release_" + w, {w + "_free"}, "Release", {w + "_dev"});
    stageWeight(i + places, w + "_free");
  }
}

void TrainingStep::addLoss() {
  std::string last = numbered("h", layers), d = numbered("d", layers);
  add(0, "out", {"z"}, "MatMul", {last, "head"});
  add(0, "wait_t", {"t_dev"}, "Wait", {"t_fly", ""});
  add(0, "error", {"e"}, "Sub", {"z", "t_dev"});
  add(0, "sum_squares", {"loss_dev"}, "ReduceSumSquare", {"e"},
      "<keepdims: int = 0> ");
  add(2, "fetch_loss", {"loss"}, "Fetch", {"loss_dev", ""});
  add(0, "error_dz", {"dz"}, "Add", {"e", "e"});
  auto addData = [&] {
    add(0, "out_dx", {d}, "Gemm", {"dz", "head"}, "<transB: int = 1> ");
  };
  bool dataFirst = random.chance(50);
  if (dataFirst)
    addData();
  add(0, "out_dw", {"dhead"}, "Gemm", {last, "dz"}, "<transA: int = 1> ");
  if (!dataFirst)
    addData();
  add(0, "update_head", {"head_next"}, "SGD", {"head", "dhead", "lr", "apply"});
  for (const char *name : {"z", "e", "dz"})
    place(name, name, 4 * rows * out);
  place("loss_dev", "loss_dev", 4);
  place("head", "head", 4 * width * out);
  place("dhead", "dhead", 4 * width * out);
  for (unsigned i = layers; i >= 1; --i) {
    // Two steps back all readers of a gradient are done.
    unsigned block = alternatesGradients ? i % 2 : i;
    place(numbered("gradient", block), numbered("d", i), 4 * rows * width);
  }
}

void TrainingStep::addBackward(unsigned i) {
  if (updatesFirst[i])
    addWeightGradient(i);
  if (i > 1)
    addInputGradient(i);
  if (!updatesFirst[i])
    addWeightGradient(i);
}

void TrainingStep::addInputGradient(unsigned i) {
  std::string w = numbered("w", i), d = numbered("d", i);
  std::string ready = w + "_dev";
  if (i + places <= layers) {
    ready = w + "_again";
    add(0, "wait_again_" + w, {ready}, "Wait", {w + "_back", ""});
  }
  add(0, numbered("fc", i, "_dx"), {numbered("d", i - 1)}, "Gemm", {d, ready},
      "<transB: int = 1> ");
  if (i < places + 2)
    return;
  // The place goes to a weight that is read next.
  std::string next = numbered("w", i - places);
  add(0, "release_again_" + w, {w + "_free_again"}, "Release", {ready});
  add(1, "stage_again_" + next, {next + "_back"}, "Stage",
      {next, w + "_free_again"});
  place("weight" + std::to_string(i % places), next + "_back",
        4 * width * width);
}

/// Activation i comes back for the gradient of weight i + 1.
void TrainingStep::stageReturn(unsigned i) {
  std::string h = numbered("h", i), after;
  if (sharesReturns && !lastReturn.empty()) {
    after = lastReturn + "_done";
    add(0, "release_" + lastReturn, {after}, "Release", {lastReturn});
  }
  add(1, "stage_" + h, {h + "_fly"}, "Stage", {h + "_host", after});
  place(sharesReturns ? "return" : "return_" + h, h + "_fly", 4 * rows * width);
  add(0, "wait_" + h, {h + "_back"}, "Wait", {h + "_fly", ""});
  lastReturn = h + "_back";
}

void TrainingStep::addWeightGradient(unsigned i) {
  std::string w = numbered("w", i), b = numbered("b", i), d = numbered("d", i);
  std::string left = i == 1 ? "x_dev" : numbered("h", i - 1);
  if (i > 1 && spills[i - 1]) {
    stageReturn(i - 1);
    left = lastReturn;
  }
  if (i + buffers <= layers) {
    std::string sent = numbered("gw", i + buffers);
    add(0, "wait_" + sent, {d + "_ok"}, "Wait", {d, sent});
    d += "_ok";
  }
  add(0, numbered("fc", i, "_dw"), {"d" + w}, "Gemm", {left, d},
      "<transA: int = 1> ");
  std::string buffer = std::to_string(i % buffers);
  place("sent" + buffer, "d" + w, 4 * width * width);
  if (hasBias[i]) {
    add(0, numbered("fc", i, "_db"), {"d" + b}, "ReduceSum", {d, "axis0"},
        "<keepdims: int = 0> ");
    place("sent_bias" + buffer, "d" + b, 4 * width);
    add(2, "send_g" + w, {"g" + w, "g" + b}, "GradTransfer:two",
        {"d" + w, "d" + b, ""});
    add(3, "update_" + b, {b + "_next"}, "SGD", {b, "g" + b, "lr", "apply"});
  } else {
    add(2, "send_g" + w, {"g" + w}, "GradTransfer", {"d" + w, ""});
  }
  add(3, "update_" + w, {w + "_next"}, "SGD", {w, "g" + w, "lr", "apply"});
}

//===-- Ranges and text ---------------------------------------------------===//

void TrainingStep::layOut() {
  Names blocks = {"scratch"};
  for (const auto &[block, values] : held)
    blocks.push_back(block);
  for (size_t i = blocks.size(); i > 1; --i)
    std::swap(blocks[i - 1], blocks[random.number(0, i - 1)]);
  for (const std::string &block : blocks) {
    int64_t start = end + 512 * (random.chance(30) ? random.number(1, 2) : 0);
    if (block == "scratch") {
      scratchOffset = start;
      end = start + kScratchBytes;
      continue;
    }
    for (const Held &held : held[block]) {
      offsets[held.value] = start + held.at;
      sizes[held.value] = held.bytes;
      end = std::max(end, start + held.at + alignUp(held.bytes));
    }
  }
}

void TrainingStep::printHead(std::ostream &text) const {
  std::map<std::string, std::string> properties = {
      {"device_memory", std::to_string(end)},
      {"form", "Scheduled"},
      {"node.update_head", "queue=compute"},
      {"peak_bytes", std::to_string(end)},
      {"scratch", "offset=" + std::to_string(scratchOffset) +
                      " bytes=" + std::to_string(kScratchBytes)},
      {"state.head", "head_next"},
      {"state.x_idle", "x_free"},
      {"target", "host"},
      {"value.head_next", "inplace=head"}};
  for (unsigned i = 1; i <= layers; ++i) {
    properties["state." + numbered("w", i)] = numbered("w", i, "_next");
    if (!hasBias[i])
      continue;
    properties["state." + numbered("b", i)] = numbered("b", i, "_next");
    properties["node." + numbered("fc", i, "_db")] =
        "scratch=" + std::to_string(kScratchBytes);
  }
  for (const auto &[value, offset] : offsets)
    properties["value." + value] =
        (value == "head" ? "residency=resident " : "") +
        ("offset=" + std::to_string(offset)) +
        " bytes=" + std::to_string(sizes.at(value));
  text << "<ir_version: 10, opset_import: [\"\": 21, \"offload\": 1],\n"
          " metadata_props: [";
  const char *separator = "\n";
  for (const auto &[key, value] : properties) {
    text << separator << "  \"offload." << key << "\": \"" << value << "\"";
    separator = ",\n";
  }
  text << "]>\n";
}

void TrainingStep::printSignature(std::ostream &text) const {
  auto type = [](int64_t a, int64_t b) {
    return "float[" + std::to_string(a) + "," + std::to_string(b) + "] ";
  };
  std::ostringstream results;
  text << "step (" << type(rows, width) << "x, " << type(rows, out)
       << "t, float lr, bool apply, " << type(width, out)
       << "head, bool x_idle";
  results << "float loss, " << type(width, out) << "head_next, bool x_free";
  for (unsigned i = 1; i <= layers; ++i) {
    text << ", " << type(width, width) << "w" << i;
    results << ", " << type(width, width) << "w" << i << "_next";
    if (!hasBias[i])
      continue;
    text << ", float[" << width << "] b" << i;
    results << ", float[" << width << "] b" << i << "_next";
  }
  text << ")\n  => (" << results.str()
       << ")\n  <int64[1] axis0 = {0}, bool x_idle = {1}>\n";
}

/// Any merge of the queues in which makers stand before readers is the same
/// schedule.
void TrainingStep::merge(std::ostream &text) {
  std::array<std::vector<const Item *>, 4> queues;
  std::set<std::string> made, all;
  for (const Item &item : items) {
    queues[item.queue].push_back(&item);
    all.insert(item.makes.begin(), item.makes.end());
  }
  std::array<size_t, 4> next{};
  auto isReady = [&](unsigned queue) {
    if (next[queue] == queues[queue].size())
      return false;
    const Names &reads = queues[queue][next[queue]]->reads;
    return std::all_of(reads.begin(), reads.end(), [&](const auto &name) {
      return !all.count(name) || made.count(name);
    });
  };
  for (size_t left = items.size(); left > 0;) {
    auto queue = static_cast<unsigned>(random.number(0, 3));
    if (!isReady(queue))
      continue;
    const Item &item = *queues[queue][next[queue]++];
    text << item.text;
    made.insert(item.makes.begin(), item.makes.end());
    --left;
  }
}

} // namespace

std::string trainingText(uint32_t seed) { return TrainingStep(seed).text(); }

RightSchedule trainingSchedule(const Folder &folder, uint32_t seed) {
  RightSchedule made;
  made.name = "training " + std::to_string(seed);
  made.path = folder / ("training-" + std::to_string(seed) + ".off");
  auto graph = must(importText(trainingText(seed), ".", {}));
  must(exportModel(*graph, made.path, {}));
  return made;
}

} // namespace offload::mutation
