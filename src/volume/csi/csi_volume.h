// Reads a CSI volume from its API objects into one struct, and the part of it that tear-down needs.
// No I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "proto/csi.pb.h"
#include "volume/csi/driver_clients.h"
#include "volume/volume_plugin.h"

namespace berth::volume::csi_volume {

inline constexpr std::string_view kPluginName = "kubernetes.io/csi";

struct Volume {
  std::string driver;
  std::string handle;
  std::string name;  // its folder's name: that of the PV, or of the pod volume
  bool ephemeral = false;
  bool block = false;
  bool read_only = false;
  std::string fs_type;  // empty: the driver's choice
  std::vector<std::string> mount_options;
  std::vector<std::string> access_modes;
  std::string selinux_context;  // all files show it (selinux.h); empty: each shows its own
  // If a runtime handler mounts the volume, it must give each file a label: this one; empty: the
  // one that the container runtime chose, which the handler finds.
  bool relabel = false;
  std::string file_label;
  // The file systems that the runtime handler of the pod's sandbox can mount: the driver may leave
  // the mount of such a file system to the handler.
  std::vector<std::string> runtime_file_systems;
  api::Labels attributes;
  api::SecretReference stage_secret, publish_secret, expand_secret;
};

// Reads the volume of a PV; with `pod` also an inline volume, whose handle depends on the pod.
// INVALID_ARGUMENT: it is no CSI volume, or its driver name, handle or name is invalid.
StatusOr<Volume> ReadVolume(const VolumeSpec& spec, const api::Pod* pod);

// The state that DeviceState and PodState write, and that tear-down reads.
struct Record {
  std::string driver;
  std::string handle;
  bool block = false;
};
Json ToJson(const Volume& volume);
// INVALID_ARGUMENT if `state` does not name a driver and a handle.
StatusOr<Record> ReadRecord(const Json& state);

// Makes the volume_capability of the requests to stage, publish and expand. `mount_group`: the
// pod's fsGroup, for drivers that apply it themselves.
csi::v1::VolumeCapability MakeCapability(const Volume& volume, const NodeCapabilities& capabilities,
                                         std::optional<int64_t> mount_group);

// Whether all access modes of the volume are for one node, so that no other volume may show the
// same files. Volumes for many nodes may be shares of one server, which may have several handles.
bool IsForOneNode(const Volume& volume);

// True if the node must give the published volume to the pod's fsGroup.
bool NodeAppliesFsGroup(const Volume& volume, const NodeCapabilities& capabilities,
                        const api::CsiDriver& driver, const api::Pod& pod);

}  // namespace berth::volume::csi_volume
