#include "cmd/berth-init/registration.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/ipc/message.h"
#include "base/unique_fd.h"
#include "cmd/berth-init/files.h"
#include "cmd/berth-init/log_line.h"

namespace berth::init {

using base::UniqueFd;
using base::ipc::Failure;
using base::ipc::Message;
using base::ipc::Ok;
using base::ipc::SystemFailure;

namespace {

constexpr const char* kPodUid = "podUID";
// Other mount pods hold the lock only while they write or remove a few small files.
constexpr int kLockTries = 50;
constexpr useconds_t kLockPauseUs = 100'000;

std::string RegistrationFolder(const Options& options) {
  return options.kubelet_folder + "/plugin-containers";
}

std::string RegistrationName(std::string plugin) {
  std::replace(plugin.begin(), plugin.end(), '/', '~');
  return plugin + ".json";
}

Failure MakeFolder(const Options& options) {
  const std::string folder = RegistrationFolder(options);
  struct stat info{};
  if (stat(options.kubelet_folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return SystemFailure("the kubelet's folder '" + options.kubelet_folder +
                             "' is not mounted into this pod (hostPath, Bidirectional)",
                         errno);
  }
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return SystemFailure("make '" + folder + "'", errno);
  }
  return Ok();
}

// Returns an invalid descriptor if another process holds the lock for too long.
UniqueFd LockFolder(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; fd.valid() && i < kLockTries; ++i) {
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
    usleep(kLockPauseUs);
  }
  return {};
}

}  // namespace

Failure RegisterPod(const Options& options) {
  if (Failure failure = MakeFolder(options); !failure.ok()) return failure;
  const std::string folder = RegistrationFolder(options);
  const Pod& pod = options.pod;
  const std::string content = WriteJson(Message()
                                            .Set("podNamespace", pod.ns)
                                            .Set("podName", pod.name)
                                            .Set(kPodUid, pod.uid)
                                            .Set("containerName", pod.container)) +
                              "\n";
  const UniqueFd lock = LockFolder(folder);
  if (!lock.valid())
    LogLine("registers without a lock, because it could not lock '" + folder + "'");
  for (const std::string& plugin : options.plugins) {
    const std::string name = RegistrationName(plugin);
    const std::string temp = "." + name + ".tmp-" + pod.uid;
    if (Failure failure = WriteAtomically(folder, name, temp, content); !failure.ok()) {
      return failure;
    }
    LogLine("registered for " + plugin + ": " + folder + "/" + name);
  }
  return Ok();
}

void WithdrawRegistration(const Options& options) {
  const std::string folder = RegistrationFolder(options);
  const UniqueFd lock = LockFolder(folder);
  if (!lock.valid()) return;
  for (const std::string& plugin : options.plugins) {
    const std::string path = folder + "/" + RegistrationName(plugin);
    const auto content = ReadWhole(path);
    if (!content.ok()) continue;
    const auto registration = base::ipc::ReadJson(*content);
    const std::string* uid = registration.ok() ? registration->FindText(kPodUid) : nullptr;
    if (uid == nullptr || *uid != options.pod.uid) {
      LogLine("leaves the registration for " + plugin + " to another pod");
    } else if (unlink(path.c_str()) == 0) {
      LogLine("is no longer registered for " + plugin);
    }
  }
}

}  // namespace berth::init
