// A file system that passes a folder through and fails on command: it hangs, gives errors, corrupts
// what is read, or dies.
//
//   fuse_double --folder FOLDER --mount-point PATH --switches FILE [--source TEXT] [--type TYPE]
//
// The mount table shows it with that source and with the type "fuse.TYPE".
//
// Switches, one a line, read anew at each operation; "NAME" for every operation, "NAME:OPERATION"
// for one (getattr, readdir, open, create, read, write, mkdir, unlink, rmdir, rename, truncate,
// fsync, chown, chmod, statfs):
//
//   hangs     waits until the switch is taken back
//   error     EIO
//   full      ENOSPC (writes, mkdir, create)
//   corrupts  inverts the first byte of each read
//   dies      the process ends; accesses then fail: "Transport endpoint is not connected"
//
// Nothing is cached, so that each access comes here.
#define FUSE_USE_VERSION 35
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <thread>

#include "base/unique_fd.h"
#include "switches.h"

namespace berth::doubles {
namespace {

using base::UniqueFd;

struct Double {
  std::string folder;
  std::unique_ptr<Switches> switches;
};

Double& Self() { return *static_cast<Double*>(fuse_get_context()->private_data); }

std::string Real(const char* path) { return Self().folder + path; }

// Returns 0, or the error with which the operation has to end.
int PassSwitches(const char* operation) {
  const Switches& switches = *Self().switches;
  while (switches.Read()("hangs", operation)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const Switches::On on = switches.Read();
  if (on("dies", operation)) _exit(1);
  if (on("error", operation)) return -EIO;
  if (on("full", operation)) return -ENOSPC;
  return 0;
}

int Result(int64_t result) { return result < 0 ? -errno : static_cast<int>(result); }

#define PASS(operation)                                            \
  if (const int failure = PassSwitches(operation); failure != 0) { \
    return failure;                                                \
  }

int GetAttr(const char* path, struct stat* st, fuse_file_info* /*info*/) {
  PASS("getattr");
  return Result(lstat(Real(path).c_str(), st));
}

int ReadDir(const char* path, void* buffer, fuse_fill_dir_t fill, off_t /*offset*/,
            fuse_file_info* /*info*/, fuse_readdir_flags /*flags*/) {
  PASS("readdir");
  DIR* folder = opendir(Real(path).c_str());
  if (folder == nullptr) return -errno;
  while (const dirent* entry = readdir(folder)) {
    fill(buffer, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  }
  closedir(folder);
  return 0;
}

int Open(const char* path, fuse_file_info* info) {
  PASS("open");
  const int fd = open(Real(path).c_str(), info->flags | O_CLOEXEC);
  if (fd < 0) return -errno;
  info->fh = static_cast<uint64_t>(fd);
  info->direct_io = 1;
  return 0;
}

int Create(const char* path, mode_t mode, fuse_file_info* info) {
  PASS("create");
  const int fd = open(Real(path).c_str(), info->flags | O_CREAT | O_CLOEXEC, mode);
  if (fd < 0) return -errno;
  info->fh = static_cast<uint64_t>(fd);
  info->direct_io = 1;
  return 0;
}

int Read(const char* /*path*/, char* buffer, size_t size, off_t offset, fuse_file_info* info) {
  PASS("read");
  const int count = Result(pread(static_cast<int>(info->fh), buffer, size, offset));
  if (count > 0 && Self().switches->Read()("corrupts", "read")) buffer[0] = ~buffer[0];
  return count;
}

int Write(const char* /*path*/, const char* data, size_t size, off_t offset, fuse_file_info* info) {
  PASS("write");
  return Result(pwrite(static_cast<int>(info->fh), data, size, offset));
}

int Release(const char* /*path*/, fuse_file_info* info) {
  close(static_cast<int>(info->fh));
  return 0;
}

int Fsync(const char* /*path*/, int /*data_only*/, fuse_file_info* info) {
  PASS("fsync");
  return Result(fsync(static_cast<int>(info->fh)));
}

int MakeFolder(const char* path, mode_t mode) {
  PASS("mkdir");
  return Result(mkdir(Real(path).c_str(), mode));
}

int Unlink(const char* path) {
  PASS("unlink");
  return Result(unlink(Real(path).c_str()));
}

int RemoveFolder(const char* path) {
  PASS("rmdir");
  return Result(rmdir(Real(path).c_str()));
}

int Rename(const char* from, const char* to, unsigned flags) {
  PASS("rename");
  return flags != 0 ? -EINVAL : Result(rename(Real(from).c_str(), Real(to).c_str()));
}

int Truncate(const char* path, off_t size, fuse_file_info* /*info*/) {
  PASS("truncate");
  return Result(truncate(Real(path).c_str(), size));
}

int Chown(const char* path, uid_t user, gid_t group, fuse_file_info* /*info*/) {
  PASS("chown");
  return Result(lchown(Real(path).c_str(), user, group));
}

int Chmod(const char* path, mode_t mode, fuse_file_info* /*info*/) {
  PASS("chmod");
  return Result(chmod(Real(path).c_str(), mode));
}

int StatFs(const char* path, struct statvfs* st) {
  PASS("statfs");
  return Result(statvfs(Real(path).c_str(), st));
}

void* Init(fuse_conn_info* /*connection*/, fuse_config* config) {
  config->kernel_cache = 0;
  config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
  return fuse_get_context()->private_data;
}

fuse_operations Operations() {
  fuse_operations operations = {};
  operations.init = Init;
  operations.getattr = GetAttr;
  operations.readdir = ReadDir;
  operations.open = Open;
  operations.create = Create;
  operations.read = Read;
  operations.write = Write;
  operations.release = Release;
  operations.fsync = Fsync;
  operations.mkdir = MakeFolder;
  operations.unlink = Unlink;
  operations.rmdir = RemoveFolder;
  operations.rename = Rename;
  operations.truncate = Truncate;
  operations.chown = Chown;
  operations.chmod = Chmod;
  operations.statfs = StatFs;
  return operations;
}

}  // namespace
}  // namespace berth::doubles

int main(int argc, char** argv) {
  CLI::App app("A file system that fails on command");
  berth::doubles::Double self;
  std::string mount_point, switches, source, type;
  app.add_option("--folder", self.folder, "What is passed through")->required();
  app.add_option("--mount-point", mount_point, "Where it is mounted")->required();
  app.add_option("--switches", switches, "File of switches, one a line")->required();
  app.add_option("--source", source, "As which it stands in the mount table");
  app.add_option("--type", type, "As which FUSE file system it stands in the mount table");
  CLI11_PARSE(app, argc, argv);
  self.switches = std::make_unique<berth::doubles::Switches>(switches);
  const fuse_operations operations = berth::doubles::Operations();
  // It runs in the foreground, and with threads, so that an operation that hangs delays no other.
  std::string options = "allow_other,default_permissions,max_threads=10";
  if (!source.empty()) options += ",fsname=" + source;
  if (!type.empty()) options += ",subtype=" + type;
  std::vector<std::string> words = {argv[0], "-f", "-o", options, mount_point};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return fuse_main(static_cast<int>(arguments.size()), arguments.data(), &operations, &self);
}
