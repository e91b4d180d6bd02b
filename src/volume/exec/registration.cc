#include "volume/exec/registration.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "api/names.h"
#include "base/files/whole_file.h"
#include "base/json.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::volume {
namespace {

using base::Status;
using base::StatusOr;

constexpr size_t kMaxBytes = 64 * 1024;

Status FaultError(std::string_view fault) {
  return Status(base::StatusCode::kFailedPrecondition, base::ToAbsl(fault));
}

// Opens an entry of `folder`. It needs no child with a deadline, because the folder is on the local
// disk and belongs to the agent. NOT_FOUND, or a fault.
StatusOr<base::UniqueFd> OpenEntry(int folder, const char* name, int flags) {
  open_how how = {};
  // O_NONBLOCK is set, because the open of a FIFO or a device must not wait.
  how.flags = static_cast<uint64_t>(flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  int fd = -1;
  do {
    fd = static_cast<int>(syscall(SYS_openat2, folder, name, &how, sizeof(how)));
  } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
  if (fd >= 0) return base::UniqueFd(fd);
  if (errno == ENOENT) return Status(base::StatusCode::kNotFound, "not there");
  if (errno == ELOOP) return FaultError("it is a symlink");
  if (errno == ENXIO) return FaultError("it is no regular file");
  if (errno == ENOTDIR) return FaultError("it is no folder");
  return FaultError(base::Message(platform::ErrnoError(errno, "open")));
}

Status CheckOwner(int fd, mode_t type, uid_t owner) {
  struct stat stat = {};
  if (fstat(fd, &stat) != 0) return platform::ErrnoError(errno, "fstat");
  if ((stat.st_mode & S_IFMT) != type) return FaultError("it is no regular file");
  if (stat.st_uid != owner) {
    return FaultError(owner == 0 ? fmt::format("it is owned by user {}, not by root", stat.st_uid)
                                 : fmt::format("it is owned by user {}", stat.st_uid));
  }
  if ((stat.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return FaultError(
        fmt::format("others than its owner may write it (mode {:04o})", stat.st_mode & 07777));
  }
  return base::OkStatus();
}

StatusOr<std::string> ReadRegistrationFile(int fd) {
  std::string text;
  const int error = base::ReadAll(fd, kMaxBytes, text);
  if (error == EFBIG) return FaultError("it is longer than 64 KiB");
  if (error != 0) return platform::ErrnoError(error, "read");
  return text;
}

Status CheckUid(std::string_view uid) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  };
  // It must be valid as a label's value, because the runtime finds containers by this label.
  if (uid.size() <= 63 && std::all_of(uid.begin(), uid.end(), plain)) return base::OkStatus();
  return base::Error(base::StatusCode::kInvalidArgument, "no UID of a pod");
}

struct Member {
  const char* name;
  std::string Registration::* value;
  Status (*check)(std::string_view);
};
constexpr Member kMembers[] = {
    {"podNamespace", &Registration::pod_namespace, api::CheckDns1123Label},
    {"podName", &Registration::pod_name, api::CheckDns1123Subdomain},
    {"podUID", &Registration::pod_uid, CheckUid},
    {"containerName", &Registration::container, api::CheckDns1123Label},
};

StatusOr<Registration> ParseRegistration(std::string_view text) {
  const auto json = base::json::Parse(text, {.max_bytes = kMaxBytes, .max_depth = 16});
  if (!json.ok()) {
    return FaultError(fmt::format("it is no JSON: {}", base::Message(json.status())));
  }
  if (!json->is_object()) return FaultError("it is no JSON object");
  Registration registration;
  for (const Member& member : kMembers) {
    const auto found = json->find(member.name);
    if (found == json->end()) return FaultError(fmt::format("it has no {}", member.name));
    if (!found->is_string()) return FaultError(fmt::format("{} is no string", member.name));
    const auto& value = found->get_ref<const std::string&>();
    if (value.empty()) return FaultError(fmt::format("{} is empty", member.name));
    if (const Status good = member.check(value); !good.ok()) {
      return FaultError(fmt::format("{}: {}", member.name, base::Message(good)));
    }
    registration.*member.value = value;
  }
  return registration;
}

Status RefusedError(const std::string& path, const Status& fault) {
  return base::Error(base::StatusCode::kFailedPrecondition, "the registration '{}' is refused: {}",
                     path, base::Message(fault));
}

}  // namespace

StatusOr<std::optional<Registration>> ReadRegistration(const Paths& paths, std::string_view plugin,
                                                       uid_t owner) {
  const std::string folder_path = paths.PluginContainers();
  // The administrator may have made symlinks on the path to the kubelet folder.
  const base::UniqueFd root(open(paths.root().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid() && errno == ENOENT) return std::nullopt;
  if (!root.valid())
    return RefusedError(folder_path, platform::ErrnoError(errno, "open its folder"));
  const std::string folder_name = folder_path.substr(paths.root().size() + 1);
  const auto folder = OpenEntry(root.get(), folder_name.c_str(), O_DIRECTORY);
  if (folder.status().code() == base::StatusCode::kNotFound) return std::nullopt;
  if (!folder.ok()) return RefusedError(folder_path, folder.status());

  const std::string name = Paths::PluginContainerFile(plugin);
  const std::string path = fmt::format("{}/{}", folder_path, name);
  const auto file = OpenEntry(folder->get(), name.c_str(), 0);
  if (file.status().code() == base::StatusCode::kNotFound) return std::nullopt;
  if (!file.ok()) return RefusedError(path, file.status());
  // A user that may write to the folder could replace this file by any file of root's.
  if (const Status safe = CheckOwner(folder->get(), S_IFDIR, owner); !safe.ok()) {
    return RefusedError(path, base::Annotate(safe, "its folder"));
  }
  if (const Status safe = CheckOwner(file->get(), S_IFREG, owner); !safe.ok()) {
    return RefusedError(path, safe);
  }
  const auto text = ReadRegistrationFile(file->get());
  if (!text.ok()) return RefusedError(path, text.status());
  auto registration = ParseRegistration(*text);
  if (!registration.ok()) return RefusedError(path, registration.status());
  return *std::move(registration);
}

}  // namespace berth::volume
