// Reads and writes numpy's files: one array (.npy), or several by name (.npz).
//
// Element types are those of numpy; bfloat16 is read and written as the 2-byte
// void that numpy writes for it, 4-bit outputs are written as 8-bit integers.
// All functions throw Error with the file's name. Writing makes a file under a
// temporary name and renames it, so a failure leaves nothing.

#ifndef OFFLOAD_RUNTIME_NPY_H
#define OFFLOAD_RUNTIME_NPY_H

#include "offload/Runtime/Tensor.h"

#include <string>

namespace offload::rt {

/// Versions 1 to 3, C or Fortran order, either byte order.
Tensor readNpy(const std::string &path);

/// The arrays of a .npz, stored or deflated, by their names without ".npy".
TensorMap readNpz(const std::string &path);

void writeNpy(const std::string &path, const Tensor &tensor);

/// Stored, not compressed.
void writeNpz(const std::string &path, const TensorMap &tensors);

/// The name that every file is written under before it takes that of `path`;
/// of this process alone.
std::string nameWhileWritten(const std::string &path);

} // namespace offload::rt

#endif // OFFLOAD_RUNTIME_NPY_H
