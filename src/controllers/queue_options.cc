#include "controllers/queue_options.h"

#include <fmt/format.h>

namespace berth::controllers {

std::string GoQueueName(std::string_view queue, std::string_view driver) {
  struct Names {
    std::string_view queue;
    std::string_view in_go;  // "": of the driver's claims
  };
  static constexpr Names kNames[] = {
      {"provision", "claims"},
      {"clone-source", "claims"},
      {"delete-volume", "volumes"},
      {"capacity", "csistoragecapacity"},
      {"attach", "csi-attacher-va"},
      {"attach-volumes", "csi-attacher-pv"},
      {"resize", ""},
      {"modify", ""},
      {"snapshot", "csi-snapshotter-content"},
      {"snapshots", "snapshot-controller-snapshot"},
      {"snapcontents", "snapshot-controller-content"},
      {"groupsnapshot", "csi-snapshotter-groupsnapshotcontent"},
      {"groupsnapshots", "snapshot-controller-group-snapshot"},
      {"groupsnapcontents", "snapshot-controller-group-content"},
  };
  for (const Names& names : kNames) {
    if (names.queue != queue) continue;
    if (!names.in_go.empty()) return std::string(names.in_go);
    return driver.empty() ? "" : fmt::format("{}-pvc", driver);
  }
  return "";
}

}  // namespace berth::controllers
