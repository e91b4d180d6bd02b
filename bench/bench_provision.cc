// Measures many claims at once, from their creation to Bound, and their deletion until no volume is
// left. It runs the embedded API, the controllers with their defaults, and a fake driver that
// answers after some milliseconds.

#include <CLI/CLI.hpp>
#include <csignal>

#include "api/kinds/kinds.h"
#include "apiserver/server.h"
#include "base/clock.h"
#include "bench/measure.h"
#include "bench/parallel.h"
#include "controllers/binder/binder.h"
#include "controllers/protection/protection.h"
#include "controllers/provisioner/provisioner.h"
#include "kube/config.h"
#include "kube/event_recorder.h"
#include "kube/http/http_client.h"
#include "rpc/fake_csi_driver.h"
#include "store/store.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;

struct Options {
  std::string folder;
  int claims = 1000;
  int clients = 8;
  int answer_ms = 5;
};

constexpr auto kTimeout = std::chrono::minutes(2);

// Counts the objects of a kind for which `wanted` is true.
template <typename T>
class Counter {
 public:
  Counter(kube::Informer<T>& informer, std::function<bool(const T&)> wanted) {
    informer.AddHandler([this, wanted = std::move(wanted)](const auto& change) {
      const bool was = change.before != nullptr && wanted(*change.before);
      const bool is = change.after != nullptr && wanted(*change.after);
      base::MutexLock lock(mutex_);
      count_ += static_cast<int>(is) - static_cast<int>(was);
      changed_.NotifyAll();
    });
  }
  Status WaitFor(int count) {
    const auto deadline = Clock::now() + kTimeout;
    base::MutexLock lock(mutex_);
    while (count_ != count) {
      if (!changed_.WaitUntil(mutex_, deadline) && Clock::now() > deadline) {
        return base::Error(StatusCode::kDeadlineExceeded, "{} objects in place of {}", count_,
                           count);
      }
    }
    return base::OkStatus();
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

Json MakeClaim(int i) {
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolumeClaim"},
          {"metadata", {{"name", fmt::format("data-{}", i)}}},
          {"spec",
           {{"accessModes", {"ReadWriteOnce"}},
            {"storageClassName", "bench"},
            {"resources", {{"requests", {{"storage", "16Mi"}}}}}}}};
}

StatusOr<Json> RunBench(const Options& options) {
  const base::SystemClock clock;
  ASSIGN_OR_RETURN(const auto store, store::Store::Open({.path = options.folder + "/objects.db"}));
  kube::Config config;
  config.socket = options.folder + "/api.sock";
  ASSIGN_OR_RETURN(const auto server,
                   apiserver::Server::Start(*store, clock,
                                            {.unix_socket = config.socket,
                                             .port = 0,
                                             .certificate_folder = options.folder + "/pki",
                                             .kubeconfig = options.folder + "/kubeconfig"}));
  ASSIGN_OR_RETURN(const auto client, kube::NewHttpClient(config));
  ASSIGN_OR_RETURN(
      const auto driver,
      rpc::FakeCsiDriver::Start(
          {.plugin_capabilities = {csi::v1::PluginCapability::Service::CONTROLLER_SERVICE}}));
  for (const char* call : {"CreateVolume", "DeleteVolume"}) {
    driver->script().Delay(call, std::chrono::milliseconds(options.answer_ms));
  }
  RETURN_IF_ERROR(client->Create(api::kinds::kStorageClass, "",
                                 {{"apiVersion", "storage.k8s.io/v1"},
                                  {"kind", "StorageClass"},
                                  {"metadata", {{"name", "bench"}}},
                                  {"provisioner", driver->name()},
                                  {"volumeBindingMode", "Immediate"}}));

  ASSIGN_OR_RETURN(const auto connection, controllers::DriverConnection::New(driver->socket()));
  kube::EventRecorder events(*client, clock, "bench", "host");
  kube::Informers informers(*client);
  const controllers::Context context{*client, informers, events, clock};
  controllers::binder::Binder binder(context);
  controllers::protection::Protection protection(context);
  controllers::provisioner::Provisioner provisioner(context, *connection);
  Counter<Claim> bound(informers.Of<Claim>(),
                       [](const Claim& claim) { return claim.phase() == "Bound"; });
  Counter<Volume> volumes(informers.Of<Volume>(), [](const Volume&) { return true; });
  const std::vector<controllers::Controller*> all = {&binder, &protection, &provisioner};
  informers.Start();
  RETURN_IF_ERROR(informers.WaitForSync(std::chrono::seconds(10)));
  connection->Start();
  for (controllers::Controller* controller : all) controller->Start();

  const auto measure = [&]() -> StatusOr<Json> {
    const auto start = Clock::now();
    RETURN_IF_ERROR(RunInParallel(options.claims, options.clients, [&](int i) {
      return client->Create(Claim::kInfo, "default", MakeClaim(i)).status();
    }));
    RETURN_IF_ERROR_WITH(bound.WaitFor(options.claims), "wait for the claims to be bound");
    const auto all_bound = Clock::now();
    RETURN_IF_ERROR(RunInParallel(options.claims, options.clients, [&](int i) {
      return client->Delete(Claim::kInfo, "default", fmt::format("data-{}", i), {});
    }));
    RETURN_IF_ERROR_WITH(volumes.WaitFor(0), "wait for the volumes to be gone");
    const auto all_gone = Clock::now();
    const auto per_second = [&](Clock::duration took) {
      return options.claims / std::chrono::duration<double>(took).count();
    };
    return Json{{"claims", options.claims},
                {"bound_per_second", per_second(all_bound - start)},
                {"deleted_per_second", per_second(all_gone - all_bound)},
                {"create_calls", driver->script().Count("CreateVolume")},
                {"left_in_driver", driver->state().VolumeIds().size()}};
  };
  const StatusOr<Json> result = measure();
  informers.Stop();
  connection->Stop();
  for (controllers::Controller* controller : all) controller->Stop();
  return result;
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  berth::bench::Options options;
  CLI::App app("Claims to Bound, and their deletion, by the thousand");
  app.add_option("--folder", options.folder, "an empty one")->required();
  app.add_option("--claims", options.claims);
  app.add_option("--clients", options.clients);
  app.add_option("--answer-ms", options.answer_ms);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunBench(options));
}
