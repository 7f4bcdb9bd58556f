// Ends the program cleanly on Ctrl-C (SIGINT).

#ifndef OFFLOAD_TOOLS_OFFLOAD_RUN_INTERRUPT_H
#define OFFLOAD_TOOLS_OFFLOAD_RUN_INTERRUPT_H

#include <atomic>
#include <stdexcept>

namespace offload::run {

inline constexpr int kInterruptedExitCode = 130;

class Interrupted : public std::runtime_error {
public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// From its construction on, a signal sets a flag that `check` turns into an
/// exception on any thread; a second signal, and the first one outside of a
/// run, ends the process at once (files are renamed when whole, so none is left
/// half-written). Construct it before any other thread starts: threads inherit
/// the mask of signals.
class InterruptGuard {
public:
  InterruptGuard();

  /// Throws Interrupted where a signal has come.
  void check() const;
  bool wasInterrupted() const { return interrupted; }
  /// Whether a run is in progress, which `check` will end.
  void setRunning(bool value) { running = value; }

private:
  void listen();

  std::atomic<bool> interrupted = false, running = false;
};

} // namespace offload::run

#endif // OFFLOAD_TOOLS_OFFLOAD_RUN_INTERRUPT_H
