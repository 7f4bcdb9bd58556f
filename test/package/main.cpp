// Runs a .off file through the installed library: every input is all zeros,
// each output's name and element count is printed.

#include "offload/Runtime/Session.h"

#include <cstdio>
#include <cstring>
#include <exception>

static void runOnZeros(const char *path) {
  auto session = offload::rt::Session::load(path, {});
  offload::rt::TensorMap feeds;
  for (const offload::rt::ValueInfo &input : session->inputs()) {
    auto zeros = offload::rt::Tensor::allocate(input.type, input.dims);
    std::memset(zeros.bytes.get(), 0, zeros.sizeBytes());
    feeds[input.name] = zeros;
  }
  for (const auto &[name, tensor] : session->run(feeds))
    std::printf("%s %lld\n", name.c_str(),
                static_cast<long long>(tensor.numElements()));
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: outside MODEL.off\n");
    return 2;
  }
  try {
    runOnZeros(argv[1]);
  } catch (const std::exception &error) {
    std::printf("refused: %s\n", error.what());
    return 1;
  }
  return 0;
}
