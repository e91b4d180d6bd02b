#include "node/pods/pod_starter.h"

#include "base/fault.h"
#include "base/files/whole_file.h"
#include "base/log.h"
#include "base/text.h"
#include "node/containers/cri_listing.h"
#include "node/containers/pod_sandbox_config.h"
#include "platform/files/durable_file.h"

namespace berth::node {

namespace {

namespace cri = rpc::cri;
using base::EventType;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

constexpr milliseconds kSandboxTimeout{240'000};
constexpr milliseconds kCallTimeout{120'000};
constexpr milliseconds kPostStartTimeout{3'600'000};
constexpr size_t kLargestResolvConf = 1 << 20;

}  // namespace

std::string PostStartTask(const ContainerId& container) { return "post-start/" + container.text(); }

int64_t PodStarter::Now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(parts_.clock.Now().time_since_epoch())
      .count();
}

cri::PodSandboxConfig PodStarter::BuildSandboxConfig(const api::Pod& pod, uint32_t attempt) const {
  // It is a symlink where systemd-resolved writes it, and ReadWholeFile follows that.
  std::string resolv_conf;
  if (base::ReadWholeFile("/etc/resolv.conf", kLargestResolvConf, resolv_conf) != 0) {
    resolv_conf.clear();
  }
  return MakeSandboxConfig(pod, {.attempt = attempt,
                                 .log_folder = parts_.settings.log_folder,
                                 .resolv_conf = std::move(resolv_conf),
                                 .agent = parts_.settings.agent});
}

StatusOr<std::string> PodStarter::ReadRuntimeHandler(const api::Pod& pod) const {
  const std::string name = pod.String({"spec", "runtimeClassName"});
  if (name.empty()) return std::string();
  const api::KindInfo* kind = api::FindKind("node.k8s.io/v1", "RuntimeClass");
  // If the kind RuntimeClass is unknown, the name is taken as the handler's name.
  if (kind == nullptr) return name;
  auto runtime_class = parts_.reader(*kind, "", name);
  RETURN_IF_ERROR_WITH(runtime_class, fmt::format("read RuntimeClass \"{}\"", name));
  return base::json::String(*runtime_class, {"handler"});
}

StatusOr<SandboxId> PodStarter::StartSandbox(PodEntry& entry, uint32_t attempt) {
  const api::Pod& pod = *entry.pod;
  RETURN_IF_ERROR(platform::MakeFolders(parts_.paths.Pod(entry.uid), 0750));
  RETURN_IF_ERROR(platform::MakeFolders(PodLogFolder(parts_.settings.log_folder, pod), 0755));
  RETURN_IF_ERROR(parts_.sandbox_volumes.WritePlan(pod));
  cri::RunPodSandboxRequest request;
  *request.mutable_config() = BuildSandboxConfig(pod, attempt);
  ASSIGN_OR_RETURN(*request.mutable_runtime_handler(), ReadRuntimeHandler(pod));
  ReportLeftOut(pod);
  RETURN_IF_ERROR(base::FaultPoint<"node.sandbox.before">());
  ASSIGN_OR_RETURN(const auto response, parts_.cri.RunPodSandbox(request, kSandboxTimeout));
  RETURN_IF_ERROR(base::FaultPoint<"node.sandbox.after">());
  LOG_INFO("pod {} has the sandbox {}", base::Quote(pod.key()),
           base::Quote(response.pod_sandbox_id()));
  SandboxState sandbox{.id = SandboxId(response.pod_sandbox_id()),
                       .attempt = attempt,
                       .ready = true,
                       .created_at = Now(),
                       .agent = parts_.settings.agent};
  if (!pod.host_network()) {  // /etc/hosts and status.podIP need its address
    cri::PodSandboxStatusRequest status;
    status.set_pod_sandbox_id(sandbox.id.text());
    const auto answer = parts_.cri.PodSandboxStatus(status, kCallTimeout);
    if (!answer.ok()) {
      parts_.runtime.ListSoon();  // the sandbox exists, so the next list finds it
      return answer.status();
    }
    sandbox.ips = SandboxIps(answer->status());
  }
  parts_.runtime.PutSandbox(api::PodUid(entry.uid), pod.ns(), pod.name(), sandbox);
  return sandbox.id;
}

void PodStarter::ReportLeftOut(const api::Pod& pod) const {
  const std::vector<std::string> names = ChooseMetadata(pod).left_out;
  if (names.empty()) return;
  parts_.events.Record(
      pod.reference(), EventType::kWarning, "MetadataLeftOut",
      fmt::format(
          "The container runtime does not get {} labels and annotations of the pod, because "
          "all of them have more than {} bytes together; the longest is {}",
          names.size(), kMaxSandboxMetadata, base::Quote(names.front())));
}

void PodStarter::PrefetchImages(PodEntry& entry) {
  if (std::exchange(entry.prefetched, true)) return;
  for (const api::Container& container : entry.pod->init_containers()) {
    parts_.images.PrefetchImage(*entry.pod, container);
  }
  for (const api::Container& container : entry.pod->containers()) {
    parts_.images.PrefetchImage(*entry.pod, container);
  }
}

PodStarter::Result PodStarter::StartContainer(PodEntry& entry, const ContainerStart& start,
                                              const SandboxState& sandbox) {
  const api::Pod& pod = *entry.pod;
  const std::string name = start.container.name();
  if (const milliseconds wait = entry.backoff.TimeLeft(name, start.last_exit, Now());
      wait.count() > 0) {
    entry.waiting[name] = {
        "CrashLoopBackOff",
        fmt::format("back-off {}s restarting failed container={} pod={}_{}({})",
                    entry.backoff.FullDelay(name).count(), name, pod.name(), pod.ns(), pod.uid())};
    parts_.events.Record(pod.reference(), EventType::kWarning, "BackOff",
                         fmt::format("Back-off restarting failed container {} in pod {}_{}({})",
                                     name, pod.name(), pod.ns(), pod.uid()));
    return {.wait = wait};
  }
  ImagePuller::Result image = parts_.images.EnsureImage(pod, start.container, start.restart_count);
  switch (image.state) {
    case ImagePuller::Result::State::kPulling:
      return {};
    case ImagePuller::Result::State::kFailed:
      entry.waiting[name] = {image.reason, image.message};
      return {.wait = image.retry_after};
    case ImagePuller::Result::State::kReady:
      break;
  }
  return CreateAndStart(entry, start, sandbox, image.image);
}

PodStarter::Result PodStarter::CreateAndStart(PodEntry& entry, const ContainerStart& start,
                                              const SandboxState& sandbox,
                                              const cri::Image& image) {
  const api::Pod& pod = *entry.pod;
  const std::string name = start.container.name();
  const auto fail = [&](const char* reason, const Status& why) {
    // CANCELLED means that this process is stopping, which says nothing about the pod.
    if (why.code() == StatusCode::kCancelled) return Result{.status = why};
    entry.waiting[name] = {reason, std::string(base::Message(why))};
    parts_.events.Record(pod.reference(), EventType::kWarning, "Failed",
                         fmt::format("Error: {} (container {})", base::Message(why), name));
    return Result{.status = base::Annotate(why, fmt::format("container '{}'", name))};
  };
  PodRuntime runtime = parts_.runtime.Pod(entry.uid);
  const PodFacts facts = FactsOf(parts_, pod, runtime);
  if (entry.hosts_of != sandbox.id) {
    const Status hosts = parts_.configs.WriteHosts(pod, facts.pod_ips);
    if (!hosts.ok()) return fail("CreateContainerConfigError", hosts);
    entry.hosts_of = sandbox.id;
  }
  const PodVolumes volumes = parts_.volumes.State(entry.uid);
  std::string processes_of;
  if (const std::string target =
          base::json::String(start.container.json(), {"targetContainerName"});
      !target.empty()) {
    const ContainerState* found = runtime.Newest(target);
    if (found == nullptr || !found->running()) {
      return fail("CreateContainerConfigError",
                  base::Error(StatusCode::kFailedPrecondition,
                              "its target container '{}' does not run", target));
    }
    processes_of = found->id.text();
  }
  cri::CreateContainerRequest create;
  auto config = parts_.configs.MakeConfig({.pod = pod,
                                           .container = start.container,
                                           .restart_count = start.restart_count,
                                           .image = image,
                                           .facts = facts,
                                           .volumes = volumes.published,
                                           .processes_of = processes_of});
  if (!config.ok()) return fail("CreateContainerConfigError", config.status());
  create.set_pod_sandbox_id(sandbox.id.text());
  *create.mutable_config() = *std::move(config);
  *create.mutable_sandbox_config() = BuildSandboxConfig(pod, sandbox.attempt);
  const std::string log_path =
      fmt::format("{}/{}", create.sandbox_config().log_directory(), create.config().log_path());
  const Status folder = platform::MakeFolders(std::string(base::FolderOf(log_path)), 0755);
  if (!folder.ok()) return fail("CreateContainerConfigError", folder);
  const auto created = parts_.cri.CreateContainer(create, kCallTimeout);
  if (!created.ok()) return fail("CreateContainerError", created.status());
  if (const Status fault = base::FaultPoint<"node.container.created">(); !fault.ok()) {
    return fail("CreateContainerError", fault);
  }

  ContainerState state{.id = ContainerId(created->container_id()),
                       .sandbox_id = sandbox.id,
                       .name = name,
                       .restart_count = start.restart_count,
                       .created_at = Now(),
                       .image = start.container.image(),
                       .image_id = image.id(),
                       .hash = HashContainer(start.container),
                       .log_path = log_path};
  parts_.runtime.PutContainer(api::PodUid(entry.uid), state);
  parts_.events.Record(pod.reference(), EventType::kNormal, "Created",
                       fmt::format("Created container: {}", name));
  entry.backoff.NoteStart(name, start.last_exit, Now());
  cri::StartContainerRequest request;
  request.set_container_id(state.id.text());
  const auto started = parts_.cri.StartContainer(request, kCallTimeout);
  if (!started.ok()) {
    // The runtime keeps the container as an ended one, so the crash back-off delays its next start.
    if (const Status read = parts_.runtime.Refresh(entry.uid); !read.ok()) {
      LOG_WARNING("read pod {} from the container runtime: {}", base::Quote(pod.key()),
                  base::ToString(read));
    }
    return fail("RunContainerError", started.status());
  }
  LOG_INFO("container {} of pod {} is started", base::Quote(name), base::Quote(pod.key()));
  state.phase = ContainerState::Phase::kRunning;
  state.started_at = Now();
  if (const auto post_start = base::json::Find(start.container.json(), {"lifecycle", "postStart"});
      post_start != nullptr && post_start->is_object()) {
    RunPostStart(entry, state, start.container);
  }
  parts_.runtime.PutContainer(api::PodUid(entry.uid), std::move(state));
  parts_.events.Record(pod.reference(), EventType::kNormal, "Started",
                       fmt::format("Started container {}", name));
  return {};
}

void PodStarter::RunPostStart(const PodEntry& entry, const ContainerState& container,
                              const api::Container& spec) {
  const PodRuntime runtime = parts_.runtime.Pod(entry.uid);
  const PodFacts facts = FactsOf(parts_, *entry.pod, runtime);
  const HandlerTarget target{.container_id = container.id,
                             .container = spec,
                             .pod_ip = facts.pod_ips.empty() ? facts.host_ip : facts.pod_ips[0]};
  const auto run = [&parts = parts_, target, container, pod = entry.pod](std::stop_token stop) {
    const Json& hook = *base::json::Find(target.container.json(), {"lifecycle", "postStart"});
    const Status done = RunHook(parts.cri, target, hook, kPostStartTimeout, stop);
    if (done.ok() || stop.stop_requested()) return;
    parts.events.Record(pod->reference(), EventType::kWarning, "FailedPostStartHook",
                        fmt::format("PostStartHook failed: {} (container {})", base::Message(done),
                                    container.name));
    parts.stopper.StopContainer(
        *pod, container, pod->termination_grace_seconds(),
        fmt::format("FailedPostStartHook: container {} will be killed", container.name));
  };
  parts_.tasks.RunTask(PostStartTask(container.id), entry.pod->ns(), run,
                       [&parts = parts_, uid = entry.uid] { parts.requeue(uid); });
}

}  // namespace berth::node
