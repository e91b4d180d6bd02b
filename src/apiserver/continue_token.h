// The token by which a list goes on where its last page ended: opaque to clients, the same as
// Kubernetes'.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "store/store.h"

namespace berth::apiserver {

struct ContinueToken {
  store::Revision revision = 0;  // of the snapshot that the list shows; 0: whatever is now
  std::string start;             // the key, behind the list's prefix, after which to go on
};

std::string EncodeContinue(const ContinueToken& token);
// 400 for what is not a token of ours.
base::StatusOr<ContinueToken> DecodeContinue(std::string_view text);

}  // namespace berth::apiserver
