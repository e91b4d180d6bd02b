// Emptying a namespace: what to delete in it, and what is left.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kube/discovery.h"

namespace berth::controllers::namespaces {

// What one pass over a namespace found.
struct Content {
  // What could not be looked at or deleted, and why, sorted.
  std::vector<std::string> failures;
  // Left, by "RESOURCE.GROUP" (as Kubernetes writes it, with the dot also for the core group).
  std::map<std::string, size_t> remaining;
  std::map<std::string, size_t> finalizers;  // how many objects each holds

  bool empty() const { return failures.empty() && remaining.empty(); }
};

// Asks for the end of everything in `ns`, pods first: as long as one is left, what it may use
// stays. Objects that are being deleted already are waited for.
Content DeleteContent(kube::Client& client, const kube::ServedKinds& kinds, const std::string& ns);

}  // namespace berth::controllers::namespaces
