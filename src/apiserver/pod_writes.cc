// The part of ResourceWriter that is only for pods: binding to a node, and eviction.

#include "api/time.h"
#include "apiserver/kinds/object_meta.h"
#include "apiserver/kinds/stored_form.h"
#include "apiserver/kinds/write_rules.h"
#include "apiserver/requests/body_decoder.h"
#include "apiserver/resource_writer.h"

namespace berth::apiserver {

using base::Status;
using base::json::Find;
using base::json::String;

namespace {

void ReplyDone(http::Exchange& exchange, const Mutation::Result&) {
  ReplyObject(exchange, 201,
              R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201})");
}

void SetCondition(Json& pod, std::string_view type, std::string_view status, base::WallTime now) {
  Json conditions = base::json::Array(pod, {"status", "conditions"});
  std::erase_if(conditions.get_ref<Json::array_t&>(),
                [&](const Json& one) { return String(one, {"type"}) == type; });
  conditions.push_back({{"type", std::string(type)},
                        {"status", std::string(status)},
                        {"lastProbeTime", nullptr},
                        {"lastTransitionTime", api::FormatTime(now)}});
  base::json::Set(pod, {"status", "conditions"}, std::move(conditions));
}

base::StatusOr<Mutation::Plan> PlanBinding(const ResourceRequest& request, const Json& binding,
                                           const store::Record* current, base::WallTime now) {
  const api::KindInfo& info = request.info();
  if (current == nullptr) return NotFoundError(info, request.name);
  ASSIGN_OR_RETURN(Json pod, DecodeStored(*current->value));
  const std::string uid = String(binding, {"metadata", "uid"});
  if (!uid.empty() && uid != String(pod, {"metadata", "uid"})) {
    return ConflictError(
        info, request.name,
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: "
                    "{}",
                    uid, String(pod, {"metadata", "uid"})));
  }
  if (Find(pod, {"metadata", "deletionTimestamp"}) != nullptr) {
    return ConflictError(
        info, request.name,
        fmt::format("pod {} is being deleted, cannot be assigned to a host", request.name));
  }
  if (const std::string host = String(pod, {"spec", "nodeName"}); !host.empty()) {
    return ConflictError(
        info, request.name,
        fmt::format("pod {} is already assigned to node \"{}\"", request.name, host));
  }
  if (!base::json::Array(pod, {"spec", "schedulingGates"}).empty()) {
    return ConflictError(info, request.name,
                         fmt::format("pod {} has non-empty .spec.schedulingGates", request.name));
  }
  SetCondition(pod, "PodScheduled", "True", now);
  base::json::Set(pod, {"spec", "nodeName"}, String(binding, {"target", "name"}));
  for (const auto& [key, value] : base::json::Map(binding, {"metadata", "annotations"}).items()) {
    if (value.is_string()) base::json::Set(pod, {"metadata", "annotations", key}, value);
  }
  FieldErrors errors;
  ValidateMetadata(*request.rules, pod, errors);
  request.rules->validate(pod, errors);
  RETURN_IF_ERROR(errors.ToStatus(info, request.name));
  return PlanUpdate(*request.rules, pod, *current);
}

}  // namespace

void ResourceWriter::Bind(const ResourceRequest& request) {
  const auto run = [&]() -> Status {
    ASSIGN_OR_RETURN(const bool dry_run, IsDryRun(request.query));
    ASSIGN_OR_RETURN(Json binding, DecodeBody(request, api::SchemaOf("v1", "Binding"), "Binding"));
    if (String(binding, {"target", "name"}).empty()) {
      return KubeError(
          Reason::kInvalid,
          fmt::format("Binding \"{}\" is invalid: target.name: Required value", request.name));
    }
    RunMutation(
        request, dry_run,
        {.key = ObjectStoreKey(request.info(), request.ns, request.name),
         .attempts = kConflictAttempts},
        [this, request, binding = std::move(binding)](const store::Record* current) {
          return PlanBinding(request, binding, current, context_.clock.Now());
        },
        ReplyDone);
    return base::OkStatus();
  };
  if (const Status status = run(); !status.ok()) ReplyError(*request.exchange, status);
}

// An eviction is a delete, because there are no disruption budgets that could forbid it.
void ResourceWriter::Evict(const ResourceRequest& request) {
  const auto run = [&]() -> Status {
    ASSIGN_OR_RETURN(const bool dry_run, IsDryRun(request.query));
    ASSIGN_OR_RETURN(const Json eviction,
                     DecodeBody(request, api::SchemaOf("policy/v1", "Eviction"), "Eviction"));
    const std::string name = String(eviction, {"metadata", "name"});
    if (!name.empty() && name != request.name) {
      return KubeError(Reason::kBadRequest, "name in URL does not match name in Eviction object");
    }
    const Json* body = Find(eviction, {"deleteOptions"});
    ASSIGN_OR_RETURN(DeleteRequest options, ParseDeleteOptions(body != nullptr ? *body : Json()));
    options.dry_run |= dry_run;
    RunMutation(
        request, options.dry_run,
        {.key = ObjectStoreKey(request.info(), request.ns, request.name),
         .attempts = options.resource_version.empty() ? kConflictAttempts : 1},
        [this, request, options](const store::Record* current) -> base::StatusOr<Mutation::Plan> {
          if (current == nullptr) return NotFoundError(request.info(), request.name);
          return PlanDelete(*request.rules, *current, options, context_.clock.Now());
        },
        ReplyDone);
    return base::OkStatus();
  };
  if (const Status status = run(); !status.ok()) ReplyError(*request.exchange, status);
}

}  // namespace berth::apiserver
