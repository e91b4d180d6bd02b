#include "controllers/pod_deletion.h"

#include "api/time.h"

namespace berth::controllers {

using base::Json;
using base::Status;
using base::StatusOr;
using base::json::String;

namespace {

constexpr const char* kDisruptionTarget = "DisruptionTarget";

bool Says(const Json* condition, const Disruption& disruption) {
  return condition != nullptr && String(*condition, {"status"}) == "True" &&
         String(*condition, {"reason"}) == disruption.reason &&
         String(*condition, {"message"}) == disruption.message;
}

}  // namespace

Status MarkDisrupted(const Context& context, kube::Informer<api::Pod>& pods, const api::Pod& pod,
                     const Disruption& disruption, bool failed) {
  Json status = Json::object();
  if (failed && !pod.terminated()) status["phase"] = "Failed";
  const Json* present = pod.condition(kDisruptionTarget);
  if (!disruption.reason.empty() && !Says(present, disruption)) {
    const bool stays = present != nullptr && String(*present, {"status"}) == "True";
    const std::string now = api::FormatTime(context.clock.Now());
    status["conditions"] = Json::array(
        {{{"type", kDisruptionTarget},
          {"status", "True"},
          {"reason", disruption.reason},
          {"message", disruption.message},
          {"lastTransitionTime", stays ? String(*present, {"lastTransitionTime"}, now) : now}}});
  }
  if (status.empty()) return base::OkStatus();
  // A strategic merge patch adds this condition and keeps the others, because several programs
  // write to that list.
  const StatusOr<Json> written = context.client.Patch(
      api::Pod::kInfo, pod.ns(), pod.name(), kube::PatchType::kStrategicMerge,
      {{"metadata", {{"uid", pod.uid()}}}, {"status", std::move(status)}}, "status");
  if (written.ok()) pods.Observe(*written);
  return written.status();
}

Status FailAndDelete(const Context& context, kube::Informer<api::Pod>& pods, const api::Pod& pod,
                     const Disruption& disruption) {
  if (!pod.terminated()) {
    const Status marked = MarkDisrupted(context, pods, pod, disruption, true);
    if (marked.code() == base::StatusCode::kNotFound) return base::OkStatus();
    RETURN_IF_ERROR(marked);
  }
  const Status deleted = context.client.Delete(api::Pod::kInfo, pod.ns(), pod.name(),
                                               {.grace_period_seconds = 0, .uid = pod.uid()});
  return deleted.code() == base::StatusCode::kNotFound ? base::OkStatus() : deleted;
}

}  // namespace berth::controllers
