// Volumes whose daemon refuses to quit, because it cannot flush them or for another reason, or does
// not answer.
#include <gmock/gmock.h>
#include <sys/mount.h>

#include "base/fake_faults.h"
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
// ends after an answer without an error. It does not answer if the file has "hang", nor end if its
// text has "stays". It answers other calls with the text of another file.
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
unanswered = []
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(settings["socket"])
    listener.listen()
    while True:
        caller = listener.accept()[0]
        *begin, size, end = header.unpack(caller.recv(header.size, socket.MSG_WAITALL))
        quits = json.loads(caller.recv(size, socket.MSG_WAITALL))["method"] == "export.quit"
        reply = open(sys.argv[3] if quits else sys.argv[4]).read()
        if reply == "hang":
            unanswered.append(caller)
            continue
        caller.sendall(header.pack(*begin, len(reply), end) + reply.encode())
        caller.close()
        if quits and "error" not in reply and "stays" not in reply:
            sys.exit(0)
)PY") + "' " + settings_ +
                 " " + elsewhere_ + " " + answer_ + " " + state_);
    AnswerOthers(R"({"size": 1})");
    Answer(R"({"error": "flush the volume: Input/output error", "code": "DATA_LOSS"})");
    ASSERT_OK(exports_->ShowVolume(MakeVolume()));
    daemon_ = exports_->List().front();
  }
  void TearDown() override {
    ProgramExportsTest::TearDown();
    while (umount2(elsewhere_.c_str(), MNT_DETACH) == 0) {  // each daemon has mounted there
    }
  }
  void Answer(const std::string& reply) const { std::ofstream(answer_) << reply; }
  void AnswerOthers(const std::string& reply) const { std::ofstream(state_) << reply; }
  // Has no quit answered from now on, and does not wait long for it.
  void Hang() {
    Answer("hang");
    exports_.reset();
    end_within_ = std::chrono::milliseconds(500);
    OpenExports();
  }
  bool Lives() const {
    const auto process = platform::OpenDaemon(daemon_.daemon);
    return process.ok() && process->valid();
  }
  void ExpectQuarantined(const std::string& why = "Input/output error") const {
    ASSERT_THAT(exports_->List(), SizeIs(1));
    EXPECT_EQ(exports_->List().front().state, Export::State::kQuarantined);
    EXPECT_THAT(exports_->List().front().reason, HasSubstr(why));
  }
  void ExpectDataLoss(const base::Status& closed,
                      const std::string& why = "Input/output error") const {
    EXPECT_EQ(closed.code(), StatusCode::kDataLoss) << closed;
    EXPECT_THAT(base::Message(closed), HasSubstr(why));
    ExpectQuarantined(why);
  }
  // Ends the proxy, begins it anew with a record that has this state, and waits until it has ended
  // what was interrupted.
  void RestartIn(std::string_view state) {
    BeginIn(state);
    Await([](const std::vector<Export>& records) {
      return records.empty() || records.front().state == Export::State::kQuarantined;
    });
    // The call that brought it about gives the volume's key back afterwards.
    Await([this](const auto&) {
      return exports_->Resize("store", "pvc-1", 1).status().code() != StatusCode::kAborted;
    });
  }
  void BeginIn(std::string_view state) {
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

  const std::string answer_ = folder_ / "answer", state_ = folder_ / "state";
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

constexpr const char* kSaidNothing = "has not said in time whether it could flush";

TEST_F(UnflushedExportsTest, AQuitWithoutAnAnswerIsALossUntilAllIsFlushed) {
  Hang();
  for (int i = 0; i < 2; ++i) {
    ExpectDataLoss(exports_->Close("store", "pvc-1"), kSaidNothing);
    EXPECT_TRUE(Lives()) << "it may still write what it holds";
    EXPECT_EQ(exports_->ShowVolume(MakeVolume()).status().code(), StatusCode::kFailedPrecondition);
    RestartIn("quarantined");
  }
  Answer("{}");  // the storage answers again
  ASSERT_OK(exports_->Close("store", "pvc-1"));
  EXPECT_FALSE(Lives());
  EXPECT_THAT(exports_->List(), IsEmpty());
}

TEST_F(UnflushedExportsTest, ADaemonThatDidNotAnswerIsAskedAgainBeforeTheNextMount) {
  Hang();
  ExpectDataLoss(exports_->Close("store", "pvc-1"), kSaidNothing);
  Answer("{}");
  ASSERT_OK(exports_->ShowVolume(MakeVolume()));
  EXPECT_FALSE(Lives());
  ASSERT_THAT(exports_->List(), SizeIs(1));
  EXPECT_EQ(exports_->List().front().state, Export::State::kServing);
  EXPECT_THAT(exports_->List().front().lost, IsEmpty());
}

TEST_F(UnflushedExportsTest, ADaemonThatDidNotAnswerAndDiedIsGivenUpByAKill) {
  Hang();
  ExpectDataLoss(exports_->Close("store", "pvc-1"), kSaidNothing);
  KillDaemonOf(daemon_);
  for (const char* state : {"quarantined", "closing"}) {
    RestartIn(state);
    ExpectDataLoss(exports_->Close("store", "pvc-1"), kSaidNothing);
  }
  ASSERT_OK(exports_->Kill("store", "pvc-1"));
  EXPECT_THAT(exports_->List(), IsEmpty());
  ASSERT_OK(exports_->Close("store", "pvc-1"));
}

TEST_F(UnflushedExportsTest, ADaemonThatDoesNotQuitIsKilledIfAllIsFlushed) {
  Hang();
  AnswerOthers(R"({"size": 1, "flushed": 0})");
  ExpectDataLoss(exports_->Close("store", "pvc-1"), kSaidNothing);
  ASSERT_OK(exports_->Kill("store", "pvc-1"));
  ASSERT_OK(exports_->ShowVolume(MakeVolume()));
  daemon_ = exports_->List().front();
  AnswerOthers(R"({"size": 1, "flushed": 1})");
  ASSERT_OK(exports_->Close("store", "pvc-1"));
  EXPECT_FALSE(Lives());
}

TEST_F(UnflushedExportsTest, AReaderThatDoesNotQuitIsKilled) {
  Answer("{}");
  ASSERT_OK(exports_->Close("store", "pvc-1"));
  ASSERT_OK(exports_->ShowVolume(MakeVolume(/*read_only=*/true)));
  daemon_ = exports_->List().front();
  Hang();
  ASSERT_OK(exports_->Close("store", "pvc-1"));
  EXPECT_FALSE(Lives());
}

TEST_F(UnflushedExportsTest, ADaemonThatHasFlushedAndDoesNotEndIsKilled) {
  Hang();
  Answer(R"({"stays": 1})");
  ASSERT_OK(exports_->Close("store", "pvc-1"));
  EXPECT_FALSE(Lives());
  EXPECT_THAT(exports_->List(), IsEmpty());
}

TEST_F(UnflushedExportsTest, AKillDoesNotNeedItsRecord) {
  const base::FakeFaults faults("block.proxy_export.write.temp=error");
  EXPECT_FALSE(exports_->Close("store", "pvc-1").ok());
  EXPECT_TRUE(Lives());
  ASSERT_OK(exports_->Kill("store", "pvc-1"));
  EXPECT_FALSE(Lives());
  EXPECT_THAT(exports_->List(), IsEmpty());
}

TEST_F(UnflushedExportsTest, AQuitThatHangsDoesNotDelayTheNextProxy) {
  Answer("hang");
  end_within_ = std::chrono::seconds(8);
  const auto begun = std::chrono::steady_clock::now();
  BeginIn("closing");
  Volume other = MakeVolume();
  other.image = "pvc-2";
  ASSERT_OK(exports_->ShowVolume(other));
  ASSERT_OK(exports_->Kill("store", "pvc-2"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, end_within_);
  EXPECT_EQ(exports_->Close("store", "pvc-1").code(), StatusCode::kAborted) << "it is being ended";
  Await([](const std::vector<Export>& records) {
    return records.front().state == Export::State::kQuarantined;
  });
  ExpectQuarantined(kSaidNothing);
}

}  // namespace
}  // namespace berth::block::proxy
