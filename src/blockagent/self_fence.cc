#include "blockagent/self_fence.h"

#include <algorithm>

#include "base/log.h"

namespace berth::blockagent {

using base::Error;
using base::MutexLock;
using base::Quote;
using base::Status;
using base::StatusCode;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Outcome = base::KeyedWorkers::Outcome;

namespace {

// The API is asked five times within `after`, and a lock once the API has not answered for a third
// of it, because each question is a connection to the storage.
constexpr int kQuestions = 5, kLockAfterParts = 3;
constexpr int kAtOnce = 16, kMostAtOnce = 128;

}  // namespace

Status CheckSelfFenceTimes(const SelfFenceTimes& times) {
  const milliseconds needed = times.after + kSelfFenceStep + kShutOffTime + kLeaseRenewal;
  const milliseconds margin = times.grace_period / 20;
  if (needed + margin <= times.grace_period) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument,
               "the volumes of a node that is cut off would be taken off {} ms after the last "
               "renewal of its Lease, but their fences may be broken after {} ms, of which {} ms "
               "are for clocks that differ: at most {} ms is possible for --self-fence-after",
               needed.count(), times.grace_period.count(), margin.count(),
               (times.grace_period - margin - (needed - times.after)).count());
}

SelfFence::SelfFence(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      api_(options_.now()),
      locks_({.name = "own-locks", .workers = kAtOnce, .max_workers = kMostAtOnce},
             [this](const std::string& volume) { return AskLock(volume); }),
      devices_({.name = "self-fence",
                .workers = kAtOnce,
                .max_workers = kMostAtOnce,
                .patience = milliseconds(100),
                .retry_start = seconds(1),
                .retry_max = seconds(10)},
               [this](const std::string& volume) { return TakeOff(volume); }) {}

void SelfFence::StartWorkers() {
  locks_.Start();
  devices_.Start();
}

void SelfFence::Start() {
  StartWorkers();
  checking_ = std::jthread([this](const std::stop_token& stop) {
    Run([this] { CheckVolumes(); }, kSelfFenceStep, stop);
  });
  asking_ = std::jthread([this](const std::stop_token& stop) {
    Run([this] { AskApi(); }, options_.after / kQuestions, stop);
  });
}

void SelfFence::Stop() {
  {
    const MutexLock lock(mutex_);
    checking_.request_stop();
    asking_.request_stop();
    stopped_.NotifyAll();
  }
  if (checking_.joinable()) checking_.join();
  if (asking_.joinable()) asking_.join();
  locks_.Stop();
  devices_.Stop();
}

void SelfFence::Run(const std::function<void()>& work, milliseconds pause,
                    const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    work();
    const auto until = std::chrono::steady_clock::now() + pause;
    const MutexLock lock(mutex_);
    while (!stop.stop_requested() && stopped_.WaitUntil(mutex_, until)) {
    }
  }
}

SelfFence::Time SelfFence::SilenceOf(const std::string& volume) {
  const Time now = options_.now();
  const MutexLock lock(mutex_);
  const auto found = contacts_.find(volume);
  if (found == contacts_.end()) return Time(0);
  return now - std::max({api_, found->second.seen, found->second.lock});
}

void SelfFence::CheckVolumes() {
  const std::vector<Volume> volumes = parts_.list();
  const Time now = options_.now();
  {
    const MutexLock lock(mutex_);
    std::erase_if(contacts_, [&](const auto& known) {
      return std::ranges::find(volumes, known.first, &Volume::name) == volumes.end();
    });
    for (const Volume& volume : volumes) contacts_.try_emplace(volume.name, Contact{.seen = now});
  }
  for (const Volume& volume : volumes) {
    if (!volume.has_device) continue;
    const Time silence = SilenceOf(volume.name);
    if (silence >= options_.after) {
      devices_.Add(volume.name);
    } else if (silence >= options_.after / kLockAfterParts) {
      locks_.Add(volume.name);
    }
  }
}

void SelfFence::AskApi() {
  const Time asked = options_.now();
  if (const Status answered = parts_.ask_api(); !answered.ok()) {
    LOG_DEBUG("the API does not answer: {}", base::ToString(answered));
    return;
  }
  std::set<std::string> taken_off;
  {
    const MutexLock lock(mutex_);
    api_ = std::max(api_, asked);
    taken_off = std::exchange(taken_off_, {});
  }
  if (!taken_off.empty()) parts_.returned(taken_off);
}

Outcome SelfFence::AskLock(const std::string& volume) {
  const Time asked = options_.now();
  // The next step asks again.
  if (const Status held = parts_.ask_lock(volume); !held.ok()) {
    LOG_WARNING("volume {}: neither the API nor its lock is reached: {}", Quote(volume),
                base::ToString(held));
    return Outcome::Done();
  }
  const MutexLock lock(mutex_);
  const auto found = contacts_.find(volume);
  if (found != contacts_.end()) found->second.lock = std::max(found->second.lock, asked);
  return Outcome::Done();
}

Outcome SelfFence::TakeOff(const std::string& volume) {
  const Time silence = SilenceOf(volume);
  if (silence < options_.after) return Outcome::Done();  // it was reached meanwhile
  {
    const MutexLock lock(mutex_);
    taken_off_.insert(volume);
  }
  LOG_ERROR("volume {}: neither the API nor its lock was reached for {} s: it is taken off",
            Quote(volume), duration_cast<seconds>(silence).count());
  const Status taken_off = parts_.take_off(volume);
  // Again, because the API may have answered meanwhile, before there was anything to give back.
  const MutexLock lock(mutex_);
  taken_off_.insert(volume);
  return Outcome::From(taken_off);
}

bool SelfFence::WaitIdle(milliseconds timeout) {
  return locks_.WaitIdle(timeout) && devices_.WaitIdle(timeout);
}

}  // namespace berth::blockagent
