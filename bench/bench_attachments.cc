// Measures attachments through the attacher of a running Berth: the time from the first
// VolumeAttachment's creation until the last one is attached, and from the first deletion until the
// last one is gone. The driver is a fake at the socket that Berth was given, and answers after a
// delay.

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <functional>
#include <latch>
#include <set>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "bench/measure.h"
#include "bench/parallel.h"
#include "kube/config.h"
#include "kube/http/http_client.h"
#include "rpc/fake_csi_driver.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusOr;

struct Options {
  std::string kubeconfig;
  std::string driver_socket;
  int count = 500;
  int delay_ms = 5;
};

constexpr auto kTimeout = std::chrono::seconds(120);
constexpr char kDriver[] = "bench.csi.example.com";
constexpr char kNode[] = "bench-node";
// There are many clients, so that the creation of the attachments does not limit the figure.
constexpr int kClients = 16;

std::string AttachmentName(int i) { return fmt::format("bench-attachment-{}", i); }
std::string VolumeName(int i) { return fmt::format("bench-attached-{}", i); }

// Counts on one watch how many attachments are attached, and how many are gone.
class AttachmentWatch {
 public:
  explicit AttachmentWatch(kube::Client& client) {
    thread_ = std::jthread([this, &client](const std::stop_token& stop) {
      const auto& kind = api::kinds::kVolumeAttachment;
      const auto list = client.List(kind, "", {});
      watching_.count_down();
      if (!list.ok()) return;
      (void)client.Watch(kind, "", {.resource_version = list->resource_version}, stop,
                         [this](kube::WatchEvent event) {
                           CountAttachment(event);
                           return true;
                         });
    });
    watching_.wait();
  }

  // Waits until so many attachments are attached and gone. DEADLINE_EXCEEDED after two minutes.
  Status WaitFor(size_t attached, size_t gone) {
    const auto deadline = Clock::now() + kTimeout;
    base::MutexLock lock(mutex_);
    while (attached_.size() < attached || gone_ < gone) {
      if (!changed_.WaitUntil(mutex_, deadline) && Clock::now() > deadline) {
        return base::Error(base::StatusCode::kDeadlineExceeded, "{} were attached, {} are gone",
                           attached_.size(), gone_);
      }
    }
    return base::OkStatus();
  }

 private:
  void CountAttachment(const kube::WatchEvent& event) {
    const api::VolumeAttachment attachment(event.object);
    base::MutexLock lock(mutex_);
    if (event.type == kube::WatchEvent::Type::kDeleted) ++gone_;
    if (attachment.attached()) attached_.insert(attachment.name());
    changed_.NotifyAll();
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::set<std::string> attached_ ABSL_GUARDED_BY(mutex_);
  size_t gone_ ABSL_GUARDED_BY(mutex_) = 0;
  std::latch watching_{1};
  std::jthread thread_;
};

// Runs `act` for each number below `count`, from many clients at once. Returns the first failure.
Status ActFromClients(const kube::Config& config, int count,
                      const std::function<Status(kube::Client&, int)>& act) {
  std::atomic<int> next = 0;
  return RunInParallel(kClients, kClients, [&](int /*client*/) -> Status {
    ASSIGN_OR_RETURN(const auto client, kube::NewHttpClient(config));
    for (int i = next++; i < count; i = next++) RETURN_IF_ERROR(act(*client, i));
    return base::OkStatus();
  });
}

Status MakeNode(kube::Client& client) {
  const Status made =
      client
          .Create(api::kinds::kCsiNode, "",
                  {{"apiVersion", "storage.k8s.io/v1"},
                   {"kind", "CSINode"},
                   {"metadata", {{"name", kNode}}},
                   {"spec",
                    {{"drivers",
                      {{{"name", kDriver}, {"nodeID", kNode}, {"topologyKeys", Json::array()}}}}}}})
          .status();
  return made.code() == base::StatusCode::kAlreadyExists ? base::OkStatus() : made;
}

Status MakeVolume(kube::Client& client, rpc::FakeCsiDriver& driver, int i) {
  csi::v1::CreateVolumeRequest request;
  request.set_name(VolumeName(i));
  request.add_volume_capabilities()->mutable_mount();
  csi::v1::CreateVolumeResponse response;
  RETURN_IF_ERROR(driver.state().Handle(request, response));
  return client
      .Create(api::kinds::kPersistentVolume, "",
              {{"apiVersion", "v1"},
               {"kind", "PersistentVolume"},
               {"metadata", {{"name", VolumeName(i)}}},
               {"spec",
                {{"accessModes", {"ReadWriteOnce"}},
                 {"capacity", {{"storage", "1Gi"}}},
                 {"persistentVolumeReclaimPolicy", "Retain"},
                 {"csi", {{"driver", kDriver}, {"volumeHandle", response.volume().volume_id()}}}}}})
      .status();
}

Status MakeAttachment(kube::Client& client, int i) {
  return client
      .Create(api::kinds::kVolumeAttachment, "",
              {{"apiVersion", "storage.k8s.io/v1"},
               {"kind", "VolumeAttachment"},
               {"metadata", {{"name", AttachmentName(i)}}},
               {"spec",
                {{"attacher", kDriver},
                 {"nodeName", kNode},
                 {"source", {{"persistentVolumeName", VolumeName(i)}}}}}})
      .status();
}

StatusOr<Json> RunBench(const Options& options) {
  ASSIGN_OR_RETURN(const kube::Config config, kube::LoadKubeconfig(options.kubeconfig));
  ASSIGN_OR_RETURN(const auto client, kube::NewHttpClient(config));
  rpc::FakeCsiDriver::Options driver_options;
  driver_options.name = kDriver;
  ASSIGN_OR_RETURN(const auto driver,
                   rpc::FakeCsiDriver::Start(driver_options, options.driver_socket));
  for (const char* call : {"ControllerPublishVolume", "ControllerUnpublishVolume"}) {
    driver->script().Delay(call, std::chrono::milliseconds(options.delay_ms));
  }
  RETURN_IF_ERROR(MakeNode(*client));
  AttachmentWatch watch(*client);
  // The last volume is for the warm-up: once it is attached, the attacher has found the driver.
  const size_t count = static_cast<size_t>(options.count);
  RETURN_IF_ERROR(ActFromClients(config, options.count + 1, [&](kube::Client& one, int i) {
    return MakeVolume(one, *driver, i);
  }));
  RETURN_IF_ERROR(MakeAttachment(*client, options.count));
  RETURN_IF_ERROR(watch.WaitFor(1, 0));

  const auto begin = Clock::now();
  RETURN_IF_ERROR(ActFromClients(config, options.count, MakeAttachment));
  RETURN_IF_ERROR(watch.WaitFor(count + 1, 0));
  const std::chrono::duration<double> attaching = Clock::now() - begin;

  const auto end = Clock::now();
  RETURN_IF_ERROR(ActFromClients(config, options.count, [](kube::Client& one, int i) {
    return one.Delete(api::kinds::kVolumeAttachment, "", AttachmentName(i), {});
  }));
  RETURN_IF_ERROR(watch.WaitFor(0, count));
  const std::chrono::duration<double> detaching = Clock::now() - end;
  return Json{{"count", options.count},
              {"attached_per_second", options.count / attaching.count()},
              {"detached_per_second", options.count / detaching.count()}};
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  berth::bench::Options options;
  CLI::App app("Attachments a second");
  app.add_option("--kubeconfig", options.kubeconfig)->required();
  app.add_option("--driver-socket", options.driver_socket)->required();
  app.add_option("--count", options.count);
  app.add_option("--delay-ms", options.delay_ms);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunBench(options));
}
