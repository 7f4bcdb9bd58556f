// The compiler's graph: one ONNX graph, inlined and without control flow.
//
// A Graph owns its nodes and values. Node order is issue order and always a
// topological order. Values and nodes have unique names; pointers to them stay
// valid until they are erased. Not thread-safe; one owner at a time.

#ifndef OFFLOAD_IR_GRAPH_H
#define OFFLOAD_IR_GRAPH_H

#include "offload/OffFormat/DataType.h"
#include "offload/OffFormat/Operators.h"
#include "offload/OffFormat/Properties.h"
#include "offload/OffFormat/ShapeArithmetic.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace offload {

class Node;
class Graph;

/// One dimension. `name` is the source's symbolic name ("batch"); `bound` the
/// largest size planned for, or the size itself where `name` is empty, or
/// kUnbound where nothing is known.
struct Dim {
  static constexpr int64_t kUnbound = -1;
  int64_t bound = kUnbound;
  std::string name;
  bool isStatic() const { return name.empty() && bound >= 0; }
  bool operator==(const Dim &) const = default;
};

struct TensorType {
  DataType elem = DataType::Undefined;
  bool hasRank = false;
  llvm::SmallVector<Dim, 4> dims;

  /// Whether every dimension has a bound.
  bool isBounded() const;
  /// Bytes at the bound; the type must be bounded.
  int64_t bytesAtBound() const;
  std::vector<int64_t> dimsAtBound() const;
  bool operator==(const TensorType &) const = default;
};

/// A file kept mapped read-only; shared by all tensors in it. `folder`-relative
/// paths are kept as the model wrote them.
class MappedFile; // IR/MappedFile.h

/// Contents of a constant. Either owned bytes or a range of a mapped file; both
/// as in raw_data (little-endian, 4-bit types packed). Copying is cheap.
class TensorData {
public:
  TensorData() = default;
  static TensorData owned(std::vector<uint8_t> bytes);
  /// `location` is the path as the source model wrote it.
  static TensorData mapped(std::shared_ptr<const MappedFile> file,
                           std::string location, int64_t offset, int64_t bytes);

  bool empty() const { return !storage && !file; }
  bool isExternal() const { return file != nullptr; }
  /// Reads of an external tensor touch its pages: call only where the contents
  /// are needed.
  llvm::ArrayRef<uint8_t> bytes() const;
  int64_t sizeBytes() const { return numBytes; }
  llvm::StringRef location() const { return path; }
  int64_t fileOffset() const { return offset; }
  const MappedFile *mappedFile() const { return file.get(); }

private:
  std::shared_ptr<const std::vector<uint8_t>> storage;
  std::shared_ptr<const MappedFile> file;
  std::string path;
  int64_t offset = 0;
  int64_t numBytes = 0;
};

/// A named tensor: a graph input, an initializer (a constant), or a node's
/// output. An input with data is an input with a default (IR version 4 on).
class Value {
public:
  llvm::StringRef name() const { return valueName; }
  TensorType type;
  Properties properties; // "offload.value.<name>"
  TensorData data;       // of an initializer or an input with default

  bool isGraphInput() const { return graphInput; }
  /// A constant: an initializer that no caller may replace.
  bool isConstant() const { return !data.empty() && !graphInput; }
  Node *definingNode() const { return def; }
  unsigned resultIndex() const { return result; }
  /// Readers in no particular order, a node once for each operand.
  llvm::ArrayRef<Node *> users() const { return readers; }

private:
  friend class Graph;
  friend class Node;
  std::string valueName;
  bool graphInput = false;
  Node *def = nullptr;
  unsigned result = 0;
  size_t slot = 0; // index in the graph's list of values
  llvm::SmallVector<Node *, 2> readers;
};

class Node {
public:
  llvm::StringRef name() const { return nodeName; }
  std::string domain; // "" for ai.onnx
  std::string opType;
  std::string overload;
  int sinceVersion = 1;
  AttributeMap attributes;
  Properties properties; // "offload.node.<name>"

  /// Row of the operator table, or nullptr before the importer checked it.
  const OperatorInfo *info = nullptr;
  bool isOffload(llvm::StringRef op) const {
    return domain == "offload" && opType == op;
  }
  /// Queue by property, else by the operator's row.
  Queue queue() const;
  /// Whether operand `i` is known before the step starts: by the operator's
  /// row, or as a constant that isLaunchConstant() names.
  bool isLaunchOperand(unsigned i) const;

  llvm::ArrayRef<Value *> operands() const { return inputs; } // null: absent
  llvm::ArrayRef<Value *> results() const { return outputs; } // null: absent
  Value *operand(unsigned i) const {
    return i < inputs.size() ? inputs[i] : nullptr;
  }
  Value *result(unsigned i = 0) const {
    return i < outputs.size() ? outputs[i] : nullptr;
  }
  /// Keeps the users of both values right; grows the operand list if needed.
  void setOperand(unsigned i, Value *value);

private:
  friend class Graph;
  std::string nodeName;
  llvm::SmallVector<Value *, 4> inputs;
  llvm::SmallVector<Value *, 2> outputs;
  std::list<Node>::iterator position;
};

/// A node that import ran, since all it reads is constant. Its results are
/// constants of the graph, or were made on the way to some and are none any
/// more; likewise what it reads.
struct FoldedNode {
  std::string name, opType; // of ai.onnx
  AttributeMap attributes;
  std::vector<std::string> operands, results; // "": absent
};

/// What a pass may rely on; kept as "offload.form".
enum class Form { Imported, Planned, Scheduled };
llvm::StringRef formName(Form form);
std::optional<Form> parseForm(llvm::StringRef name);

class Graph {
public:
  Graph();
  ~Graph();
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  std::string name = "graph";
  int64_t irVersion = 10;
  std::map<std::string, int64_t> opsets; // domain -> version, "offload" -> 1
  Form form = Form::Imported;
  /// Model properties "offload.X" that belong to no node, value, insert or
  /// state (budget, target, peak, scratch), and every foreign property.
  std::map<std::string, std::string> modelProperties;
  /// "offload.insert.<node>", in name order: nodes still to be inserted.
  std::map<std::string, Properties> inserts;
  /// "offload.value.<name>" of values that inserts will make (form Planned).
  std::map<std::string, Properties> plannedValues;
  /// "offload.state.<input>" = output, in name order.
  std::map<std::string, std::string> states;
  /// What import folded of constants that are read as data, in order: how to
  /// make them anew from the model's own. Kept as a function of the file.
  std::vector<FoldedNode> folded;
  /// Folder of the source file: external data is relative to it.
  std::string sourceFolder;
  /// The source file itself, which no output may replace; empty where there is
  /// none.
  std::string sourcePath;
  std::string producerName, producerVersion, docString;
  /// The file holds a plan, and `--dim` gave other bounds than it was made for:
  /// the plan is to be stripped. Not kept in files.
  bool planIsStale = false;

  // Walks. Do not erase or insert nodes while walking by these but through
  // nodeList() iterators.
  std::list<Node> &nodeList() { return nodes; }
  const std::list<Node> &nodeList() const { return nodes; }
  llvm::ArrayRef<Value *> inputs() const { return graphInputs; }
  llvm::ArrayRef<Value *> outputs() const { return graphOutputs; }
  /// Constants in the order in which they were added.
  llvm::ArrayRef<Value *> initializers() const { return constants; }

  Value *findValue(llvm::StringRef name) const;
  Node *findNode(llvm::StringRef name) const;
  /// `stem`, or `stem_2`, ... : a name that no value (node) has yet.
  std::string uniqueValueName(llvm::StringRef stem) const;
  std::string uniqueNodeName(llvm::StringRef stem) const;

  /// Names must be unused (asserted).
  Value *addInput(llvm::StringRef name, TensorType type, TensorData data = {});
  Value *addInitializer(llvm::StringRef name, TensorType type, TensorData data);
  void addOutput(Value *value);
  /// A state whose next value was only this output follows.
  void setOutput(unsigned index, Value *value);
  /// Removes the last output with that value; the value stays.
  void removeOutput(Value *value);
  /// Inserts before `before` (end of the list: nullptr). Result types are left
  /// undefined. An empty result name makes an absent result. A node of domain
  /// `offload` gets its row; others get since-version and row by the caller.
  Node *addNode(llvm::StringRef name, llvm::StringRef domain,
                llvm::StringRef opType, llvm::ArrayRef<Value *> operands,
                llvm::ArrayRef<std::string> resultNames,
                Node *before = nullptr);
  /// The node's results must have no users and be no outputs (asserted).
  void eraseNode(Node *node);
  /// Erases an input, initializer or dead value with no users that is no
  /// output (asserted).
  void eraseValue(Value *value);
  void moveBefore(Node *node, Node *before);
  /// All readers and graph outputs of `from` get `to`; `except` keeps its own.
  void replaceAllUses(Value *from, Value *to, Node *except = nullptr);
  /// States and properties that name the value follow.
  void renameValue(Value *value, llvm::StringRef name);
  /// No insert may name the node (form Imported).
  void renameNode(Node *node, llvm::StringRef name);
  bool isOutput(const Value *value) const;

  /// Broken invariant as an error: order is topological, users are right,
  /// names unique, states pair an input with an output, inserts name nodes.
  llvm::Error verify() const;

private:
  Value *addValue(llvm::StringRef name);
  void dropValue(Value *value);

  std::list<Node> nodes;
  std::vector<std::unique_ptr<Value>> values;
  llvm::StringMap<Value *> valuesByName;
  llvm::StringMap<Node *> nodesByName;
  llvm::SmallVector<Value *, 8> graphInputs, graphOutputs;
  std::vector<Value *> constants;
};

/// One-line error with exit code 1: `offload-opt: error: <message>`.
llvm::Error makeError(const llvm::Twine &message);

} // namespace offload

#endif // OFFLOAD_IR_GRAPH_H
