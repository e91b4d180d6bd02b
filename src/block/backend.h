// A storage cluster's back end: where images are, and how one becomes a device of this node.
//
// Images are known by their name, which Create is given and which becomes part of paths and export
// names: lower-case letters, digits, '-' and '.', at most 253 bytes (a PersistentVolume's name).
//
// The second fence: a mapping holds a lock of the image for as long as the kernel has the device,
// whatever becomes of the process that made it: exclusive for a writer, shared for readers. So
// HasLock tells whether somebody may still write, where the back end can know that.
//
// All calls are idempotent and have an end: whatever may hang runs in a child with a deadline.
// Thread-safe; two calls for one image exclude each other.
//
// Failures: UNIMPLEMENTED where a back end cannot do that at all, with what to do instead.
// UNAVAILABLE, DEADLINE_EXCEEDED: the outcome is unknown. DATA_LOSS: the image is not the recorded
// one, and is not touched.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::block {

struct ImageInfo {
  std::string name;
  int64_t size_bytes = 0;
  std::string snapshot_of;  // of a snapshot: the image; else empty
};

struct NewImage {
  std::string name;
  int64_t size_bytes = 0;
  std::string source;  // an image or snapshot of the same back end to copy; empty: blank
};

struct MapOptions {
  bool read_only = false;
  // Several nodes may write at once: the image holds a file system that is made for that.
  bool shared_writers = false;
};

// A device of this node that shows an image.
struct Mapping {
  std::string image;
  std::string device;  // "/dev/loop3", "/dev/nbd0"
  uint64_t device_number = 0;
  int64_t size_bytes = 0;
  bool read_only = false;
  // What the back end needs to know it again after a restart; opaque, kept in the agent's record.
  base::Json state = base::Json::object();
};

class Backend {
 public:
  virtual ~Backend() = default;

  // --- The images; where the images are reached (the operator) ---

  // The image, made now or before, grown since or not. ALREADY_EXISTS: one that was made with
  // another size or source.
  virtual base::StatusOr<ImageInfo> Create(const NewImage& wanted) = 0;
  // OK also for one that does not exist. FAILED_PRECONDITION: it has a lock.
  virtual base::Status Delete(const std::string& image) = 0;
  // A consistent copy that never changes. FAILED_PRECONDITION: it is written to at present.
  virtual base::StatusOr<ImageInfo> CreateSnapshot(const std::string& image,
                                                   const std::string& snapshot) = 0;
  // At least `size_bytes`; the device follows by Refresh on its node.
  virtual base::StatusOr<ImageInfo> Grow(const std::string& image, int64_t size_bytes) = 0;
  virtual base::StatusOr<std::vector<ImageInfo>> List() = 0;

  // --- The fence ---

  // Whether some node has the image mapped. UNIMPLEMENTED: this back end cannot know.
  virtual base::StatusOr<bool> HasLock(const std::string& image) = 0;
  // Shuts a node out for good, so that nothing it sends later is written. UNIMPLEMENTED: it cannot.
  virtual base::Status Fence(const std::string& image, const std::string& node) = 0;

  // --- A file system in the making ---

  // Notes with the image, durably, which file system is being made in it, and was never mounted:
  // whoever has the image next, on whatever node, may make it anew. Empty: none is any more.
  // UNIMPLEMENTED: this back end keeps nothing with its images.
  virtual base::Status NoteFormatting(const std::string& image, const std::string& uuid) = 0;
  // Its UUID; empty: none. Counts only while the image is mapped for writing here: else another may
  // be using it by now. UNIMPLEMENTED as above.
  virtual base::StatusOr<std::string> Formatting(const std::string& image) = 0;

  // --- The devices of this node ---

  // The device that shows the image, made if there is none. FAILED_PRECONDITION: its lock is
  // another's. Never gives a device that shows anything else.
  virtual base::StatusOr<Mapping> Map(const std::string& image, const MapOptions& options) = 0;
  // nullopt: it is not mapped here.
  virtual base::StatusOr<std::optional<Mapping>> FindMapping(const std::string& image) = 0;
  // All of this node.
  virtual base::StatusOr<std::vector<Mapping>> Mappings() = 0;
  // Whether the device still carries the image's blocks. DATA_LOSS: it does not and will not; what
  // has become of it and what to do, in words for people. Any other failure says nothing of that.
  virtual base::Status Check(const Mapping& mapping);
  // Gives the device the image's size of now; the mapping with it.
  virtual base::StatusOr<Mapping> Refresh(const Mapping& mapping) = 0;
  // OK if it is not mapped. FAILED_PRECONDITION: something has the device open.
  virtual base::Status Unmap(const Mapping& mapping) = 0;
  // Whatever has it open, and though the back end does not answer: writes fail from then on.
  // `patience` is how long it may take by itself; then its utility is sent SIGINT.
  virtual base::Status ForceUnmap(const Mapping& mapping, std::chrono::milliseconds patience) = 0;
};

// DATA_LOSS, of Check.
base::Status NoLongerShown(const Mapping& mapping);

// What all back ends are made with; borrowed.
struct BackendParts {
  platform::Exec& exec;
  platform::Mounter& mounter;
  // Where `berth io-proxy` of this node listens; empty: there is none.
  std::string proxy_socket;
  // This node: devices that another node's agent made on the same kernel, as in a test, are not
  // taken for its own.
  std::string node;
};

// Of a StorageCluster's spec.backend: an object of one member, which names the type.
//   {"images": {"folder": "/srv/pool", "access": "Loop" | "Proxy"}}
//   {"nbd": {"server": "10.0.0.5:10809" | "unix:/run/nbd.sock", "folder": "/srv/exports",
//            "access": "Kernel" | "Proxy" | "Auto"}}
//       `folder` is where the images are, for Create and the like; empty: made at the server
// INVALID_ARGUMENT names the member that is wrong.
base::StatusOr<std::unique_ptr<Backend>> OpenBackend(const base::Json& settings,
                                                     const BackendParts& parts);

}  // namespace berth::block
