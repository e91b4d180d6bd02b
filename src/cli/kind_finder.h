// Finds the kinds that a person names: built-in kinds, and custom resources. It asks the API once,
// for a word that is not a built-in kind.
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

  // Finds a kind by plural, singular, short name or kind, in any case; ".GROUP" may follow.
  // INVALID_ARGUMENT: there is no such kind; the message lists the kinds that the API serves. Other
  // errors come from the API.
  base::StatusOr<const api::KindInfo*> FindByWord(std::string_view word);
  // Finds the kind of an object. INVALID_ARGUMENT: there is no such kind. Other errors come from
  // the API.
  base::StatusOr<const api::KindInfo*> FindForObject(std::string_view api_version,
                                                     std::string_view kind);

 private:
  base::Status LoadServedKinds();  // asks the API, unless it has answered already

  kube::Client& client_;
  bool discovered_ = false;
  kube::ServedKinds served_;
};

}  // namespace berth::cli
