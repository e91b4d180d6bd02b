// What one claim's provisioning amounts to: the CreateVolume request, and the PersistentVolume that
// its answer becomes. Pure: whatever has to be read was read before.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "controllers/driver_connection.h"
#include "controllers/provisioner/class_parameters.h"
#include "controllers/provisioner/options.h"
#include "controllers/provisioner/topology.h"
#include "proto/csi.pb.h"

namespace berth::controllers::provisioner {

// The name of the volume for a claim, in the driver and as PersistentVolume: "pvc-<uid>".
std::string VolumeName(const Options& options, const api::PersistentVolumeClaim& claim);

struct PlanInputs {
  const Options& options;
  const DriverInfo& driver;
  const api::PersistentVolumeClaim& claim;
  const api::StorageClass& storage_class;
  std::optional<csi::v1::TopologyRequirement> topology;
  std::optional<csi::v1::VolumeContentSource> source;
  api::Labels mutable_parameters;
};

struct Plan {
  std::string volume_name;
  std::string fs_type;  // "" for block volumes, or left to the driver
  bool read_only = false;
  std::map<SecretUse, api::SecretReference> secrets;  // those that the class names
  csi::v1::CreateVolumeRequest request;               // without secrets

  // The reference for `use`, empty if the class names none.
  api::SecretReference secret(SecretUse use) const;
};

// INVALID_ARGUMENT if claim or class cannot be served.
base::StatusOr<Plan> MakePlan(const PlanInputs& inputs);

// OK if the driver's answer is what was asked for; OUT_OF_RANGE if it is smaller,
// FAILED_PRECONDITION if its content is not from the source, or its place not one of those asked
// for.
base::Status CheckAnswer(const Plan& plan, const csi::v1::Volume& volume);

// The PersistentVolume for the driver's answer; `identity` tells which provisioner made it.
api::PersistentVolume VolumeObject(const Plan& plan, const PlanInputs& inputs,
                                   const csi::v1::Volume& volume, const std::string& identity);

// What a failed CreateVolume means for the claim.
enum class FailureState {
  kFinished,      // no volume exists; asked again later
  kInBackground,  // it may exist: the same call again
  kReschedule,    // no volume here: the scheduler is to choose another node
  kInfeasible,    // no volume, and none unless something changes: asked again seldom
};
FailureState Classify(base::StatusCode code, bool can_reschedule);

// What is known of a claim's volume before CreateVolume is called.
enum class Earlier {
  kNone,       // none exists: never asked for, or refused
  kSameCall,   // the very same call was made, and its outcome is not known
  kInherited,  // an earlier process began, and nobody here knows with what call
};
// Whether a CreateVolume that failed with `code` proves that no volume of the claim's exists.
//
// ALREADY_EXISTS never does: one stands under the claim's name, and is not what was asked for.
// After a call with unknown outcome only those codes do with which CSI says that this very request
// cannot be: had it made a volume, its repetition would have to be answered with OK.
// RESOURCE_EXHAUSTED (the caller may be throttled), PERMISSION_DENIED, INTERNAL and the like can
// come from a driver that did not even look for the volume.
bool ProvesNoVolume(base::StatusCode code, Earlier earlier);

// Finalizer and annotations that the provisioner sets on volumes.
inline constexpr std::string_view kVolumeFinalizer =
    "external-provisioner.volume.kubernetes.io/finalizer";
inline constexpr std::string_view kDeletionSecretName =
    "volume.kubernetes.io/provisioner-deletion-secret-name";
inline constexpr std::string_view kDeletionSecretNamespace =
    "volume.kubernetes.io/provisioner-deletion-secret-namespace";
inline constexpr std::string_view kModifySecretName =
    "volume.kubernetes.io/controller-modify-secret-name";
inline constexpr std::string_view kModifySecretNamespace =
    "volume.kubernetes.io/controller-modify-secret-namespace";
inline constexpr std::string_view kIdentityAttribute =
    "storage.kubernetes.io/csiProvisionerIdentity";

}  // namespace berth::controllers::provisioner
