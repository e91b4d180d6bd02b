// Doubles of a driver's plugin, and of the prober that lists it for a plugin registry.
#pragma once

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "volume/fake_idle_plugin.h"
#include "volume/plugin_prober.h"
#include "volume/volume_attacher.h"

namespace berth::volume {

// A plugin for flexVolume sources that name it, as a driver that attaches or not. It keeps what is
// attached in memory; the node's part does nothing.
class FakeDriverPlugin : public IdlePlugin, public VolumeAttacher {
 public:
  explicit FakeDriverPlugin(std::string name, Status init = base::OkStatus())
      : name_(std::move(name)), init_(std::move(init)) {}

  Status Init() override {
    ++inits;
    base::MutexLock lock(mutex_);
    while (held_) released_.Wait(mutex_);
    return init_;
  }
  void SetInit(Status init) {
    base::MutexLock lock(mutex_);
    init_ = std::move(init);
  }
  void HoldInit(bool hold) {
    base::MutexLock lock(mutex_);
    held_ = hold;
    released_.NotifyAll();
  }
  std::atomic<int> inits = 0;

  std::string_view name() const override { return name_; }
  bool Supports(const VolumeSpec& spec) const override {
    return (spec.pv != nullptr ? spec.pv->String({"spec", "flexVolume", "driver"})
                               : spec.pod_volume.String({"flexVolume", "driver"})) == name_;
  }
  StatusOr<bool> NeedsAttach(const VolumeSpec&) const override { return attaches.load(); }
  VolumeAttacher* attacher() override { return this; }
  std::atomic<bool> attaches = false;

  // The calls, as "PV node", in order. The next call may fail; with `takes_effect` only its answer
  // is lost.
  StatusOr<std::string> Attach(const VolumeSpec& spec, const api::NodeName& node) override {
    RETURN_IF_ERROR(Change("attach", spec.pv->name() + " " + node.text(), true));
    return "/dev/" + spec.pv->name();
  }
  Status Detach(const api::VolumeName& volume, const api::NodeName& node) override {
    return Change("detach", volume.text() + " " + node.text(), false);
  }
  StatusOr<bool> IsAttached(const VolumeSpec& spec, const api::NodeName& node) override {
    base::MutexLock lock(mutex_);
    calls_.push_back("isattached " + spec.pv->name() + " " + node.text());
    return attached_.contains(spec.pv->name() + " " + node.text());
  }
  Status ExpandVolume(const VolumeSpec& spec, int64_t new_bytes, int64_t old_bytes) override {
    base::MutexLock lock(mutex_);
    calls_.push_back(fmt::format("expandvolume {} {} {}", spec.pv->name(), old_bytes, new_bytes));
    const auto failure = failures_.extract("expandvolume");
    return failure.empty() ? base::OkStatus() : failure.mapped().first;
  }
  void FailNext(const std::string& call, Status status, bool takes_effect = false) {
    base::MutexLock lock(mutex_);
    failures_[call] = {std::move(status), takes_effect};
  }
  // The driver has lost this attachment by itself.
  void Lose(const std::string& what) {
    base::MutexLock lock(mutex_);
    attached_.erase(what);
  }
  std::set<std::string> Attached() const {
    base::MutexLock lock(mutex_);
    return attached_;
  }
  std::vector<std::string> Calls() const {
    base::MutexLock lock(mutex_);
    return calls_;
  }

 private:
  Status Change(const std::string& call, const std::string& what, bool attach) {
    base::MutexLock lock(mutex_);
    calls_.push_back(call + " " + what);
    const auto failure = failures_.extract(call);
    if (!failure.empty() && !failure.mapped().second) return failure.mapped().first;
    if (attach) {
      attached_.insert(what);
    } else {
      attached_.erase(what);
    }
    return failure.empty() ? base::OkStatus() : failure.mapped().first;
  }

  const std::string name_;
  mutable base::Mutex mutex_;
  base::CondVar released_;
  std::set<std::string> attached_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::pair<Status, bool>> failures_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  Status init_ ABSL_GUARDED_BY(mutex_);
};

class FakeProber : public PluginProber {
 public:
  void SetOnChange(std::function<void()> on_change) override { on_change_ = std::move(on_change); }
  Status Init() override {
    base::MutexLock lock(mutex_);
    return start_;
  }
  StatusOr<std::optional<PluginList>> ListPlugins() override {
    ++probes;
    base::MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    return std::exchange(news_, std::nullopt);
  }
  // "absent/…" are names of this prober.
  std::shared_ptr<VolumePlugin> FindAbsent(std::string_view name) const override {
    if (!name.starts_with("absent/")) return nullptr;
    return std::make_shared<FakeDriverPlugin>(std::string(name));
  }
  std::string ExplainMissing(const VolumeSpec& spec) const override {
    const std::string driver = spec.pod_volume.String({"flexVolume", "driver"});
    return driver.empty() ? "" : fmt::format("no driver '{}' in the folder", driver);
  }

  Status GetState(std::string_view name) const override {
    base::MutexLock lock(mutex_);
    const auto state = states_.find(name);
    return state == states_.end() ? base::OkStatus() : state->second;
  }
  void SetState(const std::string& name, Status state) {
    base::MutexLock lock(mutex_);
    states_[name] = std::move(state);
  }
  void SetStart(Status start) {
    base::MutexLock lock(mutex_);
    start_ = std::move(start);
  }

  void List(PluginList list, bool report = false) {
    {
      base::MutexLock lock(mutex_);
      failure_ = base::OkStatus();
      news_ = std::move(list);
    }
    if (report) on_change_();
  }
  void Fail(Status failure) {
    base::MutexLock lock(mutex_);
    failure_ = std::move(failure);
  }
  std::atomic<int> probes = 0;

 private:
  std::function<void()> on_change_;
  mutable base::Mutex mutex_;
  Status start_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Status, std::less<>> states_ ABSL_GUARDED_BY(mutex_);
  Status failure_ ABSL_GUARDED_BY(mutex_);
  std::optional<PluginList> news_ ABSL_GUARDED_BY(mutex_);
};

// An inline volume of a driver.
inline VolumeSpec Flex(const std::string& driver) {
  return {.name = "v",
          .pod_volume = api::PodVolume(Json{{"name", "v"}, {"flexVolume", {{"driver", driver}}}})};
}

}  // namespace berth::volume
