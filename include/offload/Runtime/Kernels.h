// The seam to LibTorch: one kernel for each compute row of the operator table.
//
// Nothing of LibTorch shows here, so the code around it builds fast and under
// every sanitizer. A kernel is a function of its operands that makes its
// outputs by requests to an allocator. profileKernel runs it once on memory of
// its own and learns which request makes which output and how much scratch the
// others take at once; runKernel then serves the same requests from the planned
// places.

#ifndef OFFLOAD_RUNTIME_KERNELS_H
#define OFFLOAD_RUNTIME_KERNELS_H

#include "offload/OffFormat/Operators.h"
#include "offload/OffFormat/ShapeArithmetic.h"
#include "offload/Runtime/KernelPlace.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace offload::rt {

/// Operand or output as memory. `strides` in elements; for 4-bit types the
/// view is contiguous and `data` packed.
struct TensorView {
  void *data = nullptr;
  DataType type = DataType::Undefined; // Undefined: absent
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
};

struct KernelCall {
  Op op{};
  int sinceVersion = 1;
  const AttributeMap *attributes = nullptr;
  std::vector<TensorView> operands;
  /// Same length as operands: the value of a launch operand, else null.
  std::vector<const HostValue *> launch;
  unsigned numOutputs = 1;
  /// Same length as outputs; empty: all wanted. One that is not wanted has no
  /// place, so the profile counts it as scratch.
  std::vector<bool> wanted;
  KernelPlace place;
  /// Of Device::allocateShared, or null: a kernel on a device that finds an
  /// index out of range uses the nearest one and sets this to 1.
  int32_t *problem = nullptr;
  /// Scratch that the plan gives the call, or -1: any. Libraries that have
  /// several algorithms take one that needs no more.
  int64_t plannedScratchBytes = -1;
  /// False: where choosesAlgorithm() holds, a library may take the algorithm
  /// that it finds fastest, also one whose bits differ from run to run.
  bool deterministic = true;
};

struct OutputProfile {
  DataType type = DataType::Undefined;
  std::vector<int64_t> dims;
  /// The request that makes this output's storage, or -1 where no request does
  /// (the result is then copied into its place).
  int request = -1;
};

struct KernelProfile {
  std::vector<OutputProfile> outputs;
  unsigned requests = 0;
  int64_t scratchBytes = 0; // high-water mark of all other requests
};

/// Whether a kernel is bound to the row (a test walks the whole table).
bool hasKernel(Op op);

/// Runs the kernel on `call` with outputs in memory of its own. Operand memory
/// must be readable and hold valid values (ids in range). Throws Error without
/// the node's name. Call from the thread that will run the kernel. On a device
/// the kernel is only launched, and runs in its stream's order.
KernelProfile profileKernel(const KernelCall &call);

/// Runs the kernel with each output at `places[i]` (null: not wanted, scratch
/// is used) and all other requests inside [scratch, scratch + scratchBytes).
/// Throws Error where a request does not fit or differs from the profile. An
/// output place may be an operand's (in-place) where the row allows it.
void runKernel(const KernelCall &call, const KernelProfile &profile,
               std::span<void *const> places, void *scratch,
               int64_t scratchBytes);

/// Whether a library chooses between algorithms in the row's form for devices:
/// KernelCall::deterministic then has a say.
bool choosesAlgorithm(Op op);

/// Whether the row has another form for devices than for the host.
bool hasDeviceForm(Op op);

/// Makes what LibTorch's libraries keep for the calling thread and the place's
/// stream: handles and workspaces. Kernels do so themselves where nobody has;
/// then it is in no plan.
void warmUpKernels(const KernelPlace &place, const KernelLibraries &libraries);

/// Keeps the place's stream busy for at least `ns`.
void spinOn(const KernelPlace &place, int64_t ns);

/// Threads that one kernel may use (ATen's intra-op pool).
void setKernelThreads(int threads);

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_KERNELS_H
