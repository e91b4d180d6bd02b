#include "guest/child_call.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace berth::guest {

using base::ipc::Message;

pid_t CallInChild(Loop& loop, const std::function<Message()>& body, Reply reply) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    reply(FailureReply("make a pipe", errno));
    return 0;
  }
  auto answer = std::make_shared<base::UniqueFd>(ends[0]);
  const base::UniqueFd writes(ends[1]);
  const pid_t child = fork();
  if (child < 0) {
    reply(FailureReply("fork", errno));
    return 0;
  }
  if (child == 0) {
    Loop::ResetSignals();
    const std::string text = base::ipc::WriteJson(body());
    [[maybe_unused]] const ssize_t size = write(writes.get(), text.data(), text.size());
    _exit(0);
  }
  // The answer is in the pipe as a whole when the child has ended.
  loop.OnChildEnd(child, [answer, reply = std::move(reply)](int status) {
    std::string text(64 * 1024, '\0');
    const ssize_t size = read(answer->get(), text.data(), text.size());
    const auto message = base::ipc::ReadJson(
        std::string_view(text).substr(0, size > 0 ? static_cast<size_t>(size) : 0));
    if (WIFEXITED(status) && message.ok()) return reply(*message);
    reply(ErrorReply("INTERNAL", "the call ended in the guest before it was done"));
  });
  return child;
}

}  // namespace berth::guest
