// The calls that make, grow, list and describe images (block/backend.h says what each gives).
//
// All calls are idempotent. The caller makes one call at a time for an image, because only one
// operator is the leader; a second one at the same time can make either fail, but neither gives a
// half made image. Names are checked by the caller (cluster_settings.h).
#pragma once

#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "rbd/cluster.h"

namespace berth::rbd {

struct ImageInfo {
  std::string name;
  int64_t size_bytes = 0;
  std::string snapshot_of;  // of a snapshot: the image; else empty
};

struct NewImage {
  std::string name;
  int64_t size_bytes = 0;  // rounded up to 4096, which the device of a volume needs
  std::string source;      // the image or snapshot to copy; "": none
  api::NodeName node;      // this one
};

// ALREADY_EXISTS: made with another size or source, or not made by Berth. NOT_FOUND: there is no
// such source. FAILED_PRECONDITION: the source may be written to now. OUT_OF_RANGE: the source is
// larger.
base::StatusOr<ImageInfo> CreateImage(const Cluster& cluster, const NewImage& wanted);

struct NewSnapshot {
  std::string image;   // of which it is
  std::string name;    // its own
  api::NodeName node;  // this one
};

// Also of an image that is served: the serving process then makes the snapshot between two writes.
// ALREADY_EXISTS: `wanted.name` is an image, or a snapshot of another one. NOT_FOUND: there is no
// such image. FAILED_PRECONDITION: its user does not answer, or is the kernel's driver.
base::StatusOr<ImageInfo> CreateSnapshot(const Cluster& cluster, const NewSnapshot& wanted);

// Also of an image that is served: the serving process then carries it out. NOT_FOUND: there is no
// such image. FAILED_PRECONDITION: it is a snapshot, or its user does not answer.
base::StatusOr<ImageInfo> GrowImage(const Cluster& cluster, const std::string& image,
                                    int64_t size_bytes, const api::NodeName& node);

// The images and snapshots that Berth made in this pool and that are complete.
base::StatusOr<std::vector<ImageInfo>> ListImages(const Cluster& cluster);

struct ImageDetails {
  ImageInfo info;
  std::string features;  // "layering,exclusive-lock,..."
};
// Of any image of the pool. NOT_FOUND: there is none.
base::StatusOr<ImageDetails> DescribeImage(const Cluster& cluster, const std::string& image,
                                           const api::NodeName& node);

// A note that is part of the image: the UUID of the file system that mkfs is making; "": none.
// It can be written while another process has the lock of the image. NOT_FOUND: there is no image.
base::Status NoteFormatting(const Cluster& cluster, const std::string& image,
                            const std::string& uuid);
base::StatusOr<std::string> ReadFormatting(const Cluster& cluster, const std::string& image);

}  // namespace berth::rbd
