// Empties a namespace: deletes the objects in it, and reports those that are left.
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
  // Left, by "RESOURCE.GROUP" (as Kubernetes writes it, with the dot also for the core group).
  std::map<std::string, size_t> remaining;
  std::map<std::string, size_t> finalizers;  // how many objects each holds

  bool empty() const { return failures.empty() && remaining.empty(); }
};

// Deletes all objects in `ns`, pods first. While a pod is left, the objects that it may use stay.
// Objects that are being deleted already are waited for.
Content DeleteContent(kube::Client& client, const kube::ServedKinds& kinds, const std::string& ns);

}  // namespace berth::controllers::namespaces
