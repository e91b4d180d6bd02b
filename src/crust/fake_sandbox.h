// A kind of sandbox that mounts nothing and returns the results that the test sets.
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
  base::Status PublishVolume(const MountPlan&, const PublishContext& context) override {
    return answers_.publish(context);
  }
  base::Status UnpublishVolume(const MountPlan&) override { return answers_.unpublish(); }
  base::StatusOr<VolumeStats> ReadStats(const MountPlan&) override { return VolumeStats(); }
  base::StatusOr<int64_t> ExpandVolume(const MountPlan&) override { return 0; }
  base::StatusOr<Graft> MakeGraft(const MountPlan&, const std::string&) override { return Graft(); }
  base::Status RemoveSandbox() override { return base::OkStatus(); }

 private:
  const FakeAnswers& answers_;
};

class FakeSandboxes final : public SandboxKind {
 public:
  base::StatusOr<std::unique_ptr<Sandbox>> OpenSandbox(const std::string&) override {
    return std::make_unique<FakeSandbox>(answers);
  }
  FakeAnswers answers;  // used by all sandboxes of this kind
};

}  // namespace berth::crust
