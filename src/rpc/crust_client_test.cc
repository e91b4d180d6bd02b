#include "rpc/crust_client.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "proto/crust.grpc.pb.h"
#include "rpc/unix_server.h"

namespace berth::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Handler : public crust::RuntimeAssistedStorageManagement::Service {
 public:
  grpc::Status RuntimePublishVolume(grpc::ServerContext* context,
                                    const crust::RuntimePublishVolumeRequest* request,
                                    crust::RuntimePublishVolumeResponse*) override {
    while (hangs && !context->IsCancelled()) usleep(1000);
    published = *request;
    return grpc::Status::OK;
  }

  std::atomic<bool> hangs = false;
  crust::RuntimePublishVolumeRequest published;
};

class CrustClientTest : public testing::Test {
 protected:
  CrustClientTest() {
    char folder[] = "/tmp/crust-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~CrustClientTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<UnixServer> Serve() {
    auto server = UnixServer::Start(socket(), {&handler_});
    EXPECT_TRUE(server.ok()) << base::ToString(server.status());
    return server.ok() ? std::move(*server) : nullptr;
  }
  std::string socket() const { return folder_ + "/crust.sock"; }
  std::unique_ptr<CrustClient> Client(uid_t uid = geteuid()) {
    return std::move(CrustClient::New(socket(), uid)).value();
  }

  std::string folder_;
  Handler handler_;
};

TEST_F(CrustClientTest, FindsAHandlerThatWasStartedAnew) {
  const auto client = Client();
  crust::RuntimePublishVolumeRequest request;
  request.set_sandbox_id("s1");
  request.set_fsgroup_gid(0);
  for (int i = 0; i < 2; ++i) {
    const auto server = Serve();
    const auto published = client->RuntimePublishVolume(request, seconds(10));
    ASSERT_TRUE(published.ok()) << base::ToString(published.status());
    EXPECT_EQ(handler_.published.sandbox_id(), "s1");
    // Group 0 is not the same as no group.
    EXPECT_TRUE(handler_.published.has_fsgroup_gid());
  }
}

TEST_F(CrustClientTest, SaysThatNobodyListensAndThatNothingWasAsked) {
  const auto published = Client()->RuntimePublishVolume({}, seconds(10));
  EXPECT_EQ(published.status().code(), base::StatusCode::kUnavailable);
  EXPECT_TRUE(WasNotSent(published.status()));
}

TEST_F(CrustClientTest, TellsNothingToSomebodyElse) {
  const auto server = Serve();
  const auto published = Client(geteuid() + 1)->RuntimePublishVolume({}, seconds(10));
  EXPECT_EQ(published.status().code(), base::StatusCode::kPermissionDenied);
  EXPECT_TRUE(WasNotSent(published.status()));
}

TEST_F(CrustClientTest, DoesNotWaitForAHandlerThatHangs) {
  const auto server = Serve();
  handler_.hangs = true;
  const auto published = Client()->RuntimePublishVolume({}, milliseconds(300));
  EXPECT_EQ(published.status().code(), base::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(WasNotSent(published.status()));
  handler_.hangs = false;
}

TEST_F(CrustClientTest, RefusesAPathThatNoSocketCanHave) {
  EXPECT_EQ(CrustClient::New("run/crust.sock").status().code(), base::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace berth::rpc
