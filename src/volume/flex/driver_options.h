// Makes the options that a Flexvolume driver gets about a volume: one JSON object of strings, which
// is an argument of most calls. Source of the keys: pkg/volume/flexvolume of Kubernetes, and its
// documentation.
//
//   all calls   kubernetes.io/fsType, readwrite ("ro", "rw"), pvOrVolumeName
//   mount       kubernetes.io/pod.name, pod.namespace, pod.uid, serviceAccount.name,
//               secret/KEY (base64), and the fsGroup as mounterArgs.FsGroup and as fsGroup
//   user's      unchanged and last: they may replace any of these
#pragma once

#include <map>
#include <string>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "volume/flex/secret_words.h"
#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

// flexVolume of a pod's volume or of a PersistentVolume.
struct FlexSource {
  std::string driver;
  std::string fs_type;  // empty: the driver's choice
  bool read_only = false;
  api::SecretReference secret;  // an empty namespace means the pod's
  std::map<std::string, std::string> options;
};

bool IsFlexVolume(const VolumeSpec& spec);
// The driver that a volume names; empty: none, or it is another volume.
std::string FlexDriverOf(const VolumeSpec& spec);
// INVALID_ARGUMENT: another volume, or one without a driver.
base::StatusOr<FlexSource> ReadFlexSource(const VolumeSpec& spec);

struct DriverOptions {
  std::map<std::string, std::string> values;
  SecretWords secrets;  // among the values
  std::string RenderJson() const;
};

// The options for all calls but mount.
base::StatusOr<DriverOptions> OptionsOf(const VolumeSpec& spec);

// The options for mount; reads the Secret. FAILED_PRECONDITION: the Secret's type is not the
// driver's name, so it was not made for this driver.
base::StatusOr<DriverOptions> MountOptionsOf(Host& host, const api::Pod& pod,
                                             const VolumeSpec& spec);

}  // namespace berth::volume
