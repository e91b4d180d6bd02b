// The queues of the controllers that stand in for Kubernetes' CSI sidecars. Each of these queues
// has the name of the Go program's queue in the metrics (base/workers/queue_metrics.h):
//
//   queue                      in the Go program
//   ------------------------   ----------------------------
//   provision, clone-source    claims
//   delete-volume              volumes
//   capacity                   csistoragecapacity
//   attach                     csi-attacher-va
//   attach-volumes             csi-attacher-pv
//   resize, modify             DRIVER-pvc
//   snapshot                   csi-snapshotter-content
//   snapshots                  snapshot-controller-snapshot
//   snapcontents               snapshot-controller-content
//   groupsnapshot              csi-snapshotter-groupsnapshotcontent
//   groupsnapshots             snapshot-controller-group-snapshot
//   groupsnapcontents          snapshot-controller-group-content
//
// The metrics of a queue that the Go programs lack are not counted.
#pragma once

#include <string>
#include <string_view>

#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"

namespace berth::controllers {

// The name of the Go program's queue for `queue`, as above; "": it has none, or its name contains
// the driver's and `driver` is "".
std::string GoQueueName(std::string_view queue, std::string_view driver = "");

// The options of the queue `name` with the retries of `options`. `driver` is the driver's name if
// it is known.
template <typename Options>
base::KeyedWorkers::Options MakeQueueOptions(const char* name, int workers, const Options& options,
                                             const Context& context, std::string_view driver = "") {
  return {.name = name,
          .workers = workers,
          .retry_start = options.retry_start,
          .retry_max = options.retry_max,
          .flight = context.flight,
          .metrics = context.metrics,
          .metrics_name = GoQueueName(name, driver)};
}

}  // namespace berth::controllers
