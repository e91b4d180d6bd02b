#include "crust/pods/plan_file.h"

#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "base/text.h"
#include "platform/files/durable_file.h"

namespace berth::crust {

namespace ipc = base::ipc;
using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

StatusOr<std::vector<platform::TargetPath>> ReadPlan(const std::string& run_folder,
                                                     const api::PodUid& pod) {
  const std::string path = ipc::crust::PlanPath(run_folder, pod.text());
  ASSIGN_OR_RETURN(const std::string text, platform::ReadFile(path, ipc::crust::kLargestPlan));
  const auto plan = ipc::ReadJson(base::Trim(text));
  const ipc::Strings* targets = plan.ok() ? plan->FindList(ipc::crust::kTargets) : nullptr;
  if (targets == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "the plan {} names no targets: {}", Quote(path),
                 plan.failure().text);
  }
  return std::vector<platform::TargetPath>(targets->begin(), targets->end());
}

Status WritePlan(const std::string& run_folder, const api::PodUid& pod,
                 const std::vector<platform::TargetPath>& targets) {
  const std::string path = ipc::crust::PlanPath(run_folder, pod.text());
  RETURN_IF_ERROR(platform::RemoveTornWritesOf(path));
  if (targets.empty()) {
    return base::Annotate(platform::RemoveDurably<"crust.plan">(path), "remove the pod's plan");
  }
  if (const auto now = ReadPlan(run_folder, pod); now.ok() && *now == targets) {
    return base::OkStatus();
  }
  ipc::Strings paths;
  for (const platform::TargetPath& target : targets) paths.push_back(target.text());
  const std::string text = ipc::crust::WritePlan(std::move(paths));
  if (text.size() > ipc::crust::kLargestPlan) {
    return Error(StatusCode::kResourceExhausted,
                 "the pod's plan would have {} bytes, because the target paths are long",
                 text.size());
  }
  return base::Annotate(platform::WriteDurably<"crust.plan">(path, text), "write the pod's plan");
}

}  // namespace berth::crust
