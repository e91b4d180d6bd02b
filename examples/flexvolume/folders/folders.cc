// A Flexvolume driver that does not attach, as a static program: each volume is a folder below the
// option "folder", bound to the pods that use it.
//
// Options of a volume:
//   folder   below which the volumes' folders are (required)
//   quota    bytes that the volume's file system must have free when it is mounted (default 0)
//
// It is installed as <plugins>/example.com~folders/folders, and used as flexVolume.driver:
// example.com/folders. It needs no utility and no library of the machine.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <string>
#include <string_view>

#include "base/ipc/message.h"

namespace {

using berth::base::ipc::Message;
using berth::base::ipc::ReadJson;
using berth::base::ipc::WriteJson;

constexpr int kOk = 0;
constexpr int kFailed = 1;

int Say(const Message& reply, int exit_code) {
  const std::string text = WriteJson(reply) + "\n";
  fputs(text.c_str(), stdout);
  return exit_code;
}
int Succeed() { return Say(Message().Set("status", "Success"), kOk); }
int NotSupported() { return Say(Message().Set("status", "Not supported"), kFailed); }
int Fail(std::string why) {
  return Say(Message().Set("status", "Failure").Set("message", std::move(why)), kFailed);
}
int FailWithErrno(const std::string& what) { return Fail(what + ": " + strerror(errno)); }

std::string Option(const Message& options, std::string_view name) {
  const std::string* value = options.FindText(name);
  return value == nullptr ? "" : *value;
}

struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Identity&) const = default;
};
bool Look(const std::string& path, Identity& out) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0) return false;
  out = {st.st_dev, st.st_ino};
  return true;
}

// Whether there is as much room as the volume wants.
bool HasRoom(const std::string& folder, const std::string& quota) {
  struct statfs fs;
  if (quota.empty() || statfs(folder.c_str(), &fs) != 0) return true;
  return strtoull(quota.c_str(), nullptr, 10) <=
         static_cast<unsigned long long>(fs.f_bavail) * static_cast<unsigned long long>(fs.f_bsize);
}

int Mount(const std::string& target, const std::string& json) {
  const auto options = ReadJson(json);
  if (!options.ok()) return Fail("the options are no flat JSON object of strings");
  const std::string folder = Option(*options, "folder");
  const std::string name = Option(*options, "kubernetes.io/pvOrVolumeName");
  const bool read_only = Option(*options, "kubernetes.io/readwrite") == "ro";
  if (folder.empty() || folder[0] != '/') return Fail("the option 'folder' is no absolute path");
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos) {
    return Fail("the volume has no name that could be a folder's");
  }
  const std::string source = folder + "/" + name;
  if (mkdir(source.c_str(), 0750) != 0 && errno != EEXIST) return FailWithErrno("make " + source);
  if (!HasRoom(source, Option(*options, "quota"))) return Fail("too little room in " + folder);
  if (mkdir(target.c_str(), 0750) != 0 && errno != EEXIST) return FailWithErrno("make " + target);

  Identity of_source, of_target;
  if (!Look(source, of_source)) return FailWithErrno("look at " + source);
  if (!Look(target, of_target)) return FailWithErrno("look at " + target);
  if (of_source == of_target) return Succeed();  // mounted already
  if (mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return FailWithErrno("bind " + source + " to " + target);
  }
  if (read_only &&
      mount(nullptr, target.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) {
    const int error = errno;
    umount2(target.c_str(), MNT_DETACH);
    errno = error;
    return FailWithErrno("make " + target + " read-only");
  }
  return Succeed();
}

int Unmount(const std::string& target) {
  // EINVAL: no mount point. ENOENT: no folder.
  if (umount2(target.c_str(), UMOUNT_NOFOLLOW) == 0 || errno == EINVAL || errno == ENOENT) {
    return Succeed();
  }
  return FailWithErrno("unmount " + target);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "init") {
    // Capabilities are an object, and this writer's are flat.
    puts(R"({"status":"Success","capabilities":{"attach":false,"supportsMetrics":true}})");
    return kOk;
  }
  if (command == "mount" && argc == 4) return Mount(argv[2], argv[3]);
  if (command == "unmount" && argc == 3) return Unmount(argv[2]);
  return NotSupported();
}
