#include "controllers/blockoperator/uses.h"

#include <algorithm>

namespace berth::controllers::blockoperator {

using base::StatusCode;
using base::StatusOr;

StatusOr<std::string> Uses::FindUser(const std::string& volume) const {
  // If the API does not serve a kind, the absence of its objects says nothing.
  RETURN_IF_ERROR(fences_.CheckListed());
  RETURN_IF_ERROR(cleanups_.CheckListed());
  const auto fence = kube::Get<api::VolumeFence>(client_, "", volume);
  if (fence.ok()) {
    const auto entries = fence->entries();
    if (entries.empty()) return fmt::format("VolumeFence '{}' still exists", volume);
    return fmt::format("pod '{}/{}' on node '{}' may use it (VolumeFence '{}')",
                       entries.front().pod_namespace, entries.front().pod, entries.front().node,
                       volume);
  }
  if (fence.status().code() != StatusCode::kNotFound) return fence.status();
  // An entry is written to a NodeCleanup before it leaves its fence. So no entry is missed if
  // NodeCleanups are listed after the fence was read.
  const auto list = client_.List(api::kinds::kNodeCleanup, "", {});
  RETURN_IF_ERROR(list);
  for (const base::Json& item : list->items) {
    const api::NodeCleanup cleanup(item);
    const auto entries = cleanup.entries();
    if (std::none_of(entries.begin(), entries.end(),
                     [&](const api::CleanupEntry& entry) { return entry.volume == volume; })) {
      continue;
    }
    // A node that never returns removes no entry. The entry is removed after the volume is gone.
    const auto gone = proofs_.ProveGone(cleanup.name());
    if (gone.ok()) continue;
    if (gone.status().code() != StatusCode::kFailedPrecondition) return gone.status();
    return fmt::format("node '{}' still has to take it off (NodeCleanup '{}'): {}", cleanup.name(),
                       cleanup.name(), base::Message(gone.status()));
  }
  return std::string();
}

}  // namespace berth::controllers::blockoperator
