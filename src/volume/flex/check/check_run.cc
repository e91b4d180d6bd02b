// The single calls, and the order of the phases. The steps that the volume goes through are in
// check_volume.cc.
#include "volume/flex/check/check_run.h"

#include <algorithm>

#include "base/base64.h"
#include "base/ids.h"
#include "base/log.h"

namespace berth::volume {

using base::StatusCode;
using base::StatusOr;

CheckRun::CheckRun(platform::Exec& exec, const DriverCheckOptions& options, Scratch& scratch)
    : options_(options),
      scratch_(scratch),
      calls_(exec, findings_,
             {.executable = options.executable,
              .mark = scratch.mark(),
              .deadline = options.deadline,
              .slow_init = options.slow_init}),
      exec_(exec),
      volume_("berth-check-" + base::NewUuid().substr(0, 8)),
      secret_("secret-" + base::NewUuid()) {}

DriverCheckReport CheckRun::Run() {
  if (CheckInit()) {
    CheckUnknownCommand();
    CheckVolumeName();
    CheckNoProcesses("init");
    const bool attached = !capabilities_.attach || CheckAttach();
    if (attached) {
      CheckReadAndWrite();
      CheckReadOnly();
      CheckFailingMount();
    }
    CheckUnmountOfNothing();
    if (capabilities_.attach && attached) CheckDetach();
    CheckLeftovers();
  }
  return {.findings = findings_.all(), .calls = supported_};
}

DriverOptions CheckRun::OptionsFor(bool read_only, bool of_mount) const {
  DriverOptions options;
  options.values = {{"kubernetes.io/fsType", options_.fs_type},
                    {"kubernetes.io/pvOrVolumeName", volume_},
                    {"kubernetes.io/readwrite", read_only ? "ro" : "rw"}};
  if (of_mount) {
    options.values.insert({{"kubernetes.io/pod.name", "berth-check"},
                           {"kubernetes.io/pod.namespace", "default"},
                           {"kubernetes.io/pod.uid", "berth-check"},
                           {"kubernetes.io/serviceAccount.name", "default"},
                           {"kubernetes.io/secret/berth-check", base::EncodeBase64(secret_)}});
    options.secrets.Add(secret_);
    for (const auto& [key, value] : options_.secrets) {
      options.values["kubernetes.io/secret/" + key] = base::EncodeBase64(value);
      options.secrets.Add(value);
    }
  }
  for (const auto& [key, value] : options_.options) options.values[key] = value;
  return options;
}

StatusOr<DriverReply> CheckRun::CallDriver(const std::string& command,
                                           std::vector<std::string> arguments,
                                           const SecretWords& secrets) {
  auto reply = calls_.CallDriver(command, std::move(arguments), secrets);
  const bool known = std::find(supported_.begin(), supported_.end(), command) != supported_.end();
  if (reply.ok() && !known) supported_.push_back(command);
  return reply;
}

CheckRun::Outcome CheckRun::MustSucceed(const std::string& command,
                                        const std::vector<std::string>& arguments,
                                        std::string_view rule, std::string_view why,
                                        const SecretWords& secrets, DriverReply* reply) {
  auto answer = CallDriver(command, arguments, secrets);
  if (answer.status().code() == StatusCode::kUnimplemented) return Outcome::kNotSupported;
  if (!answer.ok()) {
    // A reply that could not be read is a finding already, and counts only once.
    if (!calls_.IsUnusable(command)) {
      findings_.AddFault(rule, command, fmt::format("{}: {}", why, base::Message(answer.status())));
    }
    return Outcome::kFailed;
  }
  if (reply != nullptr) *reply = *std::move(answer);
  return Outcome::kDone;
}

CheckRun::Outcome CheckRun::MustSucceed(const std::string& command,
                                        const std::vector<std::string>& arguments,
                                        std::string_view rule, std::string_view why,
                                        DriverReply* reply) {
  return MustSucceed(command, arguments, rule, why, SecretWords(), reply);
}

bool CheckRun::CheckInit() {
  DriverReply reply;
  const Outcome outcome =
      MustSucceed("init", {}, "init-fails", "a driver whose init fails is not used", &reply);
  if (outcome == Outcome::kNotSupported) {
    findings_.AddFault("init-fails", "init", "it is not supported, but every driver needs it");
  }
  if (outcome != Outcome::kDone) return false;
  capabilities_ = reply.capabilities;
  // init is called whenever the driver is found again.
  const auto again = CallDriver("init", {});
  if (!again.ok()) {
    findings_.AddFault("init-again", "init",
                       fmt::format("a second one fails, and each start of a node agent has one: {}",
                                   base::Message(again.status())));
  } else if (again->capabilities.attach != capabilities_.attach) {
    findings_.AddFault("init-again", "init",
                       "one call answers that the driver attaches, and the other that it does not");
  }
  return true;
}

void CheckRun::CheckUnknownCommand() {
  const std::string command = "berth-no-such-command";
  const auto reply = calls_.CallDriver(command, {});
  knows_not_supported_ = reply.status().code() == StatusCode::kUnimplemented;
  if (knows_not_supported_) return;
  findings_.AddFault(
      "unknown-command", command,
      fmt::format("a command that it does not know has to be answered by Not supported, "
                  "so that later protocols work: {}",
                  reply.ok() ? "it says Success" : std::string(base::Message(reply.status()))));
}

void CheckRun::CheckVolumeName() {
  if (!knows_not_supported_) return;
  MustSucceed("getvolumename", {OptionsFor(false, false).RenderJson()}, "refused",
              "it is called for each volume; if the name is not known, say Not supported");
}

bool CheckRun::CheckAttach() {
  const std::string options = OptionsFor(false, false).RenderJson();
  DriverReply first;
  const Outcome outcome = MustSucceed("attach", {options, options_.node}, "refused",
                                      "the volume is not attached", &first);
  if (outcome == Outcome::kFailed) return false;
  attached_device_ = first.device;
  if (outcome == Outcome::kDone) {
    DriverReply again;
    if (MustSucceed("attach", {options, options_.node}, "attach-again",
                    "a volume that is attached is attached again after a crash, and that has to "
                    "succeed",
                    &again) == Outcome::kDone &&
        again.device != first.device) {
      findings_.AddFault("attach-again", "attach",
                         fmt::format("a second one gives device {} in place of {}",
                                     base::Quote(again.device), base::Quote(first.device)));
    }
  }
  DriverReply attached;
  if (MustSucceed("isattached", {options, options_.node}, "refused", "the volume was attached",
                  &attached) == Outcome::kDone &&
      !attached.attached) {
    findings_.AddFault(
        "attached-and-not", "isattached",
        "it says that a volume is not attached which it attached: it would be detached "
        "under its pod");
  }
  return true;
}

void CheckRun::CheckDetach() {
  const std::vector<std::string> arguments = {volume_, options_.node};
  if (MustSucceed("detach", arguments, "refused", "the volume is not detached") != Outcome::kDone) {
    return;
  }
  MustSucceed("detach", arguments, "detach-again",
              "a volume that is detached is detached again after a crash, and that has to succeed");
}

void CheckRun::CheckNoProcesses(const std::string& after) {
  const auto left = scratch_.ListProcesses();
  if (!left.ok() || left->empty()) return;
  findings_.AddFault("leaves-processes", after,
                     fmt::format("processes still run after it, and no call ends them: {}",
                                 fmt::join(*left, ", ")));
}

void CheckRun::CheckLeftovers() {
  CheckNoProcesses(capabilities_.attach ? "detach" : "unmount");
  const std::string last = capabilities_.attach ? "unmountdevice" : "unmount";
  if (const auto mounts = scratch_.ListMounts(); mounts.ok() && !mounts->empty()) {
    findings_.AddFault(
        "leaves-mounts", last,
        fmt::format("after the last call there is still {}", fmt::join(*mounts, ", ")));
  }
  if (const auto loops = scratch_.ListLoopDevices(); loops.ok() && !loops->empty()) {
    findings_.AddFault(
        "leaves-loop-devices", last,
        fmt::format("after the last call there is still {}", fmt::join(*loops, ", ")));
  }
}

}  // namespace berth::volume
