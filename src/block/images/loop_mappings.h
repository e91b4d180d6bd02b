// A node's loop devices that show images of one store. Each carries a label, so that it is known
// again without a record, and told from those of others that use the same kernel.
//
// Thread-safe; the caller serialises per image. Whatever asks an image's file system runs in a
// child with a deadline.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "block/backend.h"
#include "platform/devices/loop_table.h"
#include "platform/mounts/mounter.h"

namespace berth::block {

class LoopMappings {
 public:
  struct Options {
    std::string node;
    std::string store;   // what tells one store's images from another's
    std::string folder;  // the files that the devices show are below it, each named as its image
  };
  // `mounter` is borrowed.
  LoopMappings(Options options, platform::Mounter& mounter);

  // The devices of an image: this node's, and others that show a file of the same name.
  struct Found {
    std::optional<Mapping> mine;
    std::vector<platform::LoopEntry> others;
  };
  base::StatusOr<Found> Find(const std::string& image) const;
  base::StatusOr<std::vector<Mapping>> All() const;

  // Shows `file`, whose locks the kernel keeps as long as the device.
  base::StatusOr<Mapping> Attach(const base::UniqueFd& file, const std::string& image,
                                 bool read_only) const;
  // DATA_LOSS: the device is another attachment by now, or none. Asks no file system.
  base::Status Check(const Mapping& mapping) const;
  base::StatusOr<Mapping> Refresh(const Mapping& mapping) const;
  // OK if the device is no longer that mapping. FAILED_PRECONDITION: something has it open.
  base::Status Detach(const Mapping& mapping) const;
  // Lets writes fail, by shutting down what is mounted of it and by taking the device's sectors
  // away, and has the kernel detach it with its last user. FAILED_PRECONDITION: neither could be.
  base::Status Force(const Mapping& mapping, std::chrono::milliseconds patience) const;

  // Which file the device shows, of a mapping of this class.
  static platform::FileIdentity BackingOf(const Mapping& mapping);

 private:
  std::string LabelOf(std::string_view image) const;
  bool IsMine(const platform::LoopEntry& entry, std::string_view image) const;
  base::StatusOr<Mapping> ToMapping(const platform::LoopEntry& entry, std::string_view image) const;

  const Options options_;
  platform::Mounter& mounter_;
};

}  // namespace berth::block
