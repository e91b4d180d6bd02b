// The token with which a list continues after its last page. It is opaque to clients and has the
// same form as Kubernetes' token.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "store/store.h"

namespace berth::apiserver {

struct ContinueToken {
  // Stands for the current revision: the list continues, but its pages are of several revisions.
  static constexpr store::Revision kNow = -1;

  store::Revision revision = kNow;  // the revision that the list shows
  std::string start;  // the list continues after this key, which is without the list's prefix
  std::optional<int64_t> remaining = {};  // how many objects follow, if that was counted
};

std::string EncodeContinue(const ContinueToken& token);
// 400 if `text` is not a continue token.
base::StatusOr<ContinueToken> DecodeContinue(std::string_view text);

}  // namespace berth::apiserver
