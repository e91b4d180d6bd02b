#include "cli/plugins/shims.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/fake_faults.h"
#include "base/ipc/message.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::cli {
namespace {

namespace fs = std::filesystem;
using base::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ShimsTest : public ::testing::Test {
 protected:
  ShimsTest() {
    fs::create_directories(folder_ / "sbin");
    Write(folder_ / "berth-shim", "the program");
  }

  static void Write(const std::string& path, std::string_view content) {
    std::ofstream(path) << content;
  }
  static std::string Read(const std::string& path) {
    return platform::ReadFile(path).value_or("(none)");
  }
  ShimOptions Options(std::vector<std::string> names) const {
    return {.names = std::move(names),
            .sbin = folder_ / "sbin",
            .records = folder_ / "etc/shims",
            .program = folder_ / "berth-shim"};
  }
  base::Status Install(const ShimOptions& options) {
    told_.clear();
    return InstallShims(options, [this](std::string_view line) { told_.emplace_back(line); });
  }
  base::Status Remove(const ShimOptions& options) {
    told_.clear();
    return RemoveShims(options, [this](std::string_view line) { told_.emplace_back(line); });
  }
  std::vector<std::string> Installed() const {
    return platform::ListFolder(folder_ / "sbin").value_or(std::vector<std::string>{});
  }
  std::vector<std::string> Records() const {
    return platform::ListFolder(folder_ / "etc/shims").value_or(std::vector<std::string>{});
  }

  platform::TempFolder folder_;
  std::vector<std::string> told_;
};

TEST_F(ShimsTest, InstallsTheUtilitiesOfATypeAndRemovesThem) {
  ASSERT_TRUE(Install(Options({"nfs", "glusterfs"})).ok());
  EXPECT_THAT(Installed(), ElementsAre("mount.glusterfs", "mount.nfs", "mount.nfs4"));
  EXPECT_EQ(Read(folder_ / "sbin/mount.nfs"), "the program");
  struct stat info{};
  ASSERT_EQ(stat((folder_ / "sbin/mount.nfs").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  const auto record = base::ipc::ReadJson(Read(folder_ / "etc/shims/mount.nfs4.json"));
  ASSERT_TRUE(record.ok()) << record.failure().text;
  EXPECT_EQ(record->FindNumber("version"), 1);
  EXPECT_EQ(*record->FindText("plugin"), "kubernetes.io/nfs");
  EXPECT_EQ(*record->FindText("socket"), "/run/berth/utilities.sock");
  EXPECT_THAT(told_, Contains("installed " + folder_.path() +
                              "/sbin/mount.nfs: runs in the pod of kubernetes.io/nfs"));

  // A second installation changes nothing.
  ASSERT_TRUE(Install(Options({"nfs"})).ok());
  EXPECT_EQ(Read(folder_ / "sbin/mount.nfs"), "the program");

  ASSERT_TRUE(Remove(Options({"mount.nfs"})).ok());
  EXPECT_THAT(Installed(), ElementsAre("mount.glusterfs", "mount.nfs4"));
  ASSERT_TRUE(Remove(Options({})).ok());
  EXPECT_THAT(Installed(), IsEmpty());
  EXPECT_THAT(Records(), IsEmpty());
  ASSERT_TRUE(Remove(Options({"nfs"})).ok());
  ASSERT_TRUE(Remove(Options({})).ok());
  EXPECT_THAT(told_, ElementsAre("no shim is installed"));
}

TEST_F(ShimsTest, UtilitiesOfDisksAreKnown) {
  ASSERT_TRUE(Install(Options({"rbd", "iscsi"})).ok());
  EXPECT_THAT(Installed(), ElementsAre("iscsiadm", "rbd"));
  const auto record = base::ipc::ReadJson(Read(folder_ / "etc/shims/iscsiadm.json"));
  EXPECT_EQ(*record->FindText("plugin"), "kubernetes.io/iscsi");
}

TEST_F(ShimsTest, TakesThePluginOfOtherUtilities) {
  EXPECT_EQ(Install(Options({"mkfs.xfs"})).code(), StatusCode::kInvalidArgument);
  ShimOptions options = Options({"mkfs.xfs", "nfs"});
  options.plugin = "kubernetes.io/rbd";
  ASSERT_TRUE(Install(options).ok());
  EXPECT_THAT(Installed(), ElementsAre("mkfs.xfs", "nfs"));
  EXPECT_THAT(Read(folder_ / "etc/shims/mkfs.xfs.json"), HasSubstr("kubernetes.io/rbd"));
}

TEST_F(ShimsTest, NeverTouchesARealUtility) {
  Write(folder_ / "sbin/mount.nfs4", "a real one");
  fs::create_symlink(folder_ / "berth-shim", folder_ / "sbin/mount.glusterfs");
  EXPECT_EQ(Install(Options({"nfs"})).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Install(Options({"glusterfs"})).code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(Installed(), ElementsAre("mount.glusterfs", "mount.nfs4")) << "not even the other";
  ASSERT_TRUE(Remove(Options({"nfs", "glusterfs"})).ok());
  EXPECT_THAT(told_, Contains("left " + folder_.path() + "/sbin/mount.nfs4: it is not a shim"));
  EXPECT_EQ(Read(folder_ / "sbin/mount.nfs4"), "a real one");
  EXPECT_TRUE(fs::is_symlink(folder_ / "sbin/mount.glusterfs"));
}

TEST_F(ShimsTest, LeavesWhatAPackagePutInTheShimsPlace) {
  ASSERT_TRUE(Install(Options({"glusterfs"})).ok());
  Write(folder_ / "sbin/mount.glusterfs", "a real one");
  EXPECT_EQ(Install(Options({"glusterfs"})).code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(Remove(Options({})).ok());
  EXPECT_EQ(Read(folder_ / "sbin/mount.glusterfs"), "a real one");
  EXPECT_THAT(Records(), IsEmpty());
}

TEST_F(ShimsTest, KnowsTheShimsOfAnotherRelease) {
  ASSERT_TRUE(Install(Options({"glusterfs"})).ok());
  Write(folder_ / "berth-shim", "the next release");
  ASSERT_TRUE(Install(Options({"glusterfs"})).ok());
  EXPECT_EQ(Read(folder_ / "sbin/mount.glusterfs"), "the next release");
  EXPECT_THAT(told_, ElementsAre(HasSubstr("renewed")));
  fs::remove(folder_ / "berth-shim");
  ASSERT_TRUE(Remove(Options({})).ok());
  EXPECT_THAT(Installed(), IsEmpty());
}

// A record as Berth wrote it before records had a version.
TEST_F(ShimsTest, KnowsAShimWhoseRecordHasNoVersion) {
  ASSERT_TRUE(Install(Options({"glusterfs"})).ok());
  const std::string path = folder_ / "etc/shims/mount.glusterfs.json";
  const auto record = base::ipc::ReadJson(Read(path));
  ASSERT_TRUE(record.ok());
  const auto write_old = [&] {
    Write(path, base::ipc::WriteJson(base::ipc::Message()
                                         .Set("plugin", *record->FindText("plugin"))
                                         .Set("socket", *record->FindText("socket"))
                                         .Set("path", *record->FindText("path"))
                                         .Set("sha256", *record->FindList("sha256"))));
  };
  write_old();
  Write(folder_ / "berth-shim", "the next release");
  ASSERT_TRUE(Install(Options({"glusterfs"})).ok());
  EXPECT_THAT(told_, ElementsAre(HasSubstr("renewed")));
  EXPECT_EQ(base::ipc::ReadJson(Read(path))->FindNumber("version"), 1);

  Write(folder_ / "sbin/mount.glusterfs", "the program");
  write_old();
  ASSERT_TRUE(Remove(Options({})).ok());
  EXPECT_THAT(Installed(), IsEmpty());
  EXPECT_THAT(Records(), IsEmpty());
}

TEST_F(ShimsTest, ADamagedRecordIsSetAsideWhenItsShimIsReplacedOrRemoved) {
  for (const char* damaged : {"{", R"({"version":2,"path":"/x","sha256":[]})",
                              R"({"version":"1","path":"/x","sha256":[]})", R"({"version":1})"}) {
    const std::string path = folder_ / "etc/shims/mount.glusterfs.json";
    ASSERT_TRUE(Install(Options({"glusterfs"})).ok());
    Write(path, damaged);
    ASSERT_TRUE(Install(Options({"glusterfs"})).ok()) << damaged;
    ASSERT_EQ(Records().size(), 2U) << damaged;
    EXPECT_EQ(Read(folder_ / "etc/shims/" + Records()[1]), damaged);
    EXPECT_THAT(told_, Contains(HasSubstr(Records()[1])));
    EXPECT_EQ(base::ipc::ReadJson(Read(path))->FindNumber("version"), 1);

    fs::remove(folder_ / "etc/shims/" + Records()[1]);
    Write(path, damaged);
    ASSERT_TRUE(Remove(Options({})).ok()) << damaged;
    EXPECT_THAT(Installed(), IsEmpty()) << damaged;
    ASSERT_EQ(Records().size(), 1U) << damaged;
    EXPECT_THAT(Records()[0], HasSubstr("mount.glusterfs.json.damaged-"));
    fs::remove(folder_ / "etc/shims/" + Records()[0]);
  }
}

// The record may be that of a newer Berth, whose shim would not work without it.
TEST_F(ShimsTest, AFileWithADamagedRecordIsLeftWithItsRecord) {
  ASSERT_TRUE(Install(Options({"glusterfs"})).ok());
  const std::string newer = R"({"version":2,"path":"/x","sha256":[]})";
  Write(folder_ / "etc/shims/mount.glusterfs.json", newer);
  Write(folder_ / "sbin/mount.glusterfs", "the shim of a newer release");
  EXPECT_EQ(Install(Options({"glusterfs"})).code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(Remove(Options({})).ok());
  EXPECT_THAT(told_, ElementsAre(HasSubstr("its version is not 1")));
  EXPECT_THAT(Installed(), ElementsAre("mount.glusterfs"));
  EXPECT_EQ(Read(folder_ / "etc/shims/mount.glusterfs.json"), newer);
}

TEST_F(ShimsTest, WhatACrashLeftOfAShimGoesWithTheNextCallAndThatOfOthersStays) {
  const auto leave_torn_files = [&] {
    Write(folder_ / "etc/shims/.mount.nfs.json.tmp-Ab12Cd", "{");
    Write(folder_ / "sbin/.mount.glusterfs.tmp-Ab12Cd", "the pro");
    Write(folder_ / "sbin/..mount.glusterfs.berth-shim.tmp-Ab12Cd", "the pro");
  };
  Write(folder_ / "sbin/.other.tmp-Ab12Cd", "of another program");
  fs::create_directories(folder_ / "etc/shims");
  leave_torn_files();
  ASSERT_TRUE(Install(Options({"glusterfs"})).ok());
  EXPECT_THAT(Installed(), ElementsAre(".other.tmp-Ab12Cd", "mount.glusterfs"));
  EXPECT_THAT(Records(), ElementsAre("mount.glusterfs.json"));
  leave_torn_files();
  ASSERT_TRUE(Remove(Options({})).ok());
  EXPECT_THAT(Installed(), ElementsAre(".other.tmp-Ab12Cd"));
  EXPECT_THAT(Records(), IsEmpty());
}

TEST_F(ShimsTest, RefusesNamesThatAreNone) {
  ShimOptions options = Options({""});
  options.plugin = "p";
  for (const char* name : {"", "../mount.nfs", ".x", "-x", "a b", "berth-shim"}) {
    options.names = {name};
    EXPECT_EQ(Install(options).code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(Remove(options).code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(Install(Options({})).code(), StatusCode::kInvalidArgument);
}

TEST_F(ShimsTest, CanBeRepeatedWhereverItWasCutShort) {
  for (const char* point :
       {"cli.shim_record.write.before", "cli.shim_record.write.temp", "cli.shim_record.write.after",
        "cli.shim.write.before", "cli.shim.write.temp", "cli.shim.write.after",
        "cli.fresh_shim.remove.before", "cli.fresh_shim.remove.after", "cli.shim.remove.before",
        "cli.shim.remove.after", "cli.shim_record.remove.before", "cli.shim_record.remove.after"}) {
    for (const char* before : {"none", "an older release"}) {
      if (before != std::string_view("none")) {
        Write(folder_ / "berth-shim", before);
        ASSERT_TRUE(Install(Options({"glusterfs"})).ok()) << point;
        Write(folder_ / "berth-shim", "the program");
      }
      {
        const base::FakeFaults faults(fmt::format("{}=error", point).c_str());
        EXPECT_FALSE(Install(Options({"glusterfs"})).ok() && Remove(Options({})).ok()) << point;
      }
      ASSERT_TRUE(Install(Options({"glusterfs"})).ok()) << point;
      EXPECT_THAT(Installed(), ElementsAre("mount.glusterfs")) << point;
      EXPECT_EQ(Read(folder_ / "sbin/mount.glusterfs"), "the program") << point;
      ASSERT_TRUE(Remove(Options({})).ok()) << point;
      EXPECT_THAT(Installed(), IsEmpty()) << point;
      EXPECT_THAT(Records(), IsEmpty()) << point;
    }
  }
}

}  // namespace
}  // namespace berth::cli
