// Records the templates that a set has had, as ControllerRevisions (daemon_sets.h).
#include <algorithm>
#include <set>

#include "base/ids.h"
#include "base/log.h"
#include "controllers/daemonset/claiming.h"
#include "controllers/daemonset/daemon_sets.h"
#include "controllers/writes.h"
#include "kube/informers/live_object.h"

namespace berth::controllers::daemonset {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr size_t kMaxNamePrefix = 223;

// What a revision keeps of a set: its template, as a patch that restores it.
Json DataOf(const api::DaemonSet& set) {
  Json pod_template = set.pod_template();
  pod_template["$patch"] = "replace";
  return {{"spec", {{"template", std::move(pod_template)}}}};
}

// The FNV-1a hash of the template and of the collision count, in the letters of generated names.
std::string HashOf(const api::DaemonSet& set) {
  uint32_t hash = base::Fnv1a32(base::json::Dump(set.pod_template()));
  if (set.collision_count() > 0) hash = base::Fnv1a32(std::to_string(set.collision_count()), hash);
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  for (const char digit : std::to_string(hash)) {
    out += kLetters[static_cast<unsigned char>(digit) % kLetters.size()];
  }
  return out;
}

}  // namespace

StatusOr<DaemonSets::History> DaemonSets::FindHistory(const Set& set) {
  ASSIGN_OR_RETURN(std::vector<RevisionPtr> all, ClaimRevisions(set));
  std::sort(all.begin(), all.end(), [](const RevisionPtr& a, const RevisionPtr& b) {
    return std::pair(a->revision(), a->name()) < std::pair(b->revision(), b->name());
  });
  const Json data = DataOf(set);
  History history;
  std::vector<RevisionPtr> twins;
  int64_t latest = 0;
  for (const RevisionPtr& revision : all) {
    if (revision->data() != data) {
      history.old.push_back(revision);
      latest = std::max(latest, revision->revision());
      continue;
    }
    if (history.current != nullptr) twins.push_back(history.current);
    history.current = revision;  // the newest of them
  }
  if (history.current == nullptr) {
    ASSIGN_OR_RETURN(history.current, CreateRevision(set, data, latest + 1));
    return history;
  }
  RETURN_IF_ERROR(MergeTwins(set, *history.current, twins));
  if (history.current->revision() > latest) return history;
  // The set went back to an earlier template, so the revision of that template becomes the newest.
  ASSIGN_OR_RETURN(Revision newest, PatchAt(context_.client, revisions_, *history.current,
                                            {{"revision", latest + 1}}));
  history.current = std::make_shared<const Revision>(std::move(newest));
  return history;
}

StatusOr<DaemonSets::RevisionPtr> DaemonSets::CreateRevision(const Set& set, const Json& data,
                                                             int64_t revision) {
  const std::string hash = HashOf(set);
  Revision wanted({{"apiVersion", Revision::kInfo.api_version()},
                   {"kind", std::string(Revision::kInfo.kind)},
                   {"data", data},
                   {"revision", revision}});
  wanted.set_name(fmt::format("{}-{}", set.name().substr(0, kMaxNamePrefix), hash));
  wanted.set_ns(set.ns());
  wanted.Set({"metadata", "labels"}, base::json::Map(set.pod_template(), {"metadata", "labels"}));
  wanted.set_label(kRevisionHash, hash);
  wanted.Set({"metadata", "ownerReferences"}, Json::array({ControllerReference(set)}));
  const StatusOr<Revision> created = kube::Create(context_.client, wanted);
  if (created.ok()) {
    revisions_.Observe(created->json());
    return std::make_shared<const Revision>(*created);
  }
  if (created.status().code() != StatusCode::kAlreadyExists) return created.status();
  ASSIGN_OR_RETURN(const Revision present,
                   kube::ReadLiveObject(context_.client, revisions_, set.ns(), wanted.name()));
  const auto owner = present.controller();
  if (owner && owner->uid == set.uid() && present.data() == data) {
    return std::make_shared<const Revision>(present);
  }
  // Another template has this hash, or another owner's revision has this name. A new collision
  // count leads to another name.
  LOG_WARNING("daemon set {}: the revision name {} is taken", base::Quote(set.key()),
              base::Quote(present.name()));
  const StatusOr<Set> counted =
      PatchAt(context_.client, sets_, set,
              {{"status", {{"collisionCount", set.collision_count() + 1}}}}, "status");
  RETURN_IF_ERROR(counted);
  return base::Error(StatusCode::kAborted, "the revision '{}' is of another template",
                     present.name());
}

Status DaemonSets::MergeTwins(const Set& set, const Revision& kept,
                              const std::vector<RevisionPtr>& twins) {
  const std::string hash = kept.label(kRevisionHash);
  for (const RevisionPtr& twin : twins) {
    for (const PodPtr& pod : pods_.ByIndex(kByController, set.uid())) {
      if (pod->label(kRevisionHash) != twin->label(kRevisionHash)) continue;
      const Status labelled =
          Patch(context_.client, pods_, *pod,
                {{"metadata", {{"uid", pod->uid()}, {"labels", {{kRevisionHash, hash}}}}}})
              .status();
      if (!labelled.ok() && labelled.code() != StatusCode::kNotFound) return labelled;
    }
    RETURN_IF_ERROR(kube::Delete(context_.client, *twin));
  }
  return base::OkStatus();
}

Status DaemonSets::CutHistory(const Set& set, const History& history,
                              const std::vector<PodPtr>& pods) {
  const auto limit = static_cast<size_t>(std::max<int64_t>(set.revision_history_limit(), 0));
  if (history.old.size() <= limit) return base::OkStatus();
  std::set<std::string> in_use;
  for (const PodPtr& pod : pods) in_use.insert(pod->label(kRevisionHash));
  size_t excess = history.old.size() - limit;
  for (const RevisionPtr& revision : history.old) {
    if (excess == 0) break;
    if (revision->deleting() || in_use.contains(revision->label(kRevisionHash))) continue;
    RETURN_IF_ERROR(kube::Delete(context_.client, *revision));
    --excess;
  }
  return base::OkStatus();
}

}  // namespace berth::controllers::daemonset
