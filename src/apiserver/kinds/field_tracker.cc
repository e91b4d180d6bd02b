#include "apiserver/kinds/field_tracker.h"

#include "api/time.h"

namespace berth::apiserver {

using base::Status;
using base::json::Find;

namespace {

constexpr size_t kMaxManager = 128;  // bytes of a manager's name, as in Kubernetes
constexpr std::string_view kUnknownManager = "unknown";

bool IsPrint(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; }

void CheckManager(const std::string& manager, FieldErrors& errors) {
  if (manager.size() > kMaxManager) errors.TooLong("fieldManager", kMaxManager);
  for (size_t i = 0; i < manager.size(); ++i) {
    if (IsPrint(manager[i])) continue;
    errors.Invalid("fieldManager", manager,
                   fmt::format("invalid character U+{:04X} (at position {})",
                               static_cast<unsigned char>(manager[i]), i));
  }
}

Status OptionsError(const FieldErrors& errors, std::string_view options_kind) {
  const api::KindInfo options{
      .group = "meta.k8s.io", .version = "v1", .kind = options_kind, .plural = {}, .singular = {}};
  return errors.ToStatus(options, "");
}

// Returns the program of a User-Agent: "kubectl" for "kubectl/v1.20.2 (linux/amd64)".
std::string ProgramOf(std::string_view user_agent) {
  std::string out;
  for (const char c : user_agent.substr(0, user_agent.find('/'))) {
    if (out.size() < kMaxManager && IsPrint(c)) out += c;
  }
  return out;
}

}  // namespace

base::StatusOr<std::string> FieldManagerOf(const http::Request& request, const http::Query& query,
                                           std::string_view options_kind) {
  FieldErrors errors;
  const std::string& manager = query.Get("fieldManager");
  CheckManager(manager, errors);
  if (options_kind == kPatchOptions && query.Has("force")) {
    errors.Forbidden("force", "may not be specified for non-apply patch");
  }
  RETURN_IF_ERROR(OptionsError(errors, options_kind));
  if (!manager.empty()) return manager;
  const std::string program = ProgramOf(request.Header("User-Agent"));
  return program.empty() ? std::string(kUnknownManager) : program;
}

base::StatusOr<std::string> ApplyManagerOf(const http::Query& query) {
  FieldErrors errors;
  const std::string& manager = query.Get("fieldManager");
  if (manager.empty()) errors.Required("fieldManager", "is required for apply patch");
  CheckManager(manager, errors);
  RETURN_IF_ERROR(OptionsError(errors, kPatchOptions));
  return manager;
}

api::ManagedFields ManagedFieldsOf(const Json& object) {
  const Json* list = Find(object, {"metadata", "managedFields"});
  if (list == nullptr) return {};
  return api::ParseManagedFields(*list).value_or(api::ManagedFields());
}

FieldTracker FieldTracker::OfWriter(std::string manager, std::string_view subresource,
                                    base::WallTime now) {
  FieldTracker tracker;
  tracker.writer_ = {.manager = std::move(manager),
                     .subresource = std::string(subresource),
                     .time = api::FormatTime(now)};
  return tracker;
}

FieldTracker FieldTracker::OfApply(const api::ManagedFields& managed) {
  FieldTracker tracker;
  tracker.applied_ = true;
  tracker.managed_ = api::ManagedFieldsJson(managed);
  return tracker;
}

namespace {

// The managers that the client sent, if they are valid; otherwise those of the old object.
api::ManagedFields ManagersBefore(const Json& object, const Json* old, bool client_may_edit) {
  const Json* sent = Find(object, {"metadata", "managedFields"});
  if (client_may_edit && sent != nullptr) {
    if (api::IsManagedFieldsReset(*sent)) return {};
    auto managed = api::ParseManagedFields(*sent);
    if (managed.ok() && !managed->empty()) return *std::move(managed);
  }
  return old == nullptr ? api::ManagedFields() : ManagedFieldsOf(*old);
}

}  // namespace

void FieldTracker::SetManagedFields(const KindRules& rules, Json& object, const Json* old) const {
  static const Json nothing;
  Json& metadata = object["metadata"];
  Json list = managed_;
  if (!applied_) {
    api::FieldWriter writer = writer_;
    writer.api_version = rules.info->api_version();
    // The creator does not manage the initial status, because the server sets it.
    Json status;
    if (old == nullptr && rules.info->has_status && object.contains("status")) {
      status = std::move(object["status"]);
      object.erase("status");
    }
    list = api::ManagedFieldsJson(
        api::TrackWrite(rules.schema, old == nullptr ? nothing : *old, object,
                        ManagersBefore(object, old, writer.subresource.empty()), writer));
    if (!status.is_null()) object["status"] = std::move(status);
  }
  if (list.empty()) {
    metadata.erase("managedFields");
  } else {
    metadata["managedFields"] = std::move(list);
  }
}

void FieldTracker::KeepTimes(Json& object, const Json& old) {
  const Json* now = Find(object, {"metadata", "managedFields"});
  const Json* before = Find(old, {"metadata", "managedFields"});
  if (now == nullptr || before == nullptr || *now == *before) return;
  if (!api::EqualExceptTimes(*now, *before)) return;
  Json changed = std::exchange(object["metadata"]["managedFields"], *before);
  if (object != old) object["metadata"]["managedFields"] = std::move(changed);
}

}  // namespace berth::apiserver
