// Runs the utilities of a node's plugins (mount helpers, mkfs, fsck, rbd): the implementation of
// Host::exec and Host::helper_mounts. src/cmd chooses it; the node agent does not know which one it
// is. Thread-safe.
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

  // The Exec of `plugin` ("kubernetes.io/glusterfs"), which decides at each run whether it goes to
  // a pod or to the host. It lives as long as this object.
  virtual platform::Exec& GetExec(std::string_view plugin) = 0;
  // Runs only in the pod that is registered for `plugin`, never on the host. FAILED_PRECONDITION if
  // no such pod runs; nothing was run then.
  virtual platform::Exec& GetPodExec(std::string_view plugin) = 0;
  virtual HelperMounts& helper_mounts() = 0;

  // Ends running and later runs in pods with CANCELLED, because the process ends and no caller
  // waits for them. What runs on this host goes on: the next agent finds a mount that a helper is
  // making.
  virtual void CancelRuns() {}
  // Removes what this object keeps on the machine. Call it when nothing runs any more.
  virtual void Close() {}
};

// The objects and folders of a node that its Utilities use. The references are borrowed, and what
// they refer to outlives the Utilities.
struct UtilitySurroundings {
  // The node agent's own, for records. Empty: nothing calls helper_mounts().
  std::string data_folder;
  std::string cri_endpoint;  // as for rpc::CriClient
  const Paths& paths;
  platform::Mounter& mounter;
  base::EventSink& events;
  base::ObjectReference node;  // the subject of events
};

using MakeUtilities =
    std::function<base::StatusOr<std::unique_ptr<Utilities>>(const UtilitySurroundings&)>;

// The simple implementation: everything runs on this host.
std::unique_ptr<Utilities> NewHostUtilities(platform::Mounter& mounter, const HostWay& way = {});

}  // namespace berth::volume
