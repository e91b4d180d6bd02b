#include "apiserver/resource_writer.h"

#include "api/merging/patch.h"
#include "apiserver/access/block_agent_restriction.h"
#include "apiserver/access/node_restriction.h"
#include "apiserver/formats/reply_format.h"
#include "apiserver/kinds/object_meta.h"
#include "apiserver/kinds/stored_form.h"
#include "apiserver/kinds/write_rules.h"
#include "apiserver/requests/body_decoder.h"

namespace berth::apiserver {

using base::Status;
using base::StatusCode;
using base::json::Find;
using base::json::String;
using Action = Mutation::Plan::Action;

namespace {

// How many generated names a create tries, because a name may be taken.
constexpr int kNameAttempts = 8;

// Translates the store's errors into those of the API.
Status TranslateStoreError(const Status& status, const api::KindInfo& info, std::string_view name) {
  switch (status.code()) {
    case StatusCode::kAlreadyExists:
      return AlreadyExistsError(info, name);
    case StatusCode::kAborted:
      return StaleError(info, name);
    case StatusCode::kNotFound:
      return NotFoundError(info, name);
    case StatusCode::kResourceExhausted:
      return KubeError(Reason::kInternalError,
                       fmt::format("the object was not stored, because the disk is full: {}",
                                   base::Message(status)));
    default:
      return status;
  }
}

base::StatusOr<std::string> ManagerOf(const ResourceRequest& request,
                                      std::string_view options_kind) {
  return FieldManagerOf(request.exchange->request(), request.query, options_kind);
}

enum PatchKind : int { kJson, kMerge, kStrategic };

base::StatusOr<PatchKind> PatchKindOf(const ResourceRequest& request) {
  const bool strategic = !request.rules->custom && api::SupportsStrategicMerge(request.info());
  std::string_view type = request.exchange->request().Header("Content-Type");
  type = type.substr(0, type.find(';'));
  if (http::EqualsIgnoreCase(type, "application/json-patch+json")) return PatchKind::kJson;
  if (http::EqualsIgnoreCase(type, "application/merge-patch+json")) return PatchKind::kMerge;
  if (http::EqualsIgnoreCase(type, "application/strategic-merge-patch+json") && strategic) {
    return PatchKind::kStrategic;
  }
  // kube-apiserver's words differ between built-in kinds and custom resources.
  if (strategic) return KubeError(Reason::kUnsupportedMediaType, "415: Unsupported Media Type");
  return KubeError(Reason::kUnsupportedMediaType,
                   "the body of the request was in an unknown format - accepted media types "
                   "include: application/json-patch+json, application/merge-patch+json, "
                   "application/apply-patch+yaml");
}

Reason ReasonOfPatchError(const Status& status) {
  switch (status.code()) {
    case StatusCode::kResourceExhausted:
      return Reason::kRequestEntityTooLarge;
    case StatusCode::kUnknown:
      return Reason::kUnknown;
    default:
      return Reason::kBadRequest;
  }
}

base::StatusOr<Json> ApplyPatch(PatchKind kind, const api::KindInfo& info, Json document,
                                const Json& patch, const std::string& name) {
  auto patched = kind == PatchKind::kJson ? api::ApplyJsonPatch(std::move(document), patch)
                 : kind == PatchKind::kMerge
                     ? api::ApplyMergePatch(std::move(document), patch)
                     : api::ApplyStrategicMergePatch(info, std::move(document), patch);
  if (patched.ok()) return patched;
  if (patched.status().code() == StatusCode::kFailedPrecondition) {
    return KubeError(
        Reason::kInvalid, base::Message(patched.status()),
        {.name = name, .group = std::string(info.group), .kind = std::string(info.kind)});
  }
  return KubeError(ReasonOfPatchError(patched.status()), base::Message(patched.status()));
}

}  // namespace

ResourceWriter::Render ResourceWriter::ObjectRenderer(KindPtr kind, int code) {
  return [kind = std::move(kind), code](http::Exchange& exchange, const Mutation::Result& result) {
    // Revision 0 is the dry run of a create: it stores nothing, but answers like a create.
    const bool created = result.action == Action::kCreate || result.revision == 0;
    ReplyObject(exchange, created ? 201 : code, TextAs(*kind, result.text, result.revision));
  };
}

void ResourceWriter::StartMutation(bool dry_run, Mutation::Options options, Planner planner,
                                   Mutation::Done done) {
  if (dry_run) {  // makes the same plan, and then writes nothing
    planner = [this, inner = std::move(planner)](
                  const store::Record* current) -> base::StatusOr<Mutation::Plan> {
      ASSIGN_OR_RETURN(Mutation::Plan planned, inner(current));
      // Returns the errors that the store would return.
      if (planned.action == Action::kCreate && context_.store.Get(planned.key).ok()) {
        return base::Error(StatusCode::kAlreadyExists, "key '{}' exists", planned.key);
      }
      planned.action = Action::kNothing;
      return planned;
    };
  }
  std::make_shared<Mutation>(context_.store, context_.workers, context_.in_flight,
                             std::move(options), std::move(planner), std::move(done))
      ->Run();
}

Mutation::Planner ResourceWriter::AddNodeRestriction(const ResourceRequest& request,
                                                     Planner planner) {
  const Role::Kind role = request.role.kind;
  if (role != Role::Kind::kNode && role != Role::Kind::kBlockAgent) return planner;
  return [this, role, node = request.role.node, info = request.rules->info,
          subresource = request.subresource,
          deletes = request.verb == "delete" || request.subresource == "eviction",
          inner = std::move(planner)](const store::Record* current) {
    auto planned = inner(current);
    if (!planned.ok()) return planned;
    Json before;
    Json after;
    const Status allowed = [&]() -> Status {
      if (current != nullptr) {
        ASSIGN_OR_RETURN(before, DecodeStored(*current->value));
      }
      if (!deletes) {
        ASSIGN_OR_RETURN(after, DecodeStored(planned->text));
      }
      const Json* const old_object = current != nullptr ? &before : nullptr;
      const Json* const new_object = deletes ? nullptr : &after;
      if (role == Role::Kind::kNode) {
        return CheckNodeWrite({.node = node,
                               .info = *info,
                               .subresource = subresource,
                               .deletes = deletes,
                               .before = old_object,
                               .after = new_object});
      }
      return CheckBlockAgentWrite(
          {.node = node,
           .info = *info,
           .subresource = subresource,
           .before = old_object,
           .after = new_object,
           .find_node = [this](const std::string& name) { return FindNode(name); }});
    }();
    return allowed.ok() ? std::move(planned) : base::StatusOr<Mutation::Plan>(allowed);
  };
}

base::StatusOr<std::optional<Json>> ResourceWriter::FindNode(const std::string& name) {
  auto found = StoreLookup(context_.store).Get(api::kinds::kNode, "", name);
  if (found.ok()) return std::optional<Json>(*std::move(found));
  if (found.status().code() == StatusCode::kNotFound) return std::optional<Json>();
  return found.status();
}

void ResourceWriter::RunMutation(const ResourceRequest& request, bool dry_run,
                                 Mutation::Options options, Planner planner, Render render) {
  // Checked before the write, because an object that the client cannot receive should not be
  // written.
  if (!FormatFor(request.exchange->request(), request.rules->schema)) {
    return ReplyError(*request.exchange,
                      NotAcceptableError(request.exchange->request(), request.rules->schema,
                                         /*list=*/false));
  }
  options.commit_here = request.exchange->request().local;
  StartMutation(dry_run, std::move(options), AddNodeRestriction(request, std::move(planner)),
                [exchange = request.exchange, rules = request.rules, name = request.name,
                 render = std::move(render)](base::StatusOr<Mutation::Result> result) {
                  if (result.ok()) return render(*exchange, *result);
                  ReplyError(*exchange,
                             IsKubeError(result.status())
                                 ? result.status()
                                 : TranslateStoreError(result.status(), *rules->info, name));
                });
}

Status ResourceWriter::CheckNamespace(const ResourceRequest& request, std::string_view name) {
  if (!request.info().namespaced) return base::OkStatus();
  const auto record = context_.store.Get(ObjectStoreKey(api::kinds::kNamespace, "", request.ns));
  if (!record.ok()) {
    return record.status().code() == StatusCode::kNotFound
               ? NotFoundError(api::kinds::kNamespace, request.ns)
               : record.status();
  }
  // A text search is enough in the usual case and cheaper than parsing. A label's value cannot
  // match, because its quotes are escaped.
  if (record->value->find(R"("deletionTimestamp":)") == std::string::npos) return base::OkStatus();
  ASSIGN_OR_RETURN(const Json object, DecodeStored(*record->value));
  if (Find(object, {"metadata", "deletionTimestamp"}) == nullptr) return base::OkStatus();
  return ForbiddenError(request.info(), name,
                        fmt::format("unable to create new content in namespace {} because it is "
                                    "being terminated",
                                    request.ns),
                        {{.reason = "NamespaceTerminating",
                          .message = fmt::format("namespace {} is being terminated", request.ns),
                          .field = "metadata.namespace"}});
}

void ResourceWriter::Create(const ResourceRequest& request) {
  ResourceRequest named = request;
  const auto create = [&]() -> Status {
    ASSIGN_OR_RETURN(const bool dry_run, IsDryRun(request.query));
    ASSIGN_OR_RETURN(const std::string manager, ManagerOf(request, kCreateOptions));
    ASSIGN_OR_RETURN(Json object, DecodeObject(request));
    RETURN_IF_ERROR(FillNamespace(request.info(), request.ns, object));
    if (!String(object, {"metadata", "resourceVersion"}).empty()) {
      return KubeError(Reason::kInternalError,
                       "resourceVersion should not be set on objects to be created");
    }
    named.name = String(object, {"metadata", "name"});
    const bool generated = named.name.empty();
    RETURN_IF_ERROR(CheckNamespace(request, named.name));
    RunMutation(
        named, dry_run, {.read_first = false, .attempts = kNameAttempts},
        [this, rules = request.rules, ns = request.ns, object = std::move(object), manager,
         generated](const store::Record*) mutable -> base::StatusOr<Mutation::Plan> {
          // A create with a generated name may be planned again, so it plans with a copy.
          Json made = generated ? object : std::move(object);
          StoreLookup lookup(context_.store);
          const base::WallTime now = context_.clock.Now();
          RETURN_IF_ERROR(
              PrepareNew(*rules, made, FieldTracker::OfWriter(manager, "", now), lookup, now));
          const std::string name = String(made, {"metadata", "name"});
          return Mutation::Plan{.action = Action::kCreate,
                                .key = ObjectStoreKey(*rules->info, ns, name),
                                .text = EncodeStored(*rules, made),
                                .retry_taken_name = generated};
        },
        ObjectRenderer(request.rules, 201));
    return base::OkStatus();
  };
  if (const Status status = create(); !status.ok()) ReplyError(*request.exchange, status);
}

base::StatusOr<Mutation::Plan> ResourceWriter::PlanPut(const ResourceRequest& request, Json wanted,
                                                       const std::string& manager,
                                                       const store::Record* current) {
  const KindRules& rules = *request.rules;
  const base::WallTime now = context_.clock.Now();
  const auto tracker = FieldTracker::OfWriter(manager, request.subresource, now);
  const bool conditional = !String(wanted, {"metadata", "resourceVersion"}).empty();
  StoreLookup lookup(context_.store);
  if (current == nullptr) {
    if (!rules.create_on_update || !request.subresource.empty()) {
      return NotFoundError(*rules.info, request.name);
    }
    if (conditional) return StaleError(*rules.info, request.name);
    RETURN_IF_ERROR(CheckNamespace(request, request.name));
    RETURN_IF_ERROR(PrepareNew(rules, wanted, tracker, lookup, now));
    return Mutation::Plan{.action = Action::kCreate,
                          .key = ObjectStoreKey(*rules.info, request.ns, request.name),
                          .text = EncodeStored(rules, wanted)};
  }
  if (!conditional && rules.update_needs_version) {
    FieldErrors errors;
    errors.InvalidText("metadata.resourceVersion", "0x0", "must be specified for an update");
    return errors.ToStatus(*rules.info, request.name);
  }
  ASSIGN_OR_RETURN(const Json old, DecodeStoredAs(rules, *current->value));
  RETURN_IF_ERROR(CheckUpdatePreconditions(rules, wanted, old, current->revision));
  RETURN_IF_ERROR(PrepareUpdate(rules, wanted, old, request.subresource, tracker, lookup, now));
  return PlanUpdate(rules, wanted, *current);
}

void ResourceWriter::Update(const ResourceRequest& request) {
  const auto update = [&]() -> Status {
    ASSIGN_OR_RETURN(const bool dry_run, IsDryRun(request.query));
    ASSIGN_OR_RETURN(const std::string manager, ManagerOf(request, kUpdateOptions));
    ASSIGN_OR_RETURN(Json object, DecodeObject(request));
    RETURN_IF_ERROR(FillNamespace(request.info(), request.ns, object));
    RETURN_IF_ERROR(CheckName(object, request.name));
    const bool conditional = !String(object, {"metadata", "resourceVersion"}).empty();
    RunMutation(
        request, dry_run,
        {.key = ObjectStoreKey(request.info(), request.ns, request.name),
         .attempts = conditional ? 1 : kConflictAttempts},
        [this, request, manager, object = std::move(object)](const store::Record* current) {
          return PlanPut(request, object, manager, current);
        },
        ObjectRenderer(request.rules));
    return base::OkStatus();
  };
  if (const Status status = update(); !status.ok()) ReplyError(*request.exchange, status);
}

base::StatusOr<Mutation::Plan> ResourceWriter::PlanPatch(const ResourceRequest& request, int kind,
                                                         const Json& patch,
                                                         const std::string& manager,
                                                         api::StrictErrors strict,
                                                         const store::Record* current) {
  const KindRules& rules = *request.rules;
  if (current == nullptr) return NotFoundError(*rules.info, request.name);
  ASSIGN_OR_RETURN(Json old, DecodeRecordAs(rules, *current));
  ASSIGN_OR_RETURN(Json wanted,
                   ApplyPatch(static_cast<PatchKind>(kind), *rules.info, old, patch, request.name));
  RETURN_IF_ERROR(ConformPatched(request, wanted, strict));
  RETURN_IF_ERROR(FillNamespace(*rules.info, request.ns, wanted));
  RETURN_IF_ERROR(CheckName(wanted, request.name));
  // The patched document had the current resourceVersion. If it has another one now, the patch has
  // set that as a precondition.
  RETURN_IF_ERROR(CheckUpdatePreconditions(rules, wanted, old, current->revision));
  old["metadata"].erase("resourceVersion");
  StoreLookup lookup(context_.store);
  const base::WallTime now = context_.clock.Now();
  RETURN_IF_ERROR(PrepareUpdate(rules, wanted, old, request.subresource,
                                FieldTracker::OfWriter(manager, request.subresource, now), lookup,
                                now));
  return PlanUpdate(rules, wanted, *current);
}

void ResourceWriter::Patch(const ResourceRequest& request) {
  if (IsApply(request.exchange->request())) return Apply(request);
  const auto run = [&]() -> Status {
    ASSIGN_OR_RETURN(const bool dry_run, IsDryRun(request.query));
    ASSIGN_OR_RETURN(const PatchKind kind, PatchKindOf(request));
    ASSIGN_OR_RETURN(const std::string manager, ManagerOf(request, kPatchOptions));
    api::StrictErrors strict;
    ASSIGN_OR_RETURN(Json patch, DecodePatch(request.exchange->TakeBody(), strict));
    RunMutation(
        request, dry_run,
        {.key = ObjectStoreKey(request.info(), request.ns, request.name),
         .attempts = kConflictAttempts},
        [this, request, kind, manager, patch = std::move(patch),
         strict = std::move(strict)](const store::Record* current) {
          return PlanPatch(request, kind, patch, manager, strict, current);
        },
        ObjectRenderer(request.rules));
    return base::OkStatus();
  };
  if (const Status status = run(); !status.ok()) ReplyError(*request.exchange, status);
}

}  // namespace berth::apiserver
