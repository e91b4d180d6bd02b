// Calls of a driver under test: finds the faults that any call can have, whatever the command.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "platform/processes/exec.h"
#include "volume/flex/check/finding.h"
#include "volume/flex/driver_options.h"
#include "volume/flex/driver_reply.h"

namespace berth::volume {

class CheckedCalls {
 public:
  struct Options {
    std::string executable;
    std::string mark;  // NAME=value in the environment of all that the driver starts
    std::chrono::milliseconds deadline{std::chrono::seconds(30)};
    std::chrono::milliseconds slow_init{std::chrono::seconds(2)};
  };
  // Borrows both.
  CheckedCalls(platform::Exec& exec, Findings& findings, Options options)
      : exec_(exec), findings_(findings), options_(std::move(options)) {}

  // As ReadDriverReply. Failures that the driver may have are no findings of this class.
  base::StatusOr<DriverReply> Call(const std::string& command, std::vector<std::string> arguments,
                                   const SecretWords& secrets = {});

  // Whether its reply could not be read, which is a finding already.
  bool IsUnusable(const std::string& command) const { return unusable_.contains(command); }

 private:
  void Unusable(std::string_view rule, const std::string& command, std::string words);
  void JudgeText(const std::string& command, const platform::CommandResult& result,
                 const SecretWords& secrets);
  void JudgeReply(const std::string& command, const platform::CommandResult& result,
                  const base::StatusOr<DriverReply>& reply);
  void JudgeCapabilities(const base::Json& reply);

  platform::Exec& exec_;
  Findings& findings_;
  const Options options_;
  std::set<std::string> unusable_;
  std::set<std::string> hanging_;  // these are not waited for again
};

}  // namespace berth::volume
