// Records how a utility made each mount. A record is written before the mount is made, so that its
// unmount goes the same way, even after a restart of the agent.
//
//   <data_folder>/helper-mounts/<sha256 of target>.json
//
// Thread-safe for different targets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "volume/exec/pod_container.h"

namespace berth::volume {

struct MountRecord {
  std::string target;
  std::string plugin;
  std::optional<PodContainer> container;  // nullopt: it was mounted on the host
  // The run of the utility in the container, as long as it may be running (container_exec.h).
  std::string run_id = "";
};

class MountRecords {
 public:
  explicit MountRecords(std::string folder) : folder_(std::move(folder)) {}

  // Makes the folder, sets damaged records aside (record_files.h), and removes interrupted writes
  // and the records of mounts from another boot. Call it first.
  base::Status LoadRecords();

  base::Status Write(const MountRecord& record);
  // nullopt: no such mount was made, or it was made in another boot, or its record was damaged and
  // is now set aside. RESOURCE_EXHAUSTED: the record cannot be read now.
  base::StatusOr<std::optional<MountRecord>> Read(std::string_view target) const;
  base::Status Remove(std::string_view target);

 private:
  std::string FileOf(std::string_view target) const;

  const std::string folder_;
  std::string boot_;
};

}  // namespace berth::volume
