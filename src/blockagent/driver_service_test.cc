#include "blockagent/driver_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/ipc/block_call.h"
#include "base/ipc/connection.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::blockagent {
namespace {

namespace ipc = base::ipc;
namespace call = base::ipc::block;
using testing::ElementsAre;
using testing::HasSubstr;

class DriverServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto service =
        DriverService::Start({.socket = socket_,
                              .mount = [](const MountCall&, auto) { return base::OkStatus(); },
                              .unmount = [](const std::string&, auto) { return base::OkStatus(); },
                              .expand =
                                  [this](const std::string& mount_dir, int64_t bytes, auto) {
                                    expanded_.push_back(fmt::format("{} {}", mount_dir, bytes));
                                    return answer_;
                                  },
                              .peer = geteuid()});
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
  }
  static ipc::Message Request(std::string_view method) {
    return ipc::Message()
        .Set(ipc::kMethod, std::string(method))
        .Set(call::kVersion, call::kProtocol);
  }
  // Gives the error of the reply; "": the call succeeded.
  std::string CallAgent(const ipc::Message& request) {
    const auto reply =
        ipc::Call(socket_, request, ipc::DeadlineIn(std::chrono::seconds(20)), geteuid());
    return reply.ok() ? "" : reply.failure().text;
  }

  const platform::TempFolder folder_;
  const std::string socket_ = folder_ / "run/agent.sock";
  base::Status answer_ = base::OkStatus();
  std::vector<std::string> expanded_;
  std::unique_ptr<DriverService> service_;
};

TEST_F(DriverServiceTest, PassesTheSizeOfAGrowthOn) {
  ASSERT_EQ(CallAgent(Request(call::kInit)), "");
  const auto expand = Request(call::kExpand);
  EXPECT_EQ(CallAgent(ipc::Message(expand)
                          .Set(call::kMountDir, std::string("/k/v"))
                          .Set(call::kNewBytes, int64_t{5} << 30)),
            "");
  EXPECT_THAT(expanded_, ElementsAre("/k/v 5368709120"));
  answer_ = base::Error(base::StatusCode::kUnavailable, "the image is smaller");
  EXPECT_THAT(CallAgent(ipc::Message(expand)
                            .Set(call::kMountDir, std::string("/k/v"))
                            .Set(call::kNewBytes, int64_t{1})),
              HasSubstr("the image is smaller"));
}

TEST_F(DriverServiceTest, RefusesAGrowthWithoutFolderOrSize) {
  ASSERT_EQ(CallAgent(Request(call::kInit)), "");
  const auto expand = Request(call::kExpand);
  EXPECT_THAT(CallAgent(ipc::Message(expand).Set(call::kMountDir, std::string("/k/v"))),
              HasSubstr("needs 'newBytes'"));
  EXPECT_THAT(CallAgent(ipc::Message(expand).Set(call::kNewBytes, int64_t{1})),
              HasSubstr("needs an absolute 'mountDir'"));
  EXPECT_THAT(CallAgent(ipc::Message(expand)
                            .Set(call::kMountDir, std::string("k/v"))
                            .Set(call::kNewBytes, int64_t{1})),
              HasSubstr("needs an absolute 'mountDir'"));
  EXPECT_THAT(expanded_, testing::IsEmpty());
}

TEST_F(DriverServiceTest, TheSocketGoesWithTheService) {
  EXPECT_TRUE(std::filesystem::is_socket(socket_));
  service_.reset();
  EXPECT_FALSE(std::filesystem::exists(socket_));
}

}  // namespace
}  // namespace berth::blockagent
