#include "node/volumes/volume_resolver.h"

#include <algorithm>

#include "api/kinds/pod_claims.h"

namespace berth::node {
namespace {

using base::Error;
using base::OkStatus;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// The error for a volume that waits for another component. The pod waits too, and gets no event of
// a failure.
template <typename... Args>
Status WaitingError(fmt::format_string<Args...> format, Args&&... args) {
  return Error(StatusCode::kFailedPrecondition, format, std::forward<Args>(args)...);
}

template <typename... Args>
Status InvalidError(fmt::format_string<Args...> format, Args&&... args) {
  return Error(StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

template <typename Visit>
void ForEachContainer(const api::Pod& pod, const Visit& visit) {
  for (const api::Container& container : pod.init_containers()) visit(container);
  for (const api::Container& container : pod.containers()) visit(container);
}

bool OwnedBy(const api::Object& object, const std::string& uid) {
  const auto owners = object.owner_references();
  return std::any_of(owners.begin(), owners.end(), [&uid](const api::OwnerReference& owner) {
    return owner.controller && owner.uid == uid;
  });
}

std::string WhyNotBound(const api::PersistentVolumeClaim& claim) {
  if (claim.phase() == "Lost") {
    return fmt::format("its volume '{}' is lost", claim.volume_name());
  }
  if (!claim.volume_name().empty()) {
    return fmt::format("its binding to volume '{}' is not complete", claim.volume_name());
  }
  const auto storage_class = claim.storage_class_name();
  return storage_class.has_value() && !storage_class->empty()
             ? fmt::format(
                   "its phase is {}; storage class '{}' has not given it a volume yet (see "
                   "the claim's events)",
                   claim.phase(), *storage_class)
             : fmt::format("its phase is {}; no storage class is named, and no volume fits yet",
                           claim.phase());
}

}  // namespace

std::vector<std::string> FindUsedVolumes(const api::Pod& pod) {
  std::vector<std::string> out;
  ForEachContainer(pod, [&out](const api::Container& container) {
    for (const api::VolumeMount& mount : container.volume_mounts()) out.push_back(mount.name());
    for (const auto& [name, path] : container.volume_devices()) out.push_back(name);
  });
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

VolumeResolver::Usage VolumeResolver::UsageOf(const api::Pod& pod, const std::string& volume) {
  bool mounted = false;
  bool device = false;
  ForEachContainer(pod, [&](const api::Container& container) {
    for (const api::VolumeMount& mount : container.volume_mounts())
      mounted |= mount.name() == volume;
    for (const auto& [name, path] : container.volume_devices()) device |= name == volume;
  });
  if (mounted && device) return Usage::kBoth;
  if (device) return Usage::kBlock;
  return mounted ? Usage::kFileSystem : Usage::kNone;
}

Status VolumeResolver::FindClaim(const api::Pod& pod, const std::string& claim_name, bool owned,
                                 bool in_use, volume::VolumeSpec& spec, ResolvedPod& out) const {
  const std::string key = api::ObjectKey(pod.ns(), claim_name);
  out.claims.push_back(key);
  spec.claim = claims_.Get(key);
  if (spec.claim == nullptr) return WaitingError("claim '{}' does not exist", claim_name);
  const api::PersistentVolumeClaim& claim = *spec.claim;
  if (!claim.volume_name().empty()) out.pvs.push_back(claim.volume_name());
  if (owned && !OwnedBy(claim, pod.uid())) {
    return InvalidError("claim '{}' was not made for this pod", claim_name);
  }
  if (claim.deleting() && !in_use) return InvalidError("claim '{}' is being deleted", claim_name);
  if (claim.phase() != "Bound" || claim.volume_name().empty()) {
    return WaitingError("claim '{}' is not bound: {}", claim_name, WhyNotBound(claim));
  }
  spec.pv = pvs_.Get(claim.volume_name());
  if (spec.pv == nullptr) {
    return WaitingError("volume '{}' of claim '{}' does not exist", claim.volume_name(),
                        claim_name);
  }
  if (!spec.pv->has_claim_ref() || spec.pv->claim_uid() != claim.uid()) {
    return WaitingError(
        "claim '{}' is not bound: volume '{}' belongs to claim '{}/{}' (uid {}), not to "
        "this one (uid {})",
        claim_name, spec.pv->name(), spec.pv->claim_namespace(), spec.pv->claim_name(),
        spec.pv->claim_uid(), claim.uid());
  }
  return OkStatus();
}

StatusOr<volume::VolumeSpec> VolumeResolver::SpecOf(const api::Pod& pod,
                                                    const api::PodVolume& volume, bool in_use,
                                                    ResolvedPod& out) const {
  volume::VolumeSpec spec;
  spec.name = volume.name();
  spec.pod_volume = volume;
  spec.pod_ns = pod.ns();
  const std::string type = volume.source_type();
  if (type == "persistentVolumeClaim") {
    RETURN_IF_ERROR(FindClaim(pod, volume.claim_name(), /*owned=*/false, in_use, spec, out));
    spec.read_only = volume.claim_read_only();
  } else if (type == "ephemeral") {
    RETURN_IF_ERROR(
        FindClaim(pod, api::FindClaimName(pod, volume), /*owned=*/true, in_use, spec, out));
  }
  if (spec.pv != nullptr && spec.pv->has_csi() && spec.pv->csi().read_only()) spec.read_only = true;
  const Usage usage = UsageOf(pod, volume.name());
  if (spec.block() && usage != Usage::kBlock) {
    return InvalidError(
        "volume '{}' is a raw block device: containers use it by volumeDevices, not by "
        "volumeMounts",
        spec.pv->name());
  }
  if (!spec.block() && usage != Usage::kFileSystem) {
    return InvalidError(
        "it has a file system: containers use it by volumeMounts, not by volumeDevices");
  }
  return spec;
}

bool VolumeResolver::RequiresRepublish(const volume::VolumeSpec& spec) const {
  std::string driver;
  if (spec.pv != nullptr && spec.pv->has_csi() && !spec.block()) driver = spec.pv->csi().driver();
  if (spec.pv == nullptr && spec.pod_volume.source_type() == "csi") {
    driver = spec.pod_volume.String({"csi", "driver"});
  }
  if (driver.empty()) return false;
  const auto object = host_.GetObject(api::kinds::kCsiDriver, "", driver);
  return object.ok() && api::CsiDriver(*object).requires_republish();
}

StatusOr<WantedVolume> VolumeResolver::WantedOf(std::shared_ptr<volume::VolumePlugin> plugin,
                                                volume::VolumeSpec spec) const {
  WantedVolume wanted;
  wanted.plugin = std::move(plugin);
  ASSIGN_OR_RETURN(const std::optional<std::string> device, wanted.plugin->DeviceName(spec));
  ASSIGN_OR_RETURN(wanted.needs_attach, wanted.plugin->NeedsAttach(spec));
  wanted.device_name = device.value_or("");
  wanted.follows_api = wanted.plugin->RefreshesContent() || RequiresRepublish(spec);
  wanted.names = {spec.name};
  wanted.spec = std::move(spec);
  return wanted;
}

ResolvedPod VolumeResolver::Resolve(const api::Pod& pod, bool in_use) const {
  ResolvedPod out;
  const std::vector<std::string> used = FindUsedVolumes(pod);
  for (const api::PodVolume& volume : pod.volumes()) {
    if (!std::binary_search(used.begin(), used.end(), volume.name())) continue;
    StatusOr<volume::VolumeSpec> spec = SpecOf(pod, volume, in_use, out);
    if (!spec.ok()) {
      out.unresolved[volume.name()] = {
          .reason = std::string(base::Message(spec.status())),
          .failed = spec.status().code() != StatusCode::kFailedPrecondition};
      continue;
    }
    auto plugin = plugins_.Find(*spec);
    if (!plugin.ok()) {
      const StatusCode code = plugin.status().code();
      // When a plugin appears or becomes ready, the pod is looked up again.
      out.unresolved[volume.name()] = {.reason = std::string(base::Message(plugin.status())),
                                       .failed = code != StatusCode::kFailedPrecondition};
      continue;
    }
    StatusOr<WantedVolume> wanted = WantedOf(*std::move(plugin), *std::move(spec));
    if (!wanted.ok()) {
      out.unresolved[volume.name()] = {.reason = base::ToString(wanted.status()), .failed = true};
      if (wanted.status().code() != StatusCode::kInvalidArgument) out.retry = wanted.status();
      continue;
    }
    // Two volumes of the pod may name one claim: they are one volume with two names.
    const auto same = std::find_if(out.volumes.begin(), out.volumes.end(), [&](const auto& other) {
      return !wanted->device_name.empty() && other.device_name == wanted->device_name &&
             other.spec.folder_name() == wanted->spec.folder_name();
    });
    if (same == out.volumes.end()) {
      out.volumes.push_back(*std::move(wanted));
    } else {
      same->names.push_back(volume.name());
      same->spec.read_only = same->spec.read_only && wanted->spec.read_only;
    }
  }
  return out;
}

}  // namespace berth::node
