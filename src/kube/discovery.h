// Finds out which kinds an API serves, from its discovery documents.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kube/client.h"

namespace berth::kube {

// A kind that an API serves. For a kind that Berth knows itself (api/kind_info.h), info() is
// Berth's own row.
class ServedKind {
 public:
  // Makes a kind from `resource`, an entry of `version` in an APIGroupDiscoveryList.
  static std::shared_ptr<const ServedKind> FromDiscovery(std::string_view group,
                                                         std::string_view version,
                                                         const Json& resource);
  ServedKind(const ServedKind&) = delete;
  ServedKind& operator=(const ServedKind&) = delete;

  // The result lives as long as this object.
  const api::KindInfo& info() const { return *info_; }
  // Whether the API serves the verb, such as "list", for this kind.
  bool HasVerb(std::string_view verb) const;

 private:
  ServedKind() = default;

  // own_ borrows these.
  std::string group_, version_, kind_, plural_, singular_;
  std::vector<std::string> verbs_, short_names_;
  api::KindInfo own_;
  const api::KindInfo* info_ = nullptr;
};

using ServedKinds = std::vector<std::shared_ptr<const ServedKind>>;

// Reads all kinds that the API serves by two requests (aggregated discovery). Each resource of a
// group comes once, in the first version of the group that has it. UNIMPLEMENTED: the API has only
// the older discovery documents.
StatusOr<ServedKinds> DiscoverKinds(Client& client);

}  // namespace berth::kube
