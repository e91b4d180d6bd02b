// Volumes whose daemon refuses to quit, because it cannot flush them or for another reason.
#include <gmock/gmock.h>
#include <sys/mount.h>

#include "block/proxy/client.h"
#include "block/proxy/fake_listener.h"
#include "block/proxy/program_exports_fixture.h"
#include "block/proxy/service.h"

namespace berth::block::proxy {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// The program shows a file by a bind mount. It answers "export.quit" with the text of a file, and
// ends after an answer without an error.
class UnflushedExportsTest : public ProgramExportsTest {
 protected:
  void SetUp() override {
    ProgramExportsTest::SetUp();
    ASSERT_OK(platform::MakeFolders(elsewhere_, 0755));
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
        quits = json.loads(caller.recv(size, socket.MSG_WAITALL))["method"] == "export.quit"
        reply = open(sys.argv[3]).read() if quits else "{\"size\": 1}"
        caller.sendall(header.pack(*begin, len(reply), end) + reply.encode())
        caller.close()
        if quits and "error" not in reply:
            sys.exit(0)
)PY") + "' " + settings_ +
                 " " + elsewhere_ + " " + answer_);
    Answer(R"({"error": "flush the volume: Input/output error", "code": "DATA_LOSS"})");
    ASSERT_OK(exports_->ShowVolume(MakeVolume()));
    daemon_ = exports_->List().front();
  }
  void TearDown() override {
    ProgramExportsTest::TearDown();
    umount2(elsewhere_.c_str(), MNT_DETACH);
  }
  void Answer(const std::string& reply) const { std::ofstream(answer_) << reply; }
  bool Lives() const {
    const auto process = OpenDaemon(daemon_.daemon);
    return process.ok() && process->valid();
  }
  void ExpectQuarantined() const {
    ASSERT_THAT(exports_->List(), SizeIs(1));
    EXPECT_EQ(exports_->List().front().state, Export::State::kQuarantined);
    EXPECT_THAT(exports_->List().front().reason, HasSubstr("Input/output error"));
  }
  void ExpectDataLoss(const base::Status& closed) const {
    EXPECT_EQ(closed.code(), StatusCode::kDataLoss) << closed;
    EXPECT_THAT(base::Message(closed), HasSubstr("Input/output error"));
    ExpectQuarantined();
  }
  // Ends the proxy, and begins it anew with a record that has this state.
  void RestartIn(std::string_view state) {
    ASSERT_THAT(exports_->List(), SizeIs(1));
    exports_.reset();
    const std::string record =
        std::filesystem::directory_iterator(run_ + "/records")->path().string();
    auto json = base::json::Parse(*platform::ReadFile(record));
    ASSERT_OK(json);
    (*json)["state"] = state;
    std::ofstream(record) << base::json::Dump(*json) << "\n";
    OpenExports();
  }

  const std::string answer_ = folder_ / "answer";
  const std::string elsewhere_ = folder_ / "elsewhere";  // a file system of its own is mounted here
  Export daemon_;
};

TEST_F(UnflushedExportsTest, AreQuarantinedWithTheirDaemonUntilTheyAreKilled) {
  // A proxy that is started anew, also in the midst of a Close, knows it as well.
  for (const char* state : {"quarantined", "closing"}) {
    ExpectDataLoss(exports_->Close("store", "pvc-1"));
    EXPECT_TRUE(Lives());
    EXPECT_EQ(exports_->ShowVolume(MakeVolume()).status().code(), StatusCode::kFailedPrecondition);
    RestartIn(state);
    ExpectQuarantined();
    EXPECT_TRUE(Lives());
  }
  ASSERT_OK(exports_->Kill("store", "pvc-1"));
  EXPECT_THAT(exports_->List(), IsEmpty());
  EXPECT_FALSE(Lives());
}

TEST_F(UnflushedExportsTest, TellOfTheLossAlsoAfterTheirDaemonDied) {
  ExpectDataLoss(exports_->Close("store", "pvc-1"));
  KillDaemonOf(daemon_);
  ExpectDataLoss(exports_->Close("store", "pvc-1"));
  for (const char* state : {"quarantined", "closing"}) {
    RestartIn(state);
    ExpectDataLoss(exports_->Close("store", "pvc-1"));
    EXPECT_EQ(exports_->ShowVolume(MakeVolume()).status().code(), StatusCode::kFailedPrecondition);
  }
  // The agent is told, too.
  const auto server = ServeExports(*exports_, ListenAt(run_ + "/sock"));
  const Client client(run_ + "/sock", "store");
  EXPECT_EQ(client.Close("pvc-1").code(), StatusCode::kDataLoss);
  ASSERT_OK(client.Kill("pvc-1", kPatience));
  EXPECT_THAT(exports_->List(), IsEmpty());
  ASSERT_OK(client.Close("pvc-1"));
}

TEST_F(UnflushedExportsTest, ADaemonOfAnEarlierVersionGivesNoCode) {
  Answer(R"({"error": "flush the volume: Input/output error"})");
  ExpectDataLoss(exports_->Close("store", "pvc-1"));
}

TEST_F(UnflushedExportsTest, ARefusalForAnotherReasonIsNoLossAndIsTriedAgain) {
  Answer(R"({"error": "too many requests wait already", "code": "RESOURCE_EXHAUSTED"})");
  const base::Status refused = exports_->Close("store", "pvc-1");
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(base::Message(refused), HasSubstr("too many requests"));
  EXPECT_TRUE(Lives());  // it was not flushed
  ASSERT_THAT(exports_->List(), SizeIs(1));
  EXPECT_EQ(exports_->List().front().state, Export::State::kClosing);
  Answer("{}");
  ASSERT_OK(exports_->Close("store", "pvc-1"));
  EXPECT_THAT(exports_->List(), IsEmpty());
}

TEST_F(UnflushedExportsTest, AnInterruptedKillWantsNoFlush) {
  RestartIn("killing");
  EXPECT_THAT(exports_->List(), IsEmpty());
  EXPECT_FALSE(Lives());
}

TEST_F(UnflushedExportsTest, AFenceShutOutADaemonThatCouldNotFlush) {
  ExpectDataLoss(exports_->Close("store", "pvc-1"));
  Answer("{}");  // what was not flushed is lost, and nothing of it reaches the storage any more
  ASSERT_OK(exports_->Close("store", "pvc-1"));
  EXPECT_FALSE(Lives());
}

}  // namespace
}  // namespace berth::block::proxy
