// What tests reach inside of a session, and how they load one with an edited
// launch list.

#ifndef OFFLOAD_LIB_RUNTIME_SESSIONPARTS_H
#define OFFLOAD_LIB_RUNTIME_SESSIONPARTS_H

#include "Executor.h"

#include "offload/Runtime/Session.h"

#include <functional>
#include <memory>
#include <string>

namespace offload::rt {

/// Every session that loadSession gives is one of these too.
class SessionParts {
public:
  virtual ~SessionParts() = default;
  virtual const Program &program() const = 0;
  virtual const LaunchList &launchList() const = 0;
  virtual const StepCounts &lastCounts() const = 0; // of the last run
  virtual unsigned numProfiles() const = 0;         // dry runs so far
};

/// Changes the launch list before its proof, which refuses a wrong change
/// unless `skipVerification` is set: then it runs.
using EditLaunchList = std::function<void(LaunchList &, const Program &)>;

/// As Session::load. `edit` may be null.
std::unique_ptr<Session> loadSession(const std::string &path,
                                     const SessionOptions &options,
                                     const EditLaunchList &edit);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_SESSIONPARTS_H
