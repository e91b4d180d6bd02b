// Writes Node.status.volumesAttached, in one serial queue for each node (attach_detach.h).
#include <algorithm>

#include "controllers/attachdetach/attach_detach.h"
#include "controllers/indexes.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"
#include "kube/informers/live_object.h"

namespace berth::controllers::attachdetach {

using base::Json;
using base::MutexLock;
using base::Status;

std::map<std::string, std::string> AttachDetach::AttachedVolumes(const std::string& node) {
  std::map<std::string, std::string> volumes;
  for (const auto& attachment : attachments_.ByIndex(kAttachmentsByNode, node)) {
    if (!attachment->attached() || attachment->deleting()) continue;
    {
      MutexLock lock(mutex_);
      if (departures_.contains(attachment->name())) continue;
    }
    const auto unique_name = UniqueName(*attachment);
    if (!unique_name.has_value() || unique_name->empty()) continue;
    // Only FlexVolumes have a device here. Kubernetes writes none for CSI volumes, whatever their
    // drivers publish.
    const bool of_plugin = attachment->attacher() == api::kFlexAttacher;
    const api::Labels metadata = attachment->attachment_metadata();
    const auto device = metadata.find(std::string(api::kDevicePath));
    volumes[*unique_name] = of_plugin && device != metadata.end() ? device->second : "";
  }
  return volumes;
}

std::set<std::string> AttachDetach::DeparturesFrom(const std::string& node) {
  MutexLock lock(mutex_);
  std::set<std::string> names;
  for (const auto& [name, departure] : departures_) {
    if (departure.node == node && !departure.taken_off) names.insert(name);
  }
  return names;
}

Status AttachDetach::ReadUncertainNode(const std::string& key) {
  {
    MutexLock lock(mutex_);
    if (!uncertain_nodes_.contains(key)) return base::OkStatus();
  }
  const Status read = kube::ReadLiveObject(context_.client, nodes_, "", key).status();
  if (!read.ok() && read.code() != base::StatusCode::kNotFound) return read;
  MutexLock lock(mutex_);
  uncertain_nodes_.erase(key);
  return base::OkStatus();
}

AttachDetach::Outcome AttachDetach::SyncNode(const std::string& key) {
  if (const Status read = ReadUncertainNode(key); !read.ok()) return AfterApi(read);
  // The list confirms only the departures that began before it is computed.
  std::set<std::string> departures = DeparturesFrom(key);
  const auto node = nodes_.Get(key);
  if (node == nullptr) {
    ConfirmRemoved(departures);
    return Outcome::Done();
  }
  if (!IsManaged(key)) return Outcome::Done();
  KeepUsed(departures, *node);
  std::map<std::string, std::string> wanted = AttachedVolumes(key);
  Json entries = Json::array();
  bool changed = false;
  for (const Json& entry : base::json::Array(node->json(), {"status", "volumesAttached"})) {
    const std::string name = base::json::String(entry, {"name"});
    const auto found = wanted.find(name);
    // This controller keeps the entries of other volume plugins.
    if (found == wanted.end() && !OwnInNodeLists(name).has_value()) {
      entries.push_back(entry);
    } else if (found == wanted.end() ||
               base::json::String(entry, {"devicePath"}) != found->second) {
      changed = true;  // the volume is detached, or has another device now
    } else {
      entries.push_back(entry);
      wanted.erase(found);
    }
  }
  for (const auto& [name, device] : wanted) {
    entries.push_back({{"name", name}, {"devicePath", device}});
    changed = true;
  }
  if (changed) {
    const Status written =
        PatchAt(context_.client, nodes_, *node,
                {{"status", {{"volumesAttached", std::move(entries)}}}}, "status")
            .status();
    if (!written.ok()) {
      MutexLock lock(mutex_);
      uncertain_nodes_.insert(key);
      return AfterApi(written);
    }
  }
  ConfirmRemoved(departures);
  return Outcome::Done();
}

void AttachDetach::KeepUsed(std::set<std::string>& attachments, const api::Node& node) {
  const std::vector<std::string> in_use = node.volumes_in_use();
  MutexLock lock(mutex_);
  for (auto name = attachments.begin(); name != attachments.end();) {
    const auto it = departures_.find(*name);
    if (it != departures_.end() &&
        (it->second.forced ||
         std::find(in_use.begin(), in_use.end(), it->second.unique_name) == in_use.end())) {
      ++name;
      continue;
    }
    name = attachments.erase(name);
    if (it == departures_.end()) continue;
    // The node began to use the volume after the volume's queue had looked.
    volume_workers_.Add(it->second.volume);
    departures_.erase(it);
  }
}

void AttachDetach::ConfirmRemoved(const std::set<std::string>& attachments) {
  MutexLock lock(mutex_);
  for (const std::string& name : attachments) {
    const auto it = departures_.find(name);
    if (it == departures_.end()) continue;
    it->second.taken_off = true;
    volume_workers_.Add(it->second.volume);
  }
}

}  // namespace berth::controllers::attachdetach
