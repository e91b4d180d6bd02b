#include "base/netlink/route_socket.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>

namespace berth::base::netlink {
namespace {

constexpr timeval kAnswerTime = {.tv_sec = 10, .tv_usec = 0};
// The kernel's answers have at most 32 KiB.
constexpr size_t kLargestAnswer = size_t{64} << 10;

}  // namespace

int RouteSocket::Open() {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return -errno;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kAnswerTime, sizeof kAnswerTime);
  return fd;
}

int RouteSocket::Change(const Message& request) { return Exchange(request, nullptr); }

int RouteSocket::Exchange(const Message& request, const Each& each) {
  const bool lists = each != nullptr;
  const uint32_t sequence = ++sequence_;
  std::string bytes = request.Finish(sequence);
  if (!lists) {
    nlmsghdr header;
    memcpy(&header, bytes.data(), sizeof header);
    header.nlmsg_flags |= NLM_F_ACK;
    memcpy(bytes.data(), &header, sizeof header);
  }
  if (send(fd_.get(), bytes.data(), bytes.size(), 0) < 0) return errno;
  std::string buffer(kLargestAnswer, '\0');
  bool changed = false;
  while (true) {
    const ssize_t got = recv(fd_.get(), buffer.data(), buffer.size(), MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN ? ETIMEDOUT : errno;
    if (static_cast<size_t>(got) > buffer.size()) return EMSGSIZE;
    std::string_view left(buffer.data(), static_cast<size_t>(got));
    while (left.size() >= sizeof(nlmsghdr)) {
      nlmsghdr header;
      memcpy(&header, left.data(), sizeof header);
      if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > left.size()) return EBADMSG;
      std::string_view body = left.substr(NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN);
      left.remove_prefix(std::min<size_t>(NLMSG_ALIGN(header.nlmsg_len), left.size()));
      // The rest of an earlier answer that was not waited for.
      if (header.nlmsg_seq != sequence) continue;
      if ((header.nlmsg_flags & NLM_F_DUMP_INTR) != 0) changed = true;
      if (header.nlmsg_type == NLMSG_ERROR) {
        const auto error = CutHead<nlmsgerr>(body);
        return error.has_value() ? -error->error : EBADMSG;
      }
      if (header.nlmsg_type == NLMSG_DONE) return changed ? EINTR : 0;
      if (lists) each(header.nlmsg_type, body);
    }
  }
}

}  // namespace berth::base::netlink
