// `berth block-agent`: attaches the volumes of storage clusters on its node, behind a thin
// Flexvolume driver.
//
//   start           records are read ─▶ socket ─▶ the driver goes into the plugin folder, as a new
//                   file, which the kubelet finds and asks for its init ─▶ mounts are served
//   while it runs   each volume on record is compared with fence, pods and image: at start, when
//                   its VolumeFence or PersistentVolume changes, after a failure, and every minute
//
// Its death takes nothing along: mounts and devices are the kernel's, and the next one goes on by
// the records.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/event_sink.h"
#include "base/status.h"
#include "blockagent/attachments.h"
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
  // Where the kubelet looks for drivers; empty: found (volume/flex/plugin_folder.h).
  std::string plugin_folder;
  std::string driver_executable;  // berth-flex
  // Where the node's file system begins, for the plugin folder alone: "" but in a container.
  std::string host_root;
  std::string proxy_socket;  // of `berth io-proxy`; empty: there is none
  std::chrono::milliseconds resync = std::chrono::minutes(1);
  // How long the Lease of a Node that is gone has to stay as it is until that node counts as
  // silent; longer where the Lease says so.
  std::chrono::milliseconds node_silence = kLeaseTime;
};

class Agent {
 public:
  // Borrows all; `make_backend` null: block::OpenBackend.
  static base::StatusOr<std::unique_ptr<Agent>> Start(AgentOptions options, kube::Client& client,
                                                      base::EventSink& events,
                                                      const base::Clock& clock,
                                                      MakeBackend make_backend);
  // Waits for what runs; mounts stay.
  virtual ~Agent() = default;

  // UNAVAILABLE: the driver's handshake has not been made.
  virtual base::Status Health() const = 0;
  virtual Attachments& attachments() = 0;
};

}  // namespace berth::blockagent
