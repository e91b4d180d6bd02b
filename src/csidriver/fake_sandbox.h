// A container runtime's sandbox, for *_root_test.cc: it mounts what the driver deferred, where this
// host's mount table does not show it. The file system is unmounted with the object.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "proto/csi.pb.h"

namespace berth::csidriver {

class FakeSandbox {
 public:
  explicit FakeSandbox(const csi::v1::FileSystemMountInfo& info) {
    const base::UniqueFd fs(fsopen(info.type().c_str(), FSOPEN_CLOEXEC));
    Expect(fsconfig(fs.get(), FSCONFIG_SET_STRING, "source", info.source().c_str(), 0), "source");
    for (const auto& [key, value] : info.options()) {
      const bool flag = value.empty();
      Expect(fsconfig(fs.get(), flag ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING, key.c_str(),
                      flag ? nullptr : value.c_str(), 0),
             key);
    }
    Expect(fsconfig(fs.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0), "create");
    root_.Reset(fsmount(fs.get(), FSMOUNT_CLOEXEC, 0));
    EXPECT_TRUE(root_.valid()) << errno;
  }
  FakeSandbox(const FakeSandbox&) = delete;
  FakeSandbox& operator=(const FakeSandbox&) = delete;

  // False: the write failed.
  bool Write(const std::string& name, const std::string& text) const {
    const base::UniqueFd file(
        openat(root_.get(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    return file.valid() &&
           write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
           fsync(file.get()) == 0;
  }
  std::string Read(const std::string& name) const {
    const base::UniqueFd file(openat(root_.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text(4096, '\0');
    const ssize_t got = file.valid() ? read(file.get(), text.data(), text.size()) : 0;
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
  }

 private:
  static void Expect(int result, const std::string& what) {
    EXPECT_EQ(result, 0) << what << ": errno " << errno;
  }

  base::UniqueFd root_;
};

}  // namespace berth::csidriver
