// A node in memory for tests of the node agent: a mount table, the events, and a volume::Host over
// a FakeClient.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/event_sink.h"
#include "base/mutex.h"
#include "kube/client.h"
#include "platform/mounts/mounter.h"
#include "volume/host.h"

namespace berth::node {

// Keeps a mount table without a kernel. Thread-safe.
class FakeMounter : public platform::Mounter {
 public:
  base::StatusOr<std::vector<platform::MountEntry>> List() override;
  base::Status Mount(const platform::MountRequest& request) override;
  base::Status Unmount(std::string_view target) override;
  base::Status UnmountLazy(std::string_view target) override { return Unmount(target); }
  bool IsDead(const platform::MountEntry& mount) override;
  base::Status MakeShared(std::string_view folder) override;

  bool IsMounted(std::string_view target);
  // Makes the mount at `target` a dead mount. Aborts if there is none.
  void Kill(std::string_view target);
  // Removes all mounts, as a reboot does.
  void Clear();
  // Unmount of `target` fails with FAILED_PRECONDITION while it is busy.
  void SetBusy(std::string target, bool busy);

 private:
  base::Mutex mutex_;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 100;
  std::vector<platform::MountEntry> table_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, bool, std::less<>> busy_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> dead_ ABSL_GUARDED_BY(mutex_);  // by id
};

// Keeps events as "KIND NAME TYPE REASON MESSAGE". Thread-safe.
class FakeEvents : public base::EventSink {
 public:
  void Record(const base::ObjectReference& object, base::EventType type, std::string_view reason,
              std::string_view message) override;
  std::vector<std::string> All() const;
  // Waits until an event holds all of `parts`.
  bool WaitFor(const std::vector<std::string>& parts);
  size_t Count(const std::string& part) const;

 private:
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
};

class FakeVolumeHost : public volume::Host {
 public:
  FakeVolumeHost(kube::Client& client, std::string kubelet_folder, std::string node_name)
      : client_(client), node_name_(std::move(node_name)), paths_(std::move(kubelet_folder)) {}

  const std::string& node_name() const override { return node_name_; }
  const volume::Paths& paths() const override { return paths_; }
  platform::Mounter& mounter() override { return mounter_; }
  platform::Exec& exec(std::string_view plugin) override;
  volume::HelperMounts& helper_mounts() override { return *helper_mounts_; }
  base::EventSink& events() override { return events_; }
  const base::Clock& clock() const override { return clock_; }
  volume::DriverRegistry& drivers() override { return drivers_; }
  base::StatusOr<base::Json> GetObject(const api::KindInfo& kind, std::string_view ns,
                                       std::string_view name) override {
    return client_.Get(kind, ns, name);
  }
  base::StatusOr<base::Json> CreateToken(std::string_view ns, std::string_view account,
                                         const base::Json& request) override {
    return client_.CreateSubresource(api::kinds::kServiceAccount, ns, account, "token", request);
  }

  // Watches no process; a test reports a lost mount with Lose().
  base::StatusOr<std::unique_ptr<platform::FuseWatch>> WatchFuse(
      std::function<void(const platform::LostFuse&)> on_lost) override {
    on_lost_ = std::move(on_lost);
    return std::make_unique<platform::FuseWatch>();
  }
  void Lose(const platform::LostFuse& lost) { on_lost_(lost); }

  // Every file is a block device of its own.
  base::StatusOr<std::vector<platform::DeviceFile>> LookAtDevices(
      const std::vector<std::string>& paths) override {
    ASSIGN_OR_RETURN(auto found, platform::LookAtDevices(paths));
    for (size_t i = 0; i < paths.size(); ++i) {
      found[i].block = found[i].present;
      found[i].number = std::hash<std::string>()(paths[i]);
    }
    return found;
  }

  FakeMounter& fake_mounter() { return mounter_; }
  FakeEvents& fake_events() { return events_; }

 private:
  kube::Client& client_;
  const std::string node_name_;
  const volume::Paths paths_;
  const base::SystemClock clock_;
  FakeMounter mounter_;
  std::function<void(const platform::LostFuse&)> on_lost_;
  FakeEvents events_;
  volume::DriverRegistry drivers_;
  std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  std::unique_ptr<volume::HelperMounts> helper_mounts_ =
      volume::NewHostHelperMounts(*exec_, mounter_);
};

}  // namespace berth::node
