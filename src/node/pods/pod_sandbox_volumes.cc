#include "node/pods/pod_sandbox_volumes.h"

#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "base/text.h"
#include "node/volumes/crust_deferral.h"
#include "platform/files/durable_file.h"
#include "rpc/crust_client.h"

namespace berth::node {
namespace {

namespace crust = rpc::crust;
namespace wire = base::ipc::crust;
using base::EventType;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using std::chrono::milliseconds;

// A handler that must change the owner of many files goes on working after this timeout. The pod
// then gets an event, and the call is repeated.
constexpr milliseconds kPublish{60'000};
constexpr milliseconds kUnpublish{60'000};

Status PublishOne(const rpc::SandboxId& sandbox_id, const DeferredVolume& volume) {
  ASSIGN_OR_RETURN(const auto client, rpc::CrustClient::New(volume.socket));
  crust::RuntimePublishVolumeRequest request =
      MakePublishRequest(volume.mount, volume.target, volume.read_only);
  request.set_sandbox_id(sandbox_id.text());
  return client->RuntimePublishVolume(request, kPublish).status();
}

Status UnpublishOne(const rpc::SandboxId& sandbox_id, const DeferredVolume& volume) {
  crust::RuntimeUnpublishVolumeRequest request;
  request.set_sandbox_id(sandbox_id.text());
  request.set_host_volume_id(volume.mount.source);
  request.set_host_target_path(volume.target);
  ASSIGN_OR_RETURN(const auto client, rpc::CrustClient::New(volume.socket));
  const Status gone = client->RuntimeUnpublishVolume(request, kUnpublish).status();
  // A handler that does not have the call, or does not accept an empty sandbox id, unmounts the
  // volumes when the sandbox ends.
  const bool unknown = gone.code() == StatusCode::kUnimplemented ||
                       (sandbox_id.empty() && gone.code() == StatusCode::kInvalidArgument);
  if (unknown || gone.code() == StatusCode::kNotFound) return OkStatus();
  return gone;
}

}  // namespace

Status PodSandboxVolumes::WritePlan(const api::Pod& pod) const {
  if (!MayDefer(pod)) return OkStatus();
  const std::vector<DeferredVolume> volumes = volumes_.Deferred(pod.uid());
  if (volumes.empty()) return RemovePlan(pod);
  base::ipc::Strings targets;
  for (const DeferredVolume& volume : volumes) targets.push_back(volume.target);
  const std::string path = wire::PlanPath(run_folder_, pod.uid());
  RETURN_IF_ERROR(platform::MakeFolders(std::string(base::FolderOf(path)), 0700));
  return base::Annotate(
      platform::WriteDurably<"node.crust.plan">(path, wire::WritePlan(std::move(targets))),
      "write the plan of the sandbox's volumes");
}

Status PodSandboxVolumes::RemovePlan(const api::Pod& pod) const {
  if (!MayDefer(pod)) return OkStatus();
  const std::string path = wire::PlanPath(run_folder_, pod.uid());
  RETURN_IF_ERROR(platform::RemoveTornWritesOf(path));
  return platform::RemoveDurably<"node.crust.plan">(path);
}

Status PodSandboxVolumes::PublishVolumes(const api::Pod& pod,
                                         const rpc::SandboxId& sandbox_id) const {
  for (const DeferredVolume& volume : volumes_.Deferred(pod.uid())) {
    const Status published = PublishOne(sandbox_id, volume);
    if (published.ok()) continue;
    const bool at_work = published.code() == StatusCode::kDeadlineExceeded ||
                         published.code() == StatusCode::kAborted;
    Status why = base::Annotate(
        published, fmt::format("volume '{}': mount it in the pod's sandbox", volume.name));
    if (published.code() != StatusCode::kCancelled) {
      events_.Record(pod.reference(), at_work ? EventType::kNormal : EventType::kWarning,
                     at_work && (volume.mount.fs_group.has_value() || volume.mount.selinux_relabel)
                         ? "VolumePermissionChangeInProgress"
                         : "FailedMount",
                     base::ToString(why));
    }
    return why;
  }
  volumes_.NoteSandbox(api::PodUid(pod.uid()), sandbox_id);
  return OkStatus();
}

Status PodSandboxVolumes::UnpublishVolumes(const api::Pod& pod,
                                           const rpc::SandboxId& sandbox_id) const {
  Status first = OkStatus();
  for (const DeferredVolume& volume : volumes_.Deferred(pod.uid())) {
    const Status gone = UnpublishOne(sandbox_id, volume);
    if (gone.ok()) continue;
    Status why = base::Annotate(
        gone, fmt::format("volume '{}': take it out of the pod's sandbox", volume.name));
    LOG_WARNING("pod {}: {}", Quote(pod.uid()), base::ToString(why));
    if (gone.code() != StatusCode::kCancelled && !pod.name().empty()) {
      events_.Record(pod.reference(), EventType::kWarning, "FailedUnmount", base::ToString(why));
    }
    if (first.ok()) first = std::move(why);
  }
  return first;
}

}  // namespace berth::node
