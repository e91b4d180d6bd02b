// Functions that wait, with a watch, until the caller's condition is true for an object or for the
// objects of a kind.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "api/object.h"
#include "kube/client.h"

namespace berth::cli {

// Calls `done` on this thread with the object (nullopt: it does not exist) now and after each
// change, until it returns true. DEADLINE_EXCEEDED after `timeout`; CANCELLED on `stop`. Starts a
// broken watch again, also while the API does not answer for a time. Other errors come from the
// API; UNAVAILABLE only from the first call.
base::Status WaitFor(kube::Client& client, const api::KindInfo& kind, const std::string& ns,
                     const std::string& name, std::chrono::milliseconds timeout,
                     std::stop_token stop,
                     const std::function<bool(const std::optional<api::Object>&)>& done);

// Calls `done` now and after each change of the kind's objects that `which` selects, in all
// namespaces, until it returns true. Returns the same errors as WaitFor, but never UNAVAILABLE.
base::Status WaitForChange(kube::Client& client, const api::KindInfo& kind,
                           const kube::ListOptions& which, std::chrono::milliseconds timeout,
                           std::stop_token stop, const std::function<bool()>& done);

}  // namespace berth::cli
