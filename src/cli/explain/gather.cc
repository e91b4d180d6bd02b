#include "cli/explain/gather.h"

#include <algorithm>
#include <filesystem>

#include "api/kinds/block_kinds.h"
#include "api/kinds/csi_names.h"
#include "api/kinds/pod_claims.h"
#include "api/kinds/snapshots.h"
#include "cli/explain/live.h"

namespace berth::cli::explain {
namespace {

using base::Json;
using base::StatusCode;

template <typename T>
StatusOr<std::optional<T>> ReadIfExists(kube::Client& client, const std::string& ns,
                                        const std::string& name) {
  if (name.empty()) return std::optional<T>();
  auto found = kube::Get<T>(client, ns, name);
  if (found.ok()) return std::optional<T>(*std::move(found));
  if (found.status().code() == StatusCode::kNotFound) return std::optional<T>();
  return found.status();
}

template <typename T>
StatusOr<std::vector<T>> ListObjects(kube::Client& client, const std::string& ns) {
  ASSIGN_OR_RETURN(kube::ListResult list, client.List(T::kInfo, ns, {}));
  std::vector<T> out;
  for (Json& item : list.items) out.emplace_back(std::move(item));
  return out;
}

// "pvc/data". Claims and volumes have their short name, because people type that.
std::string MakeSubject(const api::KindInfo& kind, const std::string& name) {
  const bool shortened =
      &kind == &api::kinds::kPersistentVolumeClaim || &kind == &api::kinds::kPersistentVolume;
  return fmt::format("{}/{}", shortened ? kind.short_names.front() : kind.singular, name);
}

bool UsesClaim(const api::Pod& pod, const std::string& claim) {
  const std::vector<api::PodVolume> volumes = pod.volumes();
  return std::any_of(volumes.begin(), volumes.end(), [&](const api::PodVolume& volume) {
    return api::FindClaimName(pod, volume) == claim;
  });
}

class Gatherer {
 public:
  Gatherer(kube::Client& client, State state) : client_(client), state_(std::move(state)) {}

  Status ReadCluster() {
    ASSIGN_OR_RETURN(state_.nodes, ListObjects<api::Node>(client_, ""));
    ASSIGN_OR_RETURN(state_.csi_nodes, ListObjects<api::CsiNode>(client_, ""));
    ASSIGN_OR_RETURN(state_.classes, ListObjects<api::StorageClass>(client_, ""));
    // A failure is ignored, because the other rules work without the leases.
    if (auto leases = ListObjects<api::Lease>(client_, ""); leases.ok()) {
      state_.leases = *std::move(leases);
      std::erase_if(state_.leases, [](const auto& item) { return item.ns() == "kube-node-lease"; });
    }
    return base::OkStatus();
  }

  // Reads the claim, its class, source, volume, attachments and driver, and the pods that use it.
  Status FollowClaim(const std::string& ns, const std::string& name) {
    state_.claim_key = api::ObjectKey(ns, name);
    ASSIGN_OR_RETURN(state_.claim, ReadIfExists<api::PersistentVolumeClaim>(client_, ns, name));
    ASSIGN_OR_RETURN(std::vector<api::Pod> pods, ListObjects<api::Pod>(client_, ns));
    for (api::Pod& pod : pods) {
      if (!pod.terminated() && UsesClaim(pod, name)) state_.claim_pods.push_back(std::move(pod));
    }
    if (!state_.claim) return base::OkStatus();
    FindClass();
    RETURN_IF_ERROR(FindSource());
    return FollowVolume(state_.claim->volume_name());
  }

  Status FollowVolume(const std::string& name) {
    if (!state_.volume) {
      ASSIGN_OR_RETURN(state_.volume, ReadIfExists<api::PersistentVolume>(client_, "", name));
    }
    if (!state_.volume) {
      // The volume is not provisioned yet; the class names the driver that will do it.
      if (state_.storage_class && state_.storage_class->provisioner() != api::kNoProvisioner) {
        state_.driver = state_.storage_class->provisioner();
      }
      if (state_.driver.empty()) {
        ASSIGN_OR_RETURN(state_.volumes, ListObjects<api::PersistentVolume>(client_, ""));
      }
      return FindDriver();
    }
    if (state_.volume->has_csi()) {
      state_.driver = state_.volume->csi().driver();
      state_.handle = state_.volume->csi().volume_handle();
    }
    ASSIGN_OR_RETURN(std::vector<api::VolumeAttachment> attachments,
                     ListObjects<api::VolumeAttachment>(client_, ""));
    for (api::VolumeAttachment& attachment : attachments) {
      if (attachment.pv_name() == state_.volume->name()) {
        state_.attachments.push_back(std::move(attachment));
      }
    }
    return FindDriver();
  }

  // Reads the content and class of the VolumeSnapshot, and the claim that it is taken from.
  Status FollowSnapshot(const api::VolumeSnapshot& snapshot) {
    state_.snapshot = snapshot;
    std::string content = snapshot.source_content();
    if (content.empty()) content = snapshot.content_name();
    if (content.empty()) content = "snapcontent-" + snapshot.uid();
    if (!state_.content) {
      ASSIGN_OR_RETURN(state_.content,
                       ReadIfExists<api::VolumeSnapshotContent>(client_, "", content));
    }
    ASSIGN_OR_RETURN(state_.snapshot_classes, ListObjects<api::VolumeSnapshotClass>(client_, ""));
    for (const api::VolumeSnapshotClass& known : state_.snapshot_classes) {
      if (known.name() == snapshot.class_name()) state_.snapshot_class = known;
    }
    RETURN_IF_ERROR(FindRestoring(api::kSnapshotGroup, "VolumeSnapshot", snapshot));
    if (snapshot.source_claim().empty()) return base::OkStatus();
    return FollowClaim(snapshot.ns(), snapshot.source_claim());
  }

  // Finds the claims that wait for a volume filled from `source`.
  Status FindRestoring(std::string_view group, std::string_view kind, const api::Object& source) {
    ASSIGN_OR_RETURN(const std::vector<api::PersistentVolumeClaim> claims,
                     ListObjects<api::PersistentVolumeClaim>(client_, source.ns()));
    for (const api::PersistentVolumeClaim& claim : claims) {
      const api::Part wanted = claim.data_source();
      if (wanted.String({"apiGroup"}) == group && wanted.String({"kind"}) == kind &&
          wanted.String({"name"}) == source.name() && claim.phase() == "Pending") {
        state_.restoring.push_back(claim.name());
      }
    }
    return base::OkStatus();
  }

  Status FollowContent(const api::VolumeSnapshotContent& content) {
    state_.content = content;
    state_.driver = content.driver();
    ASSIGN_OR_RETURN(const auto snapshot,
                     ReadIfExists<api::VolumeSnapshot>(client_, content.snapshot_namespace(),
                                                       content.snapshot_name()));
    const bool bound = snapshot && snapshot->uid() == content.snapshot_uid();
    return bound ? FollowSnapshot(*snapshot) : base::OkStatus();
  }

  // Finds the objects of the node. Finds nothing if the node's name is not known.
  void FollowNode() {
    for (const api::Node& node : state_.nodes) {
      if (node.name() == state_.node_name) state_.node = node;
    }
    for (const api::CsiNode& node : state_.csi_nodes) {
      if (node.name() == state_.node_name) state_.csi_node = node;
    }
    for (const api::VolumeAttachment& attachment : state_.attachments) {
      if (attachment.node_name() == state_.node_name) state_.attachment = attachment;
    }
  }

  Status ReadEvents(const std::string& ns) {
    RETURN_IF_ERROR(ReadEventsIn(ns.empty() ? "default" : ns));
    // Events about nodes are in the namespace "default".
    return ns.empty() || ns == "default" ? base::OkStatus() : ReadEventsIn("default");
  }

  Status ReadEventsIn(const std::string& ns) {
    ASSIGN_OR_RETURN(std::vector<api::Event> events, ListObjects<api::Event>(client_, ns));
    std::vector<std::string> uids = {state_.object.uid()};
    if (state_.pod) uids.push_back(state_.pod->uid());
    if (state_.claim) uids.push_back(state_.claim->uid());
    if (state_.volume) uids.push_back(state_.volume->uid());
    if (state_.content) uids.push_back(state_.content->uid());
    for (api::Event& event : events) {
      const std::string about = event.String({"involvedObject", "uid"});
      const bool of_node = !state_.node_name.empty() &&
                           event.String({"involvedObject", "kind"}) == "Node" &&
                           event.String({"involvedObject", "name"}) == state_.node_name;
      if (of_node || std::find(uids.begin(), uids.end(), about) != uids.end()) {
        state_.events.push_back(std::move(event));
      }
    }
    return base::OkStatus();
  }

  State& state() { return state_; }

 private:
  void FindClass() {
    state_.class_name = state_.claim->storage_class_name().value_or("");
    for (const api::StorageClass& known : state_.classes) {
      if (known.name() == state_.class_name && !state_.class_name.empty()) {
        state_.storage_class = known;
      }
    }
  }

  // If the cluster does not serve the kind of the source, the source is not found. That is not an
  // error.
  Status FindSource() {
    const api::Part source = state_.claim->data_source();
    const std::string kind = source.String({"kind"});
    if (kind.empty() || state_.claim->phase() == "Bound") return base::OkStatus();
    const std::string ns = source.String({"namespace"}, state_.claim->ns());
    const std::string name = source.String({"name"});
    if (kind == "PersistentVolumeClaim") {
      ASSIGN_OR_RETURN(auto claim, ReadIfExists<api::PersistentVolumeClaim>(client_, ns, name));
      if (claim) state_.data_source = *std::move(claim);
    } else if (kind == "VolumeSnapshot") {
      ASSIGN_OR_RETURN(auto snapshot, ReadIfExists<api::VolumeSnapshot>(client_, ns, name));
      if (snapshot) state_.data_source = *std::move(snapshot);
    } else if (kind == api::BlockSnapshot::kInfo.kind &&
               source.String({"apiGroup"}) == api::kBlockGroup) {
      ASSIGN_OR_RETURN(auto snapshot, ReadIfExists<api::BlockSnapshot>(client_, ns, name));
      if (snapshot) state_.data_source = *std::move(snapshot);
    } else {
      FindPopulators();
    }
    return base::OkStatus();
  }

  void FindPopulators() {
    static const api::KindInfo info{.group = "populator.storage.k8s.io",
                                    .version = "v1beta1",
                                    .kind = "VolumePopulator",
                                    .plural = "volumepopulators",
                                    .singular = "volumepopulator"};
    const auto list = client_.List(info, "", {});
    if (!list.ok()) return;
    for (const Json& populator : list->items) {
      state_.populators.push_back(
          fmt::format("{}.{}", base::json::String(populator, {"sourceKind", "kind"}),
                      base::json::String(populator, {"sourceKind", "group"})));
    }
  }

  Status FindDriver() {
    ASSIGN_OR_RETURN(state_.driver_object,
                     ReadIfExists<api::CsiDriver>(client_, "", state_.driver));
    return base::OkStatus();
  }

  kube::Client& client_;
  State state_;
};

// Returns the claims of a pod, with the names of its volumes.
std::vector<std::pair<std::string, std::string>> ListClaims(const api::Pod& pod) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const api::PodVolume& volume : pod.volumes()) {
    std::string claim = api::FindClaimName(pod, volume);
    if (!claim.empty()) out.emplace_back(volume.name(), std::move(claim));
  }
  return out;
}

StatusOr<State> FinishState(Gatherer& gatherer, const std::string& ns,
                            const std::string& flight_folder) {
  gatherer.FollowNode();
  RETURN_IF_ERROR(gatherer.ReadEvents(ns));
  AddLiveState(gatherer.state(), flight_folder);
  AddKubeletSockets(gatherer.state());
  AddStoppedRoles(gatherer.state());
  return std::move(gatherer.state());
}

StatusOr<std::vector<State>> GatherPod(kube::Client& client, State state,
                                       const std::string& flight_folder) {
  const api::Pod pod(state.object.json());
  state.pod = pod;
  state.node_name = pod.node_name();
  std::vector<State> out;
  for (const auto& [volume, claim] : ListClaims(pod)) {
    Gatherer gatherer(client, state);
    gatherer.state().volume_name = volume;
    RETURN_IF_ERROR(gatherer.ReadCluster());
    RETURN_IF_ERROR(gatherer.FollowClaim(pod.ns(), claim));
    ASSIGN_OR_RETURN(State full, FinishState(gatherer, pod.ns(), flight_folder));
    out.push_back(std::move(full));
  }
  if (!out.empty()) return out;
  Gatherer gatherer(client, std::move(state));
  RETURN_IF_ERROR(gatherer.ReadCluster());
  ASSIGN_OR_RETURN(State full, FinishState(gatherer, pod.ns(), flight_folder));
  out.push_back(std::move(full));
  return out;
}

// Reads the objects that a subject leads to. The subject is not a pod, so it has only one way.
Status FollowSubject(Gatherer& gatherer, const api::KindInfo& kind) {
  State& state = gatherer.state();
  const api::Object object = state.object;
  if (&kind == &api::kinds::kPersistentVolumeClaim) {
    RETURN_IF_ERROR(gatherer.FollowClaim(object.ns(), object.name()));
    RETURN_IF_ERROR(gatherer.FindRestoring("", "PersistentVolumeClaim", object));
    // The first pod that uses the claim decides on which node its volume will be.
    if (state.claim && state.claim->phase() != "Bound" && !state.claim_pods.empty()) {
      state.pod = state.claim_pods.front();
      state.node_name = state.pod->node_name();
    }
    return base::OkStatus();
  }
  if (&kind == &api::kinds::kPersistentVolume) {
    state.volume = api::PersistentVolume(object.json());
    RETURN_IF_ERROR(gatherer.FollowVolume(object.name()));
    if (!state.volume->has_claim_ref()) return base::OkStatus();
    const std::string ns = state.volume->claim_namespace();
    const std::string name = state.volume->claim_name();
    const std::string uid = state.volume->claim_uid();
    RETURN_IF_ERROR(gatherer.FollowClaim(ns, name));
    // If the claim is gone, or another one has its name, the volume is not at fault.
    if (!state.claim || (!uid.empty() && state.claim->uid() != uid)) {
      state.claim.reset();
      state.claim_key.clear();
    }
    return base::OkStatus();
  }
  if (&kind == &api::kinds::kVolumeAttachment) {
    const api::VolumeAttachment attachment(object.json());
    state.node_name = attachment.node_name();
    return gatherer.FollowVolume(attachment.pv_name());
  }
  if (&kind == &api::kinds::kHostMount) {
    state.host_mount = api::HostMount(object.json());
    state.node_name = state.host_mount->node_name();
    return gatherer.FollowClaim(object.ns(), state.host_mount->claim_name());
  }
  if (&kind == &api::kinds::kNode) {
    state.node_name = object.name();
    return base::OkStatus();
  }
  // Custom kinds are compared by name, because KindFinder has KindInfo objects of its own for them.
  if (kind.group == api::kSnapshotGroup && kind.plural == api::VolumeSnapshot::kInfo.plural) {
    return gatherer.FollowSnapshot(api::VolumeSnapshot(object.json()));
  }
  if (kind.group == api::kSnapshotGroup &&
      kind.plural == api::VolumeSnapshotContent::kInfo.plural) {
    return gatherer.FollowContent(api::VolumeSnapshotContent(object.json()));
  }
  return base::Error(StatusCode::kInvalidArgument,
                     "'{}' cannot be explained: name a pod, pvc, pv, volumeattachment, "
                     "volumesnapshot, volumesnapshotcontent, hostmount or node",
                     kind.singular);
}

}  // namespace

StatusOr<std::vector<State>> GatherStates(kube::Client& client, const api::KindInfo& kind,
                                          const std::string& ns, const std::string& name,
                                          const std::string& flight_folder,
                                          const base::Clock& clock) {
  ASSIGN_OR_RETURN(Json object, client.Get(kind, ns, name));
  State state{.now = clock.Now(), .subject = MakeSubject(kind, name)};
  state.object = api::Object(std::move(object));
  if (&kind == &api::kinds::kPod) return GatherPod(client, std::move(state), flight_folder);
  Gatherer gatherer(client, std::move(state));
  RETURN_IF_ERROR(gatherer.ReadCluster());
  RETURN_IF_ERROR(FollowSubject(gatherer, kind));
  ASSIGN_OR_RETURN(State full, FinishState(gatherer, ns, flight_folder));
  std::vector<State> out;
  out.push_back(std::move(full));
  return out;
}

}  // namespace berth::cli::explain
