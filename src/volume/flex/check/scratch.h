// Where a driver is tested, and what it leaves there.
//
// A folder like a kubelet's, so that a driver which reads its paths is at home. With the object
// goes all that is in it: processes of the driver, mounts, loop devices, files. Needs root.
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
  // Below `parent`, which exists.
  static base::StatusOr<std::unique_ptr<Scratch>> Make(const std::string& parent);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& folder() const { return folder_; }
  const Paths& paths() const { return paths_; }
  platform::Mounter& mounter() { return *mounter_; }
  // For the environment of all that the driver starts.
  const std::string& mark() const { return mark_; }

  base::StatusOr<std::vector<platform::MountEntry>> MountsAt(const std::string& folder);

  // What is there of the driver's: "process 123 (sleep)", "tmpfs mounted at /x", "/dev/loop3 on
  // /x/y.img". Processes and loop devices that are about to go are waited for.
  base::StatusOr<std::vector<std::string>> Processes() const;
  base::StatusOr<std::vector<std::string>> Mounts();
  base::StatusOr<std::vector<std::string>> Loops() const;

 private:
  Scratch(std::string folder, std::string mark);
  bool Within(const std::string& path) const;

  const std::string folder_;
  const std::string mark_;
  const Paths paths_;
  const std::unique_ptr<platform::Mounter> mounter_;
};

}  // namespace berth::volume
