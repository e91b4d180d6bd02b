// Copies of an image that share its data: clones (version 2) of a snapshot of librbd, which is
// removed at once and so is in librbd's trash as long as the clone needs it. A Berth snapshot is
// such a clone, so that its name alone finds it, and so that its image can be deleted before it.
#pragma once

#include <string>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "rbd/cluster.h"

namespace berth::rbd {

// The options with which Berth makes images: format 2, clones of version 2, and the features that
// both librbd and the kernel's driver have.
class ImageOptions {
 public:
  enum Of { kNewImage, kClone };
  explicit ImageOptions(Of of);
  ~ImageOptions();
  ImageOptions(const ImageOptions&) = delete;
  ImageOptions& operator=(const ImageOptions&) = delete;

  void* get() const { return options_; }

 private:
  void* options_ = nullptr;
};

struct NewCopy {
  std::string origin;
  std::string name;
  std::string made_as;     // the name that it gets first
  int64_t size_bytes = 0;  // 0: that of the origin
  api::NodeName node;      // this one
  // The origin may be in use. librbd then has the process that serves it make the snapshot, between
  // two writes, and that process keeps its lock.
  bool in_use = false;
};

// Makes the copy and returns its size. Unless it is `in_use`, the origin is locked meanwhile, so
// that nobody writes to it. NOT_FOUND: there is no origin. OUT_OF_RANGE: it is larger than the
// copy. FAILED_PRECONDITION: somebody may write to it; of one `in_use`: its user cannot make the
// snapshot. After any failure a part of the copy may exist.
base::StatusOr<int64_t> MakeCopy(const Cluster& cluster, const NewCopy& copy);

// Removes what a copy that was not finished left at its origin; OK if there is nothing.
base::Status RemoveCopyPoint(const Cluster& cluster, const NewCopy& copy);

}  // namespace berth::rbd
