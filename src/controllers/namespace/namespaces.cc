#include "controllers/namespace/namespaces.h"

#include "base/log.h"
#include "controllers/writes.h"

namespace berth::controllers::namespaces {

using base::Status;

namespace {

constexpr std::string_view kDefaultAccount = "default";
constexpr std::string_view kRootCa = "kube-root-ca.crt";

}  // namespace

Namespaces::Namespaces(Context context, Options options)
    : context_(context),
      options_(std::move(options)),
      namespaces_(context.informers.Of<api::Namespace>()),
      accounts_(context.informers.Of<api::ServiceAccount>()),
      pods_(context.informers.Of<api::Pod>()),
      claims_(context.informers.Of<api::PersistentVolumeClaim>()),
      workers_({.name = "namespaces",
                .workers = 2,
                .retry_start = std::chrono::milliseconds(200),
                .retry_max = std::chrono::seconds(60)},
               [this](const std::string& key) { return Sync(key); }) {
  if (!options_.root_ca.empty()) {
    root_cas_ = std::make_unique<kube::Informer<api::ConfigMap>>(
        context_.client,
        kube::InformerOptions{.field_selector = fmt::format("metadata.name={}", kRootCa)});
  }
  AddHandlers();
}

Namespaces::~Namespaces() { Stop(); }

void Namespaces::AddHandlers() {
  namespaces_.AddHandler([this](const auto& change) {
    if (change.after != nullptr) workers_.Add(change.key);
  });
  accounts_.AddHandler([this](const auto& change) {
    if (change.latest().name() == kDefaultAccount && change.after == nullptr) {
      workers_.Add(change.latest().ns());
    }
  });
  const auto ended = [this](const auto& change) {
    if (change.after == nullptr) AddIfTerminating(change.before->ns());
  };
  pods_.AddHandler(ended);
  claims_.AddHandler(ended);
  if (root_cas_ != nullptr) {
    root_cas_->AddHandler([this](const auto& change) {
      if (change.before != nullptr) workers_.Add(change.latest().ns());
    });
  }
}

void Namespaces::AddIfTerminating(const std::string& name) {
  const auto ns = namespaces_.Get(name);
  if (ns != nullptr && ns->deleting()) workers_.Add(name);
}

void Namespaces::Start() {
  if (root_cas_ != nullptr) root_cas_->Start();
  workers_.Start();
}

void Namespaces::Stop() {
  if (root_cas_ != nullptr) root_cas_->Stop();
  workers_.Stop();
}

Namespaces::Outcome Namespaces::Sync(const std::string& name) {
  const auto ns = namespaces_.Get(name);
  if (ns == nullptr) return Outcome::Done();
  if (ns->deleting()) return Terminate(*ns);
  const Status account = EnsureServiceAccount(name);
  if (!account.ok() || root_cas_ == nullptr) return AfterApi(account);
  // The ConfigMaps that are there must be known before new ones are made.
  if (!root_cas_->synced()) return Outcome::After(kube::kSyncCheckInterval);
  return AfterApi(EnsureRootCa(name));
}

Status Namespaces::EnsureServiceAccount(const std::string& ns) {
  if (accounts_.Get(ns, kDefaultAccount) != nullptr) return base::OkStatus();
  api::ServiceAccount account({{"apiVersion", "v1"}, {"kind", "ServiceAccount"}});
  account.set_name(kDefaultAccount);
  account.set_ns(ns);
  const auto created = kube::Create(context_.client, account);
  if (created.ok()) accounts_.Observe(created->json());
  // The account exists, but the informer has not seen it yet.
  if (created.status().code() == base::StatusCode::kAlreadyExists) return base::OkStatus();
  return created.status();
}

Status Namespaces::EnsureRootCa(const std::string& ns) {
  const base::Json data = {{"ca.crt", options_.root_ca}};
  const auto present = root_cas_->Get(ns, kRootCa);
  if (present != nullptr) {
    if (base::json::Map(present->json(), {"data"}) == data) return base::OkStatus();
    api::ConfigMap wanted(*present);
    wanted.Set({"data"}, data);
    const auto written = kube::Update(context_.client, wanted);
    if (written.ok()) root_cas_->Observe(written->json());
    return written.status();
  }
  api::ConfigMap map({{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"data", data}});
  map.set_name(kRootCa);
  map.set_ns(ns);
  map.set_annotation("kubernetes.io/description",
                     "Contains the CA bundle by which pods verify the API server of this cluster");
  const auto created = kube::Create(context_.client, map);
  if (created.ok()) root_cas_->Observe(created->json());
  // ALREADY_EXISTS: the informer has not seen the map yet. The map's data is checked when the
  // informer has seen it.
  return created.status();
}

}  // namespace berth::controllers::namespaces
