// Calls a driver under test, and finds the faults that a call of any command can have.
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

  // Calls the driver, and returns the result of ReadDriverReply. A failure that the driver reports
  // correctly is no finding of this class.
  base::StatusOr<DriverReply> CallDriver(const std::string& command,
                                         std::vector<std::string> arguments,
                                         const SecretWords& secrets = {});

  // Whether a reply to the command could not be read, which is a finding already.
  bool IsUnusable(const std::string& command) const { return unusable_.contains(command); }

 private:
  void ReportUnusable(std::string_view rule, const std::string& command, std::string words);
  void CheckText(const std::string& command, const platform::CommandResult& result,
                 const SecretWords& secrets);
  void CheckReply(const std::string& command, const platform::CommandResult& result,
                  const base::StatusOr<DriverReply>& reply);
  void CheckCapabilities(const base::Json& reply);

  platform::Exec& exec_;
  Findings& findings_;
  const Options options_;
  std::set<std::string> unusable_;
  std::set<std::string> hanging_;  // these are not waited for again
};

}  // namespace berth::volume
