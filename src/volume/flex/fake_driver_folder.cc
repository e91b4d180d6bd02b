#include "volume/flex/fake_driver_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "platform/files/durable_file.h"
#include "platform/processes/exec.h"

namespace berth::volume {

FakeDriverFolder::FakeDriverFolder() : path_(temp_ / "drivers") {
  EXPECT_TRUE(platform::MakeFolders(path_, 0755).ok());
}

void FakeDriverFolder::Put(std::string_view path, std::string_view content, unsigned mode) const {
  const std::string whole = *this / path;
  const size_t slash = whole.rfind('/');
  ASSERT_TRUE(platform::MakeFolders(whole.substr(0, slash), 0755).ok());
  const std::string temp = fmt::format("{}/.{}", whole.substr(0, slash), whole.substr(slash + 1));
  {
    const base::UniqueFd fd(open(temp.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd.valid());
    ASSERT_EQ(write(fd.get(), content.data(), content.size()), std::ssize(content));
    ASSERT_EQ(fchmod(fd.get(), mode), 0);
  }
  ASSERT_EQ(rename(temp.c_str(), whole.c_str()), 0);
}

void FakeDriverFolder::Install(std::string_view folder, std::string_view says) const {
  const std::string_view name = folder.substr(folder.find('~') + 1);
  Put(fmt::format("{}/{}", folder, name), fmt::format("#!/bin/sh\necho {}\n", says));
}

void FakeDriverFolder::Remove(std::string_view path) const {
  const std::string whole = *this / path;
  if (unlink(whole.c_str()) == 0) return;
  EXPECT_TRUE(platform::RemoveTree(whole).ok());
}

void FakeDriverFolder::MoveDriver(std::string_view from, std::string_view to) const {
  ASSERT_EQ(rename((*this / from).c_str(), (*this / to).c_str()), 0);
}

std::string OutputOf(const std::string& path) {
  const auto ran =
      platform::NewHostExec()->Run({.argv = {path}, .timeout = std::chrono::seconds(30)});
  EXPECT_TRUE(ran.ok()) << ran.status();
  if (!ran.ok()) return "";
  EXPECT_EQ(ran->exit_code, 0) << ran->err;
  return ran->out.substr(0, ran->out.find('\n'));
}

int OpenDescriptors() {
  const auto fds = platform::ListFolder("/proc/self/fd");
  return fds.ok() ? static_cast<int>(fds->size()) : -1;
}

int InotifyWatches() {
  int watches = 0;
  const auto fds = platform::ListFolder("/proc/self/fdinfo");
  for (const std::string& fd : *fds) {
    const auto info = platform::ReadFile("/proc/self/fdinfo/" + fd);
    if (!info.ok()) continue;
    for (size_t at = 0; (at = info->find("inotify wd:", at)) != std::string::npos; ++at) ++watches;
  }
  return watches;
}

}  // namespace berth::volume
