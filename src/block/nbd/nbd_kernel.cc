#include "block/nbd/nbd_kernel.h"

#include <fcntl.h>
#include <linux/genetlink.h>
#include <linux/nbd-netlink.h>
#include <linux/nbd.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/fault.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"

namespace berth::block {
namespace {

using base::Error;
using base::StatusCode;

constexpr uint64_t kBlockSize = 4096;
constexpr std::chrono::seconds kAnswerTime{10};
constexpr size_t kMostAnswer = 8192;
constexpr uint16_t kTypeMask = 0x3fff;  // NLA_TYPE_MASK

// Builds a generic netlink message.
class GenericMessage {
 public:
  GenericMessage(uint16_t family, uint8_t command) {
    nlmsghdr head = {};
    head.nlmsg_type = family;
    head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    head.nlmsg_seq = 1;
    genlmsghdr generic = {};
    generic.cmd = command;
    generic.version = 1;
    bytes_.append(reinterpret_cast<const char*>(&head), sizeof head);
    bytes_.append(reinterpret_cast<const char*>(&generic), sizeof generic);
  }
  void Add(uint16_t type, std::string_view value) {
    nlattr attribute = {};
    attribute.nla_type = type;
    attribute.nla_len = static_cast<uint16_t>(NLA_HDRLEN + value.size());
    bytes_.append(reinterpret_cast<const char*>(&attribute), sizeof attribute);
    bytes_ += value;
    bytes_.resize(NLA_ALIGN(bytes_.size()));
  }
  template <typename T>
  void AddNumber(uint16_t type, T number) {
    Add(type, std::string_view(reinterpret_cast<const char*>(&number), sizeof number));
  }
  void AddText(uint16_t type, const std::string& text) {
    Add(type, std::string_view(text.c_str(), text.size() + 1));
  }
  // Begins a nested attribute: all that is added until EndNested is inside it. Returns its offset,
  // for EndNested.
  size_t BeginNested(uint16_t type) {
    const size_t at = bytes_.size();
    Add(static_cast<uint16_t>(type | NLA_F_NESTED), "");
    return at;
  }
  void EndNested(size_t at) {
    nlattr attribute;
    memcpy(&attribute, bytes_.data() + at, sizeof attribute);
    attribute.nla_len = static_cast<uint16_t>(bytes_.size() - at);
    memcpy(bytes_.data() + at, &attribute, sizeof attribute);
  }
  // Sets the length of the message. The result is valid as long as this object lives and is not
  // changed.
  std::string_view Finish() {
    nlmsghdr head;
    memcpy(&head, bytes_.data(), sizeof head);
    head.nlmsg_len = static_cast<uint32_t>(bytes_.size());
    memcpy(bytes_.data(), &head, sizeof head);
    return bytes_;
  }

 private:
  std::string bytes_;
};

struct Answer {
  size_t size = 0;
  char bytes[kMostAnswer] = {};
};

// Sends `message` and reads until the kernel has acknowledged it. `answer` gets the attributes of
// the first answer, if there is one. Returns 0 or an errno, and makes system calls only.
int ExchangeMessages(std::string_view message, Answer& answer) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
  if (fd < 0) return errno;
  const int error = [&] {
    timeval wait = {.tv_sec = kAnswerTime.count(), .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    if (send(fd, message.data(), message.size(), 0) < 0) return errno;
    alignas(nlmsghdr) char buffer[kMostAnswer];
    for (;;) {
      const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
      if (got < 0) return errno == EAGAIN ? ETIMEDOUT : errno;
      size_t left = static_cast<size_t>(got);
      for (auto* head = reinterpret_cast<nlmsghdr*>(buffer); left >= sizeof(nlmsghdr) &&
                                                             head->nlmsg_len >= sizeof(nlmsghdr) &&
                                                             head->nlmsg_len <= left;) {
        if (head->nlmsg_type == NLMSG_ERROR) {
          if (head->nlmsg_len < NLMSG_HDRLEN + sizeof(nlmsgerr)) return EBADMSG;
          return -static_cast<nlmsgerr*>(NLMSG_DATA(head))->error;
        }
        if (answer.size == 0 && head->nlmsg_len > NLMSG_HDRLEN + GENL_HDRLEN) {
          answer.size = head->nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN;
          memcpy(answer.bytes, reinterpret_cast<char*>(head) + NLMSG_HDRLEN + GENL_HDRLEN,
                 answer.size);
        }
        const size_t step = std::min<size_t>(NLMSG_ALIGN(head->nlmsg_len), left);
        left -= step;
        head = reinterpret_cast<nlmsghdr*>(reinterpret_cast<char*>(head) + step);
      }
    }
  }();
  close(fd);
  return error;
}

std::optional<std::string> FindAttribute(std::string_view attributes, uint16_t type) {
  while (attributes.size() >= sizeof(nlattr)) {
    nlattr attribute;
    memcpy(&attribute, attributes.data(), sizeof attribute);
    if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > attributes.size()) return {};
    if ((attribute.nla_type & kTypeMask) == type) {
      return std::string(attributes.substr(NLA_HDRLEN, attribute.nla_len - NLA_HDRLEN));
    }
    attributes.remove_prefix(std::min<size_t>(NLA_ALIGN(attribute.nla_len), attributes.size()));
  }
  return {};
}

template <typename T>
std::optional<T> FindNumberAttribute(std::string_view attributes, uint16_t type) {
  const auto value = FindAttribute(attributes, type);
  if (!value.has_value() || value->size() != sizeof(T)) return {};
  T number;
  memcpy(&number, value->data(), sizeof number);
  return number;
}

// `context` begins the error message. `named` are the descriptors that the message names.
base::StatusOr<std::string> AskKernel(GenericMessage message, std::string_view context,
                                      std::chrono::milliseconds timeout,
                                      std::vector<int> named = {}) {
  const auto exchange = [bytes = std::string(message.Finish())](Answer& answer) {
    return ExchangeMessages(bytes, answer);
  };
  ASSIGN_OR_RETURN(const Answer answer,
                   platform::AskChild<Answer>(context, timeout, exchange, std::move(named)));
  return std::string(answer.bytes, std::min(answer.size, sizeof answer.bytes));
}

base::StatusOr<uint16_t> FindNbdFamily() {
  GenericMessage message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
  message.AddText(CTRL_ATTR_FAMILY_NAME, NBD_GENL_FAMILY_NAME);
  const auto answer =
      AskKernel(std::move(message), "look for the kernel's NBD client", kAnswerTime);
  if (answer.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kUnimplemented,
                 "this kernel has no NBD client (module nbd), or it is not seen from this network "
                 "namespace: use access Proxy");
  }
  RETURN_IF_ERROR(answer);
  const auto family = FindNumberAttribute<uint16_t>(*answer, CTRL_ATTR_FAMILY_ID);
  if (!family.has_value()) {
    return Error(StatusCode::kInternal, "the kernel did not give the id of its NBD family");
  }
  return *family;
}

std::string ReadDeviceAttribute(const std::string& device, std::string_view name) {
  const auto text = platform::ReadFile(fmt::format("/sys/block/{}/{}", device, name), 64 * 1024);
  if (!text.ok()) return {};
  std::string line = *text;
  while (line.ends_with('\n')) line.pop_back();
  return line;
}

template <typename T>
T ToNumber(std::string_view text) {
  T number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

bool HasKernelNbd() { return FindNbdFamily().ok(); }

base::StatusOr<uint32_t> ConnectNbdDevice(const NbdConnection& connection,
                                          const NbdConnectOptions& options) {
  ASSIGN_OR_RETURN(const uint16_t family, FindNbdFamily());
  GenericMessage message(family, NBD_CMD_CONNECT);
  uint64_t flags = connection.exported.flags;
  if (options.read_only) flags |= NBD_FLAG_READ_ONLY;
  message.AddNumber<uint64_t>(NBD_ATTR_SIZE_BYTES, connection.exported.size_bytes);
  message.AddNumber<uint64_t>(NBD_ATTR_BLOCK_SIZE_BYTES, kBlockSize);
  message.AddNumber<uint64_t>(NBD_ATTR_TIMEOUT, static_cast<uint64_t>(options.timeout.count()));
  // Requests to a dead connection fail at once, because there is no second connection to wait for.
  message.AddNumber<uint64_t>(NBD_ATTR_DEAD_CONN_TIMEOUT, 0);
  message.AddNumber<uint64_t>(NBD_ATTR_SERVER_FLAGS, flags);
  message.AddNumber<uint64_t>(NBD_ATTR_CLIENT_FLAGS, 0);
  message.AddText(NBD_ATTR_BACKEND_IDENTIFIER, options.identifier);
  const size_t sockets = message.BeginNested(NBD_ATTR_SOCKETS);
  const size_t item = message.BeginNested(NBD_SOCK_ITEM);
  message.AddNumber<uint32_t>(NBD_SOCK_FD, static_cast<uint32_t>(connection.socket.get()));
  message.EndNested(item);
  message.EndNested(sockets);
  RETURN_IF_ERROR(base::FaultPoint<"block.nbd_connect.before">());
  ASSIGN_OR_RETURN(const std::string answer, AskKernel(std::move(message), "connect an NBD device",
                                                       kAnswerTime, {connection.socket.get()}));
  RETURN_IF_ERROR(base::FaultPoint<"block.nbd_connect.after">());
  const auto index = FindNumberAttribute<uint32_t>(answer, NBD_ATTR_INDEX);
  if (!index.has_value()) {
    return Error(StatusCode::kInternal, "the kernel did not say which NBD device it connected");
  }
  return *index;
}

base::Status ResizeNbdDevice(uint32_t index, const std::string& identifier, uint64_t size_bytes) {
  ASSIGN_OR_RETURN(const uint16_t family, FindNbdFamily());
  GenericMessage message(family, NBD_CMD_RECONFIGURE);
  message.AddNumber<uint32_t>(NBD_ATTR_INDEX, index);
  message.AddText(NBD_ATTR_BACKEND_IDENTIFIER, identifier);
  message.AddNumber<uint64_t>(NBD_ATTR_SIZE_BYTES, size_bytes);
  return AskKernel(std::move(message), fmt::format("resize /dev/nbd{}", index), kAnswerTime)
      .status();
}

base::Status DisconnectNbdDevice(uint32_t index, const std::string& identifier,
                                 std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(const uint16_t family, FindNbdFamily());
  GenericMessage message(family, NBD_CMD_DISCONNECT);
  message.AddNumber<uint32_t>(NBD_ATTR_INDEX, index);
  message.AddText(NBD_ATTR_BACKEND_IDENTIFIER, identifier);
  RETURN_IF_ERROR(base::FaultPoint<"block.nbd_disconnect.before">());
  RETURN_IF_ERROR(
      AskKernel(std::move(message), fmt::format("disconnect /dev/nbd{}", index), timeout));
  return base::FaultPoint<"block.nbd_disconnect.after">();
}

base::StatusOr<std::vector<NbdDevice>> ListNbdDevices() {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, platform::ListFolder("/sys/block"));
  std::vector<NbdDevice> devices;
  for (const std::string& name : names) {
    if (!name.starts_with("nbd")) continue;
    // Both attributes exist only while the device is connected.
    std::string identifier = ReadDeviceAttribute(name, "backend");
    if (identifier.empty() || ReadDeviceAttribute(name, "pid").empty()) continue;
    const std::string numbers = ReadDeviceAttribute(name, "dev");
    const size_t colon = numbers.find(':');
    if (colon == std::string::npos) continue;
    NbdDevice device{.index = ToNumber<uint32_t>(name.substr(3)),
                     .path = "/dev/" + name,
                     .device_number = makedev(ToNumber<unsigned>(numbers.substr(0, colon)),
                                              ToNumber<unsigned>(numbers.substr(colon + 1))),
                     .identifier = std::move(identifier),
                     .size_bytes = ToNumber<uint64_t>(ReadDeviceAttribute(name, "size")) * 512,
                     .read_only = ReadDeviceAttribute(name, "ro") == "1"};
    // Where /dev is not a devtmpfs, as in a container, the device may have no device node yet.
    if (access(device.path.c_str(), F_OK) != 0) {
      mknod(device.path.c_str(), S_IFBLK | 0600, device.device_number);
    }
    if (device.size_bytes == kForcedNbdSize) continue;
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace berth::block
