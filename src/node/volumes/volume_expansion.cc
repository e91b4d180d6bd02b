#include "node/volumes/volume_expansion.h"

#include "api/quantity.h"
#include "base/log.h"

namespace berth::node {
namespace {

using base::Json;
using base::OkStatus;
using base::Status;
using base::StatusCode;

constexpr std::string_view kPending = "NodeResizePending";
constexpr std::string_view kInProgress = "NodeResizeInProgress";
constexpr std::string_view kInfeasible = "NodeResizeInfeasible";

std::string ResizeStatus(const api::PersistentVolumeClaim& claim) {
  return claim.String({"status", "allocatedResourceStatuses", "storage"});
}

bool HasCondition(const api::PersistentVolumeClaim& claim, std::string_view type) {
  for (const Json& condition : base::json::Array(claim.json(), {"status", "conditions"})) {
    if (base::json::String(condition, {"type"}) == type &&
        base::json::String(condition, {"status"}) == "True") {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<int64_t> FindPendingExpansion(const volume::VolumeSpec& spec) {
  // A read-only use cannot grow its file system; another use, or the next one, will.
  if (spec.claim == nullptr || spec.pv == nullptr || spec.read_only) return std::nullopt;
  const auto size = api::ParseBytes(spec.pv->capacity());
  if (!size.ok()) return std::nullopt;
  const std::string status = ResizeStatus(*spec.claim);
  if (status == kInfeasible) return std::nullopt;
  if (status == kPending || status == kInProgress ||
      HasCondition(*spec.claim, "FileSystemResizePending")) {
    return *size;
  }
  const auto known = api::ParseBytes(spec.claim->capacity());
  if (known.ok() && *size > *known) return *size;
  return std::nullopt;
}

Json MakeExpandedStatus(const api::PersistentVolumeClaim& claim, const api::PersistentVolume& pv) {
  Json conditions = Json::array();
  for (const Json& condition : base::json::Array(claim.json(), {"status", "conditions"})) {
    const std::string type = base::json::String(condition, {"type"});
    if (type != "FileSystemResizePending" && type != "Resizing" && type != "NodeResizeError") {
      conditions.push_back(condition);
    }
  }
  Json status = {{"capacity", {{"storage", pv.capacity()}}},
                 {"conditions", conditions},
                 {"allocatedResourceStatuses", {{"storage", nullptr}}}};
  // allocatedResources is set to the volume's new size. It may have been higher, if the requested
  // size was reduced since.
  if (base::json::Find(claim.json(), {"status", "allocatedResources", "storage"}) != nullptr) {
    status["allocatedResources"] = {{"storage", pv.capacity()}};
  }
  return status;
}

bool VolumeExpansion::IsInfeasible(const Status& why) {
  return why.code() == StatusCode::kInvalidArgument || why.code() == StatusCode::kOutOfRange ||
         why.code() == StatusCode::kNotFound;
}

Status VolumeExpansion::PatchStatus(const api::PersistentVolumeClaim& claim, Json status) {
  // The patch names the resourceVersion that was read, because the resizer writes the same fields.
  const Json patch = {{"metadata", {{"resourceVersion", claim.resource_version()}}},
                      {"status", std::move(status)}};
  const auto patched = kube::MergePatch(client_, claim, patch, "status");
  RETURN_IF_ERROR_WITH(patched, fmt::format("write the size of claim '{}'", claim.name()));
  claims_.Observe(patched->json());
  return OkStatus();
}

Status VolumeExpansion::FinishExpansion(const base::ObjectReference& pod,
                                        const volume::VolumeSpec& spec) {
  const auto fresh =
      kube::Get<api::PersistentVolumeClaim>(client_, spec.claim->ns(), spec.claim->name());
  RETURN_IF_ERROR_WITH(fresh, fmt::format("read claim '{}'", spec.claim->name()));
  if (fresh->uid() != spec.claim->uid()) return OkStatus();
  RETURN_IF_ERROR(PatchStatus(*fresh, MakeExpandedStatus(*fresh, *spec.pv)));
  const std::string message =
      fmt::format("volume '{}' grew to {} on the node", spec.pv->name(), spec.pv->capacity());
  events_.Record(pod, base::EventType::kNormal, "FileSystemResizeSuccessful", message);
  events_.Record(spec.claim->reference(), base::EventType::kNormal, "FileSystemResizeSuccessful",
                 message);
  return OkStatus();
}

Status VolumeExpansion::ReportFailure(const base::ObjectReference& pod,
                                      const volume::VolumeSpec& spec, const Status& why) {
  const std::string message =
      fmt::format("growing volume '{}' to {} on the node failed: {}", spec.pv->name(),
                  spec.pv->capacity(), base::ToString(why));
  events_.Record(pod, base::EventType::kWarning, "VolumeResizeFailed", message);
  events_.Record(spec.claim->reference(), base::EventType::kWarning, "VolumeResizeFailed", message);
  if (!IsInfeasible(why) || ResizeStatus(*spec.claim).empty()) return OkStatus();
  const auto fresh =
      kube::Get<api::PersistentVolumeClaim>(client_, spec.claim->ns(), spec.claim->name());
  RETURN_IF_ERROR_WITH(fresh, fmt::format("read claim '{}'", spec.claim->name()));
  return PatchStatus(*fresh, {{"allocatedResourceStatuses", {{"storage", kInfeasible}}}});
}

}  // namespace berth::node
