#include "rpc/fake_cri_state.h"

#include <filesystem>

#include "base/ids.h"

namespace berth::rpc {
namespace {

using base::Error;
using base::OkStatus;
using base::Status;
using base::StatusCode;

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

template <typename Labels, typename Selector>
bool Selects(const Selector& selector, const Labels& labels) {
  return std::all_of(selector.begin(), selector.end(), [&](const auto& wanted) {
    const auto it = labels.find(wanted.first);
    return it != labels.end() && it->second == wanted.second;
  });
}

constexpr int kKilled = 137;
constexpr int kTerminated = 143;

}  // namespace

std::string NameOf(FakeRuntime runtime) {
  switch (runtime) {
    case FakeRuntime::kContainerd:
      return "Containerd";
    case FakeRuntime::kOldContainerd:
      return "OldContainerd";
    case FakeRuntime::kCrio:
      return "Crio";
  }
  return "";
}

std::string FakeCriState::NewId(std::string_view kind) {
  return fmt::format("{}-{:04}", kind, next_id_++);
}

StatusCode FakeCriState::CodeOf(StatusCode of_containerd) const {
  return crio_ ? StatusCode::kUnknown : of_containerd;
}

Status FakeCriState::CheckSource(const cri::Mount& mount) const {
  std::error_code why;
  if (std::filesystem::exists(mount.host_path(), why)) return OkStatus();
  if (crio_ && std::filesystem::create_directories(mount.host_path(), why)) return OkStatus();
  return Error(StatusCode::kUnknown, "failed to stat '{}': no such file or directory",
               mount.host_path());
}

base::StatusOr<FakeCriState::Sandbox*> FakeCriState::FindSandbox(const std::string& id) {
  const auto it = sandboxes_.find(id);
  if (it == sandboxes_.end()) return Error(StatusCode::kNotFound, "sandbox '{}' not found", id);
  return &it->second;
}

base::StatusOr<FakeCriState::Container*> FakeCriState::FindById(const std::string& id) {
  const auto it = containers_.find(id);
  if (it == containers_.end()) return Error(StatusCode::kNotFound, "container '{}' not found", id);
  return &it->second;
}

const cri::Image* FakeCriState::FindImage(const std::string& reference) const {
  for (const auto& [id, image] : images_) {
    if (id == reference) return &image;
    for (const std::string& tag : image.repo_tags()) {
      if (tag == reference) return &image;
    }
  }
  return nullptr;
}

void FakeCriState::AddImageLocked(const std::string& reference) {
  if (FindImage(reference) != nullptr) return;
  cri::Image image;
  image.set_id("sha256:" + base::Sha256Hex(reference));
  image.add_repo_tags(reference);
  image.set_size(1024 * 1024);
  images_[image.id()] = image;
}

void FakeCriState::AddImage(const std::string& reference) {
  base::MutexLock lock(mutex_);
  AddImageLocked(reference);
}

std::vector<FakeCriState::Sandbox> FakeCriState::Sandboxes() const {
  base::MutexLock lock(mutex_);
  std::vector<Sandbox> all;
  for (const auto& [id, sandbox] : sandboxes_) all.push_back(sandbox);
  return all;
}

std::vector<FakeCriState::Container> FakeCriState::Containers() const {
  base::MutexLock lock(mutex_);
  std::vector<Container> all;
  for (const auto& [id, container] : containers_) all.push_back(container);
  return all;
}

std::optional<FakeCriState::Container> FakeCriState::FindContainer(const std::string& pod_uid,
                                                                   const std::string& name) const {
  base::MutexLock lock(mutex_);
  std::optional<Container> newest;
  for (const auto& [id, container] : containers_) {
    const auto sandbox = sandboxes_.find(container.sandbox_id);
    if (sandbox == sandboxes_.end() || sandbox->second.config.metadata().uid() != pod_uid ||
        container.config.metadata().name() != name) {
      continue;
    }
    if (!newest || newest->status.created_at() <= container.status.created_at()) newest = container;
  }
  return newest;
}

void FakeCriState::EmitEvent(const Container& container, cri::ContainerEventType type) {
  cri::ContainerEventResponse event;
  event.set_container_id(container.status.id());
  event.set_container_event_type(type);
  event.set_created_at(Now());
  const auto sandbox = sandboxes_.find(container.sandbox_id);
  if (sandbox != sandboxes_.end()) *event.mutable_pod_sandbox_status() = sandbox->second.status;
  *event.add_containers_statuses() = container.status;
  events_.push_back(std::move(event));
  events_changed_.NotifyAll();
}

void FakeCriState::EndContainer(Container& container, int exit_code) {
  if (container.status.state() == cri::CONTAINER_EXITED) return;
  container.status.set_state(cri::CONTAINER_EXITED);
  container.status.set_exit_code(exit_code);
  container.status.set_finished_at(Now());
  container.status.set_reason(exit_code == 0 ? "Completed" : "Error");
  EmitEvent(container, cri::CONTAINER_STOPPED_EVENT);
}

void FakeCriState::EndAllIn(const std::string& sandbox_id) {
  for (auto& [id, container] : containers_) {
    if (container.sandbox_id == sandbox_id) EndContainer(container, kKilled);
  }
}

Status FakeCriState::Exit(const std::string& container_id, int exit_code) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Container * container, FindById(container_id));
  if (container->status.state() != cri::CONTAINER_RUNNING) {
    return Error(StatusCode::kFailedPrecondition, "container '{}' does not run", container_id);
  }
  EndContainer(*container, exit_code);
  return OkStatus();
}

Status FakeCriState::CutOffStart(const std::string& container_id) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Container * container, FindById(container_id));
  if (crio_) {
    EmitEvent(*container, cri::CONTAINER_DELETED_EVENT);
    containers_.erase(container_id);
    return OkStatus();
  }
  EndContainer(*container, 128);
  container->status.set_started_at(0);
  container->status.set_reason("StartError");
  container->status.set_message(
      "failed to create containerd task: failed to create shim task: context canceled: unknown");
  return OkStatus();
}

Status FakeCriState::KillSandbox(const std::string& sandbox_id) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Sandbox * sandbox, FindSandbox(sandbox_id));
  sandbox->status.set_state(cri::SANDBOX_NOTREADY);
  EndAllIn(sandbox_id);
  return OkStatus();
}

void FakeCriState::ExitWhenStarted(const std::string& name, int exit_code) {
  base::MutexLock lock(mutex_);
  exits_when_started_[name] = exit_code;
}

void FakeCriState::SetReady(bool runtime, bool network) {
  base::MutexLock lock(mutex_);
  runtime_ready_ = runtime;
  network_ready_ = network;
}

void FakeCriState::SetExecSync(
    std::function<cri::ExecSyncResponse(const cri::ExecSyncRequest&)> exec) {
  base::MutexLock lock(mutex_);
  exec_ = std::move(exec);
}

void FakeCriState::SetStreamUrl(const std::string& url) {
  base::MutexLock lock(mutex_);
  stream_url_ = url;
}

size_t FakeCriState::event_count() const {
  base::MutexLock lock(mutex_);
  return events_.size();
}

std::vector<cri::ContainerEventResponse> FakeCriState::WaitForEvents(
    size_t from, std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  base::MutexLock lock(mutex_);
  while (events_.size() <= from) {
    if (!events_changed_.WaitUntil(mutex_, deadline)) break;
  }
  if (events_.size() <= from) return {};
  return {events_.begin() + static_cast<ptrdiff_t>(from), events_.end()};
}

// --- Version, status

Status FakeCriState::Handle(const cri::VersionRequest&, cri::VersionResponse& response) {
  response.set_version("0.1.0");
  response.set_runtime_name("fake");
  response.set_runtime_version("1.0");
  response.set_runtime_api_version("v1");
  return OkStatus();
}

Status FakeCriState::Handle(const cri::StatusRequest&, cri::StatusResponse& response) {
  base::MutexLock lock(mutex_);
  const auto add = [&](std::string_view type, bool ready) {
    cri::RuntimeCondition* condition = response.mutable_status()->add_conditions();
    condition->set_type(std::string(type));
    condition->set_status(ready);
    if (!ready) condition->set_reason("NotReady");
  };
  add("RuntimeReady", runtime_ready_);
  add("NetworkReady", network_ready_);
  return OkStatus();
}

// --- Sandboxes

Status FakeCriState::Handle(const cri::RunPodSandboxRequest& request,
                            cri::RunPodSandboxResponse& response) {
  const cri::PodSandboxMetadata& metadata = request.config().metadata();
  if (metadata.name().empty() || metadata.uid().empty() || metadata.namespace_().empty()) {
    return Error(StatusCode::kInvalidArgument, "sandbox metadata is not complete");
  }
  base::MutexLock lock(mutex_);
  for (const auto& [id, sandbox] : sandboxes_) {
    if (sandbox.config.metadata().SerializeAsString() == metadata.SerializeAsString()) {
      if (crio_) {
        response.set_pod_sandbox_id(id);
        return OkStatus();
      }
      return Error(StatusCode::kAlreadyExists, "sandbox '{}' has the same name and attempt", id);
    }
  }
  Sandbox sandbox;
  sandbox.config = request.config();
  sandbox.status.set_id(NewId("sandbox"));
  *sandbox.status.mutable_metadata() = metadata;
  sandbox.status.set_state(cri::SANDBOX_READY);
  sandbox.status.set_created_at(Now());
  sandbox.status.set_runtime_handler(request.runtime_handler());
  *sandbox.status.mutable_labels() = request.config().labels();
  *sandbox.status.mutable_annotations() = request.config().annotations();
  const auto& options = request.config().linux().security_context().namespace_options();
  *sandbox.status.mutable_linux()->mutable_namespaces()->mutable_options() = options;
  if (options.network() != cri::NODE) {
    sandbox.status.mutable_network()->set_ip(fmt::format("10.0.0.{}", next_id_ % 250 + 1));
  }
  response.set_pod_sandbox_id(sandbox.status.id());
  sandboxes_[sandbox.status.id()] = std::move(sandbox);
  return OkStatus();
}

Status FakeCriState::Handle(const cri::StopPodSandboxRequest& request,
                            cri::StopPodSandboxResponse&) {
  base::MutexLock lock(mutex_);
  const auto sandbox = FindSandbox(request.pod_sandbox_id());
  if (!sandbox.ok()) return OkStatus();
  (*sandbox)->status.set_state(cri::SANDBOX_NOTREADY);
  EndAllIn(request.pod_sandbox_id());
  return OkStatus();
}

Status FakeCriState::Handle(const cri::RemovePodSandboxRequest& request,
                            cri::RemovePodSandboxResponse&) {
  base::MutexLock lock(mutex_);
  EndAllIn(request.pod_sandbox_id());
  std::erase_if(containers_, [&](const auto& entry) {
    return entry.second.sandbox_id == request.pod_sandbox_id();
  });
  sandboxes_.erase(request.pod_sandbox_id());
  return OkStatus();
}

Status FakeCriState::Handle(const cri::PodSandboxStatusRequest& request,
                            cri::PodSandboxStatusResponse& response) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Sandbox* sandbox, FindSandbox(request.pod_sandbox_id()));
  *response.mutable_status() = sandbox->status;
  // CRI-O runs no pause container if the pod shares no process namespace, and then knows no pid.
  if (request.verbose()) {
    (*response.mutable_info())["info"] = crio_ ? R"({"runtimeSpec":{}})" : R"({"pid":4242})";
  }
  return OkStatus();
}

Status FakeCriState::Handle(const cri::ListPodSandboxRequest& request,
                            cri::ListPodSandboxResponse& response) {
  const cri::PodSandboxFilter& filter = request.filter();
  base::MutexLock lock(mutex_);
  for (const auto& [id, sandbox] : sandboxes_) {
    if (!filter.id().empty() && filter.id() != id) continue;
    if (filter.has_state() && filter.state().state() != sandbox.status.state()) continue;
    if (!Selects(filter.label_selector(), sandbox.status.labels())) continue;
    cri::PodSandbox* item = response.add_items();
    item->set_id(id);
    *item->mutable_metadata() = sandbox.status.metadata();
    item->set_state(sandbox.status.state());
    item->set_created_at(sandbox.status.created_at());
    *item->mutable_labels() = sandbox.status.labels();
    *item->mutable_annotations() = sandbox.status.annotations();
    item->set_runtime_handler(sandbox.status.runtime_handler());
  }
  return OkStatus();
}

// --- Containers

Status FakeCriState::Handle(const cri::CreateContainerRequest& request,
                            cri::CreateContainerResponse& response) {
  base::MutexLock lock(mutex_);
  const auto found = FindSandbox(request.pod_sandbox_id());
  if (!found.ok()) return Error(CodeOf(StatusCode::kNotFound), "specified sandbox not found");
  const Sandbox* sandbox = *found;
  if (crio_) {
    for (const auto& [id, container] : containers_) {
      if (container.sandbox_id != request.pod_sandbox_id() ||
          container.config.metadata().SerializeAsString() !=
              request.config().metadata().SerializeAsString()) {
        continue;
      }
      response.set_container_id(id);
      return OkStatus();
    }
  }
  if (sandbox->status.state() != cri::SANDBOX_READY) {
    return Error(StatusCode::kUnknown, "sandbox '{}' is not ready", request.pod_sandbox_id());
  }
  const cri::Image* image = FindImage(request.config().image().image());
  if (image == nullptr) {
    return Error(CodeOf(StatusCode::kNotFound), "image '{}' not found",
                 request.config().image().image());
  }
  for (const cri::Mount& mount : request.config().mounts()) RETURN_IF_ERROR(CheckSource(mount));
  Container container;
  container.config = request.config();
  container.sandbox_id = request.pod_sandbox_id();
  cri::ContainerStatus& status = container.status;
  status.set_id(NewId("container"));
  *status.mutable_metadata() = request.config().metadata();
  status.set_state(cri::CONTAINER_CREATED);
  status.set_created_at(Now());
  *status.mutable_image() = request.config().image();
  status.set_image_ref(image->id());
  status.set_image_id(image->id());
  *status.mutable_labels() = request.config().labels();
  *status.mutable_annotations() = request.config().annotations();
  *status.mutable_mounts() = request.config().mounts();
  status.set_log_path(request.sandbox_config().log_directory() + "/" + request.config().log_path());
  response.set_container_id(status.id());
  EmitEvent(container, cri::CONTAINER_CREATED_EVENT);
  containers_[status.id()] = std::move(container);
  return OkStatus();
}

Status FakeCriState::Handle(const cri::StartContainerRequest& request,
                            cri::StartContainerResponse&) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Container * container, FindById(request.container_id()));
  if (container->status.state() != cri::CONTAINER_CREATED) {
    return Error(StatusCode::kUnknown, "container '{}' is not in created state",
                 request.container_id());
  }
  container->status.set_state(cri::CONTAINER_RUNNING);
  container->status.set_started_at(Now());
  EmitEvent(*container, cri::CONTAINER_STARTED_EVENT);
  const auto exit = exits_when_started_.find(container->config.metadata().name());
  if (exit != exits_when_started_.end()) EndContainer(*container, exit->second);
  return OkStatus();
}

Status FakeCriState::Handle(const cri::StopContainerRequest& request, cri::StopContainerResponse&) {
  base::MutexLock lock(mutex_);
  const auto container = FindById(request.container_id());
  if (container.ok()) EndContainer(**container, request.timeout() == 0 ? kKilled : kTerminated);
  return OkStatus();
}

Status FakeCriState::Handle(const cri::RemoveContainerRequest& request,
                            cri::RemoveContainerResponse&) {
  base::MutexLock lock(mutex_);
  const auto container = FindById(request.container_id());
  if (!container.ok()) return OkStatus();
  EndContainer(**container, kKilled);
  EmitEvent(**container, cri::CONTAINER_DELETED_EVENT);
  containers_.erase(request.container_id());
  return OkStatus();
}

Status FakeCriState::Handle(const cri::ListContainersRequest& request,
                            cri::ListContainersResponse& response) {
  const cri::ContainerFilter& filter = request.filter();
  base::MutexLock lock(mutex_);
  for (const auto& [id, container] : containers_) {
    if (!filter.id().empty() && filter.id() != id) continue;
    if (filter.has_state() && filter.state().state() != container.status.state()) continue;
    if (!filter.pod_sandbox_id().empty() && filter.pod_sandbox_id() != container.sandbox_id)
      continue;
    if (!Selects(filter.label_selector(), container.status.labels())) continue;
    cri::Container* item = response.add_containers();
    item->set_id(id);
    item->set_pod_sandbox_id(container.sandbox_id);
    *item->mutable_metadata() = container.status.metadata();
    *item->mutable_image() = container.status.image();
    item->set_image_ref(container.status.image_ref());
    item->set_image_id(container.status.image_id());
    item->set_state(container.status.state());
    item->set_created_at(container.status.created_at());
    *item->mutable_labels() = container.status.labels();
    *item->mutable_annotations() = container.status.annotations();
  }
  return OkStatus();
}

Status FakeCriState::Handle(const cri::ContainerStatusRequest& request,
                            cri::ContainerStatusResponse& response) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Container* container, FindById(request.container_id()));
  *response.mutable_status() = container->status;
  if (request.verbose()) {
    (*response.mutable_info())["info"] =
        fmt::format(R"({{"sandboxID":"{}","pid":4243}})", container->sandbox_id);
  }
  return OkStatus();
}

Status FakeCriState::Handle(const cri::ReopenContainerLogRequest& request,
                            cri::ReopenContainerLogResponse&) {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Container* container, FindById(request.container_id()));
  if (container->status.state() == cri::CONTAINER_RUNNING) return OkStatus();
  return base::Error(CodeOf(StatusCode::kFailedPrecondition), "container is not running");
}

Status FakeCriState::Handle(const cri::ExecSyncRequest& request, cri::ExecSyncResponse& response) {
  std::function<cri::ExecSyncResponse(const cri::ExecSyncRequest&)> exec;
  {
    base::MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const Container* container, FindById(request.container_id()));
    if (container->status.state() != cri::CONTAINER_RUNNING) {
      return Error(crio_ ? StatusCode::kNotFound : StatusCode::kUnknown,
                   "container '{}' is not running", request.container_id());
    }
    exec = exec_;
  }
  if (exec) response = exec(request);
  return OkStatus();
}

Status FakeCriState::Handle(const cri::ExecRequest& request, cri::ExecResponse& response) {
  base::MutexLock lock(mutex_);
  if (const auto found = FindById(request.container_id()); !found.ok()) {
    return Error(CodeOf(StatusCode::kNotFound), "{}", base::Message(found.status()));
  }
  response.set_url(stream_url_);
  return OkStatus();
}

Status FakeCriState::Handle(const cri::AttachRequest& request, cri::AttachResponse& response) {
  base::MutexLock lock(mutex_);
  if (const auto found = FindById(request.container_id()); !found.ok()) {
    return Error(CodeOf(StatusCode::kNotFound), "{}", base::Message(found.status()));
  }
  response.set_url(stream_url_);
  return OkStatus();
}

Status FakeCriState::Handle(const cri::PortForwardRequest& request,
                            cri::PortForwardResponse& response) {
  base::MutexLock lock(mutex_);
  response.set_url(stream_url_);
  return OkStatus();
}

// --- Images

Status FakeCriState::Handle(const cri::ImageStatusRequest& request,
                            cri::ImageStatusResponse& response) {
  base::MutexLock lock(mutex_);
  const cri::Image* image = FindImage(request.image().image());
  if (image != nullptr) *response.mutable_image() = *image;
  return OkStatus();
}

Status FakeCriState::Handle(const cri::PullImageRequest& request,
                            cri::PullImageResponse& response) {
  base::MutexLock lock(mutex_);
  AddImageLocked(request.image().image());
  response.set_image_ref(FindImage(request.image().image())->id());
  return OkStatus();
}

Status FakeCriState::Handle(const cri::ListImagesRequest& request,
                            cri::ListImagesResponse& response) {
  base::MutexLock lock(mutex_);
  const std::string& wanted = request.filter().image().image();
  for (const auto& [id, image] : images_) {
    if (wanted.empty() || FindImage(wanted) == &image) *response.add_images() = image;
  }
  return OkStatus();
}

Status FakeCriState::Handle(const cri::RemoveImageRequest& request, cri::RemoveImageResponse&) {
  base::MutexLock lock(mutex_);
  const cri::Image* image = FindImage(request.image().image());
  if (image != nullptr) images_.erase(std::string(image->id()));
  return OkStatus();
}

}  // namespace berth::rpc
