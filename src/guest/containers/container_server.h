// The process of the guest that has the containers. It is a process of its own beside pid 1, so
// that the containers' orphans come to it and not to pid 1, whose loop reaps its own children, and
// so that calls may wait for runc here without holding up pid 1.
//
// pid 1 and it speak over a pair of sockets, a line for each message (base/ipc/message.h). A
// request is one of base/ipc/container_call.h and has an id, its reply has the same. Replies come
// in any order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/ipc/connection.h"
#include "base/ipc/message.h"
#include "base/unique_fd.h"
#include "guest/containers/container_service.h"

namespace berth::guest {

// The longest line. A config takes at most half of it.
inline constexpr size_t kLargestCall = 2 * 1024 * 1024;
inline constexpr std::string_view kCallId = "id";

// Answers the requests on `line` until it ends, each on a thread of its own.
void ServeContainers(base::UniqueFd line, ContainerService& service);

inline constexpr const char* kPortClasses = "/sys/class/virtio-ports";
inline constexpr const char* kDevices = "/dev";
// Opens the port of virtio-serial that is called `name`: `classes` is kPortClasses, and `devices`
// is kDevices. A port that was plugged in just now may appear only before the deadline. kRefused,
// with the code ABORTED: another process has it open.
base::ipc::Result<base::UniqueFd> OpenVirtioPort(const std::string& classes,
                                                 const std::string& devices,
                                                 const std::string& name,
                                                 base::ipc::Deadline deadline);

// pid 1's side. No call blocks. Not thread-safe.
class ContainerClient {
 public:
  using OnReply = std::function<void(base::ipc::Message)>;
  explicit ContainerClient(base::UniqueFd line);

  // Sends a request. `reply` is called by Move(); its message has no id. UNAVAILABLE is the code if
  // the server has ended.
  void Send(base::ipc::Message request, OnReply reply);
  int fd() const { return line_.get(); }
  // The events of poll(2) for which Move() is due.
  short Events() const;
  // False: the server has ended. All open calls have failed, and so will later ones.
  bool Move();

 private:
  bool ReadReplies();
  void HandleLine(std::string_view line);
  void FailAll();

  base::UniqueFd line_;
  std::string incoming_;
  std::string outgoing_;
  int64_t next_id_ = 1;
  bool ended_ = false;
  std::map<int64_t, OnReply> waiting_;
};

}  // namespace berth::guest
