// The owners and dependents of the API's objects, by uid, as the garbage collector remembers them.
//
// Only objects that have owners, that are owners, or whose end waits for the collector are kept.
// Each takes a few hundred bytes, whatever its size is. An owner that a reference names and that
// was not seen yet is not `present`; only the API can tell whether it exists.
//
// Each change returns the uids that the collector must check. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/object.h"
#include "kube/discovery.h"

namespace berth::controllers::ownergc {

using KindPtr = std::shared_ptr<const kube::ServedKind>;
using Uids = std::vector<std::string>;

struct GraphNode {
  bool present = false;  // seen, and its deletion was not seen
  KindPtr kind;          // this and the rest of the object: if present
  std::string ns;
  std::string name;
  std::vector<api::OwnerReference> owners;
  bool deleting = false;
  bool foreground = false;  // finalizer: dependents go first
  bool orphan = false;      // finalizer: dependents are released first
  uint64_t list = 0;        // the last list that it was in
  std::set<std::string> dependents;

  // Whether the object is deleted only after its dependents.
  bool waits_for_dependents() const { return present && deleting && foreground; }
};

class Graph {
 public:
  // An object as the API has it now. `list` numbers the list that it came with; 0: with none.
  Uids Put(const KindPtr& kind, const api::Object& object, uint64_t list = 0);
  // The object is gone.
  Uids Remove(const std::string& uid);
  // Removes the objects of a kind that were not in list `list`.
  Uids RemoveUnlisted(const api::KindInfo& kind, uint64_t list);
  // Objects of the kind cannot be watched any more, so it is not known whether they are gone.
  void Forget(const api::KindInfo& kind);

  const GraphNode* Find(const std::string& uid) const;
  // Whether all parts of `reference`, of an object in `ns`, name the object `owner`.
  static bool NamesOwner(const api::OwnerReference& reference, std::string_view ns,
                         const GraphNode& owner);
  // Whether all owners are present and stay, so that there is nothing to collect.
  bool AllOwnersStay(const GraphNode& node) const;
  // The dependents that block the deletion of an owner that waits for them.
  Uids BlockingDependents(const std::string& uid) const;
  size_t size() const { return nodes_.size(); }

 private:
  // Clears all that the node knows about an object, except its dependents.
  void Clear(const std::string& uid, Uids& to_check);
  void SetOwners(const std::string& uid, std::vector<api::OwnerReference> owners, Uids& to_check);
  void DropIfUnused(const std::string& uid);

  std::unordered_map<std::string, GraphNode> nodes_;
};

}  // namespace berth::controllers::ownergc
