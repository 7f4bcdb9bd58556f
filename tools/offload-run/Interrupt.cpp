// Ends the program cleanly on Ctrl-C (SIGINT).
//
// How: the signal is blocked on every thread, and one thread of its own
//      waits for it: no code runs in a signal handler, so nothing is
//      interrupted halfway. That thread is detached; it lives as long as the
//      process, and so must the guard.

#include "Interrupt.h"

#include <csignal>
#include <cstdlib>
#include <thread>

#include <unistd.h>

namespace offload::run {

namespace {

sigset_t interruptSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  return signals;
}

} // namespace

InterruptGuard::InterruptGuard() {
  sigset_t signals = interruptSignal();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([this] { listen(); }).detach();
}

void InterruptGuard::listen() {
  sigset_t signals = interruptSignal();
  int signal = 0;
  while (sigwait(&signals, &signal) == 0) {
    std::lock_guard lock(mutex);
    if (interrupted.exchange(true) || !session)
      std::_Exit(kInterruptedExitCode);
    session->interrupt();
  }
}

void InterruptGuard::setSession(rt::Session *running) {
  std::lock_guard lock(mutex);
  session = running;
}

void InterruptGuard::check() const {
  if (interrupted)
    throw Interrupted();
}

} // namespace offload::run
