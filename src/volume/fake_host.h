// A node agent for tests of volume plugins: API objects in memory, a mount table in memory.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "volume/host.h"

namespace berth::volume {

// A mount table that is only a list. Thread-safe.
class FakeMounter : public platform::Mounter {
 public:
  base::StatusOr<std::vector<platform::MountEntry>> List() override;
  base::Status Mount(const platform::MountRequest& request) override;
  base::Status Unmount(std::string_view target) override;
  base::Status UnmountLazy(std::string_view target) override;
  base::Status MakeShared(std::string_view folder) override;

  // Adds a mount that another program made.
  void Add(const std::string& target, const std::string& fs_type = "ext4",
           const std::string& source = "/dev/loop7", std::vector<std::string> options = {});
  bool IsMounted(std::string_view target) const;
  // The requests to Mount, oldest first.
  std::vector<platform::MountRequest> requests() const;
  // Calls on `target` ("" for List) fail with `status`, until this is called with OK.
  void Fail(const std::string& target, const base::Status& status);

 private:
  base::Status FailureOf(std::string_view target) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Status Remove(std::string_view target) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable base::Mutex mutex_;
  std::vector<platform::MountEntry> table_ ABSL_GUARDED_BY(mutex_);
  std::vector<platform::MountRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, base::Status, std::less<>> failures_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 100;
};

// Answers every command by a function of the test's; without one, exit code 0. Thread-safe.
class FakeExec : public platform::Exec {
 public:
  base::StatusOr<platform::CommandResult> Run(const platform::Command& command) override;

  using Answer = std::function<base::StatusOr<platform::CommandResult>(const platform::Command&)>;
  void SetAnswer(Answer answer);
  std::vector<platform::Command> commands() const;

 private:
  mutable base::Mutex mutex_;
  Answer answer_ ABSL_GUARDED_BY(mutex_);
  std::vector<platform::Command> commands_ ABSL_GUARDED_BY(mutex_);
};

// Mounts and unmounts in a FakeMounter's table. Thread-safe.
class FakeHelperMounts : public HelperMounts {
 public:
  explicit FakeHelperMounts(FakeMounter& mounter) : mounter_(mounter) {}
  base::Status Mount(const HelperMount& mount) override;
  base::Status Unmount(std::string_view plugin, const platform::MountPoint& target) override;

  // The requests to Mount, oldest first.
  std::vector<HelperMount> mounts() const;
  // Until it is called with an OK status, Mount fails with `status` and mounts nothing.
  void FailMount(const base::Status& status);

 private:
  FakeMounter& mounter_;
  mutable base::Mutex mutex_;
  std::vector<HelperMount> mounts_ ABSL_GUARDED_BY(mutex_);
  base::Status failure_ ABSL_GUARDED_BY(mutex_);
};

class FakeEventSink : public base::EventSink {
 public:
  struct Event {
    base::ObjectReference object;
    base::EventType type;
    std::string reason;
    std::string message;
  };
  void Record(const base::ObjectReference& object, base::EventType type, std::string_view reason,
              std::string_view message) override;
  std::vector<Event> events() const;

 private:
  mutable base::Mutex mutex_;
  std::vector<Event> events_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe.
class FakeHost : public Host {
 public:
  explicit FakeHost(const std::string& kubelet_folder, std::string node_name = "node-a")
      : node_name_(std::move(node_name)), paths_(kubelet_folder) {}

  // Uses a real mounter in place of the list, for tests that run as root.
  void UseMounter(std::unique_ptr<platform::Mounter> mounter) {
    real_mounter_ = std::move(mounter);
  }

  const std::string& node_name() const override { return node_name_; }
  const Paths& paths() const override { return paths_; }
  platform::Mounter& mounter() override;
  platform::Exec& exec(std::string_view) override { return exec_; }
  HelperMounts& helper_mounts() override { return helper_mounts_; }
  base::EventSink& events() override { return events_; }
  const base::Clock& clock() const override { return clock_; }
  DriverRegistry& drivers() override { return drivers_; }
  bool selinux() const override { return selinux_; }
  void SetSelinux(bool enabled) { selinux_ = enabled; }
  bool ending() const override { return ending_; }
  void End() { ending_ = true; }
  base::StatusOr<base::Json> GetObject(const api::KindInfo& kind, std::string_view ns,
                                       std::string_view name) override;
  // A token "token-of-NS/ACCOUNT-N" for each request, good for an hour of the fake clock.
  base::StatusOr<base::Json> CreateToken(std::string_view ns, std::string_view account,
                                         const base::Json& request) override;

  base::StatusOr<std::vector<platform::DeviceFile>> LookAtDevices(
      const std::vector<std::string>& paths) override;
  // The file at `path`, as long as there is one, is taken for block device `number`.
  void SetDevice(const std::string& path, dev_t number);

  void Put(const api::KindInfo& kind, const base::Json& object);
  void Remove(const api::KindInfo& kind, std::string_view ns, std::string_view name);
  // Until it is called with an OK status, GetObject and CreateToken fail with `status`.
  void FailApi(const base::Status& status);
  // The bodies that CreateToken was called with.
  std::vector<base::Json> token_requests() const;

  FakeMounter& fake_mounter() { return mounter_; }
  FakeExec& fake_exec() { return exec_; }
  FakeHelperMounts& fake_helper_mounts() { return helper_mounts_; }
  FakeEventSink& fake_events() { return events_; }
  base::FakeClock& fake_clock() { return clock_; }

 private:
  const std::string node_name_;
  const Paths paths_;
  FakeMounter mounter_;
  FakeHelperMounts helper_mounts_{mounter_};
  std::unique_ptr<platform::Mounter> real_mounter_;
  FakeExec exec_;
  FakeEventSink events_;
  base::FakeClock clock_;
  DriverRegistry drivers_;
  std::atomic<bool> selinux_ = false;
  std::atomic<bool> ending_ = false;
  mutable base::Mutex mutex_;
  std::map<std::string, base::Json> objects_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, dev_t> devices_ ABSL_GUARDED_BY(mutex_);
  std::vector<base::Json> token_requests_ ABSL_GUARDED_BY(mutex_);
  base::Status api_failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
