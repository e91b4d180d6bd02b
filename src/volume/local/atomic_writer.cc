#include "volume/local/atomic_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <set>

#include "base/files/whole_file.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/folder_walk.h"

namespace berth::volume {
namespace {

using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;

constexpr const char* kData = "..data";
constexpr const char* kNewData = "..data_tmp";
constexpr const char* kNewLink = "..link_tmp";
constexpr int kMaxDepth =
    256;  // more parts than any path within the limits of a payload is likely to have

std::string GetFirstPart(const std::string& path) { return path.substr(0, path.find('/')); }

// "..2026_01_01_00_00_00.x7k2m9q4b", as the kubelet's but for its letters.
std::string MakeVersionName(base::WallTime now) {
  const time_t seconds = base::WallTime::clock::to_time_t(now);
  tm utc = {};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text = {};
  strftime(text.data(), text.size(), "..%Y_%m_%d_%H_%M_%S.", &utc);
  return text.data() + base::RandomSuffix(9);
}

class Writer {
 public:
  Writer(const std::string& folder, const Payload& payload, const AtomicWriteOptions& options)
      : folder_(folder), payload_(payload), options_(options) {}

  Status WriteVolume() {
    root_.Reset(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root_.valid()) return Failure("open", folder_);
    const std::string old = ReadLinkTarget(kData);
    current_ = old;
    if (!HoldsPayload(old)) {
      // If versions cannot be written again and again, each try finds only its own remains.
      RETURN_IF_ERROR(RemoveStale(".."));
      current_ = MakeVersionName(options_.now);
      RETURN_IF_ERROR(WriteVersion());
      if (options_.before_switch) RETURN_IF_ERROR(options_.before_switch());
      RETURN_IF_ERROR(ReplaceLink(kNewData, current_, kData));
    }
    // The links are made even if nothing changed, because a crash may have come before them.
    RETURN_IF_ERROR(LinkFirstParts());
    return RemoveStale("");
  }

 private:
  Status Failure(std::string_view call, std::string_view name) const {
    return platform::ErrnoError(errno,
                                fmt::format("write {}: {} {}", Quote(folder_), call, Quote(name)));
  }

  // The target of a symlink in the volume; empty: it is none.
  std::string ReadLinkTarget(const char* name) const {
    std::array<char, 512> target;
    const ssize_t n = readlinkat(root_.get(), name, target.data(), target.size());
    return n <= 0 ? "" : std::string(target.data(), static_cast<size_t>(n));
  }

  // True if the version `name` has exactly the files of the payload.
  bool HoldsPayload(const std::string& name) const {
    if (!name.starts_with("..") || name.find('/') != std::string::npos) return false;
    const UniqueFd fd(
        openat(root_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    std::set<std::string> files;
    if (!fd.valid() || !ListFiles(fd.get(), "", 0, files)) return false;
    if (files.size() != payload_.size()) return false;
    for (const auto& [path, file] : payload_) {
      if (!files.contains(path)) return false;
      const auto content =
          platform::ReadFile(fmt::format("{}/{}/{}", folder_, name, path), file.data.size());
      if (!content.ok() || *content != file.data) return false;
    }
    return true;
  }

  // Adds the paths of all files below `fd`; false if one of them cannot be read or is unexpected.
  static bool ListFiles(int fd, const std::string& prefix, int depth,
                        std::set<std::string>& files) {
    bool fine = depth < kMaxDepth;
    const int error = platform::ForEachName(fd, 0, [&](const char* name) {
      struct stat st;
      if (!fine || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        fine = false;
      } else if (S_ISREG(st.st_mode)) {
        files.insert(prefix + name);
      } else {
        const UniqueFd sub(openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        fine = sub.valid() &&
               ListFiles(sub.get(), fmt::format("{}{}/", prefix, name), depth + 1, files);
      }
    });
    return fine && error == 0;
  }

  Status WriteVersion() {
    if (mkdirat(root_.get(), current_.c_str(), 0755) != 0) return Failure("make", current_);
    version_.Reset(
        openat(root_.get(), current_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!version_.valid()) return Failure("open", current_);
    // The umask does not apply.
    if (fchmod(version_.get(), 0755) != 0) return Failure("chmod", current_);
    for (const auto& [path, file] : payload_) RETURN_IF_ERROR(WriteFile(path, file));
    return base::OkStatus();
  }

  Status WriteFile(const std::string& path, const PayloadFile& file) {
    RETURN_IF_ERROR(CheckPayloadPath(path));
    for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
      const std::string part = path.substr(0, at);
      if (mkdirat(version_.get(), part.c_str(), 0755) != 0) {
        if (errno != EEXIST) return Failure("make", part);
        continue;
      }
      if (fchmodat(version_.get(), part.c_str(), 0755, 0) != 0) return Failure("chmod", part);
    }
    const UniqueFd fd(openat(version_.get(), path.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd.valid()) return Failure("make", path);
    errno = base::WriteAll(fd.get(), file.data);
    if (errno != 0) return Failure("write", path);
    if (file.owner && fchown(fd.get(), *file.owner, static_cast<gid_t>(-1)) != 0) {
      return Failure("chown", path);
    }
    if (fchmod(fd.get(), file.mode) != 0) return Failure("chmod", path);
    return base::OkStatus();
  }

  // Makes the symlink `name` to `target`, and replaces an entry of that name, in one step.
  Status ReplaceLink(const char* temp, const std::string& target, const char* name) {
    if (unlinkat(root_.get(), temp, 0) != 0 && errno != ENOENT) return Failure("remove", temp);
    if (symlinkat(target.c_str(), root_.get(), temp) != 0) return Failure("link", temp);
    if (renameat(root_.get(), temp, root_.get(), name) != 0) return Failure("rename", name);
    return base::OkStatus();
  }

  Status LinkFirstParts() {
    for (const auto& [path, file] : payload_) {
      const std::string name = GetFirstPart(path);
      const std::string target = fmt::format("{}/{}", kData, name);
      if (ReadLinkTarget(name.c_str()) == target) continue;
      RETURN_IF_ERROR(ReplaceLink(kNewLink, target, name.c_str()));
    }
    return base::OkStatus();
  }

  // Removes the entries that begin with `prefix` and are neither of the present version nor of the
  // payload: old versions, dangling links, and what a crash or a failure left.
  Status RemoveStale(std::string_view prefix) {
    std::set<std::string> keep = {kData, current_};
    for (const auto& [path, file] : payload_) keep.insert(GetFirstPart(path));
    std::vector<std::string> stale;
    errno = platform::ForEachName(root_.get(), 0, [&](const char* name) {
      if (std::string_view(name).starts_with(prefix) && !keep.contains(name)) {
        stale.emplace_back(name);
      }
    });
    if (errno != 0) return Failure("list", "");
    for (const std::string& name : stale) {
      if (unlinkat(root_.get(), name.c_str(), 0) == 0 || errno == ENOENT) continue;
      if (errno != EISDIR && errno != EPERM) return Failure("remove", name);
      RETURN_IF_ERROR(platform::RemoveTree(folder_ + "/" + name));
    }
    return base::OkStatus();
  }

  const std::string& folder_;
  const Payload& payload_;
  const AtomicWriteOptions& options_;
  UniqueFd root_;
  UniqueFd version_;
  std::string current_;
};

}  // namespace

Status WriteAtomically(const std::string& folder, const Payload& payload,
                       const AtomicWriteOptions& options) {
  return Writer(folder, payload, options).WriteVolume();
}

}  // namespace berth::volume
