// offload-run: runs a .off file.
//
// In:  a .off file, values of its inputs and states.
// Out: outputs, states, statistics and a timeline. Exit code 0; 1 with one line
//      on standard error; 130 when interrupted.

#include "Run.h"

#include <iostream>

using namespace offload::run;

int main(int argc, char **argv) {
  // Never destroyed: its thread outlives main.
  static InterruptGuard &guard = *new InterruptGuard;
  try {
    std::optional<Arguments> arguments = parseArguments(argc, argv);
    return arguments ? runFile(*arguments, guard) : 0;
  } catch (const std::exception &error) {
    if (guard.wasInterrupted())
      return kInterruptedExitCode;
    std::cerr << "offload-run: error: " << error.what() << "\n";
    return 1;
  }
}
