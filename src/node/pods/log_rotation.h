// Rotates the logs of running containers, as the kubelet does (containerLogMaxSize 10Mi,
// containerLogMaxFiles 5), because a container writes as much as it likes, and the disk is that of
// the agent's records as a rule.
//
//   0.log is too long ─▶ renamed to 0.log.TIME ─▶ ReopenContainerLog ─▶ a new 0.log
//
// If the runtime does not reopen the log, it gets its name back. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/workers/keyed_workers.h"
#include "node/containers/pod_runtime.h"
#include "rpc/cri_client.h"

namespace berth::node {

// Removes a container's log and its rotated logs. What cannot be removed stays.
void RemoveLogs(const std::string& path);

class LogRotation {
 public:
  struct Options {
    int64_t max_bytes = 10 << 20;  // of a log that is not rotated
    size_t max_files = 5;          // of a container, with the one that is written
    std::chrono::milliseconds interval{10'000};
  };
  using ListRunning = std::function<std::vector<ContainerState>()>;

  // `list` returns the containers that run. `cri` and `clock` are borrowed.
  LogRotation(rpc::CriClient& cri, const base::Clock& clock, Options options, ListRunning list);
  void Start() {
    worker_.Add("logs");
    worker_.Start();
  }
  void Stop() { worker_.Stop(); }

  // Rotates the container's log if it is too long. Errors: the log cannot be renamed, or the
  // runtime does not reopen it.
  base::Status RotateLog(const ContainerState& container);

 private:
  base::KeyedWorkers::Outcome RotateLogs();
  base::Status Reopen(const ContainerId& container);

  rpc::CriClient& cri_;
  const base::Clock& clock_;
  const Options options_;
  const ListRunning list_;
  base::KeyedWorkers worker_;
};

}  // namespace berth::node
