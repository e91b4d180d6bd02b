// The token by which a list goes on where its last page ended: opaque to clients, the same as
// Kubernetes'.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "store/store.h"

namespace berth::apiserver {

struct ContinueToken {
  // The revision of whatever is there now: the list goes on, but not as of one moment.
  static constexpr store::Revision kNow = -1;

  store::Revision revision = kNow;        // of the snapshot that the list shows
  std::string start;                      // the key, behind the list's prefix, after which to go on
  std::optional<int64_t> remaining = {};  // how many objects follow, if that was counted
};

std::string EncodeContinue(const ContinueToken& token);
// 400 for what is not a token of ours.
base::StatusOr<ContinueToken> DecodeContinue(std::string_view text);

}  // namespace berth::apiserver
