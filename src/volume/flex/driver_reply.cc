#include "volume/flex/driver_reply.h"

#include <strings.h>

#include "base/json.h"
#include "base/text.h"

namespace berth::volume {
namespace {

using base::Error;
using base::Json;
using base::OkStatus;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr int kMaxDepth = 16;
constexpr size_t kMaxShownError = 512;

// Finds the member of that name, and prefers the exact spelling to other upper and lower case.
// nullptr: there is none, or it is null.
const Json* Member(const Json& object, const std::string& name) {
  const Json* found = nullptr;
  if (const auto exact = object.find(name); exact != object.end()) {
    found = &*exact;
  } else {
    for (auto it = object.begin(); it != object.end() && found == nullptr; ++it) {
      if (strcasecmp(it.key().c_str(), name.c_str()) == 0) found = &*it;
    }
  }
  return found == nullptr || found->is_null() ? nullptr : found;
}

Status WrongType(std::string_view member, const Json& value, std::string_view wanted) {
  return Error(StatusCode::kInvalidArgument, "'{}' is of type {}, and has to be a {}", member,
               value.type_name(), wanted);
}

Status Read(const Json& object, const char* member, std::string& out) {
  const Json* value = Member(object, member);
  if (value == nullptr) return OkStatus();
  if (!value->is_string()) return WrongType(member, *value, "string");
  out = value->get<std::string>();
  return OkStatus();
}

Status Read(const Json& object, const char* member, bool& out) {
  const Json* value = Member(object, member);
  if (value == nullptr) return OkStatus();
  if (!value->is_boolean()) return WrongType(member, *value, "boolean");
  out = value->get<bool>();
  return OkStatus();
}

Status Read(const Json& object, const char* member, std::optional<int64_t>& out) {
  const Json* value = Member(object, member);
  if (value == nullptr) return OkStatus();
  const bool fits = value->is_number_integer() &&
                    !(value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX});
  if (!fits) return WrongType(member, *value, "whole number of 64 bits");
  out = value->get<int64_t>();
  return OkStatus();
}

Status Read(const Json& object, DriverCapabilities& out) {
  const Json* value = Member(object, "capabilities");
  if (value == nullptr) return OkStatus();
  if (!value->is_object()) return WrongType("capabilities", *value, "JSON object");
  RETURN_IF_ERROR(Read(*value, "attach", out.attach));
  RETURN_IF_ERROR(Read(*value, "selinuxRelabel", out.selinux_relabel));
  RETURN_IF_ERROR(Read(*value, "supportsMetrics", out.supports_metrics));
  RETURN_IF_ERROR(Read(*value, "fsGroup", out.fs_group));
  return Read(*value, "requiresFSResize", out.requires_fs_resize);
}

struct Parsed {
  std::string status;
  DriverReply reply;
};

StatusOr<Parsed> Parse(std::string_view text) {
  if (text.size() > kMaxDriverReply) {
    return Error(StatusCode::kInvalidArgument, "it is longer than {} KiB", kMaxDriverReply / 1024);
  }
  if (text.empty()) return Error(StatusCode::kInvalidArgument, "it is empty");
  const auto json = base::json::Parse(text, {.max_bytes = kMaxDriverReply, .max_depth = kMaxDepth});
  if (!json.ok()) {
    const size_t brace = text.find('{');
    if (brace != std::string_view::npos && brace > 0) {
      return Error(StatusCode::kInvalidArgument, "something else stands before its JSON object");
    }
    return Error(StatusCode::kInvalidArgument, "it is no JSON: {}", base::Message(json.status()));
  }
  if (!json->is_object()) return Error(StatusCode::kInvalidArgument, "it is no JSON object");
  Parsed parsed;
  RETURN_IF_ERROR(Read(*json, "status", parsed.status));
  RETURN_IF_ERROR(Read(*json, "message", parsed.reply.message));
  RETURN_IF_ERROR(Read(*json, "device", parsed.reply.device));
  RETURN_IF_ERROR(Read(*json, "volumeName", parsed.reply.volume_name));
  RETURN_IF_ERROR(Read(*json, "attached", parsed.reply.attached));
  RETURN_IF_ERROR(Read(*json, parsed.reply.capabilities));
  RETURN_IF_ERROR(Read(*json, "volumeNewSize", parsed.reply.volume_new_size));
  if (!parsed.status.empty()) return parsed;
  return Error(StatusCode::kInvalidArgument, "it has no 'status'");
}

// "; on standard error: ..." if the driver wrote there; else "".
std::string Aside(std::string_view err, const SecretWords& secrets) {
  const std::string shown = secrets.Redact(err, kMaxShownError);
  return shown.empty() ? "" : fmt::format("; on standard error: {}", shown);
}

std::string HowItEnded(int exit_code) {
  if (exit_code > 128) return fmt::format("it was ended by signal {}", exit_code - 128);
  return fmt::format("exit code {}", exit_code);
}

}  // namespace

StatusOr<DriverReply> ReadDriverReply(std::string_view command,
                                      const platform::CommandResult& result,
                                      const SecretWords& secrets) {
  const std::string_view out = base::Trim(result.out);
  const bool on_err = out.empty();
  const std::string_view text = on_err ? base::Trim(result.err) : out;
  const std::string aside = on_err ? "" : Aside(result.err, secrets);
  auto parsed = Parse(text);
  if (!parsed.ok()) {
    return Error(StatusCode::kUnavailable,
                 "{}: what it did is unknown, because what it printed is no reply: {} ({}): {}{}",
                 command, secrets.Redact(base::Message(parsed.status())),
                 HowItEnded(result.exit_code), text.empty() ? "nothing" : secrets.Redact(text),
                 aside);
  }
  if (parsed->status == "Not supported") {
    return Error(StatusCode::kUnimplemented, "{} command is not supported by the driver", command);
  }
  if (parsed->status != "Success") {
    const bool known = parsed->status == "Failure";
    return Error(
        StatusCode::kInternal, "{} command failed, status: {}{}, reason: {}{}", command,
        secrets.Redact(parsed->status),
        known ? "" : " (which is none of Success, Failure and Not supported)",
        parsed->reply.message.empty() ? "none given" : secrets.Redact(parsed->reply.message),
        aside);
  }
  if (result.exit_code != 0) {
    return Error(StatusCode::kUnavailable,
                 "{}: what it did is unknown, because the driver says Success and {}: {}{}",
                 command, HowItEnded(result.exit_code), secrets.Redact(text), aside);
  }
  return std::move(parsed->reply);
}

}  // namespace berth::volume
