#include "controllers/definitions.h"

#include <set>

#include "api/codecs/yaml.h"
#include "api/kinds/kinds.h"

namespace berth::controllers {

using api::CustomResourceDefinition;
using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

bool IsEstablished(const Json& definition) {
  for (const Json& condition : base::json::Array(definition, {"status", "conditions"})) {
    if (base::json::String(condition, {"type"}) == "Established") {
      return base::json::String(condition, {"status"}) == "True";
    }
  }
  return false;
}

Status Install(kube::Client& client, CustomResourceDefinition wanted) {
  wanted.set_label(kManagedByProgram, kBerth);
  const Status created = kube::Create(client, wanted).status();
  if (created.code() != StatusCode::kAlreadyExists) return created;
  ASSIGN_OR_RETURN(const CustomResourceDefinition present,
                   kube::Get<CustomResourceDefinition>(client, "", wanted.name()));
  if (present.label(kManagedByProgram) != kBerth) return base::OkStatus();
  return kube::MergePatch(client, present, {{"spec", wanted.json()["spec"]}}).status();
}

// Waits until all of `names` are established. Returns those that are not when the time is up.
std::set<std::string> WaitEstablished(kube::Client& client, std::set<std::string> names,
                                      std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!names.empty() && std::chrono::steady_clock::now() < deadline) {
    const StatusOr<kube::ListResult> list = client.List(CustomResourceDefinition::kInfo, "", {});
    if (!list.ok()) break;
    for (const Json& item : list->items) {
      if (IsEstablished(item)) names.erase(base::json::String(item, {"metadata", "name"}));
    }
    if (names.empty()) break;
    kube::ListOptions from;
    from.resource_version = list->resource_version;
    from.timeout = timeout;
    const Status watched =
        client.Watch(CustomResourceDefinition::kInfo, "", from, {}, [&](kube::WatchEvent event) {
          if (IsEstablished(event.object)) {
            names.erase(base::json::String(event.object, {"metadata", "name"}));
          }
          return !names.empty();
        });
    if (!watched.ok() && watched.code() != StatusCode::kOutOfRange) break;
  }
  return names;
}

}  // namespace

Status InstallDefinitions(kube::Client& client, std::span<const std::string_view> texts,
                          std::chrono::seconds timeout) {
  std::set<std::string> names;
  for (const std::string_view text : texts) {
    ASSIGN_OR_RETURN(std::vector<Json> documents, api::ParseYaml(text));
    for (Json& document : documents) {
      CustomResourceDefinition definition(std::move(document));
      names.insert(definition.name());
      RETURN_IF_ERROR(
          base::Annotate(Install(client, definition),
                         fmt::format("install CustomResourceDefinition '{}'", definition.name())));
    }
  }
  const std::set<std::string> left = WaitEstablished(client, names, timeout);
  if (left.empty()) return base::OkStatus();
  return Error(StatusCode::kDeadlineExceeded, "the API does not serve '{}' yet",
               fmt::join(left, "', '"));
}

}  // namespace berth::controllers
