#include "apiserver/server.h"

#include "apiserver/api_service.h"
#include "apiserver/api_services.h"
#include "apiserver/bootstrap.h"
#include "apiserver/certificates.h"
#include "apiserver/custom/definition_controller.h"
#include "apiserver/tls.h"
#include "base/log.h"
#include "platform/durable_file.h"

namespace berth::apiserver {

using base::Status;

namespace {

constexpr int kWorkers = 4;
constexpr std::chrono::milliseconds kGrace{1500};
constexpr auto kCheckCertificates = std::chrono::hours(12);

class ServerImpl : public Server {
 public:
  ServerImpl(store::Store& store, const base::Clock& clock, const ServerOptions& options,
             TokenIssuer tokens)
      : options_(options),
        tokens_(std::move(tokens)),
        workers_({.name = "api-worker", .max_threads = kWorkers}),
        context_{store, clock, workers_, in_flight_, kinds_, options.node_sockets},
        service_(context_, tokens_),
        definitions_(context_, [this] { ServeChangedKinds(); }) {}

  // Ends what runs in the order in which nothing calls what is already gone.
  ~ServerImpl() override {
    definitions_.Stop();
    service_.watches().EndAll();
    if (http_) http_->Drain(kGrace);
    workers_.Stop();
    in_flight_.Wait();
    if (http_) http_->Stop();
  }

  // Whoever is let in finds the custom resources that there are.
  Status ServeDefinitions() {
    RETURN_IF_ERROR(definitions_.Start());
    return ListGroups();
  }

  Status Listen(const Certificates& certificates) {
    ASSIGN_OR_RETURN(SslContextPtr context, MakeServerContext(certificates));
    ASSIGN_OR_RETURN(
        http_, HttpServer::Listen({.unix_socket = options_.unix_socket,
                                   .listen_address = options_.listen_address,
                                   .port = options_.port,
                                   .on_tick = [this] { Tick(); }},
                                  std::move(context), [this](std::shared_ptr<Exchange> exchange) {
                                    service_.Handle(std::move(exchange));
                                  }));
    service_.documents().UseAddress(address());
    return WriteConfig(certificates);
  }

  uint16_t port() const override { return http_->port(); }

 private:
  Status WriteConfig(const Certificates& certificates) {
    if (options_.kubeconfig.empty()) return base::OkStatus();
    return WriteKubeconfig(options_.kubeconfig, fmt::format("https://{}", address()), certificates);
  }

  // "127.0.0.1:6443"
  std::string address() const {
    const bool v6 = options_.listen_address.find(':') != std::string::npos;
    return fmt::format("{}:{}",
                       v6 ? fmt::format("[{}]", options_.listen_address) : options_.listen_address,
                       http_->port());
  }

  void Tick() {
    service_.watches().Tick();
    const auto now = std::chrono::steady_clock::now();
    if (now < next_check_) return;
    next_check_ = now + kCheckCertificates;
    workers_.Post([this] { RenewCertificates(); });
  }

  // A server that runs for longer than its certificate is good for.
  void RenewCertificates() {
    const auto certificates = EnsureCertificates(options_.certificate_folder,
                                                 options_.listen_address, context_.clock.Now());
    if (!certificates.ok()) {
      LOG_ERROR("api: certificates cannot be renewed: {}", base::ToString(certificates.status()));
      return;
    }
    if (!certificates->renewed) return;
    auto context = MakeServerContext(*certificates);
    const Status written = context.ok() ? WriteConfig(*certificates) : context.status();
    if (!written.ok()) {
      LOG_ERROR("api: renewed certificates cannot be used: {}", base::ToString(written));
      return;
    }
    http_->UseContext(*std::move(context));
    LOG_INFO("api: renewed the certificates in {}", base::Quote(options_.certificate_folder));
  }

  void ServeChangedKinds() {
    service_.watches().EndUnserved(*kinds_.Current());
    if (const Status status = ListGroups(); !status.ok()) {
      LOG_ERROR("api: the APIServices cannot be brought up to date: {}", base::ToString(status));
    }
  }

  // The definitions' thread may be at it while the server starts.
  Status ListGroups() ABSL_LOCKS_EXCLUDED(groups_mutex_) {
    base::MutexLock lock(groups_mutex_);
    return SyncApiServices(context_.store, context_.clock, kinds_.Current()->infos());
  }

  const ServerOptions options_;
  const TokenIssuer tokens_;
  InFlight in_flight_;
  KindRegistry kinds_;
  base::WorkerPool workers_;
  ApiContext context_;
  ApiService service_;
  base::Mutex groups_mutex_;
  DefinitionController definitions_;
  std::chrono::steady_clock::time_point next_check_ =
      std::chrono::steady_clock::now() + kCheckCertificates;  // of the event loop
  std::unique_ptr<HttpServer> http_;
};

}  // namespace

base::StatusOr<std::unique_ptr<Server>> Server::Start(store::Store& store, const base::Clock& clock,
                                                      const ServerOptions& options) {
  ASSIGN_OR_RETURN(
      const Certificates certificates,
      EnsureCertificates(options.certificate_folder, options.listen_address, clock.Now()));
  ASSIGN_OR_RETURN(TokenIssuer tokens, TokenIssuer::Load(certificates.token_key));
  RETURN_IF_ERROR(CreateBuiltInObjects(store, clock));
  auto server = std::make_unique<ServerImpl>(store, clock, options, std::move(tokens));
  RETURN_IF_ERROR(server->ServeDefinitions());
  RETURN_IF_ERROR(server->Listen(certificates));
  return server;
}

}  // namespace berth::apiserver
