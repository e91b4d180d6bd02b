#include "rbd/cluster.h"

#include <errno.h>
#include <fmt/ranges.h>
#include <rbd/librbd.h>

#include <utility>
#include <vector>

#include "base/log.h"
#include "rbd/rbd_error.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

std::vector<std::pair<const char*, std::string>> Options(const ClusterSettings& settings, Use use) {
  const std::string patience = std::to_string(kPatience.count());
  return {
      {"mon_host", fmt::format("{}", fmt::join(settings.monitors, ","))},
      {"key", settings.key},
      {"keyring", ""},
      {"client_mount_timeout", patience},
      {"rados_mon_op_timeout", patience},
      {"rados_osd_op_timeout", use == Use::kCall ? patience : "0"},
      // Nothing of the library reaches a file, a socket or a terminal.
      {"log_file", ""},
      {"log_to_stderr", "false"},
      {"err_to_stderr", "false"},
      {"log_to_syslog", "false"},
      {"clog_to_monitors", "false"},
      {"admin_socket", ""},
      {"debug_auth", "0/0"},
      {"debug_monc", "0/0"},
      {"debug_ms", "0/0"},
      // Each write that was answered is in the cluster, so that a fence loses nothing that its user
      // was told is written.
      {"rbd_cache", "false"},
      // Where librbd itself breaks the lock of a client that died, it fences that client before.
      // The one of Ceph 16 fails to, so that Berth does it before librbd finds such a lock
      // (dead_client.h).
      {"rbd_blocklist_on_break_lock", "true"},
      {"rbd_blocklist_expire_seconds", std::to_string(kBlocklistSeconds)},
      {"rbd_move_to_trash_on_remove", "false"},
      {"rbd_default_format", "2"},
  };
}

base::Status ConnectError(int result, const ClusterSettings& settings) {
  const std::string monitors = Quote(fmt::format("{}", fmt::join(settings.monitors, ",")));
  switch (-result) {
    case EPERM:
    case EACCES:
    case ENOENT:
      return Error(StatusCode::kPermissionDenied,
                   "the monitors {} refuse user {} with the key of the Secret: compare it with "
                   "`ceph auth get client.{}`",
                   monitors, Quote(settings.user), settings.user);
    case ETIMEDOUT:
      return Error(StatusCode::kUnavailable, "none of the monitors {} answered within {} s",
                   monitors, kPatience.count());
    default:
      return RbdError(result, fmt::format("connect to the monitors {}", monitors));
  }
}

}  // namespace

base::StatusOr<std::unique_ptr<Cluster>> Cluster::Connect(const ClusterSettings& settings,
                                                          Use use) {
  std::unique_ptr<Cluster> made(new Cluster());
  made->pool_ = settings.pool;
  const std::string user = "client." + settings.user;
  if (const int result = rados_create2(&made->cluster_, "ceph", user.c_str(), 0); result < 0) {
    return RbdError(result, "make a client of the cluster");
  }
  for (const auto& [name, value] : Options(settings, use)) {
    if (const int result = rados_conf_set(made->cluster_, name, value.c_str()); result < 0) {
      // Never with the value, which may be the key.
      return RbdError(result, fmt::format("set the option '{}' of the Ceph client", name));
    }
  }
  if (const int result = rados_connect(made->cluster_); result < 0) {
    return ConnectError(result, settings);
  }
  made->client_id_ = rados_get_instance_id(made->cluster_);
  char* addresses = nullptr;
  if (const int result = rados_getaddrs(made->cluster_, &addresses); result < 0) {
    return RbdError(result, "read the own address");
  }
  made->address_ = addresses;
  rados_buffer_free(addresses);
  RETURN_IF_ERROR(made->OpenPool(settings));
  return made;
}

base::Status Cluster::OpenPool(const ClusterSettings& settings) {
  if (const int result = rados_ioctx_create(cluster_, pool_.c_str(), &io_); result < 0) {
    if (result == -ENOENT) {
      return Error(StatusCode::kNotFound, "the cluster has no pool {}", Quote(pool_));
    }
    return RbdError(result, fmt::format("open pool {}", Quote(pool_)));
  }
  // Without this, an operation on a full pool waits until there is space.
  rados_set_pool_full_try(io_);
  if (settings.pool_namespace.empty()) return base::OkStatus();
  bool exists = false;
  const int result = rbd_namespace_exists(io_, settings.pool_namespace.c_str(), &exists);
  if (result < 0) {
    return RbdError(result, fmt::format("look for namespace {} in pool {}",
                                        Quote(settings.pool_namespace), Quote(pool_)));
  }
  if (!exists) {
    return Error(StatusCode::kNotFound, "pool {} has no namespace {}", Quote(pool_),
                 Quote(settings.pool_namespace));
  }
  rados_ioctx_set_namespace(io_, settings.pool_namespace.c_str());
  return base::OkStatus();
}

Cluster::~Cluster() {
  if (io_ != nullptr) rados_ioctx_destroy(io_);
  if (cluster_ != nullptr) rados_shutdown(cluster_);
}

}  // namespace berth::rbd
