// What an API serves: its kinds, by its own discovery documents.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kube/client.h"

namespace berth::kube {

// A kind that an API serves. One that Berth knows by itself (api/kind_info.h) has that row.
class ServedKind {
 public:
  // `resource` is an entry of a version in an APIGroupDiscoveryList.
  static std::shared_ptr<const ServedKind> FromDiscovery(std::string_view group,
                                                         std::string_view version,
                                                         const Json& resource);
  ServedKind(const ServedKind&) = delete;
  ServedKind& operator=(const ServedKind&) = delete;

  // Lives as long as this.
  const api::KindInfo& info() const { return *info_; }
  bool HasVerb(std::string_view verb) const;

 private:
  ServedKind() = default;

  // What own_ borrows.
  std::string group_, version_, kind_, plural_, singular_;
  std::vector<std::string> verbs_, short_names_;
  api::KindInfo own_;
  const api::KindInfo* info_ = nullptr;
};

using ServedKinds = std::vector<std::shared_ptr<const ServedKind>>;

// Every resource once, in its group's preferred version. Two requests (aggregated discovery);
// UNIMPLEMENTED where the API knows only the older documents.
StatusOr<ServedKinds> DiscoverKinds(Client& client);

}  // namespace berth::kube
