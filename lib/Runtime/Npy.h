// The array format of numpy as bytes, shared by .npy files and .npz members.

#ifndef OFFLOAD_LIB_RUNTIME_NPY_H
#define OFFLOAD_LIB_RUNTIME_NPY_H

#include "offload/Runtime/Npy.h"

#include <functional>
#include <ostream>
#include <string>
#include <string_view>

namespace offload::rt {

/// Throws Error without the file's name.
Tensor decodeNpy(std::string_view bytes);

/// Everything before the elements.
std::string npyHeader(const Tensor &tensor);

/// The tensor as numpy can hold it: 4-bit elements become 8-bit ones.
Tensor asNumpyType(const Tensor &tensor);

/// A whole file. Throws Error.
std::string readWholeFile(const std::string &path);

/// Lets `write` fill a file of a temporary name beside `path`, then gives it
/// the name. Throws Error.
void replaceFile(const std::string &path,
                 const std::function<void(std::ostream &)> &write);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_NPY_H
