#include "apiserver/formats/field_errors.h"

#include "base/text.h"

namespace berth::apiserver {

using base::Json;

namespace {

// Longer values are cut in messages. This length is enough to recognise a value.
constexpr size_t kMaxShown = 256;
// A rule's own message may have 5 KiB.
constexpr size_t kMaxMessage = 8 * 1024;

std::string ShownText(const Json& value) {
  return base::Shortened(base::json::Dump(value), kMaxShown);
}

}  // namespace

void FieldErrors::Add(std::string_view reason, std::string_view field, std::string message) {
  if (causes_.size() == ErrorDetails::kMaxCauses) return;
  causes_.push_back({std::string(reason), base::Shortened(message, kMaxMessage),
                     base::Shortened(field, base::kLongestFieldPath)});
}

void FieldErrors::Required(std::string_view field, std::string_view detail) {
  Add("FieldValueRequired", field,
      detail.empty() ? "Required value" : fmt::format("Required value: {}", detail));
}

void FieldErrors::Invalid(std::string_view field, const Json& value, std::string_view detail) {
  InvalidText(field, ShownText(value), detail);
}

void FieldErrors::InvalidText(std::string_view field, std::string_view shown,
                              std::string_view detail) {
  Add("FieldValueInvalid", field, fmt::format("Invalid value: {}: {}", shown, detail));
}

void FieldErrors::NotSupported(std::string_view field, const Json& value,
                               std::initializer_list<std::string_view> supported) {
  NotSupported(field, value, std::vector<std::string>(supported.begin(), supported.end()));
}

void FieldErrors::TypeInvalid(std::string_view field, const Json& value, std::string_view detail) {
  Add("FieldValueTypeInvalid", field,
      fmt::format("Invalid value: {}: {}", ShownText(value), detail));
}

void FieldErrors::TooMany(std::string_view field, size_t count, size_t max) {
  Add("FieldValueTooMany", field,
      fmt::format("Too many: {}: must have at most {} items", count, max));
}

bool FieldErrors::blocking() const {
  return std::any_of(causes_.begin(), causes_.end(), [](const ErrorDetails::Cause& cause) {
    return cause.reason == "FieldValueRequired" || cause.reason == "FieldValueTypeInvalid" ||
           cause.reason == "FieldValueTooLong" || cause.reason == "FieldValueTooMany";
  });
}

void FieldErrors::Append(const FieldErrors& others) {
  for (const ErrorDetails::Cause& cause : others.causes_) {
    Add(cause.reason, cause.field, cause.message);
  }
}

void FieldErrors::NotSupported(std::string_view field, const Json& value,
                               const std::vector<std::string>& supported) {
  std::string list;
  for (const std::string_view one : supported) {
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", one);
  }
  Add("FieldValueNotSupported", field,
      fmt::format("Unsupported value: {}: supported values: {}", ShownText(value), list));
}

void FieldErrors::Forbidden(std::string_view field, std::string_view detail) {
  Add("FieldValueForbidden", field, fmt::format("Forbidden: {}", detail));
}

void FieldErrors::Duplicate(std::string_view field, const Json& value) {
  Add("FieldValueDuplicate", field, fmt::format("Duplicate value: {}", ShownText(value)));
}

void FieldErrors::NotFound(std::string_view field, const Json& value) {
  Add("FieldValueNotFound", field, fmt::format("Not found: {}", ShownText(value)));
}

void FieldErrors::TooLong(std::string_view field, size_t max_bytes) {
  Add("FieldValueTooLong", field,
      fmt::format("Too long: may not be more than {} bytes", max_bytes));
}

void FieldErrors::Check(std::string_view field, const Json& value, const base::Status& status) {
  if (!status.ok()) Invalid(field, value, base::Message(status));
}

void FieldErrors::Immutable(std::string_view field, const Json* value, const Json* old) {
  static const Json absent;
  const Json& now = value != nullptr ? *value : absent;
  const Json& before = old != nullptr ? *old : absent;
  if (now != before) Invalid(field, now, "field is immutable");
}

base::Status FieldErrors::ToStatus(const api::KindInfo& kind, std::string_view name) const {
  if (causes_.empty()) return base::OkStatus();
  std::string list;
  for (const auto& cause : causes_) {
    list += fmt::format("{}{}: {}", list.empty() ? "" : ", ", cause.field, cause.message);
  }
  if (causes_.size() > 1) list = fmt::format("[{}]", list);
  const std::string group = kind.group.empty() ? "" : fmt::format(".{}", kind.group);
  return KubeError(Reason::kInvalid,
                   fmt::format("{}{} \"{}\" is invalid: {}", kind.kind, group, name, list),
                   {.name = std::string(name),
                    .group = std::string(kind.group),
                    .kind = std::string(kind.kind),
                    .causes = causes_});
}

std::string ChildField(const std::string& field, std::string_view name) {
  return base::ExtendFieldPath(field.empty() ? field : field + ".", name);
}

std::string ItemField(const std::string& field, size_t index) {
  return base::ExtendFieldPath(field, fmt::format("[{}]", index));
}

std::string KeyField(const std::string& field, std::string_view key) {
  return base::ExtendFieldPath(base::ExtendFieldPath(field + "[", key), "]");
}

}  // namespace berth::apiserver
