// Gives a volume's content an SELinux label, as `chcon --recursive` does.
//
// The walk runs on several threads and holds every file by descriptor: renaming, swapping for a
// symlink or mounting over during the walk cannot lead it elsewhere. A file that has the label
// already is not written.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace berth::platform {

struct RelabelOptions {
  std::string label;  // USER:ROLE:TYPE[:LEVEL]
  // As in FsGroupOptions (ownership.h).
  std::function<bool()> cancelled;
  std::function<void(uint64_t done)> progress;
  std::chrono::milliseconds progress_interval{std::chrono::seconds(30)};
  std::chrono::milliseconds patience{std::chrono::minutes(2)};
};

// Sets the label (the extended attribute security.selinux) of the folder that the descriptor `root`
// holds (O_PATH is enough) and of everything below it. Symlinks get it themselves and are not
// followed; other mounts inside are left alone. `name` is the root's name in messages.
//
// FAILED_PRECONDITION: the file system keeps no labels, or all its files have the one of its mount.
// CANCELLED: partly done; RESOURCE_EXHAUSTED: folders nested more than 1,000 deep.
// DEADLINE_EXCEEDED, UNAVAILABLE: the file system does not answer (RunLongWork). Other errors name
// the first file that could not be labelled.
base::Status RelabelFiles(int root, const std::string& name, const RelabelOptions& options);

}  // namespace berth::platform
