#include "node/pods/pod_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::node {
namespace {

using base::Json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class PodRecordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto records = PodRecords::Open(folder_.path());
    ASSERT_TRUE(records.ok());
    records_ = *std::move(records);
  }

  static PodRecord Record(const std::string& uid) {
    return {.pod = std::make_shared<const api::Pod>(
                Json{{"metadata", {{"name", "web"}, {"namespace", "shop"}, {"uid", uid}}},
                     {"spec",
                      {{"terminationGracePeriodSeconds", 7},
                       {"containers",
                        {{{"name", "main"},
                          {"image", "x"},
                          {"env", {{{"name", "PASSWORD"}, {"value", "hunter2"}}}}}}}}}})};
  }
  std::string File(const std::string& uid) const { return folder_.path() + "/" + uid + ".json"; }
  std::map<std::string, PodRecord> Load() const {
    auto loaded = records_->Load();
    EXPECT_TRUE(loaded.ok());
    return loaded.ok() ? *std::move(loaded) : std::map<std::string, PodRecord>();
  }

  platform::TempFolder folder_;
  std::unique_ptr<PodRecords> records_;
};

TEST_F(PodRecordsTest, WhatTearDownNeedsIsReadBackAndNoSecretIsKept) {
  PodRecord record = Record("u1");
  record.sandbox_possible = true;
  record.ended_phase = "Failed";
  record.ended_reason = "Evicted";
  ASSERT_TRUE(records_->Write(record).ok());
  EXPECT_THAT(*platform::ReadFile(File("u1")), Not(HasSubstr("hunter2")));
  const auto loaded = Load();
  ASSERT_THAT(loaded, SizeIs(1));
  const PodRecord& read = loaded.at("u1");
  EXPECT_EQ(read.pod->key(), "shop/web");
  EXPECT_EQ(read.pod->uid(), "u1");
  EXPECT_EQ(read.pod->Int({"spec", "terminationGracePeriodSeconds"}), 7);
  EXPECT_TRUE(read.sandbox_possible);
  EXPECT_EQ(read.ended_phase, "Failed");
  EXPECT_EQ(read.ended_reason, "Evicted");
  ASSERT_TRUE(records_->Remove("u1").ok());
  EXPECT_THAT(Load(), IsEmpty());
}

TEST_F(PodRecordsTest, ADamagedOrForeignRecordDoesNotKeepTheOthersFromBeingRead) {
  ASSERT_TRUE(records_->Write(Record("u1")).ok());
  const std::string good = *platform::ReadFile(File("u1"));
  std::ofstream(File("empty"));
  std::ofstream(File("torn")) << good.substr(0, good.size() / 2);
  std::ofstream(File("another")) << good;
  Json later = *base::json::Parse(good);
  later["version"] = 2;
  later["pod"]["metadata"]["uid"] = "later";
  std::ofstream(File("later")) << later.dump();
  std::ofstream(folder_.path() + "/.u2.json.tmp-abc") << good;
  const auto loaded = Load();
  ASSERT_THAT(loaded, SizeIs(1));
  EXPECT_TRUE(loaded.contains("u1"));
}

}  // namespace
}  // namespace berth::node
