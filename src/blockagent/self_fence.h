// Takes this node's own volumes off if the node is cut off: if for `after` neither the API nor the
// storage's lock of a volume could be reached. So the pods get errors, and nothing is written any
// more, before the volume's fence may be broken (ADR 37). Only volumes of back ends that fence
// nodes are taken off, because those of others do not move without a proof that the node is silent.
//
//   each step: for each volume with a device for writing
//     the API, or else the lock, reached within `after` ──▶ nothing
//     not                                               ──▶ its device is shut off at once, then
//                                                           its mounts are removed
//   the API answers again ──▶ `returned`: the fences are given back, and events tell what happened
//
// The time counts from the moment at which the last request that was answered was sent. The clock
// is CLOCK_BOOTTIME, so that a machine that slept takes its volumes off when it wakes up, unless it
// reaches the API or the lock before the next step.
//
// No call waits for another one: the API is asked by a thread of its own, each lock and each device
// by a worker. Thread-safe. The functions in Parts may block; they are called without locks.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/workers/keyed_workers.h"
#include "kube/leader_election.h"

namespace berth::blockagent {

// How often the volumes are looked at.
inline constexpr std::chrono::seconds kSelfFenceStep{1};
// The longest time until a device is shut off: its process is killed, and its file system shut
// down.
inline constexpr std::chrono::seconds kShutOffTime{10};
// How much older than this agent's last answer the last renewal of the kubelet's Lease may be: the
// kubelet renews it each quarter of its 40 s.
inline constexpr std::chrono::seconds kLeaseRenewal{10};

// The time after which a node's silence lets others break its fences, at the earliest.
struct SelfFenceTimes {
  std::chrono::milliseconds after{std::chrono::seconds(15)};
  // After the last renewal of the node's Lease: node-monitor-grace-period of
  // kube-controller-manager, which then gives the Node the taint unreachable.
  std::chrono::milliseconds grace_period{std::chrono::seconds(40)};
};

// INVALID_ARGUMENT: the node would not surely have taken its volumes off in time, that is, unless
//   after + kSelfFenceStep + kShutOffTime + kLeaseRenewal + a twentieth of grace_period
// is at most grace_period. The twentieth is for clocks that run at different speeds, and for a
// process that waits for its processor.
base::Status CheckSelfFenceTimes(const SelfFenceTimes& times);

class SelfFence {
 public:
  struct Volume {
    std::string name;
    bool has_device = false;  // for writing
  };
  struct Options {
    std::chrono::milliseconds after{0};
    std::function<kube::BootTime()> now = kube::BootClockNow;
  };
  struct Parts {
    // OK: the API answered. Must end within a few seconds.
    std::function<base::Status()> ask_api;
    // The volumes on record of back ends that fence nodes, also while they are being attached.
    std::function<std::vector<Volume>()> list;
    // OK: the storage said that this node holds the lock of the volume.
    std::function<base::Status(const std::string& volume)> ask_lock;
    // Shuts the volume's device off, and removes its mounts.
    std::function<base::Status(const std::string& volume)> take_off;
    // The API answers again after these volumes were taken off.
    std::function<void(const std::set<std::string>& volumes)> returned;
  };

  SelfFence(Options options, Parts parts);
  ~SelfFence() { Stop(); }

  void Start();
  // As Start, without the threads that call CheckVolumes and AskApi; for tests.
  void StartWorkers();
  void Stop();

  // One step. Start lets a thread call it.
  void CheckVolumes() ABSL_LOCKS_EXCLUDED(mutex_);
  // Asks the API once. Start lets another thread call it.
  void AskApi() ABSL_LOCKS_EXCLUDED(mutex_);
  // For tests: waits until no lock is asked and no volume is taken off.
  bool WaitIdle(std::chrono::milliseconds timeout);

 private:
  using Time = kube::BootTime;
  struct Contact {
    Time seen{0};  // when the volume was first seen
    Time lock{0};  // the last request that showed its lock
  };

  // For how long nothing was heard.
  Time SilenceOf(const std::string& volume) ABSL_LOCKS_EXCLUDED(mutex_);
  base::KeyedWorkers::Outcome AskLock(const std::string& volume);
  base::KeyedWorkers::Outcome TakeOff(const std::string& volume);
  void Run(const std::function<void()>& work, std::chrono::milliseconds pause,
           const std::stop_token& stop);

  const Options options_;
  const Parts parts_;
  base::Mutex mutex_;
  base::CondVar stopped_;
  Time api_ ABSL_GUARDED_BY(mutex_);  // the last request that the API answered
  std::map<std::string, Contact> contacts_ ABSL_GUARDED_BY(mutex_);  // by volume
  std::set<std::string> taken_off_ ABSL_GUARDED_BY(mutex_);          // since the API answered last
  base::KeyedWorkers locks_;
  base::KeyedWorkers devices_;
  std::jthread checking_;
  std::jthread asking_;
};

}  // namespace berth::blockagent
