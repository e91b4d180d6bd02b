#include "apiserver/server.h"

#include "apiserver/access/certificates.h"
#include "apiserver/access/tls.h"
#include "apiserver/api_services.h"
#include "apiserver/bootstrap.h"
#include "apiserver/custom/definition_controller.h"
#include "apiserver/http_front.h"
#include "apiserver/local_transport.h"
#include "apiserver/request_router.h"
#include "base/log.h"
#include "http/server.h"
#include "platform/files/durable_file.h"

namespace berth::apiserver {

using base::Status;

namespace {

constexpr size_t kWorkers = 4;
// How many requests of local clients run at the same time, not counting those that wait for a write
// of others or for the rest of an answer.
constexpr size_t kLocalRuns = 4;
// How long a server that ends waits for the answers of running requests.
constexpr std::chrono::milliseconds kGrace{1500};
// How long after a failure the kubeconfigs are written again.
constexpr std::chrono::seconds kRetryPause{10};

CertificateOptions CertificateOptionsOf(const ServerOptions& options) {
  return {.folder = options.certificate_folder,
          .listen_address = options.listen_address,
          .node_name = options.node_name,
          .revocation_file = options.revocation_file};
}

class ServerImpl : public Server {
 public:
  ServerImpl(store::Store& store, const base::Clock& clock, const ServerOptions& options,
             TokenSigner signer)
      : options_(options),
        signer_(std::move(signer)),
        static_tokens_(options.token_file),
        revocations_(
            {.list = options.revocation_file, .authority_folder = options.certificate_folder}),
        authenticator_(store, clock, signer_, static_tokens_, revocations_),
        authorizer_(store),
        workers_(kWorkers),
        context_{store, clock, workers_, in_flight_, kinds_, options.node_sockets},
        router_(context_, authenticator_, authorizer_, signer_),
        definitions_(context_, [this] { ServeChangedKinds(); }) {}

  // Stops the parts in an order in which no part calls another part that has already stopped.
  ~ServerImpl() override {
    definitions_.Stop();
    router_.watches().EndAll();
    if (http_) http_->Drain(kGrace);
    workers_.Stop();
    in_flight_.WaitForAll();
    if (http_) http_->Stop();
  }

  // Serves the existing custom resources before the server accepts its first request.
  Status ServeDefinitions() {
    RETURN_IF_ERROR(definitions_.Start());
    return UpdateApiServices();
  }

  Status Listen(const Certificates& certificates) {
    ASSIGN_OR_RETURN(http::SslContextPtr context, MakeServerContext(certificates));
    const auto prepare = [&](uint16_t port) {
      port_ = port;
      router_.documents().SetAddress(address());
      return WriteFirstConfigs(certificates);
    };
    ASSIGN_OR_RETURN(http_, http::Server::Listen({.name = "api",
                                                  .unix_socket = options_.unix_socket,
                                                  .listen_address = options_.listen_address,
                                                  .port = options_.port,
                                                  .before_serving = prepare,
                                                  .on_tick = [this] { Tick(); }},
                                                 std::move(context), front_));
    return base::OkStatus();
  }

  uint16_t port() const override { return port_; }

  std::unique_ptr<kube::Client> NewLocalClient(const LocalClientOptions& options) override {
    return kube::NewClientOver(
        std::make_unique<LocalTransport>(router_, front_, local_runs_, options));
  }

 private:
  // Writes the kubeconfigs before the first answer, because who has got one looks for them.
  Status WriteFirstConfigs(const Certificates& certificates) {
    const Status written = WriteConfigs(certificates);
    if (written.code() != base::StatusCode::kResourceExhausted) return written;
    // Without it clients on this machine still have the UNIX socket, to delete what fills the disk.
    LOG_ERROR("api: {}; it is written when there is room", base::ToString(written));
    renewed_ = true;
    return base::OkStatus();
  }

  Status WriteConfigs(const Certificates& certificates) {
    const std::string url = fmt::format("https://{}", address());
    const auto write = [&](const std::string& path, const KubeconfigUser& user) {
      return path.empty() ? base::OkStatus()
                          : WriteKubeconfig(path, url, certificates.ca_certificate, user);
    };
    RETURN_IF_ERROR(write(options_.kubeconfig, {.name = "berth-admin",
                                                .certificate = certificates.admin_certificate,
                                                .key = certificates.admin_key}));
    return write(options_.node_kubeconfig, {.name = "system:node:" + options_.node_name,
                                            .certificate = certificates.node_certificate,
                                            .key = certificates.node_key});
  }

  // "127.0.0.1:6443"
  std::string address() const {
    const bool v6 = options_.listen_address.find(':') != std::string::npos;
    return fmt::format("{}:{}",
                       v6 ? fmt::format("[{}]", options_.listen_address) : options_.listen_address,
                       port_);
  }

  void Tick() {
    router_.watches().Tick();
    const auto now = std::chrono::steady_clock::now();
    // One worker at most does this, because it may wait for a slow disk.
    if (renewing_.exchange(true)) return;
    const bool due = now >= (renewed_ ? std::min(next_retry_, next_check_) : next_check_);
    if (due) {
      next_check_ = now + options_.check_certificates;
      next_retry_ = now + kRetryPause;
    }
    const bool posted = workers_.Post([this, due] {
      const bool revoked = revocations_.TakeChange();
      // Both are asked, because each keeps its change until it is taken.
      if (static_tokens_.TakeChange() || revoked) http_->JudgeStreams();
      if (revoked || due) RenewCertificates();
      renewing_ = false;
    });
    if (!posted) renewing_ = false;
  }

  // Renews certificates while the server runs, because it may run longer than they are valid, and
  // because they may be revoked.
  void RenewCertificates() {
    const auto certificates =
        EnsureCertificates(CertificateOptionsOf(options_), context_.clock.Now());
    if (!certificates.ok()) {
      renewed_ = true;  // what led here is not lost: it is tried again after kRetryPause
      LOG_ERROR("api: cannot renew the certificates: {}", base::ToString(certificates.status()));
      return;
    }
    if (certificates->renewed) renewed_ = true;
    if (!renewed_) return;
    auto context = MakeServerContext(*certificates);
    const Status written = context.ok() ? WriteConfigs(*certificates) : context.status();
    if (!written.ok()) {
      LOG_ERROR("api: cannot use the renewed certificates: {}", base::ToString(written));
      return;
    }
    http_->UseContext(*std::move(context));
    renewed_ = false;
    LOG_INFO("api: the certificates in {} are renewed", base::Quote(options_.certificate_folder));
  }

  void ServeChangedKinds() {
    router_.watches().EndUnserved(*kinds_.Current());
    if (const Status status = UpdateApiServices(); !status.ok()) {
      LOG_ERROR("api: cannot update the APIServices: {}", base::ToString(status));
    }
  }

  // Takes a mutex, because the definition controller's thread may call this while the server
  // starts.
  Status UpdateApiServices() ABSL_LOCKS_EXCLUDED(groups_mutex_) {
    base::MutexLock lock(groups_mutex_);
    return SyncApiServices(context_.store, context_.clock, kinds_.Current()->infos());
  }

  const ServerOptions options_;
  uint16_t port_ = 0;  // set before the first request is served
  const TokenSigner signer_;
  StaticTokens static_tokens_;
  Revocations revocations_;
  Authenticator authenticator_;
  Authorizer authorizer_;
  InFlight in_flight_;
  KindRegistry kinds_;
  RequestWorkers workers_;
  ApiContext context_;
  RequestRouter router_;
  base::Semaphore local_runs_{kLocalRuns};
  HttpFront front_{
      [this](std::shared_ptr<http::Exchange> exchange) { router_.Handle(std::move(exchange)); },
      [this](http::Request head, std::function<void(http::Identity)> done) {
        router_.IdentifySender(std::move(head), std::move(done));
      }};
  base::Mutex groups_mutex_;
  std::atomic<bool> renewing_{false};
  DefinitionController definitions_;
  std::chrono::steady_clock::time_point next_check_ =
      std::chrono::steady_clock::now() + options_.check_certificates;  // for the event loop only
  std::chrono::steady_clock::time_point next_retry_ =
      std::chrono::steady_clock::now() + kRetryPause;  // for the event loop only
  // Whether new certificates or kubeconfigs are made but not written and in use yet.
  std::atomic<bool> renewed_{false};
  std::unique_ptr<http::Server> http_;
};

}  // namespace

base::StatusOr<std::unique_ptr<Server>> Server::Start(store::Store& store, const base::Clock& clock,
                                                      const ServerOptions& options) {
  ASSIGN_OR_RETURN(const Certificates certificates,
                   EnsureCertificates(CertificateOptionsOf(options), clock.Now()));
  ASSIGN_OR_RETURN(TokenSigner signer, TokenSigner::Load(certificates.token_key));
  RETURN_IF_ERROR(CreateBuiltInObjects(store, clock));
  auto server = std::make_unique<ServerImpl>(store, clock, options, std::move(signer));
  RETURN_IF_ERROR(server->ServeDefinitions());
  RETURN_IF_ERROR(server->Listen(certificates));
  return server;
}

}  // namespace berth::apiserver
