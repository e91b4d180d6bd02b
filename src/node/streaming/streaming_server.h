// Serves the logs and streams of this node's containers to the API server: HTTP/1.1 on a UNIX
// socket (mode 0600) that only processes of root may use.
//
//   GET  /containerLogs/NS/POD/UID/CONTAINER?follow&tailLines&previous&timestamps
//                                           &sinceSeconds&sinceTime&limitBytes
//   any  /exec/NS/POD/UID/CONTAINER?command=..&command=..&stdin&stdout&stderr&tty
//   any  /attach/NS/POD/UID/CONTAINER?stdin&stdout&stderr&tty
//   any  /portForward/NS/POD/UID?ports=..&ports=..
//
// The last three ask the runtime for a stream (CRI Exec, Attach, PortForward) and send the request
// on to it, with its upgrade headers unchanged (SPDY or WebSocket). Then the HTTP server copies
// bytes in both directions. A log has a thread of its own; a stream has one until it is connected.
//
// The API server names the user in X-Remote-User and X-Remote-Group. At most 512 logs and streams
// run at a time; more get the code 503. One user has at most 16 of them (code 429), or 256 if it is
// a part of the cluster (its name begins with "system:"), such as the service account of a log
// collector. 64 are kept for administrators (system:masters), so that nobody's streams keep others
// out. A stream ends when no byte has passed in it for four hours, as with the kubelet; a log is
// silent as long as its container is.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "http/seats.h"
#include "http/service.h"
#include "node/containers/pod_tasks.h"

namespace berth::http {
class Server;  // declared alone, because its header includes Boost.Asio
}

namespace berth::node {

// A container as the paths above name it.
struct StreamTarget {
  std::string ns;
  std::string pod;
  std::string uid;
  std::string container;
};

struct ExecOptions {
  std::vector<std::string> command;  // empty for Attach
  bool in = false, out = false, err = false, tty = false;
};

// What the server needs to know about the pods. Thread-safe.
class StreamBackend {
 public:
  virtual ~StreamBackend() = default;
  struct Log {
    std::string path;
    std::string container_id;
  };
  // The log of a container, or with `previous` of its instance before. NOT_FOUND: there is no such
  // pod or container; INVALID_ARGUMENT: the container has not started, or has no previous instance;
  // UNAVAILABLE: the runtime cannot be reached.
  virtual base::StatusOr<Log> FindLog(const StreamTarget& target, bool previous) = 0;
  // False if the container writes no more.
  virtual bool IsRunning(const StreamTarget& target, const std::string& container_id) = 0;
  // Each of these returns the runtime's URL of a stream. Exec's stream runs the command, Attach's
  // is the container's own input and output, and PortForward's carries connections to the pod's
  // ports. `ports` may be empty, because a SPDY stream itself names the port.
  virtual base::StatusOr<std::string> Exec(const StreamTarget& target,
                                           const ExecOptions& options) = 0;
  virtual base::StatusOr<std::string> Attach(const StreamTarget& target,
                                             const ExecOptions& options) = 0;
  virtual base::StatusOr<std::string> PortForward(const StreamTarget& target,
                                                  const std::vector<int32_t>& ports) = 0;
};

struct StreamLimits {
  size_t streams = 512;  // and logs
  size_t per_user = 16;
  size_t per_system_user = 256;
  size_t administrators = 64;  // of them, for administrators only
  std::chrono::milliseconds quiet = std::chrono::hours(4);
};

class StreamingServer : private http::Service {
 public:
  // `backend` and `clock` are borrowed. Replaces a socket on which no process listens.
  // FAILED_PRECONDITION: another process listens on it; INVALID_ARGUMENT: the path is too long.
  static base::StatusOr<std::unique_ptr<StreamingServer>> Start(const std::string& socket,
                                                                StreamBackend& backend,
                                                                const base::Clock& clock,
                                                                const StreamLimits& limits = {});
  // Ends all streams and removes the socket.
  ~StreamingServer() override;

 private:
  struct Call;

  StreamingServer(StreamBackend& backend, const base::Clock& clock, const StreamLimits& limits);

  // http::Service, called on the event loop.
  std::shared_ptr<const http::User> FindProcessUser(uid_t uid) const override;
  std::optional<http::Response> RenderRefusal(const http::Refusal& refusal) const override;
  void Handle(std::shared_ptr<http::Exchange> exchange) override;

  // Gives the request's user a place for a log or stream, which is free again when the last copy of
  // the result is gone. UNAVAILABLE: all places are taken; RESOURCE_EXHAUSTED: the user has too
  // many.
  base::StatusOr<std::shared_ptr<void>> TakePlace(const http::Request& request)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs on a thread of its own.
  void Serve(const std::shared_ptr<http::Exchange>& exchange, const std::shared_ptr<void>& place);
  base::Status ServeCall(const Call& call);
  base::Status ServeLogs(const Call& call);
  base::Status ServeStream(const Call& call);
  // Asks the runtime for the URL of the stream that the request wants.
  base::StatusOr<std::string> FindStreamUrl(const Call& call);

  StreamBackend& backend_;
  const base::Clock& clock_;
  const StreamLimits limits_;
  base::Mutex mutex_;
  http::SeatTable places_ ABSL_GUARDED_BY(mutex_);
  uint64_t number_ = 0;  // of the next task; used by the event loop only
  PodTasks tasks_;
  std::unique_ptr<http::Server> http_;
};

}  // namespace berth::node
