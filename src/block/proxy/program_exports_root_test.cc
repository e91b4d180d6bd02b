// Volumes that a program of Berth shows, with a program that serves a file and notes its settings.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/assert_ok.h"
#include "block/proxy/program_exports_fixture.h"

namespace berth::block::proxy {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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
  const auto process = platform::OpenDaemon(record.daemon);
  ASSERT_OK(process);
  EXPECT_FALSE(process->valid());
  EXPECT_FALSE(std::filesystem::exists(shown->path));
}

TEST_F(ProgramExportsTest, AFrozenOneIsNotKilledAndFlushesWhenItWakesUp) {
  exports_.reset();
  end_within_ = std::chrono::milliseconds(500);
  OpenExports();
  ASSERT_OK(exports_->ShowVolume(MakeVolume()));
  const pid_t daemon = exports_->List().front().daemon.pid;
  ASSERT_EQ(kill(daemon, SIGSTOP), 0);
  EXPECT_EQ(exports_->Close("store", "pvc-1").code(), base::StatusCode::kDataLoss);
  ASSERT_EQ(kill(daemon, SIGCONT), 0);
  ASSERT_OK(exports_->Close("store", "pvc-1"));
  EXPECT_TRUE(exports_->List().empty());
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
  Volume again = MakeVolume(/*read_only=*/true);
  again.settings["cluster"]["key"] = "a newer key";
  ASSERT_OK(exports_->ShowVolume(again));
  ASSERT_THAT(exports_->List(), SizeIs(1));
  EXPECT_EQ(exports_->List().front().daemon.pid, record.daemon.pid);
  std::filesystem::remove(settings_);
  KillDaemonOf(record);
  Await([&](const std::vector<Export>& list) {
    return list.size() == 1 && list.front().state == Export::State::kServing &&
           list.front().daemon.pid != record.daemon.pid;
  });
  const auto settings = base::json::Parse(*platform::ReadFile(settings_));
  ASSERT_OK(settings);
  EXPECT_EQ(base::json::String(*settings, {"cluster", "key"}), "a newer key");
  EXPECT_EQ(base::json::String(*settings, {"image"}), "pvc-1");
  EXPECT_TRUE(base::json::Bool(*settings, {"readOnly"}));
}

TEST_F(ProgramExportsTest, ManyDeathsAreToldAtOnceAndTheNextProxyShowsTheVolumesAgain) {
  constexpr int kVolumes = 3;
  for (int i = 1; i <= kVolumes; ++i) {
    Volume volume = MakeVolume(/*read_only=*/true);
    volume.image = fmt::format("pvc-{}", i);
    volume.path = image_;
    volume.program.clear();
    struct stat st;
    ASSERT_EQ(stat(image_.c_str(), &st), 0);
    volume.device = st.st_dev;
    volume.inode = st.st_ino;
    ASSERT_OK(exports_->ShowVolume(volume));
  }
  const std::vector<Export> shown = exports_->List();
  exports_.reset();
  const std::string working = *platform::ReadFile(folder_ / "berth-testing");
  WriteProgram("exec sleep 1000");  // it never serves
  OpenExports("berth-testing");
  for (const Export& record : shown) KillDaemonOf(record);
  Await([](const std::vector<Export>& list) {
    return list.size() == kVolumes && std::ranges::none_of(list, [](const Export& one) {
             return one.state == Export::State::kServing;
           });
  });
  exports_.reset();
  std::ofstream(folder_ / "berth-testing") << working;
  OpenExports("berth-testing");
  Await([](const std::vector<Export>& list) {
    return list.size() == kVolumes && std::ranges::all_of(list, [](const Export& one) {
             return one.state == Export::State::kServing;
           });
  });
  for (const Export& record : shown) {
    EXPECT_TRUE(exports_->Kill(record.volume.store, record.volume.image).ok());
  }
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
