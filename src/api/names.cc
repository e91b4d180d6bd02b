#include "api/names.h"

#include <string>

namespace berth::api {
namespace {

using base::Error;
using base::OkStatus;
using base::Status;
using base::StatusCode;

constexpr std::string_view kLabelRule =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
    "validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kSubdomainRule =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
    "validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kQualifiedRule =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr std::string_view kLabelValueRule =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and "
    "must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex "
    "used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
constexpr std::string_view kConfigKeyRule =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', "
    " or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

bool IsLower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool IsAlnum(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); }

bool IsLabel(std::string_view s) {
  if (s.empty() || !IsLower(s.front()) || !IsLower(s.back())) return false;
  for (const char c : s) {
    if (!IsLower(c) && c != '-') return false;
  }
  return true;
}

bool IsSubdomain(std::string_view s) {
  for (size_t dot; (dot = s.find('.')) != std::string_view::npos; s.remove_prefix(dot + 1)) {
    if (!IsLabel(s.substr(0, dot))) return false;
  }
  return IsLabel(s);
}

bool IsNamePart(std::string_view s) {
  if (s.empty() || !IsAlnum(s.front()) || !IsAlnum(s.back())) return false;
  for (const char c : s) {
    if (!IsAlnum(c) && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

Status Invalid(std::string_view message) {
  return Status(StatusCode::kInvalidArgument, base::ToAbsl(message));
}

Status TooLong(std::string_view what, int limit) {
  return Error(StatusCode::kInvalidArgument, "{}must be no more than {} characters", what, limit);
}

}  // namespace

Status CheckDns1123Label(std::string_view name) {
  if (name.size() > 63) return TooLong("", 63);
  return IsLabel(name) ? OkStatus() : Invalid(kLabelRule);
}

Status CheckDns1035Label(std::string_view name) {
  if (name.size() > 63) return Invalid("must be no more than 63 characters");
  if (IsLabel(name) && name.front() >= 'a') return OkStatus();
  return Invalid(
      "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
      "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
      "'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')");
}

Status CheckDns1123Subdomain(std::string_view name) {
  if (name.size() > 253) return TooLong("", 253);
  return IsSubdomain(name) ? OkStatus() : Invalid(kSubdomainRule);
}

Status CheckNamePrefix(std::string_view prefix) {
  std::string name(prefix);
  if (name.size() > 1 && name.back() == '-') name.back() = 'a';
  return CheckDns1123Subdomain(name);
}

Status CheckQualifiedName(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view prefix = name.substr(0, slash);
    if (name.find('/', slash + 1) != std::string_view::npos) {
      return Error(StatusCode::kInvalidArgument,
                   "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. "
                   "'example.com/MyName')",
                   kQualifiedRule);
    }
    if (prefix.empty()) return Invalid("prefix part must be non-empty");
    if (const Status valid = CheckDns1123Subdomain(prefix); !valid.ok()) {
      return Error(StatusCode::kInvalidArgument, "prefix part {}", base::Message(valid));
    }
    name.remove_prefix(slash + 1);
  }
  if (name.empty()) return Invalid("name part must be non-empty");
  if (name.size() > 63) return TooLong("name part ", 63);
  if (!IsNamePart(name)) return Error(StatusCode::kInvalidArgument, "name part {}", kQualifiedRule);
  return OkStatus();
}

Status CheckLabelValue(std::string_view value) {
  if (value.size() > 63) return TooLong("", 63);
  return value.empty() || IsNamePart(value) ? OkStatus() : Invalid(kLabelValueRule);
}

Status CheckConfigKey(std::string_view key) {
  if (key.size() > 253) return TooLong("", 253);
  if (key.empty()) return Invalid(kConfigKeyRule);
  for (const char c : key) {
    if (!IsAlnum(c) && c != '-' && c != '_' && c != '.') return Invalid(kConfigKeyRule);
  }
  if (key == ".") return Invalid("must not be '.'");
  if (key == "..") return Invalid("must not be '..'");
  if (key.starts_with("..")) return Invalid("must not start with '..'");
  return OkStatus();
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

Status CheckPathSegment(std::string_view name) {
  if (name == "." || name == "..") {
    return Error(StatusCode::kInvalidArgument, "may not be '{}'", name);
  }
  for (const char c : name) {
    if (c == '/' || c == '%') return Error(StatusCode::kInvalidArgument, "may not contain '{}'", c);
  }
  return OkStatus();
}

}  // namespace berth::api
