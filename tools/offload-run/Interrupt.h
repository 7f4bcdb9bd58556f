// Ends the program cleanly on Ctrl-C (SIGINT).

#ifndef OFFLOAD_TOOLS_OFFLOAD_RUN_INTERRUPT_H
#define OFFLOAD_TOOLS_OFFLOAD_RUN_INTERRUPT_H

#include "offload/Runtime/Session.h"

#include <atomic>
#include <mutex>
#include <stdexcept>

namespace offload::run {

inline constexpr int kInterruptedExitCode = 130;

class Interrupted : public std::runtime_error {
public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// From its construction on, a signal ends the run in progress, and `check`
/// turns it into an exception; a second signal, and the first one outside of a
/// scope, ends the process at once (files are renamed when whole, so none is
/// left half-written). Construct it before any other thread starts: threads
/// inherit the mask of signals.
class InterruptGuard {
public:
  InterruptGuard();

  /// Throws Interrupted where a signal has come.
  void check() const;
  bool wasInterrupted() const { return interrupted; }

  /// While it lives, a signal ends the session's runs.
  class Scope {
  public:
    Scope(InterruptGuard &guard, rt::Session &session) : guard(guard) {
      guard.setSession(&session);
    }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;
    ~Scope() { guard.setSession(nullptr); }

  private:
    InterruptGuard &guard;
  };

private:
  void listen();
  void setSession(rt::Session *running);

  std::atomic<bool> interrupted = false;
  std::mutex mutex;
  rt::Session *session = nullptr; // of the scope
};

} // namespace offload::run

#endif // OFFLOAD_TOOLS_OFFLOAD_RUN_INTERRUPT_H
