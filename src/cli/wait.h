// Waits, by watching, until an object or the objects of a kind are as the caller wants them.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "api/object.h"
#include "kube/client.h"

namespace berth::cli {

// Calls `done` with the object's state (nullopt: it is not there) now and after each change, until
// it returns true. DEADLINE_EXCEEDED after `timeout`; CANCELLED on `stop`. A broken watch is made
// anew.
base::Status WaitFor(kube::Client& client, const api::KindInfo& kind, const std::string& ns,
                     const std::string& name, std::chrono::milliseconds timeout,
                     std::stop_token stop,
                     const std::function<bool(const std::optional<api::Object>&)>& done);

// Calls `done` now and after each change of the kind's objects that `which` selects, in all
// namespaces, until it returns true. Fails as WaitFor does.
base::Status WaitForChange(kube::Client& client, const api::KindInfo& kind,
                           const kube::ListOptions& which, std::chrono::milliseconds timeout,
                           std::stop_token stop, const std::function<bool()>& done);

}  // namespace berth::cli
