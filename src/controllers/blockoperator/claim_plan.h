// The plan for a claim of a block class: an image, and the PersistentVolume that names it. Pure.
//
// Class parameters:
//   cluster                              the StorageCluster; required
//   csi.storage.k8s.io/fstype or fsType  the file system; ext4 without it
#pragma once

#include <optional>
#include <string>

#include "api/kinds/block_kinds.h"
#include "base/status.h"
#include "block/backend.h"

namespace berth::controllers::blockoperator {

// On a PersistentVolume with policy Delete until its image is gone.
inline constexpr std::string_view kImageFinalizer = "storage.berth.dev/image";
// On a claim, with the provisioning finalizer: the cluster in which its image may have been made.
inline constexpr std::string_view kBegunIn = "storage.berth.dev/cluster";

// The name of the claim's PersistentVolume and of its image.
std::string VolumeName(const api::PersistentVolumeClaim& claim);

struct ClassSettings {
  std::string cluster;
  std::string fs_type;
};

// INVALID_ARGUMENT says what is wrong with the class.
base::StatusOr<ClassSettings> ReadClass(const api::StorageClass& storage_class);

struct Plan {
  ClassSettings settings;
  block::NewImage image;  // without source
  base::Json affinity;    // a NodeSelector; null: all nodes reach the volume
};

// INVALID_ARGUMENT: the claim asks for something that these volumes cannot provide.
base::StatusOr<Plan> MakePlan(const api::PersistentVolumeClaim& claim,
                              const api::StorageClass& storage_class,
                              const api::StorageCluster& cluster);

// The PersistentVolume for the image, bound to the claim by its claimRef. Its name is that of
// `plan.image`, also if the back end gave the image a longer one.
api::PersistentVolume VolumeObject(const Plan& plan, const api::PersistentVolumeClaim& claim,
                                   const api::StorageClass& storage_class,
                                   const block::ImageInfo& image);

}  // namespace berth::controllers::blockoperator
