// The kinds that a person names: those that Berth knows by itself, and those that the API serves
// beyond them (custom resources), which it is asked for when one is named.
#pragma once

#include <string_view>

#include "api/kind_info.h"
#include "base/status.h"
#include "kube/client.h"
#include "kube/discovery.h"

namespace berth::cli {

// Not thread-safe. What it finds lives as long as it does.
class KindFinder {
 public:
  explicit KindFinder(kube::Client& client) : client_(client) {}  // borrowed

  // By plural, singular, short name or kind, ignoring case, with an optional ".GROUP" behind it.
  // INVALID_ARGUMENT names what is known.
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
