// Each back end asks the I/O proxy to end what serves a volume that no device shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "base/assert_ok.h"
#include "base/ipc/server.h"
#include "base/mutex.h"
#include "block/backend.h"
#include "block/proxy/calls.h"
#include "block/proxy/fake_listener.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::block {
namespace {

using base::Error;
using base::Json;
using base::StatusCode;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A proxy whose volumes cannot be flushed.
class FakeProxy {
 public:
  explicit FakeProxy(const std::string& socket) {
    base::ipc::Server::Options options{
        .name = "proxy", .listener = proxy::ListenAt(socket), .peer = getuid()};
    for (const std::string_view method : {proxy::kClose, proxy::kKill}) {
      options.methods[std::string(method)] =
          [this, method](const base::ipc::Request& request) -> base::StatusOr<base::ipc::Reply> {
        base::MutexLock lock(mutex_);
        asked_.push_back(fmt::format("{} {}", method, *request.message.FindText(proxy::kImage)));
        if (method == proxy::kKill) return base::ipc::Message();
        return Error(StatusCode::kDataLoss, "it could not be flushed");
      };
    }
    server_.emplace(std::move(options));
  }
  std::vector<std::string> TakeAsked() {
    base::MutexLock lock(mutex_);
    return std::exchange(asked_, {});
  }

 private:
  base::Mutex mutex_;
  std::vector<std::string> asked_ ABSL_GUARDED_BY(mutex_);
  std::optional<base::ipc::Server> server_;
};

class EndUnshownTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> Open(const Json& settings) {
    auto opened =
        OpenBackend(settings, {.exec = *exec_,
                               .mounter = *mounter_,
                               .proxy_socket = socket_,
                               .node = "n1",
                               .read_secret = [](const auto&, const auto&) {
                                 return base::StatusOr<std::map<std::string, std::string>>(
                                     Error(StatusCode::kNotFound, "no secret"));
                               }});
    EXPECT_TRUE(opened.ok()) << settings << ": " << opened.status();
    return *std::move(opened);
  }

  const platform::TempFolder folder_;
  const std::string socket_ = folder_ / "sock";
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::vector<Json> proxied_ = {
      {{"images", {{"folder", folder_.path()}, {"access", "Proxy"}}}},
      {{"nbd", {{"server", "10.0.0.5:10809"}, {"access", "Proxy"}}}},
      {{"rbd",
        {{"monitors", {"10.0.0.5:6789"}},
         {"pool", "kube"},
         {"access", "Proxy"},
         {"secretRef", {{"name", "ceph"}, {"namespace", "berth-block"}}}}}},
      {{"iscsi",
        {{"portals", {"10.0.0.5:3260"}},
         {"target", "iqn.2003-01.org.example:t"},
         {"luns", {{"allow", {"naa.6001405000000001"}}}}}}}};
};

TEST_F(EndUnshownTest, ALossIsToldUntilItIsGivenUp) {
  FakeProxy fake(socket_);
  for (const Json& settings : proxied_) {
    const auto backend = Open(settings);
    for (int i = 0; i < 2; ++i) {
      const base::Status told = backend->EndUnshown("pvc-1", std::nullopt);
      EXPECT_EQ(told.code(), StatusCode::kDataLoss) << settings << ": " << told;
      EXPECT_THAT(std::string(base::Message(told)), HasSubstr("could not be flushed"));
      EXPECT_THAT(fake.TakeAsked(), ElementsAre("proxy.close pvc-1")) << settings;
    }
    ASSERT_OK(backend->EndUnshown("pvc-1", seconds(5)));
    EXPECT_THAT(fake.TakeAsked(), ElementsAre("proxy.kill pvc-1")) << settings;
  }
}

TEST_F(EndUnshownTest, AProxyThatDoesNotAnswerProvesNothing) {
  for (const Json& settings : proxied_) {
    const auto backend = Open(settings);
    EXPECT_EQ(backend->EndUnshown("pvc-1", std::nullopt).code(), StatusCode::kUnavailable)
        << settings;
    EXPECT_EQ(backend->EndUnshown("pvc-1", seconds(5)).code(), StatusCode::kUnavailable)
        << settings;
  }
}

TEST_F(EndUnshownTest, ANodeWhoseKernelServesNeedsNoProxy) {
  const auto kernel = Open({{"nbd", {{"server", "10.0.0.5:10809"}, {"access", "Kernel"}}}});
  ASSERT_OK(kernel->EndUnshown("pvc-1", seconds(5)));
  FakeProxy fake(socket_);
  EXPECT_EQ(kernel->EndUnshown("pvc-1", std::nullopt).code(), StatusCode::kDataLoss)
      << "it was served by the proxy before";
  EXPECT_THAT(fake.TakeAsked(), ElementsAre("proxy.close pvc-1"));
  const auto loop = Open({{"images", {{"folder", folder_.path()}}}});
  ASSERT_OK(loop->EndUnshown("pvc-1", std::nullopt));
  EXPECT_THAT(fake.TakeAsked(), IsEmpty());
}

}  // namespace
}  // namespace berth::block
