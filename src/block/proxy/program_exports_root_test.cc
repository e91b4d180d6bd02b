// Volumes that a program of Berth shows, with a program that serves a file and notes its settings.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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
  void OpenExports(const std::string& image_program = "berth-export") {
    auto exports = Exports::Open({.folder = run_, .image_program = image_program});
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

// The program shows the image by a bind mount, and answers each call; it refuses to quit.
TEST_F(ProgramExportsTest, OneThatCannotBeFlushedIsQuarantinedWithItsDaemonUntilItIsKilled) {
  const std::string elsewhere = folder_ / "elsewhere";  // on a file system of its own
  ASSERT_OK(platform::MakeFolders(elsewhere, 0755));
  WriteProgram("exec /usr/bin/python3 -c '" + std::string(R"PY(
import json, socket, struct, subprocess, sys
settings = json.load(open(sys.argv[1]))
subprocess.run(["mount", "-t", "tmpfs", "none", sys.argv[2]], check=True)
open(sys.argv[2] + "/shown", "w").close()
subprocess.run(["mount", "--bind", sys.argv[2] + "/shown", settings["file"]], check=True)
header = struct.Struct("=4sHHII")
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(settings["socket"])
    listener.listen()
    while True:
        caller = listener.accept()[0]
        *begin, size, end = header.unpack(caller.recv(header.size, socket.MSG_WAITALL))
        method = json.loads(caller.recv(size, socket.MSG_WAITALL))["method"]
        reply = {"error": "flush the volume: Input/output error"} if method == "export.quit" else {"size": 1}
        data = json.dumps(reply).encode()
        caller.sendall(header.pack(*begin, len(data), end) + data)
        caller.close()
)PY") + "' " + settings_ +
               " " + elsewhere);
  ASSERT_OK(exports_->ShowVolume(MakeVolume()));
  const Export before = exports_->List().front();
  const auto lives = [&] {
    const auto process = OpenDaemon(before.daemon);
    return process.ok() && process->valid();
  };
  // A proxy that is started anew, also in the midst of a Close, knows it as well.
  for (int i = 0; i < 2; ++i) {
    const base::Status closed = exports_->Close("store", "pvc-1");
    EXPECT_EQ(closed.code(), StatusCode::kDataLoss);
    EXPECT_THAT(base::Message(closed), HasSubstr("Input/output error"));
    ASSERT_THAT(exports_->List(), SizeIs(1));
    EXPECT_EQ(exports_->List().front().state, Export::State::kQuarantined);
    EXPECT_THAT(exports_->List().front().reason, HasSubstr("Input/output error"));
    EXPECT_TRUE(lives());
    EXPECT_EQ(exports_->ShowVolume(MakeVolume()).status().code(), StatusCode::kFailedPrecondition);
    exports_.reset();
    const std::string record =
        std::filesystem::directory_iterator(run_ + "/records")->path().string();
    auto json = base::json::Parse(*platform::ReadFile(record));
    ASSERT_OK(json);
    if (i == 1) {
      (*json)["state"] = "closing";
      std::ofstream(record) << base::json::Dump(*json) << "\n";
    }
    OpenExports();
    ASSERT_THAT(exports_->List(), SizeIs(1));
    EXPECT_EQ(exports_->List().front().state, Export::State::kQuarantined);
    EXPECT_THAT(exports_->List().front().reason, HasSubstr("Input/output error"));
    EXPECT_TRUE(lives());
  }
  ASSERT_OK(exports_->Kill("store", "pvc-1"));
  EXPECT_THAT(exports_->List(), IsEmpty());
  EXPECT_FALSE(lives());
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
