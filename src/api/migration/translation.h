// CSI migration: the volumes of Kubernetes' old in-tree plugins for AWS EBS, GCE PD, Azure Disk,
// Azure File, OpenStack Cinder, vSphere and Portworx are served by CSI drivers. These functions
// translate classes, PersistentVolumes and inline volumes of such a plugin to those of its driver,
// and PersistentVolumes back.
//
// The rules are those of k8s.io/csi-translation-lib, which kubelet, kube-controller-manager and the
// Go sidecars use: a volume must have one handle, whoever translates it. The tables in testdata/
// hold that library's answers. Errors have its words, because people see them in events; where it
// prints a whole PersistentVolume, they print its name.
//
// Pure. A translated object keeps what has nothing to do with the plugin: name, resourceVersion,
// finalizers. All errors are INVALID_ARGUMENT: the object cannot be translated until somebody
// changes it.
#pragma once

#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "base/status.h"

namespace berth::api::migration {

// The CSI driver that serves the volumes of a plugin ("kubernetes.io/aws-ebs"); "": there is none.
std::string_view DriverOf(std::string_view plugin);
// The plugin whose volumes a CSI driver ("ebs.csi.aws.com") serves; "": it is the driver of none.
std::string_view PluginOf(std::string_view driver);

// Whether the volume has the source of such a plugin.
bool IsMigratable(const PersistentVolume& volume);

// The class for the plugin's CSI driver: its parameters and allowedTopologies are translated. The
// provisioner stays (except for Portworx), as with the library. An error if `plugin` has no driver.
base::StatusOr<StorageClass> TranslateClass(std::string_view plugin,
                                            const StorageClass& storage_class);

// The volume with the CSI source, node affinity and access modes of the plugin's driver. An error
// if IsMigratable is false.
base::StatusOr<PersistentVolume> TranslateToCsi(const PersistentVolume& volume);

// TranslateToCsi if IsMigratable is true, else the volume itself.
base::StatusOr<PersistentVolume> AsCsiVolume(const PersistentVolume& volume);

// The volume with the source of the plugin that its CSI driver replaces, and with the labels and
// node affinity of that plugin. An error if it has no CSI source, or its driver replaces no plugin.
base::StatusOr<PersistentVolume> TranslateToInTree(const PersistentVolume& volume);

// A PersistentVolume for `volume`, an item of a pod's spec.volumes. Its name is unique to the
// volume and may be no name of an object. `ns` is the pod's namespace.
base::StatusOr<PersistentVolume> TranslateInline(const Json& volume, std::string_view ns);

// The handle that the driver gives the volume in ListVolumes. A translated handle of a GCE PD lacks
// the project, and perhaps the zone, which the node's id has; the handles of all others are
// returned as they are. An error if the driver replaces no plugin.
base::StatusOr<std::string> RepairHandle(std::string_view driver, const VolumeHandle& handle,
                                         std::string_view node_id);

}  // namespace berth::api::migration
