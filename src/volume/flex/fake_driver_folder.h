// A driver folder on disk for tests, and the acts of an installer.
#pragma once

#include <string>
#include <string_view>

#include "platform/files/fake_temp_folder.h"

namespace berth::volume {

class FakeDriverFolder {
 public:
  FakeDriverFolder();

  // The path of the folder "vendor~driver", or of a file in it.
  std::string operator/(std::string_view path) const { return path_ + "/" + std::string(path); }
  const std::string& path() const { return path_; }

  // Writes the file under a dot name and renames it: "vendor~driver/driver".
  void Put(std::string_view path, std::string_view content, unsigned mode = 0755) const;
  // A script that prints `says`, as the executable of the folder "vendor~driver".
  void Install(std::string_view folder, std::string_view says) const;
  // Moves a file or folder away, or to another place in the folder.
  void Remove(std::string_view path) const;
  void MoveDriver(std::string_view from, std::string_view to) const;

 private:
  const platform::TempFolder temp_;
  const std::string path_;
};

// What the program at `path` prints; fails the test if it does not run.
std::string OutputOf(const std::string& path);

// The number of descriptors of this process.
int OpenDescriptors();
int InotifyWatches();

}  // namespace berth::volume
