// The fence that the storage itself enforces, and who may write to an image.
//
//   1. the records say which clients of the cluster the dead node has for this image
//   2. their addresses are recorded, then put on the blocklist; the OSD map that has them is
//   awaited
//   3. their lock is broken; a lock of any other client stays
//
// Whoever fences may be frozen between the look at who uses the volume by right and the fence. So
// that it then fences no newer client, it lists the clients (ListFenceTargets) before it looks, and
// has exactly those fenced: an address is of one run of one client, and no later one gets it.
//
// An OSD refuses each operation of a client on the blocklist from the moment when it has that map.
// The next user of the image sends the map's number with each operation, and an OSD that has an
// older map fetches the new one before it answers. So nothing that the next user has read or
// written changes afterwards.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "rbd/cluster.h"

namespace berth::rbd {

struct Holder {
  std::string address;
  api::NodeName node;  // "": not a client of Berth
  bool alive = false;  // it has answered the cluster in the last half minute
};

// Who has the image's exclusive lock, or has opened it for writing; not this client, nor calls.
// NOT_FOUND: there is no such image.
base::StatusOr<std::vector<Holder>> ListHolders(const Cluster& cluster, const std::string& image,
                                                const api::NodeName& node);

// Which of the node's clients to fence.
enum class FenceOf {
  kAll,     // the node is dead
  kServers  // a process of this node that served the image for writing, and that this one succeeds
};

struct FenceOptions {
  FenceOf which = FenceOf::kAll;
  // Of ListFenceTargets: only those of them that still are clients of the node. nullopt: all.
  std::optional<std::vector<std::string>> only;
};

// What FenceNode would fence now. OK also if there is no such image.
base::StatusOr<std::vector<std::string>> ListFenceTargets(const Cluster& cluster,
                                                          const std::string& image,
                                                          const api::NodeName& target);

// Fences all clients that `target` has for the image, except this one. Returns the addresses of
// `target` that are on the blocklist because of this image, also those of earlier calls. OK also if
// it has none, or if there is no such image.
base::StatusOr<std::vector<std::string>> FenceNode(const Cluster& cluster, const std::string& image,
                                                   const api::NodeName& target,
                                                   const FenceOptions& options = {});

// Takes addresses that FenceNode put on the blocklist for `target` off it again; with none given,
// all. The caller knows that no process of the node that had one of them lives any more: a process
// that never noticed its fence would write again. PERMISSION_DENIED: the user may only add to the
// blocklist.
base::Status UnfenceNode(const Cluster& cluster, const api::NodeName& target,
                         const std::vector<std::string>& addresses);

// The addresses, by node, that FenceNode put on the blocklist and UnfenceNode has not removed.
base::StatusOr<std::map<std::string, std::vector<std::string>>> ListFencedNodes(
    const Cluster& cluster);

}  // namespace berth::rbd
