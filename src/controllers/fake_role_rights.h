// A check after all tests of a test program that they used each right that a role's file below
// deploy gives, so that it gives none in vain.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "controllers/fake_role_rules.h"
#include "kube/fake_client.h"
#include "kube/fake_rbac.h"

namespace berth::controllers {

class RoleRights : public ::testing::Environment {
 public:
  // `file` has the rights of `role`. `of_go`: those that only the role of the Go program needs,
  // which the account keeps for the way back (docs/migrate-from-sidecars.md).
  RoleRights(std::string_view role, std::string_view file, std::set<std::string> of_go = {})
      : role_(role), file_(file), of_go_(std::move(of_go)) {}

  // Adds rights that a test has used. Thread-safe.
  static void Add(const std::set<std::string>& used) {
    base::MutexLock lock(mutex_);
    used_.insert(used.begin(), used.end());
  }

  // Says nothing if only some tests run.
  void TearDown() override {
    const auto& tests = *::testing::UnitTest::GetInstance();
    if (tests.test_to_run_count() != tests.total_test_count()) return;
    kube::FakeClient client;
    kube::RestrictedClient granted(client);
    granted.Grant(RulesOf(role_));
    std::set<std::string> unused = granted.unused();
    base::MutexLock lock(mutex_);
    for (const std::string& right : used_) {
      unused.erase(right);
      EXPECT_FALSE(of_go_.contains(right)) << right << " is not needed for the Go program alone";
    }
    for (const std::string& right : of_go_) {
      EXPECT_EQ(unused.erase(right), 1) << right << " is no right of the role";
    }
    // The tests record events in memory, and run no leader election (tests of room kube).
    std::erase_if(unused, [](const std::string& right) {
      return right.ends_with(" events") || right.ends_with(" leases.coordination.k8s.io");
    });
    EXPECT_THAT(unused, ::testing::IsEmpty()) << "remove it from deploy/" << file_;
  }

 private:
  static inline base::Mutex mutex_;
  static inline std::set<std::string> used_ ABSL_GUARDED_BY(mutex_);
  const std::string role_, file_;
  const std::set<std::string> of_go_;
};

// Adds the check to the test program.
inline ::testing::Environment* CheckRightsOf(std::string_view role, std::string_view file,
                                             std::set<std::string> of_go = {}) {
  // GoogleTest owns it.
  return ::testing::AddGlobalTestEnvironment(new RoleRights(role, file, std::move(of_go)));
}

}  // namespace berth::controllers
