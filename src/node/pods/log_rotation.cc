#include "node/pods/log_rotation.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/log.h"
#include "base/text.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"

namespace berth::node {

namespace {

using base::Quote;
using base::Status;
using base::StatusOr;

constexpr std::chrono::milliseconds kReopenTimeout{10'000};

// The paths of the rotated logs of the log at `path`, the oldest first.
StatusOr<std::vector<std::string>> ListRotated(const std::string& path) {
  const std::string folder(base::FolderOf(path));
  const std::string prefix = path.substr(folder.size() + 1) + ".";
  ASSIGN_OR_RETURN(const std::vector<std::string> names, platform::ListFolder(folder));
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (name.starts_with(prefix)) out.push_back(folder + "/" + name);
  }
  std::sort(out.begin(), out.end());  // their names end with the time
  return out;
}

// The time as the kubelet writes it into a rotated log's name.
std::string FormatTime(base::WallTime now) {
  const time_t seconds = base::WallTime::clock::to_time_t(now);
  tm utc = {};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text = {};
  strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &utc);
  return text.data();
}

// Renames a log. An entry of the new name stays, and the rename fails.
Status Rename(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return base::OkStatus();
  }
  return platform::ErrnoError(errno, fmt::format("rename {} to {}", Quote(from), Quote(to)));
}

}  // namespace

void RemoveLogs(const std::string& path) {
  unlink(path.c_str());
  const auto rotated = ListRotated(path);
  if (!rotated.ok()) return;
  for (const std::string& old : *rotated) unlink(old.c_str());
}

LogRotation::LogRotation(rpc::CriClient& cri, const base::Clock& clock, Options options,
                         ListRunning list)
    : cri_(cri),
      clock_(clock),
      options_(options),
      list_(std::move(list)),
      worker_({.name = "log-rotation", .workers = 1},
              [this](const std::string&) { return RotateLogs(); }) {}

base::KeyedWorkers::Outcome LogRotation::RotateLogs() {
  for (const ContainerState& container : list_()) {
    const Status rotated = RotateLog(container);
    if (rotated.ok() || rotated.code() == base::StatusCode::kCancelled) continue;
    LOG_WARNING("rotate the log of container {}: {}", Quote(container.name),
                base::ToString(rotated));
  }
  return base::KeyedWorkers::Outcome::After(options_.interval);
}

Status LogRotation::RotateLog(const ContainerState& container) {
  const std::string& path = container.log_path;
  if (!container.running() || !path.starts_with('/')) return base::OkStatus();
  struct stat info{};
  const bool there = lstat(path.c_str(), &info) == 0;
  if (!there && errno != ENOENT)
    return platform::ErrnoError(errno, fmt::format("look at {}", Quote(path)));
  if (there && (!S_ISREG(info.st_mode) || info.st_size < options_.max_bytes)) {
    return base::OkStatus();
  }
  auto rotated = ListRotated(path);
  if (rotated.status().code() == base::StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(rotated);
  if (!there) {
    // A rotation was cut off after the rename. Without one, the log is not there yet.
    return rotated->empty() ? base::OkStatus() : Reopen(container.id);
  }
  while (rotated->size() + 2 > options_.max_files) {
    if (unlink(rotated->front().c_str()) != 0 && errno != ENOENT) {
      return platform::ErrnoError(errno, fmt::format("remove {}", Quote(rotated->front())));
    }
    rotated->erase(rotated->begin());
  }
  const std::string old = fmt::format("{}.{}", path, FormatTime(clock_.Now()));
  RETURN_IF_ERROR(Rename(path, old));
  const Status reopened = Reopen(container.id);
  if (reopened.ok()) {
    LOG_INFO("the log of container {} is rotated to {}", Quote(container.name), Quote(old));
    return reopened;
  }
  // The runtime writes to the renamed file, unless it has made a new one.
  if (const Status back = Rename(old, path); !back.ok()) LOG_WARNING("{}", base::ToString(back));
  return reopened;
}

Status LogRotation::Reopen(const ContainerId& container) {
  rpc::cri::ReopenContainerLogRequest request;
  request.set_container_id(container.text());
  return base::AsStatus(cri_.ReopenContainerLog(request, kReopenTimeout));
}

}  // namespace berth::node
