// RBD images as real loop devices over files of an I/O proxy. The images are in a FakeBerthRbd, and
// berth-export serves a file in place of `berth-rbd serve`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "block/proxy/exports.h"
#include "block/proxy/service.h"
#include "block/rbd/fake_berth_rbd.h"
#include "block/rbd/rbd_backend.h"
#include "block/sizes.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/fake_lost_mount.h"

namespace berth::block {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

base::UniqueFd MakeListener(const std::string& path) {
  base::UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(listener.get(), 8), 0);
  return listener;
}

class RbdMappingTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(platform::MakeFolders(run_, 0755));
    ASSERT_OK(platform::MakeFolders(mount_, 0755));
    WriteProgram("");
    setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
    auto exports = proxy::Exports::Open({.folder = run_});
    ASSERT_OK(exports);
    exports_ = *std::move(exports);
    server_ = proxy::ServeExports(*exports_, MakeListener(run_ + "/sock"));
    backend_ = Open();
    ASSERT_OK(backend_->Create({.name = "pvc-1", .size_bytes = 64 * kMiB}));
  }
  void TearDown() override {
    EXPECT_TRUE(mounter_->UnmountLazy(mount_).ok());
    const auto mappings = backend_->ListMappings();
    for (const Mapping& mapping : *mappings) {
      EXPECT_TRUE(backend_->ForceUnmap(mapping, std::chrono::seconds(10)).ok());
    }
    setenv("PATH", path_.c_str(), 1);
  }
  // The program runs `first`, and then serves the file.
  void WriteProgram(const std::string& first) {
    const std::string program = folder_ / "berth-fakerbd";
    std::ofstream(program) << "#!/bin/sh\ncat >" << settings_ << "\n"
                           << first << "\nexec "
                           << std::filesystem::read_symlink("/proc/self/exe").parent_path().string()
                           << "/berth-export serve 3<>" << image_ << " <" << settings_ << "\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  std::unique_ptr<Backend> Open() {
    auto backend =
        OpenRbdBackend({{"monitors", {"10.0.0.5:6789"}},
                        {"pool", "kube"},
                        {"access", "Proxy"},
                        {"secretRef", {{"name", "ceph"}, {"namespace", "berth-block"}}}},
                       {.exec = program_,
                        .mounter = *mounter_,
                        .proxy_socket = run_ + "/sock",
                        .node = "n1",
                        .read_secret = [](const std::string&, const std::string&)
                            -> base::StatusOr<std::map<std::string, std::string>> {
                          return std::map<std::string, std::string>{{"key", FakeBerthRbd::key()}};
                        }},
                       "berth-fakerbd");
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }

  const std::string path_ = getenv("PATH");
  const platform::TempFolder folder_;
  const std::string run_ = folder_ / "run", settings_ = folder_ / "settings",
                    mount_ = folder_ / "mount", image_ = folder_.SparseFile("image", 64 * kMiB);
  FakeBerthRbd program_;
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<proxy::Exports> exports_;
  std::unique_ptr<base::ipc::Server> server_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(RbdMappingTest, AnImageIsMappedFoundAgainWrittenAndUnmapped) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  EXPECT_THAT(mapping->device, HasSubstr("/dev/loop"));
  EXPECT_EQ(mapping->size_bytes, 64 * kMiB);
  EXPECT_THAT(base::json::Dump(mapping->state), Not(HasSubstr(FakeBerthRbd::key())));
  EXPECT_EQ(backend_->Map("pvc-1", {})->device, mapping->device);
  EXPECT_EQ(Open()->FindMapping("pvc-1")->value().state, mapping->state);
  EXPECT_THAT(*backend_->ListMappings(), SizeIs(1));
  ASSERT_OK(backend_->Check(*mapping));
  // The lock of the mapping is that of a client of this node.
  EXPECT_FALSE(*backend_->HoldsLock(*mapping));
  program_.LockImageFor("pvc-1", "n1", "10.0.0.1:0/7");
  EXPECT_TRUE(*backend_->HoldsLock(*mapping));
  const auto settings = base::json::Parse(*platform::ReadFile(settings_));
  ASSERT_OK(settings);
  EXPECT_EQ(base::json::String(*settings, {"cluster", "pool"}), "kube");
  EXPECT_EQ(base::json::String(*settings, {"node"}), "n1");
  EXPECT_EQ(base::json::String(*settings, {"image"}), "pvc-1");
  ASSERT_OK(platform::FormatIfBlank(*exec_, mapping->device, "ext4", {}));
  ASSERT_OK(mounter_->Mount({.source = mapping->device, .target = mount_, .fs_type = "ext4"}));
  EXPECT_EQ(backend_->Unmap(*mapping).code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(mounter_->Unmount(mount_));
  ASSERT_OK(backend_->Unmap(*mapping));
  ASSERT_OK(backend_->Unmap(*mapping));
  EXPECT_THAT(*backend_->ListMappings(), IsEmpty());
  EXPECT_FALSE(backend_->FindMapping("pvc-1")->has_value());
}

TEST_F(RbdMappingTest, ADeviceGrowsWithItsImage) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  ASSERT_OK(backend_->Grow("pvc-1", 96 * kMiB));
  ASSERT_EQ(truncate(image_.c_str(), 96 * kMiB), 0);  // what librbd does in the pool
  const auto grown = backend_->Refresh(*mapping);
  ASSERT_OK(grown);
  EXPECT_EQ(grown->size_bytes, 96 * kMiB);
  ASSERT_OK(backend_->Unmap(*grown));
}

TEST_F(RbdMappingTest, AForcedUnmapEndsWhateverHasTheDeviceOpen) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  ASSERT_OK(platform::FormatIfBlank(*exec_, mapping->device, "ext4", {}));
  ASSERT_OK(mounter_->Mount({.source = mapping->device, .target = mount_, .fs_type = "ext4"}));
  ASSERT_OK(backend_->ForceUnmap(*mapping, std::chrono::seconds(10)));
  EXPECT_THAT(exports_->List(), IsEmpty());
  EXPECT_FALSE(*backend_->HoldsLock(*mapping));
}

// As long as a process of the volume lives, it may write once its fence is lifted.
TEST_F(RbdMappingTest, AForcedUnmapIsNotDoneWhileAProcessOfTheVolumeCannotBeKilled) {
  const std::string file = folder_ / "lost";
  std::ofstream(file) << "x";
  const auto lost = platform::LostMount::MakeFile(file);
  ASSERT_OK(lost);
  ASSERT_OK((*lost)->Greet());
  WriteProgram("cat " + file + " >/dev/null &");
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  ASSERT_TRUE((*lost)->AnswerOpen());
  ASSERT_TRUE((*lost)->TakeRequest());
  program_.LockImageFor("pvc-1", "n1", "10.0.0.1:0/7");
  for (int i = 0; i < 2; ++i) {
    const base::Status forced = backend_->ForceUnmap(*mapping, std::chrono::seconds(10));
    EXPECT_THAT(std::string(base::Message(forced)), HasSubstr("may still run"));
    EXPECT_FALSE(backend_->FindMapping("pvc-1")->has_value()) << "the device is gone";
  }
  // An agent that knows of no device any more finds the process, too.
  EXPECT_FALSE(backend_->EndUnshown("pvc-1", std::nullopt).ok());
  (*lost)->Die();
  ASSERT_OK(backend_->ForceUnmap(*mapping, std::chrono::seconds(10)));
  EXPECT_THAT(exports_->List(), IsEmpty());
  ASSERT_OK(backend_->EndUnshown("pvc-1", std::nullopt));
  ASSERT_OK(backend_->FreeFromDead("pvc-1"));
  EXPECT_FALSE(*backend_->HasLock("pvc-1")) << "what is left of the process is fenced";
}

}  // namespace
}  // namespace berth::block
