// For tests: an I/O proxy whose volumes are shown by a program that the test writes.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/assert_ok.h"
#include "block/proxy/exports.h"
#include "block/sizes.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/child.h"

namespace berth::block::proxy {

class ProgramExportsTest : public testing::Test {
 protected:
  static constexpr std::chrono::seconds kPatience{20};

  void SetUp() override {
    ASSERT_OK(platform::MakeFolders(run_, 0755));
    WriteProgram("exec " + std::filesystem::read_symlink("/proc/self/exe").parent_path().string() +
                 "/berth-export serve 3<>" + image_ + " <" + settings_);
    setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
    OpenExports();
  }
  void TearDown() override {
    if (exports_ == nullptr) OpenExports();
    EXPECT_TRUE(exports_->Kill("store", "pvc-1").ok());
    setenv("PATH", path_.c_str(), 1);
  }
  // The program notes its standard input, and then runs `rest`.
  void WriteProgram(const std::string& rest) {
    const std::string program = folder_ / "berth-testing";
    std::ofstream(program) << "#!/bin/sh\ncat >" << settings_ << "\n" << rest << "\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  void OpenExports(const std::string& image_program = "berth-export") {
    auto exports =
        Exports::Open({.folder = run_, .image_program = image_program, .end_within = end_within_});
    ASSERT_OK(exports);
    exports_ = *std::move(exports);
  }
  Volume MakeVolume(bool read_only = false) const {
    return {.store = "store",
            .image = "pvc-1",
            .read_only = read_only,
            .program = "berth-testing",
            .settings = {{"cluster", {{"key", "precious"}}}}};
  }
  // Waits until List() satisfies `done`.
  void Await(const std::function<bool(const std::vector<Export>&)>& done) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done(exports_->List())) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  // Kills the daemon, and waits until it has ended.
  void KillDaemonOf(const Export& record) const {
    const base::UniqueFd process = platform::OpenPid(record.daemon.pid);
    ASSERT_EQ(kill(record.daemon.pid, SIGKILL), 0);
    ASSERT_TRUE(
        platform::WaitReadable(process.get(), std::chrono::steady_clock::now() + kPatience));
  }

  const std::string path_ = getenv("PATH");
  const platform::TempFolder folder_;
  const std::string run_ = folder_ / "run", settings_ = folder_ / "settings",
                    image_ = folder_.SparseFile("image", 64 * kMiB);
  std::chrono::milliseconds end_within_{std::chrono::seconds(10)};  // of a proxy that is opened
  std::unique_ptr<Exports> exports_;
};

}  // namespace berth::block::proxy
