// Small graphs for tests of the planner, built without an importer.

#ifndef OFFLOAD_TEST_UNIT_SCHEDULE_TESTGRAPH_H
#define OFFLOAD_TEST_UNIT_SCHEDULE_TESTGRAPH_H

#include "offload/Analysis/PrepareForPlan.h"
#include "offload/IR/Graph.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace offload {

inline TensorType tensorType(DataType elem, std::vector<int64_t> dims) {
  TensorType type;
  type.elem = elem;
  type.hasRank = true;
  for (int64_t dim : dims)
    type.dims.push_back({dim, ""});
  return type;
}

inline TensorType floats(std::vector<int64_t> dims) {
  return tensorType(DataType::Float, std::move(dims));
}

/// A graph and shorthands to fill it.
class TestGraph {
public:
  TestGraph() { graph.opsets[""] = 21; }

  Value *input(const std::string &name, TensorType type) {
    return graph.addInput(name, std::move(type));
  }
  Value *constant(const std::string &name, TensorType type) {
    std::vector<uint8_t> bytes(type.bytesAtBound(), 0);
    return graph.addInitializer(name, std::move(type),
                                TensorData::owned(std::move(bytes)));
  }
  /// A node with one result, of the same name as the node and `type`.
  Value *node(const std::string &name, const std::string &opType,
              std::vector<Value *> operands, TensorType type) {
    Node *made = graph.addNode(name, "", opType, operands, {name + "_out"});
    made->info = findOperator("", opType, 13);
    if (!made->info)
      made->info = findOperator("", opType, 21);
    if (!made->info)
      made->info = findOperator("", opType, 1);
    EXPECT_NE(made->info, nullptr) << opType;
    made->result()->type = std::move(type);
    return made->result();
  }
  void output(Value *value) { graph.addOutput(value); }

  Graph graph;
};

/// x -> MatMul w0 -> MatMul w1 ... : `count` square layers of `width`.
inline void addChain(TestGraph &test, unsigned count, int64_t width,
                     int64_t rows = 2) {
  Value *x = test.input("x", floats({rows, width}));
  for (unsigned i = 0; i < count; ++i) {
    Value *w = test.constant("w" + std::to_string(i), floats({width, width}));
    x = test.node("fc" + std::to_string(i), "MatMul", {x, w},
                  floats({rows, width}));
  }
  test.output(x);
}

} // namespace offload

#endif // OFFLOAD_TEST_UNIT_SCHEDULE_TESTGRAPH_H
