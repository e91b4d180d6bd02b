// The part of ResourceWriter for PATCH with application/apply-patch+yaml (server-side apply).

#include "api/codecs/yaml.h"
#include "api/time.h"
#include "apiserver/kinds/object_meta.h"
#include "apiserver/kinds/stored_form.h"
#include "apiserver/kinds/write_rules.h"
#include "apiserver/requests/body_decoder.h"
#include "apiserver/resource_writer.h"

namespace berth::apiserver {

using base::Status;
using base::StatusCode;
using base::json::Find;
using base::json::String;
using Action = Mutation::Plan::Action;

namespace {

// "apps/v1, Kind=DaemonSet", as Kubernetes writes a kind.
std::string KindText(std::string_view api_version, std::string_view kind) {
  return fmt::format("{}{}, Kind={}", api_version.find('/') == std::string_view::npos ? "/" : "",
                     api_version, kind);
}

// Parses the body of an apply. Adds duplicate keys to `strict`. 400 unless it is one document.
base::StatusOr<Json> ParseConfig(const std::string& body, api::StrictErrors& strict) {
  // JSON is tried first, because kubectl sends JSON, which parses faster than YAML.
  if (auto json = base::json::Parse(body); json.ok()) {
    api::StrictErrors duplicates;
    api::FindDuplicates(body, *json, duplicates);
    if (duplicates.empty()) return json;
  }
  std::vector<std::string> duplicates;
  auto documents = api::ParseYaml(body, {}, &duplicates);
  AddYamlDuplicates(duplicates, strict);
  if (!documents.ok()) {
    return KubeError(Reason::kBadRequest,
                     fmt::format("error decoding YAML: {}", base::Message(documents.status())));
  }
  if (documents->size() != 1) {
    return KubeError(Reason::kBadRequest,
                     fmt::format("error decoding YAML: the body must be one document, not {}",
                                 documents->size()));
  }
  return std::move(documents->front());
}

void DropNulls(Json& value) {
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end();) {
      if (it->is_null()) {
        it = value.erase(it);
      } else {
        DropNulls(*it++);
      }
    }
  } else if (value.is_array()) {
    for (Json& item : value) DropNulls(item);
  }
}

// Checks the configuration and fills in its namespace. Its null members are kept, because they
// unset fields.
base::StatusOr<Json> CheckConfig(const ResourceRequest& request, Json config) {
  const api::KindInfo& info = request.info();
  const std::string version = String(config, {"apiVersion"});
  const std::string kind = String(config, {"kind"});
  if (!config.is_object() || kind != info.kind || version != info.api_version()) {
    return KubeError(Reason::kBadRequest,
                     fmt::format("invalid object type: {}", KindText(version, kind)));
  }
  Json checked = config;
  RETURN_IF_ERROR(CheckShape(info, checked));
  RETURN_IF_ERROR(ConformObject(*request.rules, checked));
  if (const Json* managed = Find(checked, {"metadata", "managedFields"}); managed != nullptr) {
    return KubeError(Reason::kBadRequest, "metadata.managedFields must be nil");
  }
  if (!config.contains("metadata") || config["metadata"].is_null()) {
    config["metadata"] = Json::object();
  }
  RETURN_IF_ERROR(FillNamespace(info, request.ns, config));
  if (config["metadata"].contains("name")) RETURN_IF_ERROR(CheckName(config, request.name));
  return config;
}

// Removes the parts of a configuration that the request cannot set. Without a subresource, this is
// the status. With the status subresource, it is everything except the status and, for some kinds,
// some of the metadata.
void RemoveUnsettable(const ResourceRequest& request, Json& config) {
  if (request.subresource.empty()) {
    if (request.info().has_status) config.erase("status");
  } else {
    Json metadata = {{"name", request.name}};
    if (request.rules->status_keeps_metadata) {
      for (const char* field : {"labels", "annotations", "finalizers"}) {
        if (const Json* value = Find(config, {"metadata", field})) metadata[field] = *value;
      }
    }
    Json kept = {{"apiVersion", config["apiVersion"]}, {"kind", config["kind"]}};
    if (const Json* status = Find(config, {"status"})) kept["status"] = *status;
    kept["metadata"] = std::move(metadata);
    config = std::move(kept);
  }
  // These are preconditions, which have been checked.
  base::json::Remove(config, {"metadata", "resourceVersion"});
  base::json::Remove(config, {"metadata", "uid"});
}

Status ConflictsError(const std::vector<api::ApplyConflict>& conflicts) {
  constexpr size_t kMaxCauses = ErrorDetails::kMaxCauses;
  ErrorDetails details;
  std::string list;
  size_t count = 0;
  for (const api::ApplyConflict& conflict : conflicts) {
    count += conflict.fields.count();
    const size_t room = kMaxCauses - details.causes.size();
    if (room == 0) continue;
    list += fmt::format("{}conflicts with {}:", list.empty() ? "" : "\n", conflict.manager);
    for (const std::string& path : conflict.fields.Paths(room)) {
      details.causes.push_back({.reason = "FieldManagerConflict",
                                .message = fmt::format("conflict with {}", conflict.manager),
                                .field = path});
      list += fmt::format("\n- {}", path);
    }
  }
  if (count > kMaxCauses) list += fmt::format("\n- and {} more", count - kMaxCauses);
  const std::string message = count == 1
                                  ? fmt::format("Apply failed with 1 conflict: {}: {}",
                                                details.causes[0].message, details.causes[0].field)
                                  : fmt::format("Apply failed with {} conflicts: {}", count, list);
  return KubeError(Reason::kConflict, message, details);
}

// Merges the configuration into `live`, which is null if there is no object yet. 409 if another
// manager owns a field that the configuration changes, unless the query has force=true.
base::StatusOr<api::ApplyResult> MergeConfig(const ResourceRequest& request, Json live, Json config,
                                             const std::string& manager, base::WallTime now) {
  const api::KindInfo& info = request.info();
  const std::string name = String(config, {"metadata", "name"});
  RemoveUnsettable(request, config);
  api::ManagedFields managed = ManagedFieldsOf(live);
  if (!live.is_null()) base::json::Remove(live, {"metadata", "managedFields"});
  auto result = api::ApplyConfiguration(request.rules->schema, live, config, std::move(managed),
                                        {.manager = manager,
                                         .api_version = info.api_version(),
                                         .subresource = request.subresource,
                                         .time = api::FormatTime(now)},
                                        request.query.Bool("force"));
  if (!result.ok()) {
    return KubeError(
        Reason::kInternalError,
        fmt::format("failed to create typed patch object ({}/{}; {}): {}", request.ns, name,
                    KindText(info.api_version(), info.kind), base::Message(result.status())));
  }
  if (!result->conflicts.empty()) return ConflictsError(result->conflicts);
  DropNulls(result->object);
  RETURN_IF_ERROR(CheckShape(info, result->object));
  RETURN_IF_ERROR(ConformObject(*request.rules, result->object));
  RETURN_IF_ERROR(CheckName(result->object, request.name));
  return result;
}

}  // namespace

bool IsApply(const http::Request& request) {
  std::string_view type = request.Header("Content-Type");
  return http::EqualsIgnoreCase(type.substr(0, type.find(';')), "application/apply-patch+yaml");
}

base::StatusOr<Mutation::Plan> ResourceWriter::PlanApplyNew(const ResourceRequest& request,
                                                            const Json& config,
                                                            const std::string& manager) {
  const KindRules& rules = *request.rules;
  if (!request.subresource.empty()) return NotFoundError(*rules.info, request.name);
  if (!request.may_create) {
    return ForbiddenError(*rules.info, request.name,
                          "it does not exist, and the user may not create it");
  }
  if (const std::string uid = String(config, {"metadata", "uid"}); !uid.empty()) {
    return ConflictError(*rules.info, request.name,
                         fmt::format("uid mismatch: the provided object specified uid {}, and no "
                                     "existing object was found",
                                     uid));
  }
  RETURN_IF_ERROR(CheckNamespace(request, request.name));
  const base::WallTime now = context_.clock.Now();
  ASSIGN_OR_RETURN(api::ApplyResult result, MergeConfig(request, nullptr, config, manager, now));
  StoreLookup lookup(context_.store);
  RETURN_IF_ERROR(
      PrepareNew(rules, result.object, FieldTracker::OfApply(result.managed), lookup, now));
  return Mutation::Plan{.action = Action::kCreate,
                        .key = ObjectStoreKey(*rules.info, request.ns, request.name),
                        .text = EncodeStored(rules, result.object)};
}

base::StatusOr<Mutation::Plan> ResourceWriter::PlanApply(const ResourceRequest& request,
                                                         const Json& config,
                                                         const std::string& manager,
                                                         const store::Record* current) {
  if (current == nullptr) return PlanApplyNew(request, config, manager);
  const KindRules& rules = *request.rules;
  ASSIGN_OR_RETURN(const Json old, DecodeStoredAs(rules, *current->value));
  RETURN_IF_ERROR(CheckUpdatePreconditions(rules, config, old, current->revision));
  const base::WallTime now = context_.clock.Now();
  ASSIGN_OR_RETURN(api::ApplyResult result, MergeConfig(request, old, config, manager, now));
  StoreLookup lookup(context_.store);
  RETURN_IF_ERROR(PrepareUpdate(rules, result.object, old, request.subresource,
                                FieldTracker::OfApply(result.managed), lookup, now));
  return PlanUpdate(rules, result.object, *current);
}

void ResourceWriter::Apply(const ResourceRequest& request) {
  const auto run = [&]() -> Status {
    ASSIGN_OR_RETURN(const bool dry_run, IsDryRun(request.query));
    ASSIGN_OR_RETURN(const std::string manager, ApplyManagerOf(request.query));
    api::StrictErrors strict;
    ASSIGN_OR_RETURN(Json config, ParseConfig(request.exchange->TakeBody(), strict));
    RETURN_IF_ERROR(ReportStrictErrors(request, strict, "error strict decoding YAML"));
    ASSIGN_OR_RETURN(config, CheckConfig(request, std::move(config)));
    RunMutation(
        request, dry_run,
        {.key = ObjectStoreKey(request.info(), request.ns, request.name),
         .attempts = kConflictAttempts},
        [this, request, manager, config = std::move(config)](const store::Record* current) {
          return PlanApply(request, config, manager, current);
        },
        ObjectRenderer(request.rules));
    return base::OkStatus();
  };
  if (const Status status = run(); !status.ok()) ReplyError(*request.exchange, status);
}

}  // namespace berth::apiserver
