// Volumes that a program of Berth shows, with a program that serves a file and notes its settings.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/assert_ok.h"
#include "block/proxy/exports.h"
#include "block/sizes.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/child.h"

namespace berth::block::proxy {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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
  void OpenExports() {
    auto exports = Exports::Open({.folder = run_});
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
  std::unique_ptr<Exports> exports_;
};

TEST_F(ProgramExportsTest, GetItsSettingsWhichAreOnNoDisk) {
  const auto shown = exports_->ShowVolume(MakeVolume());
  ASSERT_OK(shown);
  EXPECT_EQ(shown->size_bytes, 64 * kMiB);
  const auto settings = base::json::Parse(*platform::ReadFile(settings_));
  ASSERT_OK(settings);
  EXPECT_EQ(base::json::String(*settings, {"cluster", "key"}), "precious");
  EXPECT_EQ(base::json::String(*settings, {"image"}), "pvc-1");
  EXPECT_EQ(base::json::String(*settings, {"file"}), shown->path);
  EXPECT_EQ(base::json::Find(*settings, {"readOnly"})->get<bool>(), false);
  size_t files = 0;
  for (const char* folder : {"/records", "/daemons"}) {
    for (const auto& file : std::filesystem::directory_iterator(run_ + folder)) {
      if (!file.is_regular_file()) continue;
      ++files;
      EXPECT_THAT(*platform::ReadFile(file.path().string()), Not(HasSubstr("precious"))) << file;
    }
  }
  EXPECT_EQ(files, 2u);  // the record and the log
}

TEST_F(ProgramExportsTest, GrowAndEnd) {
  const auto shown = exports_->ShowVolume(MakeVolume());
  ASSERT_OK(shown);
  EXPECT_EQ(exports_->Resize("store", "pvc-1", 96 * kMiB).status().code(),
            StatusCode::kFailedPrecondition);  // the storage has not grown
  ASSERT_EQ(truncate(image_.c_str(), 96 * kMiB), 0);
  const auto grown = exports_->Resize("store", "pvc-1", 96 * kMiB);
  ASSERT_OK(grown);
  EXPECT_EQ(grown->size_bytes, 96 * kMiB);
  const Export record = exports_->List().front();
  ASSERT_OK(exports_->Close("store", "pvc-1"));
  EXPECT_THAT(exports_->List(), IsEmpty());
  const auto process = OpenDaemon(record.daemon);
  ASSERT_OK(process);
  EXPECT_FALSE(process->valid());
  EXPECT_FALSE(std::filesystem::exists(shown->path));
}

TEST_F(ProgramExportsTest, AFailureIsTheOneThatTheProgramReports) {
  WriteProgram(
      "echo 'a line of its log' >&2\n"
      "echo '{\"error\": {\"code\": \"PERMISSION_DENIED\", \"message\": \"the key is wrong\"}}'\n"
      "exit 1");
  while (waitpid(-1, nullptr, WNOHANG) > 0) {  // of other tests
  }
  const base::Status failed = exports_->ShowVolume(MakeVolume()).status();
  EXPECT_EQ(failed.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(base::Message(failed), HasSubstr("berth-testing: the key is wrong"));
  EXPECT_THAT(exports_->List(), IsEmpty());
  // An agent tries again and again, and a process that nobody waits for stays a zombie.
  EXPECT_LE(waitpid(-1, nullptr, WNOHANG), 0);
}

TEST_F(ProgramExportsTest, AFailureWithoutAReportShowsTheLastLine) {
  WriteProgram("echo 'librbd.so.1: cannot open shared object file' >&2; exit 127");
  const base::Status failed = exports_->ShowVolume(MakeVolume()).status();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(failed), HasSubstr("librbd.so.1: cannot open"));
}

TEST_F(ProgramExportsTest, AProgramThatIsNotInstalledIsNamed) {
  Volume volume = MakeVolume();
  volume.program = "berth-nowhere";
  const base::Status failed = exports_->ShowVolume(volume).status();
  EXPECT_EQ(failed.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(failed), HasSubstr("berth-nowhere is not installed"));
}

TEST_F(ProgramExportsTest, ThatAreOnlyReadAreShownAgain) {
  ASSERT_OK(exports_->ShowVolume(MakeVolume(/*read_only=*/true)));
  const Export record = exports_->List().front();
  KillDaemonOf(record);
  Await([&](const std::vector<Export>& list) {
    return list.size() == 1 && list.front().state == Export::State::kServing &&
           list.front().daemon.pid != record.daemon.pid;
  });
}

TEST_F(ProgramExportsTest, AnAdoptedOneIsShownAgainWhenTheAgentHasSentItsSettings) {
  ASSERT_OK(exports_->ShowVolume(MakeVolume(/*read_only=*/true)));
  exports_.reset();
  OpenExports();
  const Export record = exports_->List().front();
  EXPECT_EQ(record.state, Export::State::kServing);
  ASSERT_OK(exports_->ShowVolume(MakeVolume(/*read_only=*/true)));
  ASSERT_THAT(exports_->List(), SizeIs(1));
  EXPECT_EQ(exports_->List().front().daemon.pid, record.daemon.pid);
  KillDaemonOf(record);
  Await([&](const std::vector<Export>& list) {
    return list.size() == 1 && list.front().state == Export::State::kServing &&
           list.front().daemon.pid != record.daemon.pid;
  });
}

TEST_F(ProgramExportsTest, AnAdoptedOneWithoutSettingsIsDroppedUntilTheAgentSendsThem) {
  ASSERT_OK(exports_->ShowVolume(MakeVolume(/*read_only=*/true)));
  exports_.reset();
  OpenExports();
  KillDaemonOf(exports_->List().front());
  Await([](const std::vector<Export>& list) { return list.empty(); });
  ASSERT_OK(exports_->ShowVolume(MakeVolume(/*read_only=*/true)));
}

}  // namespace
}  // namespace berth::block::proxy
