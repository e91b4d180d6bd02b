#include "rpc/fake_call_script.h"

#include "rpc/outcome.h"

namespace berth::rpc {
namespace {

// Takes one from a counted supply; a negative supply never ends.
bool TakeOne(int& left) {
  if (left == 0) return false;
  if (left > 0) --left;
  return true;
}

}  // namespace

void CallScript::Fail(const std::string& method, const base::Status& status, int times) {
  base::MutexLock lock(mutex_);
  plans_[method].failure = status;
  plans_[method].failures = times;
}

void CallScript::LoseAnswer(const std::string& method, int times) {
  base::MutexLock lock(mutex_);
  plans_[method].lost_answers = times;
}

void CallScript::Delay(const std::string& method, std::chrono::milliseconds delay) {
  base::MutexLock lock(mutex_);
  plans_[method].delay = delay;
}

void CallScript::Hang(const std::string& method) {
  base::MutexLock lock(mutex_);
  plans_[method].hang = true;
}

void CallScript::Release(const std::string& method) {
  base::MutexLock lock(mutex_);
  plans_[method].hang = false;
  changed_.NotifyAll();
}

void CallScript::ReleaseAll() {
  base::MutexLock lock(mutex_);
  for (auto& [method, plan] : plans_) plan.hang = false;
  changed_.NotifyAll();
}

void CallScript::AfterEffect(const std::string& method,
                             std::function<base::Status(const google::protobuf::Message&)> hook) {
  base::MutexLock lock(mutex_);
  plans_[method].hook = std::move(hook);
}

std::vector<std::string> CallScript::Methods() const {
  base::MutexLock lock(mutex_);
  std::vector<std::string> methods;
  methods.reserve(calls_.size());
  for (const Call& call : calls_) methods.push_back(call.method);
  return methods;
}

int CallScript::CountLocked(const std::string& method) const {
  return static_cast<int>(std::count_if(calls_.begin(), calls_.end(),
                                        [&](const Call& call) { return call.method == method; }));
}

int CallScript::Count(const std::string& method) const {
  base::MutexLock lock(mutex_);
  return CountLocked(method);
}

bool CallScript::WaitFor(const std::string& method, int count,
                         std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  base::MutexLock lock(mutex_);
  while (CountLocked(method) < count) {
    if (!changed_.WaitUntil(mutex_, deadline)) return CountLocked(method) >= count;
  }
  return true;
}

void CallScript::ForgetCalls() {
  base::MutexLock lock(mutex_);
  calls_.clear();
}

base::Status CallScript::Before(grpc::ServerContext& context, const std::string& method,
                                const google::protobuf::Message& request) {
  std::shared_ptr<google::protobuf::Message> copy(request.New());
  copy->CopyFrom(request);
  base::MutexLock lock(mutex_);
  calls_.push_back({method, std::move(copy)});
  changed_.NotifyAll();
  const auto ready = std::chrono::steady_clock::now() + plans_[method].delay;
  while (plans_[method].hang || std::chrono::steady_clock::now() < ready) {
    // gRPC's blocking API reports that a caller gave up only when it is asked.
    const auto look_again = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    changed_.WaitUntil(mutex_, plans_[method].hang ? look_again : std::min(ready, look_again));
    if (context.IsCancelled()) return base::Status(base::StatusCode::kCancelled, "caller gave up");
  }
  Plan& plan = plans_[method];
  return TakeOne(plan.failures) ? plan.failure : base::OkStatus();
}

base::Status CallScript::After(const std::string& method,
                               const google::protobuf::Message& request) {
  std::function<base::Status(const google::protobuf::Message&)> hook;
  bool lost = false;
  {
    base::MutexLock lock(mutex_);
    hook = plans_[method].hook;
    lost = TakeOne(plans_[method].lost_answers);
  }
  if (hook) RETURN_IF_ERROR(hook(request));
  if (lost) return base::Status(base::StatusCode::kUnavailable, "the answer was lost");
  return base::OkStatus();
}

grpc::Status CallScript::Run(grpc::ServerContext& context, const std::string& method,
                             const google::protobuf::Message& request,
                             const std::function<base::Status()>& effect) {
  base::Status status = Before(context, method, request);
  if (status.ok()) status = effect();
  if (status.ok()) status = After(method, request);
  return ToGrpc(status);
}

}  // namespace berth::rpc
