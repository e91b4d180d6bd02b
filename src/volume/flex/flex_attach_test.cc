#include "volume/flex/flex_attach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/fake_host.h"
#include "volume/flex/fake_flex_driver.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

class FlexAttachTest : public testing::Test {
 protected:
  FlexAttachTest() { SetVersion("1"); }
  void SetVersion(const std::string& id) {
    driver_->Set(
        DriverVersion{.driver = "acme/disk", .executable = "/copies/" + id + "/disk", .id = id});
  }
  void Reply(const std::string& out) {
    exec_.SetAnswer([out](const platform::Command&) {
      return platform::CommandResult{.exit_code = 0, .out = out, .err = ""};
    });
  }
  std::vector<std::string> Last() {
    return exec_.commands().empty() ? std::vector<std::string>() : exec_.commands().back().argv;
  }

  static constexpr char kNotSupported[] = R"({"status": "Not supported"})";
  const VolumeSpec spec_{
      .name = "data",
      .pod_volume = api::PodVolume({{"name", "data"}, {"flexVolume", {{"driver", "acme/disk"}}}})};
  static constexpr char kHold[] = " attachments/data/node-a";
  FakeExec exec_;
  const Paths paths_{"/k"};
  const std::shared_ptr<FakeFlexDriver> driver_ = std::make_shared<FakeFlexDriver>("acme/disk");
  const std::shared_ptr<FakeDriverVersions> versions_ = std::make_shared<FakeDriverVersions>();
  FlexAttach attach_{exec_, paths_, driver_, versions_};
};

TEST_F(FlexAttachTest, GivesTheDeviceThatTheDriverAttached) {
  Reply(R"({"status": "Success", "device": "/dev/sdx"})");
  EXPECT_EQ(*attach_.Attach(spec_, api::NodeName("node-a")), "/dev/sdx");
}

TEST_F(FlexAttachTest, InPlaceOfWhatIsNotSupportedStandsWhatKubernetesDoes) {
  Reply(R"({"status": "Success"})");
  ASSERT_TRUE(attach_.Init().ok());
  Reply(kNotSupported);
  EXPECT_EQ(*attach_.Attach(spec_, api::NodeName("node-a")), "");
  EXPECT_TRUE(attach_.Detach(api::VolumeName("data"), api::NodeName("node-a")).ok());
  EXPECT_EQ(attach_.IsAttached(spec_, api::NodeName("node-a")).status().code(),
            StatusCode::kUnimplemented);
  EXPECT_TRUE(attach_.ExpandVolume(spec_, 2, 1).ok());
}

TEST_F(FlexAttachTest, TheVolumesNameIsAskedForBeforeItIsAttached) {
  Reply(R"({"status": "Success", "volumeName": "another"})");
  ASSERT_TRUE(attach_.Attach(spec_, api::NodeName("node-a")).ok());
  ASSERT_EQ(exec_.commands().size(), 2u);
  EXPECT_EQ(exec_.commands()[0].argv[1], "getvolumename");
  EXPECT_EQ(exec_.commands()[0].argv[2], exec_.commands()[1].argv[2]) << "of the same options";
  EXPECT_THAT(versions_->holds(), ElementsAre(std::string("1") + kHold)) << "by its own name";
}

TEST_F(FlexAttachTest, AVersionWithoutNamesIsAskedForOneOnce) {
  exec_.SetAnswer([](const platform::Command& command) {
    return platform::CommandResult{
        .exit_code = 0,
        .out = command.argv[1] == "getvolumename" ? kNotSupported : R"({"status": "Success"})",
        .err = ""};
  });
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(attach_.Attach(spec_, api::NodeName("node-a")).ok());
  EXPECT_EQ(exec_.commands().size(), 4u);
  SetVersion("2");
  ASSERT_TRUE(attach_.Attach(spec_, api::NodeName("node-a")).ok());
  EXPECT_EQ(exec_.commands().size(), 6u);
}

TEST_F(FlexAttachTest, AVolumeThatTheDriverRefusesToNameIsNotAttached) {
  Reply(R"({"status": "Failure", "message": "no folder given"})");
  EXPECT_EQ(attach_.Attach(spec_, api::NodeName("node-a")).status().code(), StatusCode::kInternal);
  EXPECT_EQ(Last()[1], "getvolumename");
  EXPECT_THAT(versions_->holds(), IsEmpty());
}

TEST_F(FlexAttachTest, ADriverThatFailsFails) {
  Reply(R"({"status": "Success"})");
  ASSERT_TRUE(attach_.Init().ok());
  Reply(R"({"status": "Failure", "message": "no such disk"})");
  EXPECT_EQ(attach_.Attach(spec_, api::NodeName("node-a")).status().code(), StatusCode::kInternal);
  EXPECT_EQ(attach_.Detach(api::VolumeName("data"), api::NodeName("node-a")).code(),
            StatusCode::kInternal);
  EXPECT_EQ(attach_.ExpandVolume(spec_, 2, 1).code(), StatusCode::kInternal);
}

TEST_F(FlexAttachTest, AVolumeGrowsWhereItsDeviceWouldBeMounted) {
  Reply(R"({"status": "Success"})");
  ASSERT_TRUE(attach_.ExpandVolume(spec_, 2, 1).ok());
  EXPECT_EQ(Last()[3], "/k/plugins/kubernetes.io/flexvolume/acme/disk/mounts/data");
}

TEST_F(FlexAttachTest, ADriverThatWasRemovedDetachesWhatItAttachedAndAttachesNothing) {
  Reply(R"({"status": "Success"})");
  ASSERT_TRUE(attach_.Init().ok());
  ASSERT_TRUE(attach_.Attach(spec_, api::NodeName("node-a")).ok());
  EXPECT_THAT(versions_->holds(), ElementsAre(std::string("1") + kHold));
  driver_->Remove();
  EXPECT_EQ(attach_.Attach(spec_, api::NodeName("node-a")).status().code(), StatusCode::kNotFound);
  // A new process detaches it as well.
  FlexAttach later(exec_, paths_, driver_, versions_);
  ASSERT_TRUE(later.Init().ok());
  EXPECT_TRUE(*later.Attaches());
  ASSERT_TRUE(later.Detach(api::VolumeName("data"), api::NodeName("node-a")).ok());
  EXPECT_THAT(Last(), ElementsAre("/copies/1/disk", "detach", "data", "node-a"));
  EXPECT_THAT(versions_->holds(), IsEmpty());
}

TEST_F(FlexAttachTest, ANewVersionDetachesWhatTheOldOneAttached) {
  Reply(R"({"status": "Success"})");
  ASSERT_TRUE(attach_.Init().ok());
  ASSERT_TRUE(attach_.Attach(spec_, api::NodeName("node-a")).ok());
  SetVersion("2");
  ASSERT_TRUE(attach_.Detach(api::VolumeName("data"), api::NodeName("node-a")).ok());
  EXPECT_THAT(Last(), ElementsAre("/copies/2/disk", "detach", "data", "node-a"));
  EXPECT_THAT(versions_->holds(), IsEmpty());
}

TEST_F(FlexAttachTest, AVersionThatDoesNotAttachLeavesDetachingToTheOneThatDid) {
  Reply(R"({"status": "Success"})");
  ASSERT_TRUE(attach_.Init().ok());
  ASSERT_TRUE(attach_.Attach(spec_, api::NodeName("node-a")).ok());
  SetVersion("2");
  FlexAttach later(exec_, paths_, driver_, versions_);
  Reply(R"({"status": "Success", "capabilities": {"attach": false}})");
  ASSERT_TRUE(later.Init().ok());
  EXPECT_FALSE(*later.Attaches());
  ASSERT_TRUE(later.Detach(api::VolumeName("data"), api::NodeName("node-a")).ok());
  EXPECT_THAT(Last(), ElementsAre("/copies/1/disk", "detach", "data", "node-a"));
}

TEST_F(FlexAttachTest, AFailedDetachKeepsTheVersion) {
  Reply(R"({"status": "Success"})");
  ASSERT_TRUE(attach_.Init().ok());
  ASSERT_TRUE(attach_.Attach(spec_, api::NodeName("node-a")).ok());
  Reply(R"({"status": "Failure", "message": "busy"})");
  EXPECT_FALSE(attach_.Detach(api::VolumeName("data"), api::NodeName("node-a")).ok());
  EXPECT_THAT(versions_->holds(), ElementsAre(std::string("1") + kHold));
}

TEST_F(FlexAttachTest, WhoKnowsNoVersionCannotDetach) {
  driver_->Remove();
  EXPECT_EQ(attach_.Detach(api::VolumeName("data"), api::NodeName("node-a")).code(),
            StatusCode::kUnavailable);
}

}  // namespace
}  // namespace berth::volume
