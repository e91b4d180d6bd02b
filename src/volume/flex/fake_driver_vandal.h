// Changes a driver folder at random, as bad installers would. Its drivers check whether they are
// complete.
#pragma once

#include <atomic>
#include <random>
#include <string>
#include <string_view>

#include "volume/flex/fake_driver_folder.h"

namespace berth::volume {

class FakeDriverVandal {
 public:
  static constexpr int kDrivers = 5;
  // "v.example/d3".
  static std::string DriverName(int number);

  // A driver whose digest is not its own adds its name to the file `partial`, and fails. Borrows
  // the folder.
  FakeDriverVandal(const FakeDriverFolder& folder, std::string partial, unsigned seed);

  // Creates, renames, deletes, links, changes the mode, writes in part, replaces a folder or all. A
  // closed file under an executable's name, which anyone may run, is complete; an open one is not.
  // Of several vandals of a folder only one changes a driver at a time.
  void Change();

 private:
  int Choose(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  void ChangeDriver(const std::string& name);
  void Link(const std::string& path) const;
  void Write(const std::string& path, unsigned mode, bool slowly);
  void Away(const std::string& path) const;

  const FakeDriverFolder& folder_;
  const std::string partial_;
  std::mt19937 random_;
};

// A driver that mounts a tmpfs: for each pod or, if it attaches, as a device that pods share. Its
// last line is the digest of everything before it.
std::string SelfCheckingDriver(int version, bool attaches, std::string_view partial,
                               size_t padding);

}  // namespace berth::volume
