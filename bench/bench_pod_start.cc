// Measures the time from the creation of a pod whose volume is provisioned to the start of its
// container, and the time of the same steps by hand: losetup, mount, RunPodSandbox,
// CreateContainer, StartContainer.

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>

#include "api/kinds/kinds.h"
#include "base/ids.h"
#include "bench/measure.h"
#include "kube/config.h"
#include "kube/http/http_client.h"
#include "platform/processes/exec.h"
#include "rpc/cri_client.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

struct Options {
  std::string kubeconfig;
  std::string runtime;
  std::string folder;  // scratch, on the same disk
  std::string image = "berth.local/busybox:1";
  int runs = 30;
  int warm_up = 3;
};

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr const char* kClaim = "bench-pod-claim";

// -- by hand

class ByHand {
 public:
  ByHand(rpc::CriClient& runtime, platform::Exec& exec, const Options& options)
      : runtime_(runtime),
        exec_(exec),
        options_(options),
        image_file_(options.folder + "/by-hand.img"),
        mount_point_(options.folder + "/by-hand") {}

  Status PrepareImage() {
    std::filesystem::create_directories(mount_point_);
    RETURN_IF_ERROR(RunCommand({"truncate", "-s", "64M", image_file_}));
    return RunCommand({"mkfs.ext4", "-q", image_file_});
  }

  StatusOr<Clock::duration> StartContainer() {
    const auto start = Clock::now();
    ASSIGN_OR_RETURN(
        std::string device,
        RunOk(exec_, {.argv = {"losetup", "--direct-io=on", "--find", "--show", image_file_}}));
    device.erase(device.find_last_not_of('\n') + 1);
    device_ = device;
    if (mount(device.c_str(), mount_point_.c_str(), "ext4", 0, nullptr) != 0) {
      return base::Error(StatusCode::kInternal, "mount '{}' failed", device);
    }
    rpc::cri::RunPodSandboxRequest sandbox;
    auto& config = *sandbox.mutable_config();
    const std::string uid = base::NewUuid();
    config.mutable_metadata()->set_name("by-hand");
    config.mutable_metadata()->set_uid(uid);
    config.mutable_metadata()->set_namespace_("bench");
    config.set_log_directory(options_.folder);
    config.mutable_linux()->mutable_security_context()->mutable_namespace_options()->set_pid(
        rpc::cri::NamespaceMode::CONTAINER);
    ASSIGN_OR_RETURN(const auto made, runtime_.RunPodSandbox(sandbox, kTimeout));
    sandbox_ = made.pod_sandbox_id();
    rpc::cri::ImageStatusRequest image;
    image.mutable_image()->set_image(options_.image);
    ASSIGN_OR_RETURN(const auto present, runtime_.ImageStatus(image, kTimeout));
    rpc::cri::CreateContainerRequest create;
    create.set_pod_sandbox_id(sandbox_);
    *create.mutable_sandbox_config() = config;
    create.mutable_config()->mutable_metadata()->set_name("main");
    create.mutable_config()->mutable_image()->set_image(present.image().id());
    for (const char* word : {"/bin/sleep", "3600"}) create.mutable_config()->add_command(word);
    create.mutable_config()->set_log_path("by-hand.log");
    auto* volume = create.mutable_config()->add_mounts();
    volume->set_container_path("/data");
    volume->set_host_path(mount_point_);
    create.mutable_config()->mutable_linux()->mutable_security_context();
    ASSIGN_OR_RETURN(const auto created, runtime_.CreateContainer(create, kTimeout));
    rpc::cri::StartContainerRequest run;
    run.set_container_id(created.container_id());
    RETURN_IF_ERROR(runtime_.StartContainer(run, kTimeout));
    return Clock::now() - start;
  }

  Status StopContainer() {
    rpc::cri::StopPodSandboxRequest stop;
    stop.set_pod_sandbox_id(sandbox_);
    RETURN_IF_ERROR(runtime_.StopPodSandbox(stop, kTimeout));
    rpc::cri::RemovePodSandboxRequest remove;
    remove.set_pod_sandbox_id(sandbox_);
    RETURN_IF_ERROR(runtime_.RemovePodSandbox(remove, kTimeout));
    RETURN_IF_ERROR(RunCommand({"umount", mount_point_}));
    return RunCommand({"losetup", "--detach", device_});
  }

 private:
  Status RunCommand(std::vector<std::string> argv) {
    return RunOk(exec_, {.argv = std::move(argv)}).status();
  }

  rpc::CriClient& runtime_;
  platform::Exec& exec_;
  const Options& options_;
  const std::string image_file_;
  const std::string mount_point_;
  std::string device_;
  std::string sandbox_;
};

// -- through Berth

Json MakePod(const Options& options, const std::string& name) {
  return {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata", {{"name", name}}},
      {"spec",
       {{"terminationGracePeriodSeconds", 0},
        {"containers",
         {{{"name", "main"},
           {"image", options.image},
           {"command", {"/bin/sleep", "3600"}},
           {"volumeMounts", {{{"name", "data"}, {"mountPath", "/data"}}}}}}},
        {"volumes", {{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", kClaim}}}}}}}}};
}

Status MakeClaim(kube::Client& client) {
  return client
      .Create(api::kinds::kPersistentVolumeClaim, "default",
              {{"apiVersion", "v1"},
               {"kind", "PersistentVolumeClaim"},
               {"metadata", {{"name", kClaim}}},
               {"spec",
                {{"accessModes", {"ReadWriteOnce"}},
                 {"storageClassName", "local"},
                 {"resources", {{"requests", {{"storage", "64Mi"}}}}}}}})
      .status();
}

// Waits until the pod's container has started, and returns the time of the start in nanoseconds
// since 1970. The time comes from the runtime, because the API's own times are whole seconds.
StatusOr<int64_t> WaitForStart(rpc::CriClient& runtime, const std::string& pod) {
  rpc::cri::ListContainersRequest list;
  (*list.mutable_filter()->mutable_label_selector())["io.kubernetes.pod.name"] = pod;
  const auto deadline = Clock::now() + kTimeout;
  while (Clock::now() < deadline) {
    ASSIGN_OR_RETURN(const auto containers, runtime.ListContainers(list, kTimeout));
    for (const auto& container : containers.containers()) {
      rpc::cri::ContainerStatusRequest request;
      request.set_container_id(container.id());
      ASSIGN_OR_RETURN(const auto status, runtime.ContainerStatus(request, kTimeout));
      if (status.status().started_at() > 0) return status.status().started_at();
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20));  // the measured time is the runtime's own
  }
  return base::Error(StatusCode::kDeadlineExceeded, "the container of pod '{}' did not start", pod);
}

StatusOr<Clock::duration> MeasureThroughBerth(kube::Client& client, rpc::CriClient& runtime,
                                              const Options& options, const std::string& name) {
  const Json pod = MakePod(options, name);
  const auto start = std::chrono::system_clock::now();
  RETURN_IF_ERROR(client.Create(api::kinds::kPod, "default", pod));
  ASSIGN_OR_RETURN(const int64_t started_ns, WaitForStart(runtime, name));
  const auto started = std::chrono::system_clock::time_point(std::chrono::nanoseconds(started_ns));
  return std::chrono::duration_cast<Clock::duration>(started - start);
}

Status DeletePodAndWait(kube::Client& client, const std::string& name) {
  RETURN_IF_ERROR(client.Delete(api::kinds::kPod, "default", name, {.grace_period_seconds = 0}));
  const auto deadline = Clock::now() + kTimeout;
  while (Clock::now() < deadline) {
    const bool gone =
        client.Get(api::kinds::kPod, "default", name).status().code() == StatusCode::kNotFound;
    ASSIGN_OR_RETURN(const auto attachments, client.List(api::kinds::kVolumeAttachment, "", {}));
    if (gone && attachments.items.empty()) return base::OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return base::Error(StatusCode::kDeadlineExceeded, "pod '{}' and its attachment are not gone",
                     name);
}

StatusOr<Json> RunBench(const Options& options) {
  ASSIGN_OR_RETURN(const kube::Config config, kube::LoadKubeconfig(options.kubeconfig));
  ASSIGN_OR_RETURN(const auto client, kube::NewHttpClient(config));
  ASSIGN_OR_RETURN(const auto runtime, rpc::CriClient::New(options.runtime));
  const auto exec = platform::NewHostExec();
  ByHand by_hand(*runtime, *exec, options);
  RETURN_IF_ERROR(by_hand.PrepareImage());
  RETURN_IF_ERROR(MakeClaim(*client));
  Samples berth, hand;
  for (int i = 0; i < options.warm_up + options.runs; ++i) {
    const std::string name = fmt::format("bench-pod-{}", i);
    ASSIGN_OR_RETURN(const auto took, MeasureThroughBerth(*client, *runtime, options, name));
    RETURN_IF_ERROR(DeletePodAndWait(*client, name));
    ASSIGN_OR_RETURN(const auto took_by_hand, by_hand.StartContainer());
    RETURN_IF_ERROR(by_hand.StopContainer());
    if (i < options.warm_up) continue;
    berth.Add(took);
    hand.Add(took_by_hand);
  }
  RETURN_IF_ERROR(client->Delete(api::kinds::kPersistentVolumeClaim, "default", kClaim, {}));
  ASSIGN_OR_RETURN(const double durable, MeasureDurableFileMs(options.folder));
  return Json{
      {"through_berth", berth.ToJson()}, {"by_hand", hand.ToJson()}, {"durable_file_ms", durable}};
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  berth::bench::Options options;
  CLI::App app("Pod create to container start");
  app.add_option("--kubeconfig", options.kubeconfig)->required();
  app.add_option("--runtime", options.runtime)->required();
  app.add_option("--folder", options.folder)->required();
  app.add_option("--runs", options.runs);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunBench(options));
}
