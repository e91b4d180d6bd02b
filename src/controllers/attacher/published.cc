#include "controllers/attacher/published.h"

namespace berth::controllers::attacher {

using base::StatusOr;

StatusOr<PublishedNodes> ListPublished(DriverConnection& driver, int max_entries,
                                       std::chrono::milliseconds timeout, Pages pages) {
  PublishedNodes published;
  csi::v1::ListVolumesRequest request;
  request.set_max_entries(max_entries);
  while (true) {
    ASSIGN_OR_RETURN(const csi::v1::ListVolumesResponse page,
                     driver.Call(&rpc::CsiClient::ListVolumes, request, timeout));
    for (const auto& entry : page.entries()) {
      const auto& nodes = entry.status().published_node_ids();
      published[entry.volume().volume_id()].insert(nodes.begin(), nodes.end());
    }
    if (page.next_token().empty()) return published;
    RETURN_IF_ERROR(pages.TurnPage(page.next_token()));
    request.set_starting_token(page.next_token());
  }
}

}  // namespace berth::controllers::attacher
