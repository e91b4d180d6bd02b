// Reads the state of pods from the container runtime.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "node/containers/cri_exit_watch.h"
#include "node/containers/pod_runtime.h"
#include "rpc/cri_client.h"

namespace berth::node {

// The timeout of a call that lists or inspects the runtime's sandboxes and containers.
inline constexpr std::chrono::milliseconds kListTimeout{30000};

// The value of a label or annotation; "" if there is none.
template <typename Map>
std::string ValueOf(const Map& map, const char* key) {
  const auto it = map.find(key);
  return it == map.end() ? std::string() : it->second;
}

// By pod uid.
using PodListing = std::map<std::string, PodRuntime>;

// Sorts the pod's sandboxes and containers, the newest first.
void SortNewestFirst(PodRuntime& pod);

// The pod's IP addresses, the primary one first; empty if there is none.
std::vector<std::string> SandboxIps(const rpc::cri::PodSandboxStatus& status);

// Thread-safe.
class CriLister {
 public:
  using Known = std::function<PodRuntime(const std::string& pod_uid)>;
  // `known` returns the last known state of a pod, because details are read only of sandboxes and
  // containers that are new or changed. The first processes of running containers are given to
  // `exits`. `cri` and `exits` are borrowed.
  CriLister(rpc::CriClient& cri, ExitWatch& exits, Known known)
      : cri_(cri),
        exits_(exits),
        known_(std::move(known)),
        started_ns_(
            std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count()) {
  }

  // Lists the pod with this uid, or all pods (""). Sandboxes and containers without a pod's label
  // are left out. A sandbox or container whose details the runtime fails to tell is listed as
  // `unread`, and the others are listed all the same. Errors come from the runtime as a whole.
  base::StatusOr<PodListing> ListPods(const std::string& uid) const;

 private:
  base::Status FillDetails(PodRuntime& pod) const;
  base::Status FillSandbox(SandboxState& sandbox) const;
  base::Status FillContainer(ContainerState& container) const;
  // Gives the container's first process to `exits_`.
  base::Status WatchExit(const ContainerId& container) const;
  // Whether the failure of a call about one sandbox or container says nothing about the runtime.
  bool IsOfObject(const base::Status& failure) const;

  rpc::CriClient& cri_;
  ExitWatch& exits_;
  const Known known_;
  const int64_t started_ns_;  // when this agent began, on the runtime's clock
};

}  // namespace berth::node
