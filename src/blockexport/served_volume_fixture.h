// For tests: a server of a file's volume in a process of its own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "base/ipc/connection.h"
#include "base/ipc/export_call.h"
#include "blockexport/export_server.h"
#include "blockexport/fake_store.h"
#include "platform/devices/loop_device.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/child.h"

namespace berth::blockexport {

inline constexpr size_t kUnit = 4096;  // of direct I/O

class ServedVolumeTest : public testing::Test {
 protected:
  static constexpr int64_t kMiB = int64_t{1} << 20;
  static constexpr int64_t kSize = 64 * kMiB;
  static constexpr std::chrono::seconds kPatience{30};

  ~ServedVolumeTest() override {
    if (loop_.device != 0) {
      EXPECT_TRUE(platform::DetachLoop(loop_).ok());
    }
    if (server_ > 0) End();
  }

  // Starts the server, and waits until it serves.
  void Serve(bool read_only = false) {
    std::ofstream(file_).close();
    server_ = fork();
    ASSERT_GE(server_, 0);
    if (server_ == 0) {
      const int output = open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(output, 1);
      base::UniqueFd image(open(image_.c_str(), read_only ? O_RDONLY : O_RDWR));
      auto store = FileStore::Open(std::move(image), read_only);
      if (!store.ok()) _exit(9);
      _exit(RunExport(
          std::make_unique<FakeStore>(*std::move(store), commands_),
          {.socket = socket_, .file = file_, .thread_period = std::chrono::milliseconds(50)}));
    }
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!Call(base::ipc::volume_export::kStatus).ok()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      ASSERT_EQ(waitpid(server_, nullptr, WNOHANG), 0) << "the server ended";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  base::ipc::Result<base::ipc::Message> Call(std::string_view method) const {
    base::ipc::Message request;
    request.Set(base::ipc::kMethod, std::string(method));
    return base::ipc::Call(socket_, request, base::ipc::DeadlineIn(kPatience));
  }
  // Waits for the server's end, and returns its wait status.
  int WaitForEnd() {
    const base::UniqueFd process = platform::OpenPid(server_);
    EXPECT_TRUE(
        platform::WaitReadable(process.get(), std::chrono::steady_clock::now() + kPatience));
    kill(server_, SIGKILL);  // does nothing to a process that has ended
    int status = 0;
    EXPECT_EQ(waitpid(server_, &status, 0), server_);
    server_ = 0;
    return status;
  }
  void End() {
    kill(server_, SIGKILL);
    WaitForEnd();
  }
  // Attaches a loop device to the file that the server shows, and opens it.
  base::UniqueFd Attach(int flags = O_RDWR) {
    const base::UniqueFd file(open(file_.c_str(), (flags & O_ACCMODE) | O_CLOEXEC));
    EXPECT_TRUE(file.valid()) << strerror(errno);
    const auto loop = platform::AttachLoop(
        file, {.block_size = 4096, .label = "berth blockexport test"}, kPatience);
    EXPECT_TRUE(loop.ok()) << base::ToString(loop.status());
    if (!loop.ok()) return {};
    loop_ = *loop;
    return OpenLoop(flags);
  }
  base::UniqueFd OpenLoop(int flags = O_RDWR) const {
    base::UniqueFd device(open(loop_.path.c_str(), flags | O_DIRECT | O_CLOEXEC));
    EXPECT_TRUE(device.valid()) << strerror(errno);
    return device;
  }
  // Runs `work`, whose system calls have no deadline of their own. If it takes too long, kills the
  // server, so that they fail, and returns false.
  bool EndsInTime(const std::function<void()>& work) const {
    const auto ended = std::async(std::launch::async, work);
    if (ended.wait_for(kPatience) == std::future_status::ready) return true;
    kill(server_, SIGKILL);
    return false;
  }
  // Waits until `count` more calls wait in the store.
  void AwaitHeld(int count) {
    for (int i = 0; i < count; ++i) {
      pollfd arrived = {commands_.arrivals(), POLLIN, 0};
      ASSERT_EQ(poll(&arrived, 1, 1000 * static_cast<int>(kPatience.count())), 1);
      uint64_t one = 0;
      ASSERT_EQ(read(commands_.arrivals(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    }
  }
  size_t CountRequestThreads() const {
    size_t count = 0;
    for (const auto& task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(server_) + "/task")) {
      std::string name;
      std::ifstream(task.path() / "comm") >> name;
      count += name == "requests" ? 1 : 0;
    }
    return count;
  }

  const platform::TempFolder folder_;
  const std::string image_ = folder_.SparseFile("image", kSize);
  const std::string file_ = folder_ / "file", socket_ = folder_ / "socket",
                    output_ = folder_ / "output";
  StoreCommands commands_;
  platform::LoopDevice loop_;
  pid_t server_ = 0;
};

// Memory for direct I/O.
class Block {
 public:
  explicit Block(size_t size)
      : size_(size), data_(static_cast<char*>(aligned_alloc(4096, size)), &free) {
    std::fill_n(data(), size, '\0');
  }
  char* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  const size_t size_;
  const std::unique_ptr<char, decltype(&free)> data_;
};

}  // namespace berth::blockexport
