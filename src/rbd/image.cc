#include "rbd/image.h"

#include <errno.h>

#include <charconv>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "rbd/rbd_error.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

// Of librbd: the name of the lock on the header of an image.
constexpr char kLockName[] = "rbd_lock";
constexpr size_t kMostWatchers = 1024;
constexpr size_t kLongestList = 1024 * 1024;

std::string Context(std::string_view operation, const std::string& name) {
  return fmt::format("{} image {}", operation, Quote(name));
}

// The strings of a list in which each ends with a zero byte.
std::vector<std::string> SplitAtZeroes(const std::string& text, size_t size) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < size && at < text.size();) {
    const char* part = text.data() + at;
    const size_t length = strnlen(part, text.size() - at);
    parts.emplace_back(part, length);
    at += length + 1;
  }
  return parts;
}

// The cluster names the protocol of some addresses, as in "v1:10.0.0.7:0/3512387". The address of a
// client is the same without it, as the blocklist and the kernel have it.
std::string WithoutProtocol(std::string address) {
  for (const std::string_view protocol : {"v1:", "v2:"}) {
    if (address.starts_with(protocol)) return address.substr(protocol.size());
  }
  return address;
}

// 4242 of "client.4242"; 0: it is no client.
uint64_t ClientNumber(std::string_view entity) {
  constexpr std::string_view kClient = "client.";
  if (!entity.starts_with(kClient)) return 0;
  entity.remove_prefix(kClient.size());
  uint64_t number = 0;
  const auto parsed = std::from_chars(entity.data(), entity.data() + entity.size(), number);
  return parsed.ec == std::errc() ? number : 0;
}

}  // namespace

base::StatusOr<std::optional<std::string>> FindImageId(const Cluster& cluster,
                                                       const std::string& name) {
  // The object has the id as a string with its length before it, in four bytes.
  const std::string object = "rbd_id." + name;
  char content[256];
  const int size = rados_read(cluster.io(), object.c_str(), content, sizeof(content), 0);
  if (size == -ENOENT) return std::optional<std::string>();
  if (size < 0) return RbdError(size, Context("read the id of", name));
  uint32_t length = 0;
  if (static_cast<size_t>(size) >= sizeof(length)) memcpy(&length, content, sizeof(length));
  if (length == 0 || length > static_cast<size_t>(size) - sizeof(length)) {
    return Error(StatusCode::kDataLoss, "the object {} has no id of an image", Quote(object));
  }
  return std::optional(std::string(content + sizeof(length), length));
}

std::string HeaderOf(const std::string& image_id) { return "rbd_header." + image_id; }

base::StatusOr<std::vector<Locker>> ListLockers(const Cluster& cluster,
                                                const std::string& image_id) {
  const std::string header = HeaderOf(image_id);
  for (size_t size = 4096; size <= kLongestList; size *= 4) {
    std::string tag(size, '\0');
    std::string clients(size, '\0');
    std::string cookies(size, '\0');
    std::string addresses(size, '\0');
    size_t tag_size = size;
    size_t clients_size = size;
    size_t cookies_size = size;
    size_t addresses_size = size;
    int exclusive = 0;
    const ssize_t count = rados_list_lockers(
        cluster.io(), header.c_str(), kLockName, &exclusive, tag.data(), &tag_size, clients.data(),
        &clients_size, cookies.data(), &cookies_size, addresses.data(), &addresses_size);
    if (count == -ERANGE) continue;
    if (count < 0) return RbdError(static_cast<int>(count), "list the locks of the image");
    const auto names = SplitAtZeroes(clients, clients_size);
    const auto cookie_list = SplitAtZeroes(cookies, cookies_size);
    const auto address_list = SplitAtZeroes(addresses, addresses_size);
    if (names.size() != static_cast<size_t>(count) || cookie_list.size() != names.size() ||
        address_list.size() != names.size()) {
      return Error(StatusCode::kInternal, "the list of locks of the image does not fit together");
    }
    std::vector<Locker> lockers;
    for (size_t i = 0; i < names.size(); ++i) {
      lockers.push_back({.client_id = ClientNumber(names[i]),
                         .client = names[i],
                         .cookie = cookie_list[i],
                         .address = WithoutProtocol(address_list[i])});
    }
    return lockers;
  }
  return Error(StatusCode::kResourceExhausted, "the image has too many locks to list");
}

base::Status BreakLock(const Cluster& cluster, const std::string& image_id, const Locker& locker) {
  const int result = rados_break_lock(cluster.io(), HeaderOf(image_id).c_str(), kLockName,
                                      locker.client.c_str(), locker.cookie.c_str());
  if (result >= 0 || result == -ENOENT) return base::OkStatus();
  return RbdError(result, fmt::format("break the lock of {}", Quote(locker.address)));
}

base::StatusOr<std::unique_ptr<Image>> Image::Open(const Cluster& cluster, const std::string& name,
                                                   const OpenOptions& options) {
  ClientRecord record{.client_id = cluster.client_id(),
                      .address = cluster.address(),
                      .node = options.node,
                      .program = options.program,
                      .read_only = options.read_only};
  std::unique_ptr<Image> made(new Image(cluster, name, std::move(record)));
  ASSIGN_OR_RETURN(const auto id, FindImageId(cluster, name));
  if (!id.has_value()) {
    return Error(StatusCode::kNotFound, "pool {} has no image {}", Quote(cluster.pool()),
                 Quote(name));
  }
  made->id_ = *id;
  RETURN_IF_ERROR_WITH(WriteClient(cluster, name, made->record_), Context("open", name));
  made->recorded_ = true;
  const int result = options.read_only
                         ? rbd_open_read_only(cluster.io(), name.c_str(), &made->image_, nullptr)
                         : rbd_open(cluster.io(), name.c_str(), &made->image_, nullptr);
  if (result < 0) {
    made->image_ = nullptr;
    return RbdError(result, Context("open", name));
  }
  return made;
}

Image::~Image() {
  if (image_ != nullptr) {
    if (const int result = rbd_close(image_); result < 0) {
      LOG_WARNING("{}", base::Message(RbdError(result, Context("close", name_))));
    }
  }
  if (!recorded_) return;
  // A record that stays makes a later fence block an address that nobody has any more.
  if (const auto removed = RemoveClients(cluster_, name_, {record_}); !removed.ok()) {
    LOG_WARNING("{}", base::Message(removed));
  }
}

base::StatusOr<int64_t> Image::ReadSize() const {
  uint64_t size = 0;
  const int result = rbd_get_size(image_, &size);
  if (result < 0) return RbdError(result, Context("read the size of", name_));
  return static_cast<int64_t>(size);
}

base::StatusOr<std::vector<Watcher>> Image::ListWatchers() const {
  std::vector<rbd_image_watcher_t> list(kMostWatchers);
  size_t count = list.size();
  const int result = rbd_watchers_list(image_, list.data(), &count);
  if (result < 0) return RbdError(result, Context("list the watchers of", name_));
  std::vector<Watcher> watchers;
  for (size_t i = 0; i < count; ++i) {
    watchers.push_back(
        {.client_id = static_cast<uint64_t>(list[i].id), .address = WithoutProtocol(list[i].addr)});
  }
  rbd_watchers_list_cleanup(list.data(), count);
  return watchers;
}

base::StatusOr<std::set<uint64_t>> Image::ListAnswering(std::chrono::milliseconds time) const {
  char* reply = nullptr;
  size_t reply_size = 0;
  // An empty message says that the header has changed. librbd and the kernel read it again, and
  // answer.
  const int result = rados_notify2(cluster_.io(), HeaderOf(id_).c_str(), "", 0,
                                   static_cast<uint64_t>(time.count()), &reply, &reply_size);
  // ETIMEDOUT: some do not answer. The reply has those that do.
  if (result < 0 && (result != -ETIMEDOUT || reply == nullptr)) {
    rados_buffer_free(reply);
    return RbdError(result, Context("ask the watchers of", name_));
  }
  notify_ack_t* answers = nullptr;
  size_t answer_count = 0;
  notify_timeout_t* silent = nullptr;
  size_t silent_count = 0;
  const int decoded = rados_decode_notify_response(reply, reply_size, &answers, &answer_count,
                                                   &silent, &silent_count);
  rados_buffer_free(reply);
  if (decoded < 0) return RbdError(decoded, Context("read the answers of the watchers of", name_));
  std::set<uint64_t> answering;
  for (size_t i = 0; i < answer_count; ++i) answering.insert(answers[i].notifier_id);
  rados_free_notify_response(answers, answer_count, silent);
  return answering;
}

base::StatusOr<std::vector<std::string>> Image::ListSnapshots() const {
  std::vector<rbd_snap_info_t> list(64);
  for (;;) {
    int count = static_cast<int>(list.size());
    const int result = rbd_snap_list(image_, list.data(), &count);
    if (result == -ERANGE && count > 0 && static_cast<size_t>(count) <= kLongestList) {
      list.resize(static_cast<size_t>(count));
      continue;
    }
    if (result < 0) return RbdError(result, Context("list the snapshots of", name_));
    std::vector<std::string> names;
    for (int i = 0; i < result; ++i) names.emplace_back(list[static_cast<size_t>(i)].name);
    if (result > 0) rbd_snap_list_end(list.data());
    return names;
  }
}

}  // namespace berth::rbd
