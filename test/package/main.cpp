// Runs a .off file through the installed library and prints each output's name.

#include "offload/Runtime/Session.h"

#include <cstdio>
#include <cstring>
#include <exception>

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: outside MODEL.off\n");
    return 2;
  }
  try {
    auto session = offload::rt::Session::load(argv[1], {});
    (void)session;
    std::printf("loaded\n");
  } catch (const std::exception &error) {
    std::printf("refused: %s\n", error.what());
    return 1;
  }
  return 0;
}
