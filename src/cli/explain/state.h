// What is known about one volume. It is gathered once (gather.h), so that the rules (rules.h) are
// pure functions of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "api/kinds/snapshots.h"
#include "base/clock.h"
#include "base/flight.h"
#include "platform/processes/process_info.h"

namespace berth::cli::explain {

// The process that serves a driver's socket, and its descendants.
struct Server {
  base::Status listening;                        // not OK: why the listener was not found
  std::vector<platform::ProcessInfo> processes;  // the listener first
};

// A process of this machine that runs controllers, and that a signal has stopped.
struct StoppedRoles {
  platform::ProcessInfo process;
  std::vector<std::string> roles;  // "provisioner"
  // The command line names these sockets of drivers. If the process runs in a container, they are
  // the host's paths, as far as these are known.
  std::vector<std::string> sockets;
  bool of_node = false;  // each node has such a process (--node-deployment)
};

struct State {
  base::WallTime now;
  std::string subject;  // "pod/web"
  api::Object object;   // the subject itself

  // The objects of the chain that exist.
  std::optional<api::Pod> pod;
  std::optional<api::HostMount> host_mount;
  std::string volume_name;  // the pod's name for it
  std::string claim_key;    // "default/data", even if the claim does not exist; "": no claim
  std::optional<api::PersistentVolumeClaim> claim;
  std::optional<api::PersistentVolume> volume;
  std::optional<api::StorageClass> storage_class;
  std::string class_name;  // the class that the claim names; empty: none
  // The source that the claim is to be filled from: another claim, or a VolumeSnapshot.
  std::optional<api::Object> data_source;
  std::vector<std::string> populators;  // "Kind.group" of each VolumePopulator
  std::optional<api::CsiDriver> driver_object;
  std::string driver;     // empty: not known yet, or not a CSI volume
  std::string handle;     // the CSI volume_id; empty: not known yet
  std::string node_name;  // the node that is to use the volume; empty: not chosen yet
  std::optional<api::Node> node;
  std::optional<api::CsiNode> csi_node;
  std::optional<api::VolumeAttachment> attachment;  // to that node

  // The objects of a snapshot, if the subject is a snapshot or its content.
  std::optional<api::VolumeSnapshot> snapshot;
  std::optional<api::VolumeSnapshotContent> content;
  std::optional<api::VolumeSnapshotClass> snapshot_class;  // that the snapshot names
  std::vector<api::VolumeSnapshotClass> snapshot_classes;

  // Claims that wait for a volume filled from the subject, which is a snapshot or a claim.
  std::vector<std::string> restoring;

  // Objects that the rules compare the chain with.
  std::vector<api::StorageClass> classes;
  std::vector<api::PersistentVolume> volumes;  // if the claim waits for one that a person makes
  std::vector<api::Node> nodes;
  std::vector<api::CsiNode> csi_nodes;
  std::vector<api::VolumeAttachment> attachments;  // of the volume, to any node
  std::vector<api::Pod> claim_pods;                // that use the claim and have not ended
  std::vector<api::Lease> leases;                  // of roles, in all namespaces
  std::vector<api::Event> events;                  // about the pod, the claim, the volume, the node

  // Live data, from the roles of this machine.
  base::Status flights;  // not OK: why flight records could not be read
  std::vector<base::FlightLog> logs;
  std::map<std::string, Server> servers;  // by socket
  // The sockets at which the kubelet of the node calls the driver, and at which its Flexvolume
  // drivers ask the block agent. Empty: the node's kubelet runs on another machine.
  std::vector<std::string> driver_sockets;
  std::vector<std::string> agent_sockets;
  std::map<pid_t, platform::ProcessInfo> processes;  // that records name and that still run
  std::vector<StoppedRoles> stopped_roles;

  bool wants_mount() const { return pod.has_value() || host_mount.has_value(); }
  bool bound() const {
    return claim.has_value() && claim->phase() == "Bound" && volume.has_value();
  }
  bool needs_attach() const {
    return !driver_object.has_value() || driver_object->attach_required();
  }
};

// The keys under which roles record (base/flight.h).
std::string ProvisionKey(const State& state);             // controllers
std::string DeleteKey(const State& state);                // controllers
std::string AttachKey(const std::string& name);           // controllers, of a VolumeAttachment
std::string ResizeKey(const State& state);                // controllers
std::string ModifyKey(const State& state);                // controllers
std::string SnapshotKey(const State& state);              // controllers
std::string NodeKey(const State& state);                  // node
std::vector<std::string> DriverKeys(const State& state);  // csi-driver

// The records of a key, newest last.
std::vector<const base::FlightRecord*> FindRecords(const State& state, const std::string& key);

}  // namespace berth::cli::explain
