#include "controllers/pod_deletion.h"

#include "api/time.h"
#include "base/log.h"

namespace berth::controllers {

using base::Json;
using base::Status;
using base::StatusOr;
using base::json::String;

namespace {

constexpr const char* kDisruptionTarget = "DisruptionTarget";

bool Describes(const Json* condition, const Disruption& disruption) {
  return condition != nullptr && String(*condition, {"status"}) == "True" &&
         String(*condition, {"reason"}) == disruption.reason &&
         String(*condition, {"message"}) == disruption.message;
}

// Adds the condition to `status`, unless the pod has it, and writes the status.
Status WriteStatus(const Context& context, kube::Informer<api::Pod>& pods, const api::Pod& pod,
                   const Disruption& disruption, Json status) {
  const Json* present = pod.condition(kDisruptionTarget);
  if (!disruption.reason.empty() && !Describes(present, disruption)) {
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

}  // namespace

Status MarkDisrupted(const Context& context, kube::Informer<api::Pod>& pods, const api::Pod& pod,
                     const Disruption& disruption) {
  return WriteStatus(context, pods, pod, disruption, Json::object());
}

Status FailAndDelete(const Context& context, kube::Informer<api::Pod>& pods, const api::Pod& pod,
                     const Disruption& disruption) {
  if (!pod.terminated()) {
    const Status marked = WriteStatus(context, pods, pod, disruption, {{"phase", "Failed"}});
    if (marked.code() == base::StatusCode::kNotFound) return base::OkStatus();
    RETURN_IF_ERROR(marked);
  }
  const Status deleted = context.client.Delete(api::Pod::kInfo, pod.ns(), pod.name(),
                                               {.grace_period_seconds = 0, .uid = pod.uid()});
  if (deleted.code() == base::StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(deleted);
  LOG_INFO("pod {} of node {} is deleted", base::Quote(pod.key()), base::Quote(pod.node_name()));
  return base::OkStatus();
}

}  // namespace berth::controllers
