// Tests how the API answers requests for which the system starts no thread.

#include "apiserver/request_router.h"

#include <thread>

#include "apiserver/api_fixture.h"
#include "apiserver/forwarding_store.h"
#include "apiserver/http_front.h"
#include "base/workers/fake_thread_limit.h"
#include "http/local_call.h"

namespace berth::apiserver {
namespace {

constexpr std::chrono::seconds kSoon{10};

// Knows whether its last subscription is still held.
class SubscribedStore : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  base::StatusOr<std::shared_ptr<void>> Watch(std::string prefix, store::Revision from,
                                              std::shared_ptr<store::Watcher> watcher) override {
    auto handle = ForwardingStore::Watch(std::move(prefix), from, std::move(watcher));
    if (handle.ok()) subscription = *handle;
    return handle;
  }

  std::weak_ptr<void> subscription;
};

// A router whose workers have no thread yet.
class RequestRouterTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    server_.reset();
    const auto certificates = EnsureCertificates(
        {.folder = folder_ + "/pki", .listen_address = "127.0.0.1"}, base::SystemClock().Now());
    ASSERT_TRUE(certificates.ok()) << certificates.status();
    auto signer = TokenSigner::Load(certificates->token_key);
    ASSERT_TRUE(signer.ok()) << signer.status();
    store_of_router_ = std::make_unique<SubscribedStore>(*store_);
    parts_ = std::make_unique<Parts>(*store_of_router_, clock_, folder_, *std::move(signer));
  }
  void TearDown() override {
    parts_.reset();
    ApiTest::TearDown();
  }

  struct Parts {
    Parts(store::Store& store, const base::Clock& clock, const std::string& folder,
          TokenSigner token_signer)
        : signer(std::move(token_signer)),
          static_tokens(folder + "/tokens.json"),
          revocations({.list = "", .authority_folder = folder + "/pki"}),
          authenticator(store, clock, signer, static_tokens, revocations),
          authorizer(store),
          context{store, clock, workers, in_flight, kinds, folder + "/nodes"},
          router(context, authenticator, authorizer, signer) {}
    ~Parts() {
      router.watches().EndAll();
      workers.Stop();
    }

    TokenSigner signer;
    StaticTokens static_tokens;
    Revocations revocations;
    Authenticator authenticator;
    Authorizer authorizer;
    InFlight in_flight;
    KindRegistry kinds;
    RequestWorkers workers{4};
    ApiContext context;
    RequestRouter router;
  };

  http::Request From(std::string_view target) const {
    const auto root = front_.FindProcessUser(0);
    return {.method = "GET",
            .target = std::string(target),
            .headers = {{"Host", "localhost"}},
            .body = {},
            .user = root,
            .known = root};
  }

  const HttpFront front_{nullptr, nullptr};
  std::unique_ptr<SubscribedStore> store_of_router_;
  std::unique_ptr<Parts> parts_;
};

TEST_F(RequestRouterTest, ARequestWithoutAThreadIsAnsweredWith503) {
  const base::NoRoomForThreads full;
  http::LocalCall call(front_, From(kConfigMaps), [&](std::shared_ptr<http::Exchange> exchange) {
    parts_->router.Handle(std::move(exchange));
  });
  std::string body;
  ASSERT_TRUE(call.ReadMore(std::chrono::steady_clock::now() + kSoon, body).ok());
  EXPECT_EQ(call.code(), 503);
  EXPECT_EQ(call.Header("Retry-After"), "1");
}

TEST_F(RequestRouterTest, AHeadThatNoThreadCanJudgeIsRefused) {
  const base::NoRoomForThreads full;
  int refused = 0;
  parts_->router.IdentifySender(From(kConfigMaps), [&](const http::Identity& identity) {
    if (identity.answer.has_value() && identity.answer->code == 503) ++refused;
  });
  EXPECT_EQ(refused, 1);
}

TEST_F(RequestRouterTest, ATickDropsTheSubscriptionThatNoThreadCouldDrop) {
  {
    auto call = std::make_unique<http::LocalCall>(
        front_,
        From(fmt::format("{}?watch=true&resourceVersion={}", kConfigMaps, store_->current())),
        [&](const std::shared_ptr<http::Exchange>& exchange) { parts_->router.Serve(exchange); });
    ASSERT_FALSE(store_of_router_->subscription.expired());
    const base::NoRoomForThreads full;
    call.reset();
  }
  EXPECT_FALSE(store_of_router_->subscription.expired());
  parts_->router.watches().Tick();
  const auto deadline = std::chrono::steady_clock::now() + kSoon;
  while (!store_of_router_->subscription.expired()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the subscription is still held";
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace berth::apiserver
