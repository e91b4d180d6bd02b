// Deletes the content of a namespace, and then removes its finalizer (namespaces.h).
#include <algorithm>

#include "api/time.h"
#include "base/log.h"
#include "controllers/namespace/conditions.h"
#include "controllers/namespace/namespaces.h"
#include "controllers/writes.h"

namespace berth::controllers::namespaces {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

namespace {

constexpr std::string_view kFinalizer = "kubernetes";

bool HasOurFinalizer(const api::Namespace& ns) {
  const std::vector<std::string> all = ns.spec_finalizers();
  return std::find(all.begin(), all.end(), kFinalizer) != all.end();
}

}  // namespace

Namespaces::Outcome Namespaces::Terminate(const api::Namespace& ns) {
  if (!HasOurFinalizer(ns)) return Outcome::Done();
  const StatusOr<kube::ServedKinds> kinds = kube::DiscoverKinds(context_.client);
  Content content;
  if (kinds.ok()) content = DeleteContent(context_.client, *kinds, ns.name());
  const StatusOr<api::Namespace> written =
      WriteConditions(ns, content, kinds.ok() ? "" : std::string(base::Message(kinds.status())));
  if (!written.ok()) return AfterApi(written.status());
  if (!kinds.ok()) return AfterApi(kinds.status());
  if (!content.failures.empty()) {
    return Outcome::Retry(base::Error(StatusCode::kInternal, "empty namespace '{}': {}", ns.name(),
                                      content.failures.front()));
  }
  if (!content.empty()) return Outcome::After(LookAgainAfter(ns));
  const Status finalized = Finalize(*written);
  if (finalized.ok()) {
    LOG_INFO("the finalizer of namespace {} is removed, because the namespace is empty",
             base::Quote(ns.name()));
  }
  return AfterApi(finalized);
}

milliseconds Namespaces::LookAgainAfter(const api::Namespace& ns) const {
  // The pause grows with the time that the deletion has already taken.
  const auto since = api::ParseTime(ns.String({"metadata", "deletionTimestamp"}));
  if (!since.ok()) return options_.look_again_max;
  const auto age = std::chrono::duration_cast<milliseconds>(context_.clock.Now() - *since) / 4;
  return std::clamp(age, options_.look_again_start, options_.look_again_max);
}

StatusOr<api::Namespace> Namespaces::WriteConditions(const api::Namespace& ns,
                                                     const Content& content,
                                                     const std::string& discovery_failure) {
  const Json& present = base::json::Array(ns.json(), {"status", "conditions"});
  // A namespace that is empty at the first pass ends at once and needs no conditions.
  if (present.empty() && content.empty() && discovery_failure.empty()) return ns;
  Json conditions = DeletionConditions(present, content, discovery_failure,
                                       api::FormatTime(context_.clock.Now()));
  if (conditions == present && ns.terminating()) return ns;
  return PatchAt(context_.client, namespaces_, ns,
                 {{"status", {{"phase", "Terminating"}, {"conditions", std::move(conditions)}}}},
                 "status");
}

Status Namespaces::Finalize(const api::Namespace& ns) {
  Json finalizers = Json::array();
  for (const std::string& finalizer : ns.spec_finalizers()) {
    if (finalizer != kFinalizer) finalizers.push_back(finalizer);
  }
  api::Namespace wanted = ns;
  wanted.Set({"spec", "finalizers"}, std::move(finalizers));
  const auto written = kube::Update(context_.client, wanted, "finalize");
  return written.status();
}

}  // namespace berth::controllers::namespaces
