#include "controllers/attacher/published.h"

namespace berth::controllers::attacher {

using base::Error;
using base::StatusCode;
using base::StatusOr;

StatusOr<PublishedNodes> ListPublished(DriverConnection& driver, int max_entries,
                                       std::chrono::milliseconds timeout) {
  PublishedNodes published;
  std::set<std::string> tokens;
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
    if (!tokens.insert(page.next_token()).second) {
      return Error(StatusCode::kInternal, "the driver's pages of volumes go in a circle");
    }
    request.set_starting_token(page.next_token());
  }
}

}  // namespace berth::controllers::attacher
