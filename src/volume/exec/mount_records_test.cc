#include "volume/exec/mount_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "base/json.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::volume {
namespace {

using base::Json;
using testing::IsEmpty;
using testing::StartsWith;

class MountRecordsTest : public testing::Test {
 protected:
  MountRecordsTest() { EXPECT_TRUE(records_.LoadRecords().ok()); }

  std::string NameOf(const std::string& target) const { return base::Sha256Hex(target) + ".json"; }
  std::string PathOf(const std::string& target) const { return folder_ / NameOf(target); }
  Json ReadJson(const std::string& target) const {
    return *base::json::Parse(*platform::ReadFile(PathOf(target)));
  }
  void WriteText(const std::string& target, std::string_view text) const {
    ASSERT_TRUE(platform::WriteDurably<"test.file">(PathOf(target), text).ok());
  }
  std::vector<std::string> Files() const { return *platform::ListFolder(folder_.path()); }

  const platform::TempFolder folder_;
  MountRecords records_{folder_.path()};
  const MountRecord full_{
      .target = "/mnt/a",
      .plugin = "kubernetes.io/glusterfs",
      .container = PodContainer{.registration = {"ns", "pod", "uid", "gluster"}, .id = "c1"},
      .run_id = "run"};
};

void ExpectEqual(const MountRecord& a, const MountRecord& b) {
  EXPECT_EQ(a.target, b.target);
  EXPECT_EQ(a.plugin, b.plugin);
  EXPECT_EQ(a.run_id, b.run_id);
  ASSERT_EQ(a.container.has_value(), b.container.has_value());
  if (!a.container.has_value()) return;
  EXPECT_EQ(a.container->id, b.container->id);
  EXPECT_EQ(a.container->registration.pod_namespace, b.container->registration.pod_namespace);
  EXPECT_EQ(a.container->registration.pod_name, b.container->registration.pod_name);
  EXPECT_EQ(a.container->registration.pod_uid, b.container->registration.pod_uid);
  EXPECT_EQ(a.container->registration.container, b.container->registration.container);
}

TEST_F(MountRecordsTest, AreReadAsTheyWereWrittenAlsoAfterARestart) {
  const MountRecord host{.target = "/mnt/b", .plugin = "p", .container = std::nullopt};
  ASSERT_TRUE(records_.Write(full_).ok());
  ASSERT_TRUE(records_.Write(host).ok());
  EXPECT_EQ(base::json::Int(ReadJson("/mnt/a"), {"version"}), 1);
  MountRecords later(folder_.path());
  ASSERT_TRUE(later.LoadRecords().ok());
  for (const MountRecord& written : {full_, host}) {
    const auto read = later.Read(written.target);
    ASSERT_TRUE(read.ok());
    ASSERT_TRUE(read->has_value());
    ExpectEqual(**read, written);
    ASSERT_TRUE(later.Remove(written.target).ok());
  }
  EXPECT_THAT(Files(), IsEmpty());
}

// Berth wrote records without a version before.
TEST_F(MountRecordsTest, ThoseWithoutAVersionAreRead) {
  ASSERT_TRUE(records_.Write(full_).ok());
  Json old = ReadJson("/mnt/a");
  EXPECT_EQ(old.erase("version"), 1U);
  WriteText("/mnt/a", base::json::Dump(old));
  MountRecords later(folder_.path());
  ASSERT_TRUE(later.LoadRecords().ok());
  const auto read = later.Read("/mnt/a");
  ASSERT_TRUE(read.ok());
  ASSERT_TRUE(read->has_value());
  ExpectEqual(**read, full_);
  ASSERT_TRUE(later.Write(**read).ok());
  EXPECT_EQ(base::json::Int(ReadJson("/mnt/a"), {"version"}), 1);
}

TEST_F(MountRecordsTest, ThoseOfAnotherBootAreRemovedWithAndWithoutAVersion) {
  ASSERT_TRUE(records_.Write(full_).ok());
  Json record = ReadJson("/mnt/a");
  record["bootID"] = "another";
  for (const bool versioned : {true, false}) {
    if (!versioned) record.erase("version");
    WriteText("/mnt/a", base::json::Dump(record));
    EXPECT_FALSE(records_.Read("/mnt/a")->has_value());
    ASSERT_TRUE(records_.LoadRecords().ok());
    EXPECT_THAT(Files(), IsEmpty());
  }
}

TEST_F(MountRecordsTest, DamagedOnesAndThoseOfANewerVersionAreSetAside) {
  ASSERT_TRUE(records_.Write(full_).ok());
  Json newer = ReadJson("/mnt/a");
  newer["version"] = 2;
  Json nowhere = ReadJson("/mnt/a");
  nowhere["container"].erase("containerID");
  Json elsewhere = ReadJson("/mnt/a");
  elsewhere["target"] = "/mnt/x";
  for (const std::string& text : {std::string("{"), std::string("[]"), base::json::Dump(newer),
                                  base::json::Dump(nowhere), base::json::Dump(elsewhere)}) {
    for (const bool at_start : {true, false}) {
      WriteText("/mnt/a", text);
      if (at_start) ASSERT_TRUE(records_.LoadRecords().ok());
      const auto read = records_.Read("/mnt/a");
      ASSERT_TRUE(read.ok()) << text;
      EXPECT_FALSE(read->has_value()) << text;
      const std::vector<std::string> files = Files();
      ASSERT_EQ(files.size(), 1U) << text;
      EXPECT_THAT(files[0], StartsWith(NameOf("/mnt/a") + ".damaged-"));
      EXPECT_EQ(*platform::ReadFile(folder_ / files[0]), text);
      ASSERT_TRUE(platform::RemoveDurably<"test.file">(folder_ / files[0]).ok());
    }
  }
}

}  // namespace
}  // namespace berth::volume
