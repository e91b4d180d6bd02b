// A Flexvolume driver that does not attach, as a static program. Each volume is a folder below the
// folder of the option "folder", and is bind-mounted for the pods that use it.
//
// Options of a volume:
//   folder   the folder that contains the volumes' folders (required, an absolute path)
//   quota    bytes that the volume's file system must have free when it is mounted (default 0)
//
// Install the driver as <plugins>/example.com~folders/folders, and name it in a pod as
// flexVolume.driver: example.com/folders. It needs no utilities and no libraries of the node.
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

// Each of these functions prints a reply and returns the exit code of the program.
int PrintReply(const Message& reply, int exit_code) {
  const std::string text = WriteJson(reply) + "\n";
  fputs(text.c_str(), stdout);
  return exit_code;
}
int ReplySuccess() { return PrintReply(Message().Set("status", "Success"), kOk); }
int ReplyNotSupported() { return PrintReply(Message().Set("status", "Not supported"), kFailed); }
int ReplyFailure(std::string why) {
  return PrintReply(Message().Set("status", "Failure").Set("message", std::move(why)), kFailed);
}
int ReplyErrno(const std::string& what) { return ReplyFailure(what + ": " + strerror(errno)); }

// Returns the value of an option; "" if it is missing.
std::string FindOption(const Message& options, std::string_view name) {
  const std::string* value = options.FindText(name);
  return value == nullptr ? "" : *value;
}

// Identifies a folder, even if it is reached by another path.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Identity&) const = default;
};
// Returns false and sets errno if stat(2) of `path` fails.
bool ReadIdentity(const std::string& path, Identity& out) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0) return false;
  out = {st.st_dev, st.st_ino};
  return true;
}

// Whether the file system has `quota` bytes free. True also if this cannot be read.
bool HasRoom(const std::string& folder, const std::string& quota) {
  struct statfs fs;
  if (quota.empty() || statfs(folder.c_str(), &fs) != 0) return true;
  return strtoull(quota.c_str(), nullptr, 10) <=
         static_cast<unsigned long long>(fs.f_bavail) * static_cast<unsigned long long>(fs.f_bsize);
}

int MountVolume(const std::string& target, const std::string& json) {
  const auto options = ReadJson(json);
  if (!options.ok()) return ReplyFailure("the options are not a flat JSON object of strings");
  const std::string folder = FindOption(*options, "folder");
  const std::string name = FindOption(*options, "kubernetes.io/pvOrVolumeName");
  const bool read_only = FindOption(*options, "kubernetes.io/readwrite") == "ro";
  if (folder.empty() || folder[0] != '/') {
    return ReplyFailure("the option 'folder' is not an absolute path");
  }
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos) {
    return ReplyFailure("the volume's name cannot be the name of a folder");
  }
  const std::string source = folder + "/" + name;
  if (mkdir(source.c_str(), 0750) != 0 && errno != EEXIST) return ReplyErrno("make " + source);
  if (!HasRoom(source, FindOption(*options, "quota"))) {
    return ReplyFailure("not enough free space in " + folder);
  }
  if (mkdir(target.c_str(), 0750) != 0 && errno != EEXIST) return ReplyErrno("make " + target);

  Identity source_id, target_id;
  if (!ReadIdentity(source, source_id)) return ReplyErrno("stat " + source);
  if (!ReadIdentity(target, target_id)) return ReplyErrno("stat " + target);
  if (source_id == target_id) return ReplySuccess();  // mounted already
  if (mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return ReplyErrno("bind " + source + " to " + target);
  }
  if (read_only &&
      mount(nullptr, target.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) {
    const int error = errno;
    umount2(target.c_str(), MNT_DETACH);
    errno = error;
    return ReplyErrno("make " + target + " read-only");
  }
  return ReplySuccess();
}

int UnmountVolume(const std::string& target) {
  // EINVAL: it is not a mount point. ENOENT: it does not exist. In both cases nothing is mounted.
  if (umount2(target.c_str(), UMOUNT_NOFOLLOW) == 0 || errno == EINVAL || errno == ENOENT) {
    return ReplySuccess();
  }
  return ReplyErrno("unmount " + target);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "init") {
    // The reply is written as text, because the capabilities are an object, and WriteJson writes
    // only flat objects.
    puts(R"({"status":"Success","capabilities":{"attach":false,"supportsMetrics":true}})");
    return kOk;
  }
  if (command == "mount" && argc == 4) return MountVolume(argv[2], argv[3]);
  if (command == "unmount" && argc == 3) return UnmountVolume(argv[2]);
  return ReplyNotSupported();
}
