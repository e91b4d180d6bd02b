// `berth block-agent`: attaches the volumes of storage clusters on its node, behind a thin
// Flexvolume driver.
//
//   start           records are read ─▶ socket ─▶ the driver goes into the plugin folder, as a new
//                   file, which the kubelet finds and asks for its init ─▶ mounts are served
//   while it runs   each volume on record is compared with fence, pods and image: at start, when
//                   its PersistentVolume changes, when its VolumeFence changes and does not allow a
//                   use of this node, ten seconds after any other change of the fence, after a
//                   failure, and every minute
//   cut off         neither the API nor the storage's lock of a volume answers ─▶ the volume is
//                   taken off before its fence may be broken (self_fence.h)
//
// If the agent dies, mounts and devices stay, because the kernel holds them. The next agent
// continues from the records.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/event_sink.h"
#include "base/status.h"
#include "blockagent/attachments.h"
#include "blockagent/self_fence.h"
#include "kube/client.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::blockagent {

struct AgentOptions {
  std::string node;
  std::string data_folder;  // DATA: records are in DATA/block-agent
  std::string kubelet_folder = "/var/lib/kubelet";
  std::string socket;
  std::vector<std::string> drivers;  // "vendor/driver"
  // The folder where the kubelet looks for drivers; empty: the agent finds it
  // (volume/flex/plugin_folder.h).
  std::string plugin_folder;
  std::string driver_executable;  // berth-flex
  // The path of the node's root file system; only the plugin folder needs it. It is "" unless the
  // agent runs in a container.
  std::string host_root;
  std::string proxy_socket;  // of `berth io-proxy`; empty: there is none
  std::chrono::milliseconds resync = std::chrono::minutes(1);
  // The delay before a volume is compared whose fence changed, and allows all uses of this node.
  std::chrono::milliseconds after_harmless_change = std::chrono::seconds(10);
  // After a Node is gone, its Lease must stay unchanged this long before the node counts as silent;
  // longer if the Lease says so.
  std::chrono::milliseconds node_silence = kLeaseTime;
  // When this node takes its own volumes off because it is cut off (self_fence.h). Nothing: never.
  std::optional<SelfFenceTimes> self_fence = SelfFenceTimes();
};

class Agent {
 public:
  // Starts the threads, serves the socket and installs the drivers. Borrows the objects that it
  // takes by reference; they must outlive the agent. If `make_backend` is null, block::OpenBackend
  // is used. `probe` asks the API whether it answers, and gives each request up within a fifth of
  // options.self_fence->after; null: `client`. Fails if another block agent of this node runs, if a
  // record is damaged, or if the times of self_fence do not fit (INVALID_ARGUMENT).
  static base::StatusOr<std::unique_ptr<Agent>> Start(AgentOptions options, kube::Client& client,
                                                      base::EventSink& events,
                                                      const base::Clock& clock,
                                                      MakeBackend make_backend,
                                                      kube::Client* probe = nullptr);
  // Waits for running calls. Mounts stay.
  virtual ~Agent() = default;

  // UNAVAILABLE: the kubelet has not called the driver's init yet.
  virtual base::Status Health() const = 0;
  virtual Attachments& attachments() = 0;
};

}  // namespace berth::blockagent
