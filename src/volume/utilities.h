// How the plugins of a node run their utilities (mount helpers, mkfs, fsck, rbd): what stands
// behind Host::exec and Host::helper_mounts. src/cmd chooses the way; the node agent knows none.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/event_sink.h"
#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "volume/helper_mounts.h"
#include "volume/host_way.h"
#include "volume/paths.h"

namespace berth::volume {

class Utilities {
 public:
  virtual ~Utilities() = default;

  // The way of `plugin` ("kubernetes.io/glusterfs"), wherever that leads at each run. It lives as
  // long as this.
  virtual platform::Exec& For(std::string_view plugin) = 0;
  // Only in the pod that is registered for `plugin`, never on the host. FAILED_PRECONDITION where
  // there is none that runs; nothing was run then.
  virtual platform::Exec& InPod(std::string_view plugin) = 0;
  virtual HelperMounts& helper_mounts() = 0;

  // Ends the runs in pods that go on, and every later one, with CANCELLED: nobody waits for them.
  virtual void CancelRuns() {}
  // Takes away what this keeps on the machine. Nothing runs any more.
  virtual void Close() {}
};

// What a node gives to its Utilities. Borrowed, but for the strings; outlives them.
struct UtilitySurroundings {
  std::string data_folder;   // of the node agent alone, for records
  std::string cri_endpoint;  // as for rpc::CriClient
  const Paths& paths;
  platform::Mounter& mounter;
  base::EventSink& events;
  base::ObjectReference node;  // which events are about
};

using MakeUtilities =
    std::function<base::StatusOr<std::unique_ptr<Utilities>>(const UtilitySurroundings&)>;

// The plain way: all on this host.
std::unique_ptr<Utilities> NewHostUtilities(platform::Mounter& mounter, const HostWay& way = {});

}  // namespace berth::volume
