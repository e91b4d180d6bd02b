// A node's loop devices that show images of one store. Each device carries a label (lo_file_name),
// which identifies it without a record, and distinguishes it from devices of other agents on the
// same kernel.
//
// Thread-safe; the caller makes sure that at most one call for an image runs at a time. Every call
// into an image's file system runs in a child process with a deadline.
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
    std::string store;   // distinguishes the images of different stores
    std::string folder;  // the files that the devices show are below it, each named as its image
  };
  // `mounter` is borrowed.
  LoopMappings(Options options, platform::Mounter& mounter);

  // The devices of an image: this node's, and others that show a file of the same name.
  struct Found {
    std::optional<Mapping> mine;
    std::vector<platform::LoopEntry> others;
  };
  // FAILED_PRECONDITION: two devices of this node show the image.
  base::StatusOr<Found> Find(const std::string& image) const;
  base::StatusOr<std::vector<Mapping>> ListMappings() const;

  // Attaches `file` to a loop device. The kernel keeps the locks of `file` as long as the device is
  // attached.
  base::StatusOr<Mapping> Attach(const base::UniqueFd& file, const std::string& image,
                                 bool read_only) const;
  // DATA_LOSS: the device is detached, or attached to something else by now. Makes no call into a
  // file system.
  base::Status Check(const Mapping& mapping) const;
  // Gives the device the present size of its file. NOT_FOUND: it no longer is that mapping.
  base::StatusOr<Mapping> Refresh(const Mapping& mapping) const;
  // OK if the device is no longer that mapping. FAILED_PRECONDITION: something has it open.
  base::Status Detach(const Mapping& mapping) const;
  // Makes writes fail: shuts down the file system that is mounted from the device, and takes the
  // device's sectors away. The kernel then detaches the device when its last user closes it.
  // FAILED_PRECONDITION, DEADLINE_EXCEEDED: neither was possible, so its users may still write.
  base::Status ForceDetach(const Mapping& mapping, std::chrono::milliseconds patience) const;

  // The identity of the file that the device shows. This class must have made `mapping`.
  static platform::FileIdentity BackingOf(const Mapping& mapping);

 private:
  std::string LabelOf(std::string_view image) const;
  bool IsMine(const platform::LoopEntry& entry, std::string_view image) const;
  base::StatusOr<Mapping> ToMapping(const platform::LoopEntry& entry, std::string_view image) const;

  const Options options_;
  platform::Mounter& mounter_;
};

}  // namespace berth::block
