// The folder in which a driver is tested.
//
// It is a folder like a kubelet's, so that a driver that interprets its paths works as usual. The
// destructor removes everything in it: processes of the driver, mounts, loop devices, files. Needs
// root.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "volume/paths.h"

namespace berth::volume {

class Scratch {
 public:
  // Makes the folder below `parent`, which exists.
  static base::StatusOr<std::unique_ptr<Scratch>> Make(const std::string& parent);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& folder() const { return folder_; }
  const Paths& paths() const { return paths_; }
  platform::Mounter& mounter() { return *mounter_; }
  // The mark for the environment of everything that the driver starts.
  const std::string& mark() const { return mark_; }

  base::StatusOr<std::vector<platform::MountEntry>> FindMounts(const std::string& folder);

  // The processes, mounts and loop devices that the driver made and that still exist: "process 123
  // (sleep)", "tmpfs mounted at /x", "/dev/loop3 on /x/y.img". The functions first wait some
  // seconds for processes and loop devices that are about to disappear.
  base::StatusOr<std::vector<std::string>> ListProcesses() const;
  base::StatusOr<std::vector<std::string>> ListMounts();
  base::StatusOr<std::vector<std::string>> ListLoopDevices() const;

 private:
  Scratch(std::string folder, std::string mark);
  bool IsWithin(const std::string& path) const;

  const std::string folder_;
  const std::string mark_;
  const Paths paths_;
  const std::unique_ptr<platform::Mounter> mounter_;
};

}  // namespace berth::volume
