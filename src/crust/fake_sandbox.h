// A kind of sandbox that mounts nothing and gives the answers that the test sets.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "crust/sandbox.h"

namespace berth::crust {

struct FakeAnswers {
  std::function<base::Status(const PublishContext& context)> publish;
  std::function<base::Status()> unpublish = [] { return base::OkStatus(); };
};

class FakeSandbox final : public Sandbox {
 public:
  explicit FakeSandbox(const FakeAnswers& answers) : answers_(answers) {}
  base::Status Publish(const MountPlan&, const PublishContext& context) override {
    return answers_.publish(context);
  }
  base::Status Unpublish(const MountPlan&) override { return answers_.unpublish(); }
  base::StatusOr<VolumeStats> Stats(const MountPlan&) override { return VolumeStats(); }
  base::StatusOr<int64_t> Expand(const MountPlan&) override { return 0; }
  base::StatusOr<Graft> ForContainer(const MountPlan&, const std::string&) override {
    return Graft();
  }
  base::Status End() override { return base::OkStatus(); }

 private:
  const FakeAnswers& answers_;
};

class FakeSandboxes final : public SandboxKind {
 public:
  base::StatusOr<std::unique_ptr<Sandbox>> Open(const std::string&) override {
    return std::make_unique<FakeSandbox>(answers);
  }
  FakeAnswers answers;  // used by all sandboxes of this kind
};

}  // namespace berth::crust
