// Measures the steps of a volume in a sandbox and the same steps by hand, in turns:
//   publish  RuntimePublishVolume, against mount(2) of the same device
//   create   `berth-oci create` of a container with a deferred volume, against `runc create` of the
//            same container with that folder mounted by hand

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "base/ids.h"
#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "bench/measure.h"
#include "crust/crust_handler.h"
#include "crust/requests.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/processes/exec.h"
#include "rpc/crust_client.h"

namespace berth::bench {
namespace {

namespace ipc = base::ipc;
using base::Json;
using base::Status;
using base::StatusOr;

constexpr std::chrono::seconds kTimeout{60};
constexpr uint64_t kImageBytes = 320ULL << 20;

struct Options {
  std::string folder;
  int runs = 30;
};

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {}
  ~Bench() {
    if (!sandbox_.empty()) (void)StartOci({"delete", "--force", sandbox_});
    handler_.reset();
    umount2((folder_ + "/data/holders").c_str(), MNT_DETACH);
    umount2((folder_ + "/data/utilities").c_str(), MNT_DETACH);
    umount2((run_ + "/graft").c_str(), MNT_DETACH);
    umount2(run_.c_str(), MNT_DETACH);
    if (!loop_.path.empty()) (void)platform::DetachLoop(loop_);
  }

  StatusOr<Json> Run() {
    RETURN_IF_ERROR(Prepare());
    Json result = Json::object();
    ASSIGN_OR_RETURN(result["publish"], BenchPublish());
    ASSIGN_OR_RETURN(result["create"], BenchCreate());
    return result;
  }

 private:
  Status Prepare() {
    std::filesystem::create_directories(folder_ + "/rootfs/bin");
    std::filesystem::create_directories(folder_ + "/rootfs/data");
    for (const char* name : {"proc", "dev", "sys"}) {
      std::filesystem::create_directories(folder_ + "/rootfs/" + name);
    }
    std::filesystem::copy("/bin/busybox", folder_ + "/rootfs/bin/sleep");
    const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    std::filesystem::copy(beside / "berth-oci", folder_ + "/berth-oci");
    std::filesystem::create_directories(target_);
    std::filesystem::create_directories(by_hand_);
    // A machine's /run is a tmpfs.
    std::filesystem::create_directories(run_);
    if (mount("tmpfs", run_.c_str(), "tmpfs", 0, "mode=0700") != 0) {
      return base::Error(base::StatusCode::kInternal, "mount a tmpfs: {}", strerror(errno));
    }
    const std::string image = folder_ + "/image";
    std::ofstream(image).close();
    std::filesystem::resize_file(image, kImageBytes);
    ASSIGN_OR_RETURN(loop_, platform::AttachLoop(image, {}));
    RETURN_IF_ERROR(platform::FindFileSystem("xfs")->Format(*exec_, loop_.path, {}));
    crust::CrustHandlerOptions handler{.socket = folder_ + "/crust.sock",
                                       .oci_socket = folder_ + "/oci.sock",
                                       .data_folder = folder_ + "/data",
                                       .run_folder = run_,
                                       .kubelet_folder = folder_ + "/kubelet"};
    std::ofstream(folder_ + "/berth-oci.json")
        << Json{{"socket", handler.oci_socket}, {"run", handler.run_folder}};
    ASSIGN_OR_RETURN(handler_, crust::CrustHandler::Start(handler));
    ASSIGN_OR_RETURN(client_, rpc::CrustClient::New(handler.socket));
    std::ofstream(ipc::crust::PlanPath(handler.run_folder, uid_))
        << ipc::crust::WritePlan({target_});
    sandbox_ = "bench-" + uid_.substr(0, 8);
    RETURN_IF_ERROR(MakeBundle(sandbox_, "sandbox", ""));
    return RunOci({"create", "--bundle", BundlePath(sandbox_), sandbox_});
  }

  StatusOr<Json> BenchPublish() {
    Samples berth, by_hand;
    for (int i = -3; i < options_.runs; ++i) {
      auto begin = Clock::now();
      if (mount(loop_.path.c_str(), by_hand_.c_str(), "xfs", 0, nullptr) != 0) {
        return base::Error(base::StatusCode::kInternal, "mount by hand: {}", strerror(errno));
      }
      if (i >= 0) by_hand.Add(Clock::now() - begin);
      if (umount2(by_hand_.c_str(), 0) != 0) {
        return base::Error(base::StatusCode::kInternal, "umount by hand: {}", strerror(errno));
      }
      begin = Clock::now();
      RETURN_IF_ERROR(PublishVolume());
      if (i >= 0) berth.Add(Clock::now() - begin);
      RETURN_IF_ERROR(UnpublishVolume());
    }
    return Json{{"berth", berth.ToJson()}, {"by_hand", by_hand.ToJson()}};
  }

  StatusOr<Json> BenchCreate() {
    RETURN_IF_ERROR(PublishVolume());
    std::filesystem::create_directories(folder_ + "/plain");
    Samples berth, by_hand;
    for (int i = -3; i < options_.runs; ++i) {
      for (const bool plain : {false, true}) {
        const std::string id = fmt::format("{}-{}{}", sandbox_, plain ? "p" : "b", i + 3);
        RETURN_IF_ERROR(MakeBundle(id, "container", plain ? folder_ + "/plain" : target_));
        const std::string program = plain ? "runc" : folder_ + "/berth-oci";
        const auto begin = Clock::now();
        RETURN_IF_ERROR(RunOci({"create", "--bundle", BundlePath(id), id}, program));
        const auto took = Clock::now() - begin;
        if (i >= 0) (plain ? by_hand : berth).Add(took);
        RETURN_IF_ERROR(RunOci({"delete", "--force", id}, "runc"));
      }
    }
    return Json{{"berth", berth.ToJson()}, {"by_hand", by_hand.ToJson()}};
  }

  Status PublishVolume() {
    crust::wire::RuntimePublishVolumeRequest request;
    request.set_sandbox_id(sandbox_);
    request.set_host_volume_id(loop_.path);
    request.set_host_target_path(target_);
    request.set_file_system("xfs");
    return client_->RuntimePublishVolume(request, kTimeout).status();
  }
  Status UnpublishVolume() {
    crust::wire::RuntimeUnpublishVolumeRequest request;
    request.set_sandbox_id(sandbox_);
    request.set_host_volume_id(loop_.path);
    request.set_host_target_path(target_);
    return client_->RuntimeUnpublishVolume(request, kTimeout).status();
  }

  std::string BundlePath(const std::string& id) const { return folder_ + "/bundles/" + id; }

  Status MakeBundle(const std::string& id, const char* kind, const std::string& source) {
    std::filesystem::create_directories(BundlePath(id));
    if (spec_.is_null()) {
      RETURN_IF_ERROR(platform::RunOk(*exec_, {.argv = {"runc", "spec", "-b", BundlePath(id)}}));
      ASSIGN_OR_RETURN(const std::string text, platform::ReadFile(BundlePath(id) + "/config.json"));
      ASSIGN_OR_RETURN(spec_, base::json::Parse(text));
    }
    Json config = spec_;
    config["root"] = {{"path", folder_ + "/rootfs"}, {"readonly", false}};
    config["process"]["terminal"] = false;
    config["process"]["args"] = {"/bin/sleep", "1000"};
    config["process"].erase("rlimits");
    config["linux"]["cgroupsPath"] = "/berth-" + id;
    config["annotations"] = {{ipc::crust::kKindAnnotation, kind},
                             {ipc::crust::kSandboxAnnotation, sandbox_},
                             {ipc::crust::kPodUidAnnotation, uid_}};
    if (!source.empty()) {
      config["mounts"].push_back({{"destination", "/data"},
                                  {"type", "bind"},
                                  {"source", source},
                                  {"options", {"rbind", "rprivate", "rw"}}});
    }
    std::ofstream(BundlePath(id) + "/config.json") << config;
    return base::OkStatus();
  }

  StatusOr<platform::CommandResult> StartOci(std::vector<std::string> arguments,
                                             const std::string& program = "") {
    std::vector<std::string> argv = {program.empty() ? folder_ + "/berth-oci" : program, "--root",
                                     folder_ + "/runc"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return exec_->Run({.argv = argv, .leaves_daemon = true});
  }
  Status RunOci(std::vector<std::string> arguments, const std::string& program = "") {
    ASSIGN_OR_RETURN(const platform::CommandResult result, StartOci(arguments, program));
    if (result.exit_code == 0) return base::OkStatus();
    return base::Error(base::StatusCode::kInternal, "{}: {}", arguments.front(), result.err);
  }

  const Options options_;
  const std::string folder_ = options_.folder;
  const std::string uid_ = base::NewUuid();
  const std::string target_ =
      folder_ + "/kubelet/pods/" + uid_ + "/volumes/kubernetes.io~csi/pv/mount";
  const std::string by_hand_ = folder_ + "/by-hand";
  const std::string run_ = folder_ + "/run";
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  platform::LoopDevice loop_;
  std::string sandbox_;
  Json spec_;
  std::unique_ptr<crust::CrustHandler> handler_;
  std::unique_ptr<rpc::CrustClient> client_;
};

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  berth::base::InitLogging("bench", 0);
  berth::bench::Options options;
  CLI::App app("Measures volumes in sandboxes");
  app.add_option("--folder", options.folder, "An empty folder")->required();
  app.add_option("--runs", options.runs)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::Bench(std::move(options)).Run());
}
