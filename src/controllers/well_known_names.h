// The annotations, finalizers and other fixed names by which Kubernetes' storage controllers talk
// through objects. They are an interface: other programs read and write the same ones.
#pragma once

#include <string>
#include <string_view>

namespace berth::controllers {

// Annotations of claims.
inline constexpr std::string_view kBindCompleted = "pv.kubernetes.io/bind-completed";
inline constexpr std::string_view kStorageProvisioner = "volume.kubernetes.io/storage-provisioner";
inline constexpr std::string_view kBetaStorageProvisioner =
    "volume.beta.kubernetes.io/storage-provisioner";
inline constexpr std::string_view kSelectedNode = "volume.kubernetes.io/selected-node";

// An annotation of claims and volumes: absent means that a person bound them.
inline constexpr std::string_view kBoundByController = "pv.kubernetes.io/bound-by-controller";

// Annotations of volumes.
inline constexpr std::string_view kProvisionedBy = "pv.kubernetes.io/provisioned-by";
inline constexpr std::string_view kMigratedTo = "pv.kubernetes.io/migrated-to";

// Annotations of classes.
inline constexpr std::string_view kDefaultClass = "storageclass.kubernetes.io/is-default-class";
inline constexpr std::string_view kBetaDefaultClass =
    "storageclass.beta.kubernetes.io/is-default-class";

// An annotation of nodes, and taints of nodes.
inline constexpr std::string_view kManagedAttachDetach =
    "volumes.kubernetes.io/controller-managed-attach-detach";
inline constexpr std::string_view kOutOfServiceTaint = "node.kubernetes.io/out-of-service";
inline constexpr std::string_view kNotReadyTaint = "node.kubernetes.io/not-ready";
inline constexpr std::string_view kUnreachableTaint = "node.kubernetes.io/unreachable";
inline constexpr std::string_view kUnschedulableTaint = "node.kubernetes.io/unschedulable";
inline constexpr std::string_view kMemoryPressureTaint = "node.kubernetes.io/memory-pressure";
inline constexpr std::string_view kDiskPressureTaint = "node.kubernetes.io/disk-pressure";
inline constexpr std::string_view kPidPressureTaint = "node.kubernetes.io/pid-pressure";
inline constexpr std::string_view kNetworkUnavailableTaint =
    "node.kubernetes.io/network-unavailable";

// Finalizers of an owner that is being deleted: its dependents are deleted first, or released
// first.
inline constexpr std::string_view kForegroundDeletion = "foregroundDeletion";
inline constexpr std::string_view kOrphan = "orphan";

// Finalizers of claims and of volumes: the object stays while a pod uses the claim, or while the
// volume is bound.
inline constexpr std::string_view kClaimProtection = "kubernetes.io/pvc-protection";
inline constexpr std::string_view kVolumeProtection = "kubernetes.io/pv-protection";

// "external-attacher/" and the driver's name: on VolumeAttachments and PersistentVolumes.
std::string AttacherFinalizer(std::string_view driver);

// On a claim of the block operator from before its image is made until its PersistentVolume is
// bound, because an image may exist that no object names. The binder removes it with the write that
// binds; the operator removes it if another binder bound the claim. Older versions of the CSI
// provisioner set it, too, and the present one removes it (provisioner/attempts.h).
inline constexpr std::string_view kProvisioningFinalizer = "storage.berth.dev/provisioning";

}  // namespace berth::controllers
