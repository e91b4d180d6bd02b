// A kind of sandbox that mounts nothing and says of each publish what the test says.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "crust/sandbox.h"

namespace berth::crust {

using FakePublish = std::function<base::Status(const PublishContext& context)>;

class FakeSandbox final : public Sandbox {
 public:
  explicit FakeSandbox(const FakePublish& publish) : publish_(publish) {}
  base::Status Publish(const MountPlan&, const PublishContext& context) override {
    return publish_(context);
  }
  base::Status Unpublish(const MountPlan&) override { return base::OkStatus(); }
  base::StatusOr<VolumeStats> Stats(const MountPlan&) override { return VolumeStats(); }
  base::StatusOr<int64_t> Expand(const MountPlan&) override { return 0; }
  base::StatusOr<Graft> ForContainer(const MountPlan&, const std::string&) override {
    return Graft();
  }
  base::Status End() override { return base::OkStatus(); }

 private:
  const FakePublish& publish_;
};

class FakeSandboxes final : public SandboxKind {
 public:
  base::StatusOr<std::unique_ptr<Sandbox>> Open(const std::string&) override {
    return std::make_unique<FakeSandbox>(publish);
  }
  FakePublish publish;  // of all of its sandboxes
};

}  // namespace berth::crust
