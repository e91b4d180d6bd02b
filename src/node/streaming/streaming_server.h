// Logs and streams of this node's containers, for the API server: HTTP/1.1 on a UNIX socket (mode
// 0600) that only processes of root may use.
//
//   GET
//   /containerLogs/NS/POD/UID/CONTAINER?follow&tailLines&previous&timestamps&sinceSeconds&sinceTime&limitBytes
//   any  /exec/NS/POD/UID/CONTAINER?command=..&command=..&stdin&stdout&stderr&tty
//   any  /attach/NS/POD/UID/CONTAINER?stdin&stdout&stderr&tty
//   any  /portForward/NS/POD/UID?ports=..&ports=..
//
// The last three ask the runtime for a stream (CRI Exec, Attach, PortForward), send the request's
// head on to it, with its upgrade headers as they are (SPDY or WebSocket), and then carry bytes
// both ways. One thread a connection, at most 64.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "node/containers/pod_tasks.h"
#include "node/streaming/streaming_http.h"

namespace berth::node {

// A container as the paths above name it.
struct StreamTarget {
  std::string ns;
  std::string pod;
  std::string uid;
  std::string container;
};

struct ExecOptions {
  std::vector<std::string> command;  // none to attach
  bool in = false, out = false, err = false, tty = false;
};

// What the server asks of the pods. Thread-safe.
class StreamBackend {
 public:
  virtual ~StreamBackend() = default;
  struct Log {
    std::string path;
    std::string container_id;
  };
  // NOT_FOUND: no such pod or container, or it has no previous one; INVALID_ARGUMENT: it has not
  // started.
  virtual base::StatusOr<Log> FindLog(const StreamTarget& target, bool previous) = 0;
  // False: the container writes no more.
  virtual bool Running(const StreamTarget& target, const std::string& container_id) = 0;
  // The URL of a stream that runs the command, is the container's own input and output, or carries
  // connections to the pod's ports (which one of SPDY names itself: `ports` may be empty).
  virtual base::StatusOr<std::string> Exec(const StreamTarget& target,
                                           const ExecOptions& options) = 0;
  virtual base::StatusOr<std::string> Attach(const StreamTarget& target,
                                             const ExecOptions& options) = 0;
  virtual base::StatusOr<std::string> PortForward(const StreamTarget& target,
                                                  const std::vector<int32_t>& ports) = 0;
};

class StreamingServer {
 public:
  // `backend` and `clock` are borrowed. Replaces a socket that nobody listens on.
  static base::StatusOr<std::unique_ptr<StreamingServer>> Start(const std::string& socket,
                                                                StreamBackend& backend,
                                                                const base::Clock& clock);
  // Ends all streams and removes the socket.
  ~StreamingServer();

 private:
  StreamingServer(std::string socket, base::UniqueFd listener, base::UniqueFd stop_event,
                  StreamBackend& backend, const base::Clock& clock);
  void AcceptLoop();
  void Serve(int fd);
  void ServeLogs(int fd, const HttpRequest& request, const StreamTarget& target);
  void ServeStream(int fd, const HttpRequest& request, const StreamTarget& target);
  // The runtime's URL for what the request asks for.
  base::StatusOr<std::string> StreamFor(const HttpRequest& request, const StreamTarget& target);

  const std::string socket_;
  const base::UniqueFd listener_;
  const base::UniqueFd stop_event_;
  StreamBackend& backend_;
  const base::Clock& clock_;
  base::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<int> connections_ ABSL_GUARDED_BY(mutex_);
  PodTasks tasks_;
  std::thread acceptor_;
};

}  // namespace berth::node
