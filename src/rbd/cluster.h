// A connection to a Ceph cluster and one of its pools. No file of the host is read, no socket is
// opened beside those to the cluster, and nothing is logged by the library.
//
// A client of the cluster is one connection of one process: it has a number and an address with a
// nonce that no later client gets. A fence puts that address on the blocklist.
//
// Time: a connection, and for calls each operation on the cluster, has kPatience, so that a monitor
// or an OSD that is not there gives an error within 10 seconds. For a served volume an operation
// has no limit of the library's own: an operation that the library gives up may still be carried
// out later, after a write that its user sent in its place (rbd_store.h says what limits it).
//
// Thread-safe.
#pragma once

#include <rados/librados.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "rbd/cluster_settings.h"

namespace berth::rbd {

inline constexpr std::chrono::seconds kPatience(8);

// How long an entry of the blocklist lasts: 10 years, which is longer than a node stays dead before
// somebody cleans it. UnfenceNode (fence.h) ends an entry before.
inline constexpr uint32_t kBlocklistSeconds = 315360000;

// What the connection is for.
enum class Use { kCall, kServe };

class Cluster {
 public:
  // UNAVAILABLE: no monitor answers. PERMISSION_DENIED: the cluster refuses the user or the key.
  // NOT_FOUND: there is no such pool, or no such namespace in it. INVALID_ARGUMENT: the key or a
  // monitor cannot be parsed.
  static base::StatusOr<std::unique_ptr<Cluster>> Connect(const ClusterSettings& settings, Use use);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  rados_t handle() const { return cluster_; }
  rados_ioctx_t io() const { return io_; }
  const std::string& pool() const { return pool_; }
  // The number of this client, "4242" in "client.4242".
  uint64_t client_id() const { return client_id_; }
  // "10.0.0.7:0/3512387": as a blocklist names it.
  const std::string& address() const { return address_; }

 private:
  Cluster() = default;
  base::Status OpenPool(const ClusterSettings& settings);

  rados_t cluster_ = nullptr;
  rados_ioctx_t io_ = nullptr;
  std::string pool_;
  uint64_t client_id_ = 0;
  std::string address_;
};

}  // namespace berth::rbd
