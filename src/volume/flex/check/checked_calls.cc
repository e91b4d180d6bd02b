#include "volume/flex/check/checked_calls.h"

#include <strings.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/text.h"

namespace berth::volume {
namespace {

using base::Json;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::array<const char*, 5> kCapabilities = {"attach", "selinuxRelabel", "supportsMetrics",
                                                      "fsGroup", "requiresFSResize"};

Json ParsedOrNull(std::string_view text) {
  auto json = base::json::Parse(base::Trim(text), {.max_bytes = kMaxDriverReply, .max_depth = 16});
  return json.ok() ? *std::move(json) : Json();
}

}  // namespace

void CheckedCalls::ReportUnusable(std::string_view rule, const std::string& command,
                                  std::string words) {
  findings_.AddFault(rule, command, std::move(words));
  unusable_.insert(command);
}

StatusOr<DriverReply> CheckedCalls::CallDriver(const std::string& command,
                                               std::vector<std::string> arguments,
                                               const SecretWords& secrets) {
  if (hanging_.contains(command)) {
    return base::Error(StatusCode::kDeadlineExceeded, "{} did not end when it was called before",
                       command);
  }
  platform::Command run{.argv = {options_.executable, command},
                        .env = {options_.mark},
                        .timeout = options_.deadline,
                        .max_output = kMaxDriverReply + 1};
  for (std::string& argument : arguments) run.argv.push_back(std::move(argument));
  const auto start = steady_clock::now();
  const auto result = exec_.Run(run);
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
  if (result.status().code() == StatusCode::kDeadlineExceeded) {
    hanging_.insert(command);
    ReportUnusable("no-answer", command,
                   fmt::format("it did not end within {} ms and was killed", took.count()));
    return result.status();
  }
  if (!result.ok()) {
    ReportUnusable("cannot-run", command,
                   fmt::format("it cannot be run: {}", base::ToString(result.status())));
    return result.status();
  }
  if (command == "init" && took > options_.slow_init) {
    findings_.AddRemark("slow-init", command,
                        fmt::format("it took {} ms: init runs at each start and after each update, "
                                    "and volumes wait for it",
                                    took.count()));
  }
  auto reply = ReadDriverReply(command, *result, secrets);
  CheckText(command, *result, secrets);
  CheckReply(command, *result, reply);
  return reply;
}

void CheckedCalls::CheckText(const std::string& command, const platform::CommandResult& result,
                             const SecretWords& secrets) {
  const std::string_view out = base::Trim(result.out);
  const std::string_view err = base::Trim(result.err);
  if (!out.empty() && !err.empty()) {
    findings_.AddFault("standard-error", command,
                       fmt::format("it writes to standard error beside its reply, which a kubelet "
                                   "reads as part of it, and then refuses: {}",
                                   secrets.Redact(err, 256)));
  }
  for (const std::string_view text : {out, err}) {
    if (secrets.Redact(text, text.size()).find("[redacted]") != std::string::npos) {
      findings_.AddFault(
          "secret-printed", command,
          "it prints a secret that it was given: replies become events and logs, which "
          "many may read");
    }
  }
}

void CheckedCalls::CheckReply(const std::string& command, const platform::CommandResult& result,
                              const StatusOr<DriverReply>& reply) {
  const std::string_view out = base::Trim(result.out);
  const Json json = ParsedOrNull(out.empty() ? result.err : result.out);
  const std::string status = base::json::String(json, {"status"});
  if (reply.status().code() == StatusCode::kUnavailable) {
    if (status == "Success" && result.exit_code != 0) {
      ReportUnusable("success-exit-code", command,
                     fmt::format("it says Success and exits with {}: that is taken for a failure",
                                 result.exit_code));
    } else if (json.is_null() && out.find('{') != std::string_view::npos && out.front() != '{') {
      ReportUnusable("stray-output", command,
                     fmt::format("it prints something else before its JSON object: {}",
                                 base::Message(reply.status())));
    } else {
      ReportUnusable("no-reply", command, std::string(base::Message(reply.status())));
    }
  } else if (reply.status().code() == StatusCode::kInternal) {
    if (status != "Failure") {
      ReportUnusable("unknown-status", command,
                     fmt::format("its status is {}: there are Success, Failure and Not supported, "
                                 "spelled so",
                                 base::Quote(status)));
    }
    if (status == "Failure" && result.exit_code == 0) {
      findings_.AddFault(
          "failure-exit-code", command,
          "it says Failure and exits with 0: scripts, and people, take that for done");
    }
    if (status == "Failure" && base::json::String(json, {"message"}).empty()) {
      findings_.AddFault(
          "failure-without-reason", command,
          "it fails and does not say why in 'message', which is all that a user sees");
    }
  } else if (reply.ok() && command == "init") {
    CheckCapabilities(json);
  }
}

void CheckedCalls::CheckCapabilities(const Json& reply) {
  for (const auto& [name, value] : base::json::Map(reply, {"capabilities"}).items()) {
    const bool known =
        std::any_of(kCapabilities.begin(), kCapabilities.end(),
                    [&key = name](const char* one) { return strcasecmp(one, key.c_str()) == 0; });
    if (known) continue;
    findings_.AddFault(
        "unknown-capability", "init",
        fmt::format("there is no capability {}: it counts for nothing ({} are there)",
                    base::Quote(name), fmt::join(kCapabilities, ", ")));
  }
}

}  // namespace berth::volume
