#include "node/pods/container_probes.h"

#include <algorithm>

namespace berth::node {

namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
namespace json = base::json;

seconds AtLeastOne(const Json& probe, std::string_view member, int64_t fallback) {
  return seconds(std::clamp<int64_t>(json::Int(probe, {member}, fallback), 1, INT32_MAX));
}

}  // namespace

ContainerProbes::ContainerProbes(rpc::CriClient& cri, base::EventSink& events, OnChange on_change)
    : cri_(cri),
      events_(events),
      on_change_(std::move(on_change)),
      workers_({.name = "probes",
                .workers = 8,
                .max_workers = 32,
                .group = [](const std::string& key) { return key.substr(0, key.find('/')); }},
               [this](const std::string& key) { return RunProbe(key); }) {}

void ContainerProbes::Stop() {
  {
    base::MutexLock lock(mutex_);
    for (auto& [id, followed] : followed_) followed.stop.request_stop();
  }
  workers_.Stop();
}

std::string ContainerProbes::MakeKey(std::string_view ns, const ContainerId& container, Kind kind) {
  return fmt::format("{}/{}/{}", ns, container.text(), static_cast<int>(kind));
}

void ContainerProbes::FollowContainer(const api::Pod& pod, const api::Container& container,
                                      const ContainerId& container_id, const std::string& pod_ip) {
  std::map<Kind, Probe> probes;
  for (const auto& [member, kind] :
       {std::pair("startupProbe", Kind::kStartup), std::pair("readinessProbe", Kind::kReadiness),
        std::pair("livenessProbe", Kind::kLiveness)}) {
    if (const Json* spec = json::Find(container.json(), {member});
        spec != nullptr && spec->is_object()) {
      probes[kind] = Probe{.spec = *spec};
    }
  }
  if (probes.empty()) return;
  {
    base::MutexLock lock(mutex_);
    if (followed_.contains(container_id)) return;
    followed_[container_id] =
        Followed{.pod = pod.reference(),
                 .target = {.container_id = container_id, .container = container, .pod_ip = pod_ip},
                 .since = steady_clock::now(),
                 .probes = probes};
  }
  for (const auto& [kind, probe] : probes) {
    if (kind == Kind::kStartup || !probes.contains(Kind::kStartup))
      workers_.Add(MakeKey(pod.ns(), container_id, kind));
  }
}

void ContainerProbes::RetainContainers(const api::PodUid& pod,
                                       const std::set<ContainerId>& running) {
  base::MutexLock lock(mutex_);
  std::erase_if(followed_, [&](auto& entry) {
    if (entry.second.pod.uid != pod.text() || running.contains(entry.first)) return false;
    entry.second.stop.request_stop();
    return true;
  });
}

bool ContainerProbes::HasStarted(const Followed& followed) {
  const auto startup = followed.probes.find(Kind::kStartup);
  return startup == followed.probes.end() || startup->second.passed;
}

ContainerHealth ContainerProbes::Health(const ContainerId& container) const {
  base::MutexLock lock(mutex_);
  ContainerHealth out;
  const auto it = followed_.find(container);
  if (it == followed_.end()) return out;
  const Followed& followed = it->second;
  out.started = HasStarted(followed);
  for (const auto& [kind, probe] : followed.probes) {
    if (kind == Kind::kReadiness) out.ready = probe.passed;
    if (kind != Kind::kReadiness && probe.failed) {
      out.must_stop = fmt::format("Container {} failed {} probe, will be restarted",
                                  followed.target.container.name(),
                                  kind == Kind::kLiveness ? "liveness" : "startup");
    }
  }
  return out;
}

bool ContainerProbes::NoteResult(Followed& followed, Kind kind, const Status& result) {
  Probe& probe = followed.probes[kind];
  const bool passed = probe.passed;
  const bool failed = probe.failed;
  if (result.ok()) {
    probe.failures = 0;
    if (++probe.successes >= AtLeastOne(probe.spec, "successThreshold", 1).count())
      probe.passed = true;
  } else {
    probe.successes = 0;
    if (++probe.failures >= AtLeastOne(probe.spec, "failureThreshold", 3).count()) {
      probe.failed = true;
      probe.passed = false;
    }
  }
  if (probe.passed) probe.failed = false;
  return probe.passed != passed || probe.failed != failed;
}

base::KeyedWorkers::Outcome ContainerProbes::RunProbe(const std::string& key) {
  using Outcome = base::KeyedWorkers::Outcome;
  const size_t begin = key.find('/') + 1;
  const size_t slash = key.rfind('/');
  const ContainerId id(key.substr(begin, slash - begin));
  const auto kind = static_cast<Kind>(key[slash + 1] - '0');
  Json spec;
  HandlerTarget target;
  base::ObjectReference pod;
  std::stop_token stop;
  {
    base::MutexLock lock(mutex_);
    const auto it = followed_.find(id);
    if (it == followed_.end()) return Outcome::Done();
    stop = it->second.stop.get_token();
    spec = it->second.probes[kind].spec;
    target = it->second.target;
    pod = it->second.pod;
    const auto due =
        it->second.since +
        seconds(std::clamp<int64_t>(json::Int(spec, {"initialDelaySeconds"}), 0, INT32_MAX));
    const auto wait = std::chrono::ceil<milliseconds>(due - steady_clock::now());
    if (wait.count() > 0) return Outcome::After(wait);
  }
  const Status result = RunHandler(cri_, target, spec, AtLeastOne(spec, "timeoutSeconds", 1), stop);
  // The container has ended, or the agent stops.
  if (result.code() == StatusCode::kCancelled) return Outcome::Done();
  // INVALID_ARGUMENT means that the probe's handler cannot be run, so it says nothing about the
  // container.
  const bool known = result.code() != StatusCode::kInvalidArgument;
  bool changed = false, started = false;
  Followed rest;
  {
    base::MutexLock lock(mutex_);
    const auto it = followed_.find(id);
    if (it == followed_.end()) return Outcome::Done();  // it ended meanwhile
    if (known) changed = NoteResult(it->second, kind, result);
    started = kind == Kind::kStartup && HasStarted(it->second);
    rest = it->second;
  }
  if (!result.ok()) {
    static constexpr const char* kNames[] = {"Startup", "Readiness", "Liveness"};
    events_.Record(
        pod, base::EventType::kWarning, "Unhealthy",
        fmt::format("{} probe failed: {}", kNames[static_cast<int>(kind)], base::Message(result)));
  }
  if (changed) on_change_(pod.uid);
  if (started) {
    for (const auto& [other, probe] : rest.probes) {
      if (other != Kind::kStartup) workers_.Add(MakeKey(pod.ns, id, other));
    }
    return Outcome::Done();
  }
  return Outcome::After(AtLeastOne(spec, "periodSeconds", 10));
}

}  // namespace berth::node
