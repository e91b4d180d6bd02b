// The feature gates that each Go sidecar takes in --feature-gates besides those of its own. They
// are there because the sidecars link k8s.io/apiserver/pkg/server, whose packages add their gates
// to the set that the flag sets. They change how an API server works, and nothing in a sidecar.
#pragma once

#include <span>
#include <string_view>

namespace berth::cmd {

struct LibraryGate {
  enum class Lock { kNone, kOn, kOff };  // a locked gate can be set to this value only

  std::string_view name;
  Lock lock = Lock::kNone;
};

std::span<const LibraryGate> LibraryGates();
// Returns nullptr if the library has no such gate.
const LibraryGate* FindLibraryGate(std::string_view name);

}  // namespace berth::cmd
