#include "crust/containers/container_mounts.h"

#include <algorithm>

#include "base/fault.h"
#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "crust/containers/guest_create.h"
#include "crust/containers/kubelet_sub_path.h"
#include "crust/plain_path.h"
#include "crust/pods/plan_file.h"

namespace berth::crust {

namespace ipc = base::ipc;
using base::Error;
using base::Quote;
using base::StatusCode;
using base::StatusOr;

StatusOr<std::vector<KnownTarget>> ContainerMounts::ListTargets(const SandboxRecord& record) const {
  // The targets come from the plan first, because it also names volumes that are not published yet.
  // A container must not get the host's plain folder in their place.
  ASSIGN_OR_RETURN(std::vector<platform::TargetPath> targets,
                   ReadPlan(options_.run_folder, record.pod_uid));
  for (const VolumeRecord& volume : record.volumes) {
    if (std::ranges::find(targets, volume.target) == targets.end()) {
      targets.push_back(volume.target);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<platform::TargetPath> of_pod,
                   pods_.ListTargets(record.pod_uid));
  std::vector<KnownTarget> known;
  for (const platform::TargetPath& target : targets) {
    known.push_back({.path = target.text(), .resolved = Resolve(target.text())});
    // The kubelet mounts subPaths only of volumes that are published for a pod.
    if (std::ranges::find(of_pod, target) == of_pod.end()) continue;
    known.back().sub_paths = SubPathFolder(target.text(), options_.kubelet_folder);
    known.back().resolved_sub_paths = Resolve(known.back().sub_paths);
  }
  return known;
}

std::string ContainerMounts::Resolve(const std::string& path) const {
  // The kubelet's folder may be a symlink, and so may be a folder in it.
  if (auto resolved = platform::ResolveMountPoint(path); resolved.ok()) return *std::move(resolved);
  std::string_view rest;
  if (!IsBelow(path, options_.kubelet_folder, rest)) return path;
  return fmt::format("{}/{}", options_.resolved_kubelet_folder, rest);
}

base::Status ContainerMounts::FindSubPaths(const std::vector<KnownTarget>& targets,
                                           std::vector<DeferredMount>& mounts) const {
  const auto is_bound = [](const DeferredMount& mount) { return !mount.bound.empty(); };
  if (std::ranges::none_of(mounts, is_bound)) return base::OkStatus();
  ASSIGN_OR_RETURN(const auto table, mounter_.List());
  for (DeferredMount& mount : mounts) {
    if (!is_bound(mount)) continue;
    ASSIGN_OR_RETURN(mount.sub_path,
                     FindSubPath(table, targets[mount.target].resolved, mount.bound));
  }
  return base::OkStatus();
}

StatusOr<std::vector<ContainerMounts::VolumeMount>> ContainerMounts::FindVolumes(
    SandboxTable::Entry& entry, const base::Json& config) const {
  SandboxRecord& record = entry.record;
  ASSIGN_OR_RETURN(const std::vector<KnownTarget> targets, ListTargets(record));
  ASSIGN_OR_RETURN(
      std::vector<DeferredMount> mounts,
      FindDeferredMounts(config, targets, ipc::crust::GraftFolder(options_.run_folder)));
  RETURN_IF_ERROR(FindSubPaths(targets, mounts));
  std::vector<VolumeMount> found;
  for (DeferredMount& mount : mounts) {
    const platform::TargetPath target(targets[mount.target].path);
    VolumeRecord* volume = record.FindTarget(target);
    if (volume == nullptr || volume->state != VolumeState::kPublished) {
      return Error(StatusCode::kFailedPrecondition,
                   "the deferred volume at {} is not in sandbox {} yet", target,
                   Quote(record.sandbox_id));
    }
    found.push_back({mount.mount, volume, std::move(mount.sub_path)});
  }
  return found;
}

base::Status ContainerMounts::CheckSubPath(const std::string& sub_path) const {
  if (sub_path.size() > 4095) {
    return Error(StatusCode::kInvalidArgument, "the subPath has {} bytes", sub_path.size());
  }
  if (!sub_path.empty() && !options_.sub_paths) {
    return Error(StatusCode::kFailedPrecondition, "this handler does not offer subPath");
  }
  return base::OkStatus();
}

template <typename Give>
auto ContainerMounts::GiveVolume(SandboxTable::Entry& entry, const VolumeMount& mount,
                                 StatusCode lost, Give give) -> decltype(give()) {
  const std::string context =
      fmt::format("give a container the volume at {}", mount.volume->target);
  RETURN_IF_ERROR_WITH(CheckSubPath(mount.sub_path), context);
  RETURN_IF_ERROR(base::FaultPoint<"crust.graft">());
  auto given = give();
  if (given.status().code() == lost) {
    LOG_WARNING("mount {} again in sandbox {}: {}", Quote(mount.volume->host_volume_id),
                Quote(entry.record.sandbox_id), base::Message(given.status()));
    RETURN_IF_ERROR(steps_.PublishAgain(entry, *mount.volume));
    given = give();
  }
  RETURN_IF_ERROR_WITH(given, context);
  return given;
}

StatusOr<CreateReply> ContainerMounts::PrepareContainer(SandboxTable::Entry& entry,
                                                        const CreateRequest& request) {
  const SandboxRecord& record = entry.record;
  if (record.pod_uid != request.pod_uid || record.ending) {
    return Error(StatusCode::kFailedPrecondition, "sandbox {} {}", Quote(record.sandbox_id),
                 record.ending ? "has ended" : "belongs to another pod");
  }
  ASSIGN_OR_RETURN(base::Json config, ReadConfig(request.config));
  ASSIGN_OR_RETURN(std::vector<VolumeMount> mounts, FindVolumes(entry, config));
  if (entry.sandbox->containers() != nullptr) {
    return CreateInSandbox(entry, request, std::move(config), mounts);
  }
  return MakeGrafts(entry, request, std::move(config), std::move(mounts));
}

StatusOr<CreateReply> ContainerMounts::MakeGrafts(SandboxTable::Entry& entry,
                                                  const CreateRequest& request, base::Json config,
                                                  std::vector<VolumeMount> mounts) {
  CreateReply reply{.count = mounts.size()};
  for (size_t i = 0; i < mounts.size(); ++i) {
    SetSource(config, mounts[i].mount, ipc::crust::GraftPoint(options_.run_folder, i));
    if (i < request.from || i - request.from >= request.most) continue;
    // The sandbox may have lost the mount, because its namespace was removed.
    ASSIGN_OR_RETURN(Graft graft,
                     GiveVolume(entry, mounts[i], StatusCode::kFailedPrecondition, [&] {
                       return entry.sandbox->MakeGraft(mounts[i].volume->plan, mounts[i].sub_path);
                     }));
    reply.grafts.push_back(std::move(graft));
  }
  if (!mounts.empty() && request.from == 0) reply.config = base::json::Dump(config);
  return reply;
}

StatusOr<CreateReply> ContainerMounts::CreateInSandbox(SandboxTable::Entry& entry,
                                                       const CreateRequest& request,
                                                       base::Json config,
                                                       const std::vector<VolumeMount>& mounts) {
  GuestContainers& guest = *entry.sandbox->containers();
  GuestCreate create{
      .container = request.container,
      .terminal = request.terminal,
      .bundle = request.bundle,
      .config = std::move(config),
      .volumes = {},
      .devices = ListBlockVolumes(options_.resolved_kubelet_folder, entry.pod_uid.text())};
  for (const VolumeMount& mount : mounts) {
    ASSIGN_OR_RETURN(std::string place, GiveVolume(entry, mount, StatusCode::kNotFound, [&] {
                       return guest.FindVolume(mount.volume->plan, mount.sub_path);
                     }));
    create.volumes.push_back({mount.mount, std::move(place)});
  }
  StatusOr<base::UniqueFd> stream = CreateInGuest(guest, create);
  if (!stream.ok()) {
    // The failure that counts is the one of the create.
    static_cast<void>(guest.Call(ForceDelete(request.container)));
    return stream.status();
  }
  CreateReply reply;
  reply.stream = *std::move(stream);
  return reply;
}

}  // namespace berth::crust
