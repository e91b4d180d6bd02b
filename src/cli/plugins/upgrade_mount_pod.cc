#include "cli/plugins/upgrade_mount_pod.h"

#include <fmt/ranges.h>

#include <functional>

#include "api/kinds/taints.h"
#include "cli/output.h"
#include "cli/plugins/mount_pods.h"
#include "cli/wait.h"

namespace berth::cli {
namespace {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::steady_clock;

// How often a write is tried if it conflicts with the write of another program.
constexpr int kMaxTries = 10;

template <typename T>
StatusOr<std::vector<T>> ListMatching(kube::Client& client, std::string_view ns,
                                      const kube::ListOptions& options) {
  ASSIGN_OR_RETURN(kube::ListResult list, client.List(T::kInfo, ns, options));
  std::vector<T> out;
  out.reserve(list.items.size());
  for (Json& item : list.items) out.emplace_back(std::move(item));
  return out;
}

class Upgrade {
 public:
  Upgrade(kube::Client& client, const UpgradeMountPodOptions& options, std::stop_token stop)
      : client_(client),
        options_(options),
        stop_(std::move(stop)),
        deadline_(steady_clock::now() + options.timeout) {}

  Status Run() {
    ASSIGN_OR_RETURN(const auto node, kube::Get<api::Node>(client_, "", options_.node));
    RETURN_IF_ERROR(FindSets());
    RETURN_IF_ERROR(CheckTolerance());
    RETURN_IF_ERROR(WaitForRevisions());
    ASSIGN_OR_RETURN(const MountPodState state, ReadState());
    if (options_.dry_run) {
      PrintPlan(node, state);
      return base::OkStatus();
    }
    if (state.upgraded() && !node.has_taint(kUpgradeTaint)) {
      PrintLine("nothing to do: node {} has the newest mount pods: {}", options_.node,
                JoinPodNames(state.fresh));
      return base::OkStatus();
    }
    const Status done = ReplaceMountPods(state);
    if (done.ok() || done.code() == StatusCode::kNotFound) return done;
    return base::Annotate(
        done, fmt::format("node {} stays tainted with {}; run the command again to continue, or "
                          "remove the taint to give up (kubectl taint nodes {} {}-)",
                          options_.node, kUpgradeTaint, options_.node, kUpgradeTaint));
  }

 private:
  template <typename... Args>
  void PrintLine(fmt::format_string<Args...> format, Args&&... args) {
    Print(fmt::format(format, std::forward<Args>(args)...) + "\n");
  }

  Status ReplaceMountPods(const MountPodState& before) {
    RETURN_IF_ERROR(SetTaint(true));
    PrintLine("node {} is tainted with {}:NoExecute", options_.node, kUpgradeTaint);
    if (!before.evicted.empty()) {
      PrintLine("waiting until {} pods and their mounts are gone: {}", before.evicted.size(),
                JoinPodNames(before.evicted));
    }
    RETURN_IF_ERROR(WaitUntil([](const MountPodState& now) { return now.evicted.empty(); },
                              [](const MountPodState& now) {
                                return fmt::format("these pods are still on the node: {}",
                                                   JoinPodNames(now.evicted));
                              }));
    PrintLine("only pods that tolerate the taint are left on the node");
    ASSIGN_OR_RETURN(const MountPodState state, ReadState());
    for (const api::Pod& pod : state.old) {
      RETURN_IF_ERROR(kube::Delete(client_, pod));
      PrintLine("deleted mount pod {}, which had an earlier template", pod.key());
    }
    RETURN_IF_ERROR(WaitUntil([](const MountPodState& now) { return now.upgraded(); },
                              [](const MountPodState& now) { return DescribeMissing(now); }));
    ASSIGN_OR_RETURN(const MountPodState after, ReadState());
    PrintLine("mount pods of the newest template are ready: {}", JoinPodNames(after.fresh));
    RETURN_IF_ERROR(SetTaint(false));
    PrintLine("removed the taint: node {} takes pods again", options_.node);
    return base::OkStatus();
  }

  void PrintPlan(const api::Node& node, const MountPodState& state) {
    if (state.upgraded() && !node.has_taint(kUpgradeTaint)) {
      PrintLine("nothing to do: node {} has the newest mount pods: {}", options_.node,
                JoinPodNames(state.fresh));
      return;
    }
    PrintLine("would taint node {} with {}:NoExecute{}", options_.node, kUpgradeTaint,
              node.has_taint(kUpgradeTaint) ? " (it is already)" : "");
    for (const api::Pod& pod : state.evicted) PrintLine("would evict pod {}", pod.key());
    for (const api::Pod& pod : state.tolerating) {
      PrintLine(
          "pod {} tolerates the taint and stays: if it uses volumes of these mount pods, move it "
          "first",
          pod.key());
    }
    for (const api::Pod& pod : state.leaving) {
      PrintLine("would wait for mount pod {}, which is being deleted", pod.key());
    }
    for (const api::Pod& pod : state.old) PrintLine("would delete mount pod {}", pod.key());
    PrintLine("would wait for ready mount pods of {} and remove the taint", JoinSetNames());
  }

  std::string JoinSetNames() const {
    std::vector<std::string> names;
    for (const api::DaemonSet& set : sets_) names.push_back(set.key());
    return fmt::format("{}", fmt::join(names, ", "));
  }

  static std::string DescribeMissing(const MountPodState& now) {
    if (!now.leaving.empty()) {
      return fmt::format("mount pods have mounts that are in use: {} (their logs say which){}",
                         JoinPodNames(now.leaving),
                         now.tolerating.empty()
                             ? ""
                             : fmt::format("; these pods tolerate the taint and have volumes, "
                                           "move them: {}",
                                           JoinPodNames(now.tolerating)));
    }
    if (!now.old.empty())
      return fmt::format("old mount pods still exist: {}", JoinPodNames(now.old));
    return fmt::format("no mount pod with the newest template is ready in {}",
                       fmt::join(now.without, ", "));
  }

  // Fills sets_ with the DaemonSets to upgrade.
  Status FindSets() {
    if (!options_.daemon_set.empty()) {
      const size_t slash = options_.daemon_set.find('/');
      if (slash == std::string::npos || slash == 0 || slash + 1 == options_.daemon_set.size()) {
        return Error(StatusCode::kInvalidArgument, "--daemonset '{}' is not NAMESPACE/NAME",
                     options_.daemon_set);
      }
      ASSIGN_OR_RETURN(auto set,
                       kube::Get<api::DaemonSet>(client_, options_.daemon_set.substr(0, slash),
                                                 options_.daemon_set.substr(slash + 1)));
      sets_.push_back(std::move(set));
      return base::OkStatus();
    }
    ASSIGN_OR_RETURN(const auto pods, ListPodsOfNode());
    ASSIGN_OR_RETURN(const auto all, ListMatching<api::DaemonSet>(client_, "", {}));
    for (const api::DaemonSet& set : all) {
      const bool ours = base::json::String(set.pod_template(), {"metadata", "labels",
                                                                kMountPodLabel}) == kMountPodValue;
      const bool here = std::any_of(pods.begin(), pods.end(), [&](const api::Pod& pod) {
        const auto owner = pod.controller();
        return owner.has_value() && owner->uid == set.uid();
      });
      if (ours && here) sets_.push_back(set);
    }
    if (!sets_.empty()) return base::OkStatus();
    return Error(StatusCode::kNotFound,
                 "node '{}' has no mount pod of a DaemonSet labelled {}={}; name one with "
                 "--daemonset",
                 options_.node, kMountPodLabel, kMountPodValue);
  }

  // The mount pods must tolerate the taint, because otherwise they would be evicted together with
  // the pods that use their mounts.
  Status CheckTolerance() {
    for (const api::DaemonSet& set : sets_) {
      const Json& tolerations = base::json::Array(set.pod_template(), {"spec", "tolerations"});
      if (api::AnyTolerates(tolerations, MakeUpgradeTaint())) continue;
      return Error(StatusCode::kFailedPrecondition,
                   "the pods of DaemonSet '{}' do not tolerate {}: they would be evicted together "
                   "with those that use their mounts; add a toleration (operator: Exists) first",
                   set.key(), kUpgradeTaint);
    }
    return base::OkStatus();
  }

  StatusOr<std::vector<api::Pod>> ListPodsOfNode() {
    return ListMatching<api::Pod>(client_, "", MakeNodeFilter());
  }
  kube::ListOptions MakeNodeFilter() const {
    return {.field_selector = fmt::format("spec.nodeName={}", options_.node)};
  }

  StatusOr<MountPodState> ReadState() {
    MountPodObjects objects;
    for (const api::DaemonSet& set : sets_) {
      ASSIGN_OR_RETURN(auto now, kube::Get<api::DaemonSet>(client_, set.ns(), set.name()));
      ASSIGN_OR_RETURN(auto revisions,
                       ListMatching<api::ControllerRevision>(client_, set.ns(), {}));
      objects.sets.push_back(std::move(now));
      std::move(revisions.begin(), revisions.end(), std::back_inserter(objects.revisions));
    }
    ASSIGN_OR_RETURN(objects.pods, ListPodsOfNode());
    return SortMountPods(objects);
  }

  std::chrono::milliseconds ComputeRemainingTime() const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - steady_clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }

  // Waits until the controller has seen each set's template, because only then it is known which
  // pods are old.
  Status WaitForRevisions() {
    for (const api::DaemonSet& set : sets_) {
      RETURN_IF_ERROR(
          WaitFor(client_, api::DaemonSet::kInfo, set.ns(), set.name(), ComputeRemainingTime(),
                  stop_, [](const std::optional<api::Object>& now) {
                    return !now.has_value() ||
                           now->Int({"status", "observedGeneration"}) >= now->generation();
                  }));
    }
    return base::OkStatus();
  }

  Status WaitUntil(const std::function<bool(const MountPodState&)>& done,
                   const std::function<std::string(const MountPodState&)>& describe_missing) {
    std::string lacking;
    Status failed = base::OkStatus();
    const auto check = [&]() -> bool {
      const StatusOr<MountPodState> now = ReadState();
      if (!now.ok()) {
        failed = now.status();
        // The wait continues while the API is unavailable.
        return failed.code() != StatusCode::kUnavailable;
      }
      failed = base::OkStatus();
      lacking = describe_missing(*now);
      return done(*now);
    };
    const Status waited = WaitForChange(client_, api::kinds::kPod, MakeNodeFilter(),
                                        ComputeRemainingTime(), stop_, check);
    if (waited.code() == StatusCode::kDeadlineExceeded) {
      return Error(StatusCode::kDeadlineExceeded, "gave up after {} s: {}",
                   options_.timeout.count(), failed.ok() ? lacking : base::ToString(failed));
    }
    RETURN_IF_ERROR(waited);
    return failed;
  }

  // Sets or removes the taint. Several programs write taints, so the list is written only if the
  // node has not changed since it was read.
  Status SetTaint(bool on) {
    Status result = base::OkStatus();
    for (int i = 0; i < kMaxTries; ++i) {
      ASSIGN_OR_RETURN(const auto node, kube::Get<api::Node>(client_, "", options_.node));
      if (node.has_taint(kUpgradeTaint) == on) return base::OkStatus();
      Json taints = Json::array();
      for (const Json& taint : node.taints()) {
        if (base::json::String(taint, {"key"}) != kUpgradeTaint) taints.push_back(taint);
      }
      if (on) taints.push_back(MakeUpgradeTaint());
      Json patch = {{"metadata", {{"resourceVersion", node.resource_version()}}},
                    {"spec", {{"taints", taints}}}};
      if (taints.empty()) patch["spec"]["taints"] = nullptr;
      result = base::AsStatus(kube::MergePatch(client_, node, patch));
      if (result.code() != StatusCode::kAborted) return result;
    }
    return result;
  }

  kube::Client& client_;
  const UpgradeMountPodOptions& options_;
  const std::stop_token stop_;
  const steady_clock::time_point deadline_;
  std::vector<api::DaemonSet> sets_;
};

}  // namespace

Status UpgradeMountPod(kube::Client& client, const UpgradeMountPodOptions& options,
                       std::stop_token stop) {
  return Upgrade(client, options, std::move(stop)).Run();
}

}  // namespace berth::cli
