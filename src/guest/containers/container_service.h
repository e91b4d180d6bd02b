// The containers of a guest: serves the calls of base/ipc/container_call.h by running runc, and
// keeps a table of the containers and of their processes.
//
// Transport-free: who has the line to the host hands each request to Handle(). This process becomes
// the reaper of orphans (PR_SET_CHILD_SUBREAPER), because runc leaves the containers' processes
// behind, and nobody else may wait for children here. It ignores SIGPIPE. Thread-safe; calls about
// one container exclude each other.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/ipc/message.h"
#include "base/ipc/result.h"
#include "base/unique_fd.h"
#include "guest/containers/guest_process.h"
#include "guest/containers/runc.h"

namespace berth::guest {

class ContainerService {
 public:
  struct Options {
    RuncOptions runc;
    // The folder of the bundles, which is made if it is missing.
    std::string folder = "/run/berth/containers";
    // Opens the guest's end of a stream by the port's name.
    std::function<base::ipc::Result<base::UniqueFd>(const std::string& port)> open_port;
    // What open_port gives are ports of virtio-serial.
    bool has_ports = true;
    std::chrono::milliseconds hello_time{60'000};
  };

  explicit ContainerService(Options options);
  // Kills all containers.
  ~ContainerService();

  // Answers a request. kRefused: the failure has a text and a code for the caller.
  base::ipc::Result<base::ipc::Message> Handle(const base::ipc::Message& request);

  // Waits for the ends of processes that a container has left to this process, because it shares
  // the PID namespace. Call it now and then.
  void ReapOrphans();

 private:
  struct Container;
  using Shared = std::shared_ptr<Container>;
  using Reply = base::ipc::Result<base::ipc::Message>;
  struct Launch;

  Reply Create(const std::string& id, const base::ipc::Message& request);
  Reply Start(Container& container);
  Reply Exec(Container& container, const base::ipc::Message& request);
  Reply Kill(Container& container, const base::ipc::Message& request);
  Reply Delete(const Shared& container, const base::ipc::Message& request);
  Reply State(Container& container);
  Reply Ask(Container& container, std::string_view method, const base::ipc::Message& request);

  // Runs `runc create` or `runc exec`, and serves the process that it leaves behind.
  base::ipc::Result<std::shared_ptr<GuestProcess>> RunProcess(const Launch& launch);
  base::ipc::Failure SignalAll(const std::string& id, int signal);
  Shared Find(const std::string& id) const;
  // Counts a call, during which a child may be unknown that is no orphan.
  class Busy;
  void Remove(const std::string& id);
  std::string BundleOf(const std::string& id) const { return options_.folder + "/" + id; }

  const Options options_;
  const Runc runc_;
  mutable std::mutex mutex_;
  std::map<std::string, Shared> containers_;
  int busy_ = 0;
};

}  // namespace berth::guest
