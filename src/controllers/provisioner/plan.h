// The plan to provision one claim: the CreateVolume request, and the PersistentVolume that is made
// from its answer. Pure: the caller has read all inputs before.
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
  const api::StorageClass& claim_class;    // as the API has it
  const api::StorageClass& storage_class;  // as the driver understands it (class_translation.h)
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

// Whether both plans are the same CreateVolume, but for the secrets.
bool IsSameRequest(const Plan& a, const Plan& b);

// OK if the driver's answer is the volume that was asked for. INTERNAL if it has no id,
// OUT_OF_RANGE if it is smaller, FAILED_PRECONDITION if it was not filled from the source, or its
// topology was not asked for.
base::Status CheckAnswer(const Plan& plan, const csi::v1::Volume& volume);

// The PersistentVolume for the driver's answer; `identity` tells which provisioner made it. For a
// class of an in-tree plugin it has the plugin's source; INVALID_ARGUMENT if the plugin could not
// use such a volume.
base::StatusOr<api::PersistentVolume> MakeVolumeObject(const Plan& plan, const PlanInputs& inputs,
                                                       const csi::v1::Volume& volume,
                                                       const std::string& identity);

// What a failed CreateVolume means for the claim.
enum class FailureState {
  kFinished,      // the try has ended; another one is made later
  kInBackground,  // the volume may exist; the same call is made again
  kReschedule,    // the try has ended; the scheduler must choose another node
  kInfeasible,    // no volume is possible unless something changes; tried again seldom
};
// Whether the scheduler could choose another node for the claim.
enum class OtherNodes { kNone, kPossible };
FailureState ClassifyFailure(base::StatusCode code, OtherNodes other_nodes);

// What is known about a claim's volume before CreateVolume is called.
enum class Earlier {
  kNone,       // none exists: it was never asked for, or the driver refused it
  kSameCall,   // the very same call was made, and its outcome is not known
  kInherited,  // an earlier process made a call, and its request is not known
};
// Whether a CreateVolume that failed with `code` proves that no volume for the claim exists.
//
// Every final code of a first call proves it. So does ALREADY_EXISTS there: what has the claim's
// name is another's. After a call with unknown outcome only those codes prove it by which CSI says
// that this request is impossible: if the first call had made a volume, the driver would have to
// answer OK now. RESOURCE_EXHAUSTED (the caller may be throttled), PERMISSION_DENIED, INTERNAL and
// the like can come from a driver that did not even look for the volume.
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
