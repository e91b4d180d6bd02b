// A stand-in as berth-oci leaves one on the host, as a thread of a test; and containers of busybox.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/ipc/stream_peer.h"
#include "base/json.h"

namespace berth::guest {

inline constexpr std::chrono::seconds kTestTime{60};

// Waits until `holds`, which is looked at again and again.
inline void WaitUntil(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kTestTime;
  while (!holds()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "waited in vain";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// The processes in the PID namespace of `member`, without those that are called sleep.
inline int CountProcesses(pid_t member) {
  int count = 0;
  std::error_code error;
  const auto group =
      std::filesystem::read_symlink("/proc/" + std::to_string(member) + "/ns/pid", error);
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::string name;
    std::ifstream(entry.path() / "comm") >> name;
    if (std::filesystem::read_symlink(entry.path() / "ns/pid", error) == group && !error &&
        name != "sleep") {
      ++count;
    }
  }
  return count;
}

inline void MakeBusyboxRoot(const std::filesystem::path& root) {
  for (const char* folder : {"bin", "proc", "dev", "sys", "tmp"}) {
    std::filesystem::create_directories(root / folder);
  }
  std::filesystem::copy_file("/bin/busybox", root / "bin/busybox");
  for (const char* name : {"sh", "cat", "sleep", "id", "pwd", "echo", "head", "tty", "stty", "grep",
                           "env", "ps", "ls", "seq", "test"}) {
    std::filesystem::create_symlink("busybox", root / "bin" / name);
  }
}

// A config.json of a container. `group` is the name of its cgroup.
inline base::Json MakeConfig(const std::string& root, const std::string& group,
                             const std::vector<std::string>& args) {
  base::Json config;
  config["ociVersion"] = "1.0.2";
  config["root"] = {{"path", root}};
  config["process"] = {{"args", args},
                       {"cwd", "/"},
                       {"env", {"PATH=/bin"}},
                       {"user", {{"uid", 0}, {"gid", 0}}},
                       {"terminal", false}};
  config["mounts"] = {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}},
                      {{"destination", "/dev"},
                       {"type", "tmpfs"},
                       {"source", "tmpfs"},
                       {"options", {"nosuid", "mode=755"}}},
                      {{"destination", "/dev/pts"},
                       {"type", "devpts"},
                       {"source", "devpts"},
                       {"options", {"nosuid", "noexec", "newinstance", "ptmxmode=0666"}}}};
  config["linux"] = {
      {"cgroupsPath", "/" + group + "/c"},
      {"namespaces",
       {{{"type", "pid"}}, {{"type", "mount"}}, {{"type", "ipc"}}, {{"type", "uts"}}}}};
  return config;
}

// Removes the cgroup above those of the containers, which runc leaves behind.
inline void RemoveCgroups(const std::string& group) {
  std::error_code error;  // there is none in some trees
  std::filesystem::remove("/sys/fs/cgroup/" + group, error);
  for (const auto& tree : std::filesystem::directory_iterator("/sys/fs/cgroup")) {
    if (tree.is_directory()) std::filesystem::remove(tree.path() / group, error);
  }
}

class FakeStandIn {
 public:
  FakeStandIn(base::UniqueFd line, const std::string& name, bool terminal)
      : peer_({.line = std::move(line), .name = name}), wake_(eventfd(0, EFD_CLOEXEC)) {
    input_ = AddPipe([&](base::UniqueFd read, base::UniqueFd write) {
      peer_.AddSource(base::ipc::Channel::kInput, std::move(read));
      return write;
    });
    output_fd_ = AddPipe([&](base::UniqueFd read, base::UniqueFd write) {
      peer_.AddSink(base::ipc::Channel::kOutput, std::move(write));
      return read;
    });
    if (!terminal) {
      errors_fd_ = AddPipe([&](base::UniqueFd read, base::UniqueFd write) {
        peer_.AddSink(base::ipc::Channel::kErrors, std::move(write));
        return read;
      });
    }
    thread_ = std::jthread([this](std::stop_token stop) { Serve(stop); });
  }
  ~FakeStandIn() {
    thread_.request_stop();
    eventfd_write(wake_.get(), 1);
  }

  void Input(const std::string& text) {
    ASSERT_EQ(write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void CloseInput() { input_.Reset(); }
  // Whether the output is left in the pipe.
  void HoldOutput(bool hold) {
    Do([this, hold] { held_ = hold; });
  }
  void SendSignal(int signal, bool all) {
    Do([this, signal, all] { peer_.SendSignal(static_cast<uint32_t>(signal), all); });
  }
  void SendResize(uint32_t rows, uint32_t columns) {
    Do([this, rows, columns] { peer_.SendResize(rows, columns); });
  }

  void WaitForOutput(const std::string& text) {
    Wait([&] { return output_.find(text) != std::string::npos; }, "output '" + text + "'");
  }
  // Waits for the exit and for the end of the output.
  void WaitForExit() {
    Wait([&] { return code_ >= 0 && delivered_; }, "the end");
  }
  void WaitForExitAlone() {
    Wait([&] { return code_ >= 0; }, "the exit");
  }
  // Waits until the pipe of the output, which is held, takes no more.
  void WaitUntilHeldUp() {
    Wait([&] { return full_; }, "a full pipe");
  }
  int code() { return Get(code_); }
  int signal() { return Get(signal_); }
  std::string output() { return Get(output_); }
  std::string errors() { return Get(errors_); }

 private:
  template <typename Make>
  static base::UniqueFd AddPipe(const Make& make) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    return make(base::UniqueFd(ends[0]), base::UniqueFd(ends[1]));
  }
  template <typename T>
  T Get(const T& value) {
    const std::lock_guard lock(mutex_);
    return value;
  }
  void Do(std::function<void()> what) {
    {
      const std::lock_guard lock(mutex_);
      todo_.push_back(std::move(what));
    }
    eventfd_write(wake_.get(), 1);
  }
  void Wait(const std::function<bool()>& holds, const std::string& what) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, kTestTime, holds))
        << "no " << what << " came after '" << output_ << "' '" << errors_ << "'";
  }
  static bool ReadSome(base::UniqueFd& fd, std::string& text) {
    char bytes[65536];
    const ssize_t n = read(fd.get(), bytes, sizeof(bytes));
    if (n <= 0) fd.Reset();
    if (n > 0) text.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }

  void Serve(const std::stop_token& stop) {
    bool alive = true;
    while (!stop.stop_requested() && (alive || output_fd_.valid())) {
      std::vector<pollfd> polled = {
          {.fd = wake_.get(), .events = POLLIN, .revents = 0},
          {.fd = held_ ? -1 : output_fd_.get(), .events = POLLIN, .revents = 0},
          {.fd = errors_fd_.get(), .events = POLLIN, .revents = 0}};
      if (alive) peer_.AddPolled(polled);
      poll(polled.data(), polled.size(), -1);
      std::vector<std::function<void()>> todo;
      const std::lock_guard lock(mutex_);
      if (polled[0].revents != 0) {
        eventfd_t count;
        eventfd_read(wake_.get(), &count);
        todo.swap(todo_);
      }
      for (const auto& what : todo) what();
      if (polled[1].revents != 0) ReadSome(output_fd_, output_);
      if (polled[2].revents != 0) ReadSome(errors_fd_, errors_);
      if (alive) alive = peer_.Move(std::span<const pollfd>(polled).subspan(3)).ok();
      while (const auto frame = peer_.NextControl()) {
        if (frame->type == base::ipc::FrameType::kExit) {
          code_ = static_cast<int>(frame->first);
          signal_ = static_cast<int>(frame->second);
        }
      }
      pollfd full = {.fd = output_fd_.get(), .events = POLLIN, .revents = 0};
      full_ = held_ && output_fd_.valid() && poll(&full, 1, 0) == 1 && IsPipeFull();
      delivered_ = !output_fd_.valid() && !errors_fd_.valid();
      changed_.notify_all();
    }
  }
  bool IsPipeFull() const {
    int size = 0;
    return ioctl(output_fd_.get(), FIONREAD, &size) == 0 && size >= 61440;
  }

  base::ipc::StreamPeer peer_;
  base::UniqueFd wake_, input_, output_fd_, errors_fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> todo_;
  bool held_ = false, full_ = false, delivered_ = false;
  int code_ = -1, signal_ = -1;
  std::string output_, errors_;
  std::jthread thread_;
};

}  // namespace berth::guest
