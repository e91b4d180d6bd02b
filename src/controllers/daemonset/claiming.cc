// Adopts and releases pods and revisions (daemon_sets.h).
#include "controllers/daemonset/claiming.h"

#include <algorithm>
#include <optional>

#include "api/selector.h"
#include "base/log.h"
#include "controllers/daemonset/daemon_sets.h"
#include "controllers/writes.h"

namespace berth::controllers::daemonset {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

Json References(const api::Object& object) {
  return base::json::Array(object.json(), {"metadata", "ownerReferences"});
}

// The patch replaces the whole list, so it must be written with PatchAt.
Json ReferencesPatch(const api::Object& object, Json references) {
  return {{"metadata", {{"uid", object.uid()}, {"ownerReferences", std::move(references)}}}};
}

}  // namespace

Status DaemonSets::CheckMayAdopt(const Set& set) {
  ASSIGN_OR_RETURN(const Set live, kube::Get<Set>(context_.client, set.ns(), set.name()));
  if (live.uid() == set.uid() && !live.deleting()) return base::OkStatus();
  return base::Error(StatusCode::kAborted, "DaemonSet '{}' is being deleted, or was replaced",
                     set.key());
}

template <typename T>
StatusOr<std::vector<std::shared_ptr<const T>>> DaemonSets::Claim(const Set& set,
                                                                  kube::Informer<T>& informer) {
  ASSIGN_OR_RETURN(const api::LabelSelector selector, api::LabelSelector::FromJson(set.selector()));
  std::vector<std::shared_ptr<const T>> claimed;
  for (const auto& object : informer.ByIndex(kByController, set.uid())) {
    if (selector.Matches(object->labels())) {
      claimed.push_back(object);
      continue;
    }
    Json references = References(*object);
    std::erase_if(references.get_ref<Json::array_t&>(),
                  [&](const Json& one) { return base::json::String(one, {"uid"}) == set.uid(); });
    const Status released =
        PatchAt(context_.client, informer, *object, ReferencesPatch(*object, references)).status();
    if (released.code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(released);
    LOG_INFO("daemon set {} has released {} {}, because its selector does not match it",
             base::Quote(set.key()), T::kInfo.singular, base::Quote(object->name()));
  }
  std::optional<Status> may_adopt;
  for (const auto& object : informer.ByIndex(kByController, OrphansOf(set.ns()))) {
    if (object->deleting() || !selector.Matches(object->labels())) continue;
    if (!may_adopt) may_adopt = CheckMayAdopt(set);
    RETURN_IF_ERROR(*may_adopt);
    Json references = References(*object);
    references.push_back(ControllerReference(set));
    const StatusOr<T> adopted =
        PatchAt(context_.client, informer, *object, ReferencesPatch(*object, references));
    if (adopted.status().code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(adopted);
    LOG_INFO("daemon set {} has adopted {} {}", base::Quote(set.key()), T::kInfo.singular,
             base::Quote(object->name()));
    claimed.push_back(std::make_shared<const T>(*adopted));
  }
  return claimed;
}

StatusOr<std::vector<PodPtr>> DaemonSets::ClaimPods(const Set& set) { return Claim(set, pods_); }

StatusOr<std::vector<DaemonSets::RevisionPtr>> DaemonSets::ClaimRevisions(const Set& set) {
  return Claim(set, revisions_);
}

}  // namespace berth::controllers::daemonset
