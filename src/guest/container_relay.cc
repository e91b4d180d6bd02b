#include "guest/container_relay.h"

#include <dirent.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "base/ipc/guest_call.h"
#include "base/unique_fd.h"
#include "guest/files.h"

namespace berth::guest {

using base::UniqueFd;
using base::ipc::Message;

namespace {

// How long a port may take to appear after the handler has plugged it in.
constexpr std::chrono::seconds kPortWithin(30);

void Serve(UniqueFd line) {
  ContainerService service(
      {.runc = {.program = base::ipc::guest::kRunc}, .open_port = [](const std::string& port) {
         return OpenVirtioPort(kPortClasses, kDevices, port, base::ipc::DeadlineIn(kPortWithin));
       }});
  ServeContainers(std::move(line), service);
}

// Kills the processes of all cgroups but the root, in which the guest's own are.
void KillContainers() {
  struct Close {
    void operator()(DIR* folder) const { closedir(folder); }
  };
  constexpr const char* kGroups = "/sys/fs/cgroup";
  const std::unique_ptr<DIR, Close> folder(opendir(kGroups));
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder.get())) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    // A group that is gone has no processes.
    WriteFile(std::string(kGroups) + "/" + entry->d_name + "/cgroup.kill", "1");
  }
}

}  // namespace

ContainerRelay::ContainerRelay(Loop& loop, Control& control) : loop_(loop) {
  control.AddMethods("container.", [this](const Message& request, Reply reply) {
    HandOn(request, std::move(reply));
  });
}

void ContainerRelay::HandOn(const Message& request, Reply reply) {
  if (!client_) {
    if (std::string error = StartServer(); !error.empty()) {
      return reply(ErrorReply("FAILED_PRECONDITION", std::move(error)));
    }
  }
  client_->Send(request, std::move(reply));
  Move();
}

std::string ContainerRelay::StartServer() {
  if (access(base::ipc::guest::kRunc, X_OK) != 0) {
    return Describe("the guest has no runc for containers", errno);
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Describe("make a pair of sockets", errno);
  }
  UniqueFd own(ends[0]), line(ends[1]);
  const pid_t server = fork();
  if (server < 0) return Describe("fork", errno);
  if (server == 0) {
    Loop::ResetSignals();
    own.Reset();
    Serve(std::move(line));
    _exit(0);
  }
  client_.emplace(std::move(own));
  loop_.OnChildEnd(server, [this](int) {
    KillContainers();
    Move();
  });
  return "";
}

void ContainerRelay::Move() {
  if (client_->Move()) {
    loop_.Watch(client_->fd(), client_->Events(), [this](short) { Move(); });
  } else {
    loop_.Unwatch(client_->fd());
  }
}

}  // namespace berth::guest
