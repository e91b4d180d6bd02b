// `NAME call` (storage_program.h) in memory, as an Exec, for tests of the back ends that call it: a
// subclass answers the calls. It checks that each request has the right secret, and that nothing
// else than standard input says anything of it. Thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/mutex.h"
#include "platform/processes/exec.h"

namespace berth::block {

class FakeStorageProgram : public platform::Exec {
 public:
  base::StatusOr<platform::CommandResult> Run(const platform::Command& command) override {
    EXPECT_EQ(command.argv.size(), 2U);
    EXPECT_TRUE(command.argv[0].ends_with(secret_.program)) << command.argv[0];
    EXPECT_EQ(command.argv[1], "call");
    EXPECT_TRUE(command.env.empty());
    const auto request = base::json::Parse(command.stdin_data);
    EXPECT_TRUE(request.ok());
    base::MutexLock lock(mutex_);
    const std::string call = base::json::String(*request, {"call"});
    calls_.push_back(call);
    if (!broken_.ok()) return broken_;
    if (crashes_) {
      return platform::CommandResult{.exit_code = 139,
                                     .err = "with " + secret_.value + " it crashed"};
    }
    if (const auto failure = failures_.extract(call); !failure.empty()) {
      return Fail(failure.mapped().first, failure.mapped().second);
    }
    if (base::json::String(*request, {"cluster", secret_.member}) != secret_.value) {
      return Fail(secret_.refusal_code, secret_.refusal);
    }
    return Answer(call, *request);
  }

  // All calls fail so.
  void Break(base::Status status) {
    base::MutexLock lock(mutex_);
    broken_ = std::move(status);
  }
  // All calls crash, and say the secret.
  void Crash() {
    base::MutexLock lock(mutex_);
    crashes_ = true;
  }
  // The next call of that name fails so.
  void FailNext(const std::string& call, std::string code, std::string message) {
    base::MutexLock lock(mutex_);
    failures_[call] = {std::move(code), std::move(message)};
  }
  std::vector<std::string> TakeCalls() {
    base::MutexLock lock(mutex_);
    return std::exchange(calls_, {});
  }

 protected:
  using Json = base::Json;

  struct Secret {
    std::string program;  // that gets it
    std::string member;   // of the request's `cluster`
    std::string value;
    std::string refusal_code;  // of a call with another value
    std::string refusal;
  };
  explicit FakeStorageProgram(Secret secret) : secret_(std::move(secret)) {}

  static platform::CommandResult Fail(const std::string& code, const std::string& message) {
    const Json error = {{"error", {{"code", code}, {"message", message}}}};
    return {.exit_code = 1, .out = base::json::Dump(error), .err = ""};
  }
  static platform::CommandResult GiveResult(const Json& result) {
    return {.exit_code = 0, .out = base::json::Dump(result), .err = ""};
  }

  virtual platform::CommandResult Answer(const std::string& call, const Json& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  base::Mutex mutex_;

 private:
  const Secret secret_;
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::pair<std::string, std::string>> failures_ ABSL_GUARDED_BY(mutex_);
  base::Status broken_ ABSL_GUARDED_BY(mutex_);
  bool crashes_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace berth::block
