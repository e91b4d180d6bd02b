// A driver folder and its copies in memory, for tests of the code that runs drivers.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "volume/flex/driver_version.h"
#include "volume/flex/flex_driver.h"

namespace berth::volume {

// Thread-safe.
class FakeFlexDriver : public FlexDriver {
 public:
  explicit FakeFlexDriver(std::string name) : name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  base::StatusOr<DriverVersion> Current() const override {
    base::MutexLock lock(mutex_);
    return current_;
  }
  void Set(base::StatusOr<DriverVersion> current) {
    base::MutexLock lock(mutex_);
    current_ = std::move(current);
  }
  void Remove() {
    Set(base::Error(base::StatusCode::kNotFound, "driver '{}' was removed from '/drivers'", name_));
  }

 private:
  const std::string name_;
  mutable base::Mutex mutex_;
  base::StatusOr<DriverVersion> current_ ABSL_GUARDED_BY(mutex_) =
      base::Error(base::StatusCode::kUnavailable, "not looked at yet");
};

// Thread-safe.
class FakeDriverVersions : public DriverVersions {
 public:
  base::StatusOr<DriverVersion> FindVersion(std::string_view driver,
                                            const DriverVersionId& id) const override {
    base::MutexLock lock(mutex_);
    for (const auto& [version, user] : holds_) {
      if (version.driver == driver && version.id == id.text()) return version;
    }
    return base::Error(base::StatusCode::kNotFound, "no version {}", id);
  }
  base::StatusOr<std::optional<DriverVersion>> FindHeldVersion(
      std::string_view driver, std::string_view user) const override {
    base::MutexLock lock(mutex_);
    for (auto hold = holds_.rbegin(); hold != holds_.rend(); ++hold) {
      if (hold->first.driver == driver && hold->second == user) return std::optional(hold->first);
    }
    return std::optional<DriverVersion>();
  }
  base::Status HoldVersion(const DriverVersion& version, std::string_view user) override {
    base::MutexLock lock(mutex_);
    DropHold(version, user);
    holds_.emplace_back(version, user);
    return base::OkStatus();
  }
  base::Status ReleaseVersion(const DriverVersion& version, std::string_view user) override {
    base::MutexLock lock(mutex_);
    DropHold(version, user);
    return base::OkStatus();
  }

  // "VERSION USER", in the order of holding.
  std::vector<std::string> holds() const {
    base::MutexLock lock(mutex_);
    std::vector<std::string> out;
    for (const auto& [version, user] : holds_) out.push_back(version.id + " " + user);
    return out;
  }

 private:
  void DropHold(const DriverVersion& version, std::string_view user)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(holds_, [&](const auto& hold) {
      return hold.first.id == version.id && hold.second == user;
    });
  }

  mutable base::Mutex mutex_;
  std::vector<std::pair<DriverVersion, std::string>> holds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
