// Finds the kinds that a person names: those that Berth itself knows, and custom resources, for
// which it asks the API when a word is none of the known kinds.
#pragma once

#include <string_view>

#include "api/kind_info.h"
#include "base/status.h"
#include "kube/client.h"
#include "kube/discovery.h"

namespace berth::cli {

// Not thread-safe. The kinds that it finds live as long as the KindFinder.
class KindFinder {
 public:
  explicit KindFinder(kube::Client& client) : client_(client) {}  // borrowed

  // By plural, singular, short name or kind, ignoring case, with an optional ".GROUP" behind it.
  // INVALID_ARGUMENT lists the kinds that the API serves.
  base::StatusOr<const api::KindInfo*> ByWord(std::string_view word);
  // INVALID_ARGUMENT if there is no such kind.
  base::StatusOr<const api::KindInfo*> OfObject(std::string_view api_version,
                                                std::string_view kind);

 private:
  base::Status Discover();  // once

  kube::Client& client_;
  bool discovered_ = false;
  kube::ServedKinds served_;
};

}  // namespace berth::cli
