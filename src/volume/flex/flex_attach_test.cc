#include "volume/flex/flex_attach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/fake_host.h"
#include "volume/flex/fake_flex_driver.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;

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
  FakeExec exec_;
  const Paths paths_{"/k"};
  const std::shared_ptr<FakeFlexDriver> driver_ = std::make_shared<FakeFlexDriver>("acme/disk");
  FlexAttach attach_{exec_, paths_, driver_};
};

TEST_F(FlexAttachTest, GivesTheDeviceThatTheDriverAttached) {
  Reply(R"({"status": "Success", "device": "/dev/sdx"})");
  EXPECT_EQ(*attach_.Attach(spec_, "node-a"), "/dev/sdx");
}

TEST_F(FlexAttachTest, InPlaceOfWhatIsNotSupportedStandsWhatKubernetesDoes) {
  Reply(kNotSupported);
  EXPECT_EQ(*attach_.Attach(spec_, "node-a"), "");
  EXPECT_TRUE(attach_.Detach("data", "node-a").ok());
  EXPECT_EQ(attach_.IsAttached(spec_, "node-a").status().code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(attach_.ExpandVolume(spec_, 2, 1).ok());
}

TEST_F(FlexAttachTest, ADriverThatFailsFails) {
  Reply(R"({"status": "Failure", "message": "no such disk"})");
  EXPECT_EQ(attach_.Attach(spec_, "node-a").status().code(), StatusCode::kInternal);
  EXPECT_EQ(attach_.Detach("data", "node-a").code(), StatusCode::kInternal);
  EXPECT_EQ(attach_.ExpandVolume(spec_, 2, 1).code(), StatusCode::kInternal);
}

TEST_F(FlexAttachTest, AVolumeGrowsWhereItsDeviceWouldBeMounted) {
  Reply(R"({"status": "Success"})");
  ASSERT_TRUE(attach_.ExpandVolume(spec_, 2, 1).ok());
  EXPECT_EQ(Last()[3], "/k/plugins/kubernetes.io/flexvolume/acme/disk/mounts/data");
}

TEST_F(FlexAttachTest, ADriverThatWasRemovedDetachesByItsLastVersionAndAttachesNothing) {
  Reply(R"({"status": "Success"})");
  ASSERT_TRUE(attach_.Init().ok());
  SetVersion("2");
  ASSERT_TRUE(attach_.Detach("data", "node-a").ok());
  driver_->Remove();
  EXPECT_EQ(attach_.Attach(spec_, "node-a").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(attach_.Detach("data", "node-a").ok());
  EXPECT_THAT(Last(), ElementsAre("/copies/2/disk", "detach", "data", "node-a"));
}

TEST_F(FlexAttachTest, WhoKnowsNoVersionCannotDetach) {
  driver_->Remove();
  EXPECT_EQ(attach_.Detach("data", "node-a").code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace berth::volume
