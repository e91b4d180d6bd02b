// The common part of this room's doubles. It notes every call, and makes it fail, wait or lose its
// answer as the test told it to.
//
// Thread-safe.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace berth::rpc {

class CallScript {
 public:
  static constexpr int kAlways = -1;

  // The next `times` calls of `method` fail before they have an effect.
  void Fail(const std::string& method, const base::Status& status, int times = 1);
  // The next `times` calls have their effect, and the caller sees UNAVAILABLE.
  void LoseAnswer(const std::string& method, int times = 1);
  // Each call waits this long before its effect.
  void Delay(const std::string& method, std::chrono::milliseconds delay);
  // Calls wait before their effect until Release. If the caller gives up first, the call has no
  // effect.
  void Hang(const std::string& method);
  void Release(const std::string& method);
  void ReleaseAll();
  // Runs after a call's effect, with its request; its failure is the call's.
  void AfterEffect(const std::string& method,
                   std::function<base::Status(const google::protobuf::Message&)> hook);

  // The calls that came in, oldest first.
  std::vector<std::string> Methods() const;
  int Count(const std::string& method) const;
  template <typename Request>
  std::vector<Request> Requests(const std::string& method) const {
    std::vector<Request> found;
    base::MutexLock lock(mutex_);
    for (const Call& call : calls_) {
      if (call.method == method) found.push_back(dynamic_cast<const Request&>(*call.request));
    }
    return found;
  }
  template <typename Request>
  Request LastRequest(const std::string& method) const {
    auto all = Requests<Request>(method);
    return all.empty() ? Request() : all.back();
  }
  // False if `method` was not called `count` times (in all) within the time.
  bool WaitFor(const std::string& method, int count = 1,
               std::chrono::milliseconds timeout = std::chrono::seconds(10)) const;
  void ForgetCalls();

  // For the doubles: notes the call, and runs `effect` as the functions above prescribe.
  grpc::Status Run(grpc::ServerContext& context, const std::string& method,
                   const google::protobuf::Message& request,
                   const std::function<base::Status()>& effect);

 private:
  struct Call {
    std::string method;
    std::shared_ptr<const google::protobuf::Message> request;
  };
  struct Plan {
    base::Status failure;
    int failures = 0;
    int lost_answers = 0;
    std::chrono::milliseconds delay{0};
    bool hang = false;
    std::function<base::Status(const google::protobuf::Message&)> hook;
  };

  int CountLocked(const std::string& method) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Status Before(grpc::ServerContext& context, const std::string& method,
                      const google::protobuf::Message& request);
  base::Status After(const std::string& method, const google::protobuf::Message& request);

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Plan> plans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::rpc
