// Deletes the objects in a namespace, and reports those that are left.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kube/discovery.h"

namespace berth::controllers::namespaces {

// What one pass over a namespace found.
struct Content {
  // The kinds that could not be listed or deleted, and why, sorted.
  std::vector<std::string> failures;
  // How many objects are left, by "RESOURCE.GROUP" (as Kubernetes writes it, with the dot also for
  // the core group).
  std::map<std::string, size_t> remaining;
  std::map<std::string, size_t> finalizers;  // how many objects each holds

  bool empty() const { return failures.empty() && remaining.empty(); }
};

// Deletes all objects in `ns`, pods first. While a pod is left, the objects that it may use stay.
// Does not wait: objects whose deletion has not ended count as remaining. Failures are in the
// result.
Content DeleteContent(kube::Client& client, const kube::ServedKinds& kinds, const std::string& ns);

}  // namespace berth::controllers::namespaces
