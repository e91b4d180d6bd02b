// Volumes that the I/O proxy cannot flush when they are unmapped, and an agent that has lost what
// it knew of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "block/proxy/exports.h"
#include "block/proxy/fake_listener.h"
#include "block/proxy/service.h"
#include "blockagent/fake_site.h"
#include "blockagent/node_cleanup_worker.h"

namespace berth::blockagent {
namespace {

namespace fs = std::filesystem;
using base::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Serves an image by berth-export, whose path is the first argument, but answers that the image
// cannot be flushed as long as there is a file at the second argument.
constexpr std::string_view kProgram = R"PY(
import json, os, socket, struct, subprocess, sys, time
settings = json.load(sys.stdin)
inner = settings["socket"] + ".inner"
served = subprocess.Popen([sys.argv[1], "serve"], stdin=subprocess.PIPE, pass_fds=[3])
served.stdin.write(json.dumps(dict(settings, socket=inner)).encode())
served.stdin.close()
header = struct.Struct("=4sHHII")

def receive(peer):
    head = peer.recv(header.size, socket.MSG_WAITALL)
    return head, peer.recv(header.unpack(head)[3], socket.MSG_WAITALL)

def ask(message):
    with socket.socket(socket.AF_UNIX) as peer:
        while peer.connect_ex(inner):
            if served.poll() is not None:
                sys.exit(1)
            time.sleep(0.01)
        peer.sendall(message)
        return receive(peer)

with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(settings["socket"])
    listener.listen()
    while served.poll() is None:
        caller = listener.accept()[0]
        head, body = receive(caller)
        quits = json.loads(body)["method"] == "export.quit"
        fails = quits and os.path.exists(sys.argv[2])
        if fails:
            answer = json.dumps({"error": "flush: Input/output error", "code": "DATA_LOSS"}).encode()
            *begin, size, end = header.unpack(head)
            head = header.pack(*begin, len(answer), end)
        else:
            head, answer = ask(head + body)
        caller.sendall(head + answer)
        caller.close()
        if quits and not fails:
            served.wait()
)PY";

class UnflushedVolumeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(platform::MakeFolders(run_, 0755));
    const std::string program = folder_ / "berth-testing", text = folder_ / "program.py";
    std::ofstream(text) << kProgram;
    std::ofstream(program) << "#!/bin/sh\nexec /usr/bin/python3 " << text << " "
                           << fs::read_symlink("/proc/self/exe").parent_path().string()
                           << "/berth-export " << broken_ << "\n";
    fs::permissions(program, fs::perms::owner_all);
    setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
    auto exports = block::proxy::Exports::Open({.folder = run_, .image_program = "berth-testing"});
    ASSERT_OK(exports);
    exports_ = *std::move(exports);
    server_ = block::proxy::ServeExports(*exports_, block::proxy::ListenAt(run_ + "/sock"));
    site_.emplace();
    site_->ServeByProxy(run_ + "/sock");
    site_->AddVolume("data");
    agent_ = site_->Start("n1");
  }
  void TearDown() override {
    agent_.reset();
    site_.reset();
    for (const block::proxy::Export& record : exports_->List()) {
      EXPECT_TRUE(exports_->Kill(record.volume.store, record.volume.image).ok());
    }
    setenv("PATH", path_.c_str(), 1);
  }

  // A pod wrote to the volume and ended, and the storage took the flush no more.
  void LeaveUnflushed() {
    const MountCall one = site_->AddPod("n1", "one", "data");
    ASSERT_OK(agent_->Mount(one, FakeSite::Soon()));
    std::ofstream(one.mount_dir + "/note") << "kept" << std::flush;
    std::ofstream(broken_) << "";
    site_->RemovePod("one");
    const base::Status told = agent_->Unmount(one.mount_dir, FakeSite::Soon());
    EXPECT_EQ(told.code(), StatusCode::kDataLoss) << told;
    EXPECT_FALSE(site_->MountAt(one.mount_dir).has_value());
    EXPECT_THAT(*site_->BackendOf("n1")->ListMappings(), IsEmpty());
    ExpectQuarantined();
  }
  void ExpectQuarantined() const {
    ASSERT_THAT(exports_->List(), SizeIs(1));
    EXPECT_EQ(exports_->List().front().state, block::proxy::Export::State::kQuarantined);
  }
  void ExpectRefused(const MountCall& call) {
    const base::Status refused = agent_->Mount(call, FakeSite::Soon());
    EXPECT_FALSE(refused.ok());
    EXPECT_THAT(
        std::string(base::Message(refused)),
        AllOf(HasSubstr("Input/output error"), HasSubstr("berth fence break --dangerous VOLUME")));
    ExpectQuarantined();
  }
  base::Status WorkOff() {
    NodeCleanupWorker worker({.node = "n1"}, site_->ClientOf("n1"), site_->events, *agent_);
    return worker.WorkOffEntries(FakeSite::Soon());
  }
  void BreakFenceByHand() {
    ASSERT_OK(BreakFence(site_->client, api::VolumeName("data"),
                         "a person gave up what was not flushed"));
  }
  // The storage works again, and the pod has what the file system wrote.
  void ExpectMounts(const MountCall& call) {
    fs::remove(broken_);
    ASSERT_OK(agent_->Mount(call, FakeSite::Soon()));
    EXPECT_EQ(platform::ReadFile(call.mount_dir + "/note").value_or("(none)"), "kept");
    ASSERT_OK(agent_->Unmount(call.mount_dir, FakeSite::Soon()));
    EXPECT_THAT(agent_->ListVolumes(), IsEmpty());
    EXPECT_THAT(site_->Fence("data"), IsEmpty());
    EXPECT_THAT(exports_->List(), IsEmpty());
  }
  std::string FolderOfRecords() const { return site_->folder / "data-n1"; }

  const std::string path_ = getenv("PATH");
  const platform::TempFolder folder_;
  const std::string run_ = folder_ / "run", broken_ = folder_ / "broken";
  std::unique_ptr<block::proxy::Exports> exports_;
  std::unique_ptr<base::ipc::Server> server_;
  std::optional<FakeSite> site_;
  std::unique_ptr<Attachments> agent_;
};

TEST_F(UnflushedVolumeTest, IsGivenUpByAPersonAlthoughTheAgentLostItsRecords) {
  LeaveUnflushed();
  agent_.reset();
  fs::remove_all(FolderOfRecords());
  agent_ = site_->Start("n1");
  const MountCall two = site_->AddPod("n1", "two", "data");
  ExpectRefused(two);
  // Nothing that the agent does by itself gives the writes up.
  ASSERT_OK(WorkOff());
  ASSERT_OK(agent_->Reconcile("data", FakeSite::Soon()));
  ExpectRefused(two);
  BreakFenceByHand();
  // The kubelet tries again before the agent has taken the volume off.
  const base::Status waits = agent_->Mount(two, FakeSite::Soon());
  EXPECT_EQ(waits.code(), StatusCode::kAborted) << waits;
  ASSERT_OK(WorkOff());
  EXPECT_THAT(exports_->List(), IsEmpty());
  ExpectMounts(two);
}

TEST_F(UnflushedVolumeTest, IsGivenUpByAPersonAlthoughTheRecordHasNoMapping) {
  LeaveUnflushed();
  agent_.reset();
  {
    const auto records = Records::Open(FolderOfRecords() + "/volumes");
    ASSERT_OK(records);
    Record record = *(*records)->Get("data");
    record.mapping.reset();
    ASSERT_OK((*records)->Put(record));
  }
  agent_ = site_->Start("n1");
  ASSERT_OK(agent_->Reconcile("data", FakeSite::Soon()));
  EXPECT_THAT(site_->events.told(),
              Contains(AllOf(HasSubstr("PersistentVolume VolumeQuarantined"),
                             HasSubstr("berth fence break --dangerous VOLUME"))));
  const MountCall two = site_->AddPod("n1", "two", "data");
  ExpectRefused(two);
  BreakFenceByHand();
  ASSERT_OK(WorkOff());
  EXPECT_THAT(exports_->List(), IsEmpty());
  ExpectMounts(two);
}

}  // namespace
}  // namespace berth::blockagent
