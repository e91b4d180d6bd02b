// Measures the time from a claim's creation to its phase Bound, and the time of the driver's own
// CreateVolume, in turns.

#include <CLI/CLI.hpp>
#include <csignal>
#include <latch>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "bench/measure.h"
#include "kube/config.h"
#include "kube/http/http_client.h"
#include "rpc/csi_client.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

struct Options {
  std::string kubeconfig;
  std::string driver_socket;
  std::string folder;  // on the file system of the API's database
  std::string storage_class = "bench-immediate";
  int runs = 40;
  int warm_up = 5;
};

constexpr auto kTimeout = std::chrono::seconds(30);

Status MakeClass(kube::Client& client, const Options& options, const std::string& provisioner) {
  const Status made = client
                          .Create(api::kinds::kStorageClass, "",
                                  {{"apiVersion", "storage.k8s.io/v1"},
                                   {"kind", "StorageClass"},
                                   {"metadata", {{"name", options.storage_class}}},
                                   {"provisioner", provisioner},
                                   {"volumeBindingMode", "Immediate"}})
                          .status();
  return made.code() == StatusCode::kAlreadyExists ? base::OkStatus() : made;
}

// Sees claims become Bound on one watch, which starts before the claims are created.
class BoundWatch {
 public:
  explicit BoundWatch(kube::Client& client) {
    thread_ = std::jthread([this, &client](const std::stop_token& stop) {
      const auto& kind = api::kinds::kPersistentVolumeClaim;
      const auto list = client.List(kind, "default", {});
      if (!list.ok()) return;
      watching_.count_down();
      (void)client.Watch(kind, "default", {.resource_version = list->resource_version}, stop,
                         [this](kube::WatchEvent event) {
                           const api::PersistentVolumeClaim claim(std::move(event.object));
                           if (claim.phase() == "Bound") RecordBound(claim.name());
                           return true;
                         });
    });
    watching_.wait();
  }

  // Waits until the claim is bound, and returns when the watch showed that.
  StatusOr<Clock::time_point> WaitFor(const std::string& name) {
    const auto deadline = Clock::now() + kTimeout;
    base::MutexLock lock(mutex_);
    while (!bound_.contains(name)) {
      if (!changed_.WaitUntil(mutex_, deadline) && Clock::now() > deadline) {
        return base::Error(StatusCode::kDeadlineExceeded, "claim '{}' was not bound", name);
      }
    }
    return bound_[name];
  }

 private:
  void RecordBound(const std::string& name) {
    const auto now = Clock::now();
    base::MutexLock lock(mutex_);
    bound_.try_emplace(name, now);
    changed_.NotifyAll();
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::map<std::string, Clock::time_point> bound_ ABSL_GUARDED_BY(mutex_);
  std::latch watching_{1};
  std::jthread thread_;
};

// Creates a claim and returns the time until the watch shows it bound.
StatusOr<Clock::duration> MeasureClaimToBound(kube::Client& client, BoundWatch& watch,
                                              const Options& options, const std::string& name) {
  const auto& kind = api::kinds::kPersistentVolumeClaim;
  const Json claim = {{"apiVersion", "v1"},
                      {"kind", "PersistentVolumeClaim"},
                      {"metadata", {{"name", name}}},
                      {"spec",
                       {{"accessModes", {"ReadWriteOnce"}},
                        {"storageClassName", options.storage_class},
                        {"resources", {{"requests", {{"storage", "16Mi"}}}}}}}};
  const auto start = Clock::now();
  RETURN_IF_ERROR(client.Create(kind, "default", claim));
  ASSIGN_OR_RETURN(const auto bound, watch.WaitFor(name));
  return bound - start;
}

// Deletes the claim and waits until its volume is gone, so that the next measurement has the
// machine to itself.
Status DeleteClaim(kube::Client& client, const std::string& name) {
  RETURN_IF_ERROR(client.Delete(api::kinds::kPersistentVolumeClaim, "default", name, {}));
  const auto deadline = Clock::now() + kTimeout;
  while (Clock::now() < deadline) {
    ASSIGN_OR_RETURN(const auto volumes, client.List(api::kinds::kPersistentVolume, "", {}));
    if (volumes.items.empty()) return base::OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return base::Error(StatusCode::kDeadlineExceeded, "the volume of claim '{}' is not gone", name);
}

// Returns the time of the driver's CreateVolume, and deletes the volume.
StatusOr<Clock::duration> MeasureDriverCreate(rpc::CsiClient& driver, const Options& options,
                                              const std::string& name) {
  csi::v1::CreateVolumeRequest request;
  request.set_name(name);
  request.mutable_capacity_range()->set_required_bytes(16 << 20);
  auto* capability = request.add_volume_capabilities();
  capability->mutable_mount();
  capability->mutable_access_mode()->set_mode(
      csi::v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  const auto start = Clock::now();
  ASSIGN_OR_RETURN(const auto created, driver.CreateVolume(request, kTimeout));
  const auto took = Clock::now() - start;
  csi::v1::DeleteVolumeRequest remove;
  remove.set_volume_id(created.volume().volume_id());
  RETURN_IF_ERROR(driver.DeleteVolume(remove, kTimeout));
  return took;
}

StatusOr<Json> RunBench(const Options& options) {
  ASSIGN_OR_RETURN(const kube::Config config, kube::LoadKubeconfig(options.kubeconfig));
  ASSIGN_OR_RETURN(const auto client, kube::NewHttpClient(config));
  ASSIGN_OR_RETURN(const auto driver, rpc::CsiClient::New(options.driver_socket));
  ASSIGN_OR_RETURN(const auto info, driver->GetPluginInfo({}, kTimeout));
  RETURN_IF_ERROR(MakeClass(*client, options, info.name()));
  BoundWatch watch(*client);
  Samples claims, direct;
  for (int i = 0; i < options.warm_up + options.runs; ++i) {
    const std::string name = fmt::format("bench-claim-{}", i);
    ASSIGN_OR_RETURN(const auto through_berth, MeasureClaimToBound(*client, watch, options, name));
    RETURN_IF_ERROR(DeleteClaim(*client, name));
    ASSIGN_OR_RETURN(const auto by_hand, MeasureDriverCreate(*driver, options, name + "-by-hand"));
    if (i < options.warm_up) continue;
    claims.Add(through_berth);
    direct.Add(by_hand);
  }
  ASSIGN_OR_RETURN(const double durable, MeasureDurableLogRecordMs(options.folder));
  return Json{{"claim_to_bound", claims.ToJson()},
              {"driver_create_volume", direct.ToJson()},
              {"durable_record_ms", durable}};
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  berth::bench::Options options;
  CLI::App app("Claim to Bound");
  app.add_option("--kubeconfig", options.kubeconfig)->required();
  app.add_option("--driver-socket", options.driver_socket)->required();
  app.add_option("--folder", options.folder)->required();
  app.add_option("--runs", options.runs);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunBench(options));
}
