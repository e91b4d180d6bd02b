#include "cli/objects/apply.h"

#include "base/json.h"
#include "cli/manifests.h"
#include "cli/objects/three_way_patch.h"
#include "cli/output.h"

namespace berth::cli {
namespace {

using base::Json;
using base::StatusCode;

// Returns the manifest with a copy of itself in the last-applied annotation.
Json AnnotateLastApplied(const api::Object& object) {
  api::Object annotated = object;
  base::json::Remove(annotated.mutable_json(), {"metadata", "annotations", kLastAppliedAnnotation});
  const std::string text = base::json::Dump(annotated.json()) + "\n";
  annotated.set_annotation(kLastAppliedAnnotation, text);
  return annotated.json();
}

// Returns "created", "configured" or "unchanged".
StatusOr<std::string_view> ApplyOne(kube::Client& client, const Manifest& manifest) {
  const api::Object& object = manifest.object;
  const Json wanted = AnnotateLastApplied(object);
  auto live = object.name().empty()
                  ? StatusOr<Json>(base::Error(StatusCode::kNotFound, "generated name"))
                  : client.Get(*manifest.kind, object.ns(), object.name());
  if (live.status().code() == StatusCode::kNotFound) {
    RETURN_IF_ERROR(client.Create(*manifest.kind, object.ns(), wanted));
    return "created";
  }
  RETURN_IF_ERROR(live);
  Json last = Json::object();
  const std::string text =
      base::json::String(*live, {"metadata", "annotations", kLastAppliedAnnotation});
  if (auto parsed = base::json::Parse(text); parsed.ok()) last = *std::move(parsed);
  // A difference in the annotation alone does not count. The annotation is written only together
  // with another change.
  if (ThreeWayPatch(last, object.json(), *live).empty()) return "unchanged";
  RETURN_IF_ERROR(client.Patch(*manifest.kind, object.ns(), object.name(), kube::PatchType::kMerge,
                               ThreeWayPatch(last, wanted, *live), ""));
  return "configured";
}

}  // namespace

Status ApplyManifests(kube::Client& client, const ApiOptions& api,
                      const std::vector<std::string>& files) {
  KindFinder kinds(client);
  ASSIGN_OR_RETURN(const std::vector<Manifest> manifests, ReadManifests(files, api.ns, kinds));
  size_t refused = 0;
  Status last = base::OkStatus();
  for (const Manifest& manifest : manifests) {
    const auto result = ApplyOne(client, manifest);
    if (result.ok()) {
      Print(fmt::format("{}/{} {}\n", manifest.kind->singular, manifest.object.name(), *result));
    } else {
      PrintError(fmt::format("{}: {}\n", manifest.where, base::Message(result.status())));
      last = result.status();
      ++refused;
    }
  }
  if (refused == 0) return base::OkStatus();
  return base::Error(last.code(), "{} of {} objects were not applied", refused, manifests.size());
}

}  // namespace berth::cli
