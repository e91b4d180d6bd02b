#include "node/node_status.h"

#include <unistd.h>

#include <array>

#include "api/kinds/lease_names.h"
#include "api/time.h"
#include "base/log.h"
#include "node/node_facts.h"

namespace berth::node {
namespace {

using base::Json;
using base::MutexLock;
using base::OkStatus;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Outcome = base::KeyedWorkers::Outcome;

constexpr std::string_view kStatus = "status";
constexpr std::string_view kLease = "lease";
constexpr std::chrono::milliseconds kRuntimeWait{1000};
constexpr std::chrono::milliseconds kConflictPause{10};
constexpr std::string_view kAttachAnnotation =
    "volumes.kubernetes.io/controller-managed-attach-detach";

}  // namespace

NodeStatus::NodeStatus(NodeStatusOptions options, kube::Client& client, kube::Informers& informers,
                       const base::Clock& clock)
    : options_(std::move(options)),
      client_(client),
      nodes_(informers.Of<api::Node>()),
      clock_(clock),
      // The lease has a worker of its own, because a slow write of the status must not let it
      // expire.
      workers_(
          {.name = "node-status",
           .workers = 2,
           .retry_start = std::chrono::milliseconds(200),
           .retry_max = std::chrono::milliseconds(10'000)},
          [this](const std::string& key) { return key == kLease ? RenewLease() : WriteStatus(); }) {
  nodes_.AddHandler([this](const auto& change) {
    if (change.key == options_.node_name && NeedsCorrection(change.after.get())) {
      workers_.AddNow(std::string(kStatus));
    }
  });
}

bool NodeStatus::NeedsCorrection(const api::Node* node) {
  {
    MutexLock lock(mutex_);
    if (!registered_) return false;  // nothing has been written yet
  }
  if (node == nullptr) return true;
  const Json* ready = node->condition("Ready");
  return ready == nullptr || base::json::String(*ready, {"status"}) == "Unknown";
}

void NodeStatus::Start() {
  workers_.Start();
  workers_.AddNow(std::string(kStatus));
}

void NodeStatus::Stop() { workers_.Stop(); }

bool NodeStatus::WaitRegistered(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(mutex_);
  while (!registered_) {
    if (!changed_.WaitUntil(mutex_, deadline)) return registered_;
  }
  return true;
}

void NodeStatus::SetRuntime(bool reachable, const std::string& message,
                            const std::string& version) {
  Runtime runtime{.known = true, .reachable = reachable, .message = message, .version = version};
  {
    MutexLock lock(mutex_);
    if (runtime_ == runtime) return;
    runtime_ = std::move(runtime);
  }
  workers_.AddNow(std::string(kStatus));
}

Json NodeStatus::MakeNode() const {
  return {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", options_.node_name}}}};
}

// A patch with the labels and the annotation that are missing or have another value. All others
// stay.
Json NodeStatus::MakeMetadataPatch(const api::Node& node) const {
  api::Labels wanted = options_.labels;
  // The kubelet also sets this label to the node's name. PVs of local storage are bound to nodes by
  // it.
  wanted["kubernetes.io/hostname"] = options_.node_name;
  wanted["kubernetes.io/os"] = "linux";
  wanted["kubernetes.io/arch"] = ReadArchitecture();
  const api::Labels present = node.labels();
  Json labels = Json::object();
  for (const auto& [key, value] : wanted) {
    const auto label = present.find(key);
    if (label == present.end() || label->second != value) labels[key] = value;
  }
  Json patch = Json::object();
  if (!labels.empty()) patch["labels"] = std::move(labels);
  if (node.annotation(kAttachAnnotation) != "true") {
    patch["annotations"] = {{std::string(kAttachAnnotation), "true"}};
  }
  return patch;
}

StatusOr<api::Node> NodeStatus::EnsureNode() {
  StatusOr<Json> read = client_.Get(api::kinds::kNode, "", options_.node_name);
  if (read.status().code() == StatusCode::kNotFound) {
    Json object = MakeNode();
    object["metadata"].update(MakeMetadataPatch(api::Node(object)));
    read = client_.Create(api::kinds::kNode, "", object);
    if (read.ok()) LOG_INFO("node {} is registered", base::Quote(options_.node_name));
    // Another agent of that name has just created it, or the answer to an earlier try was lost.
    if (read.status().code() == StatusCode::kAlreadyExists) {
      read = client_.Get(api::kinds::kNode, "", options_.node_name);
    }
  }
  RETURN_IF_ERROR_WITH(read, fmt::format("register node '{}'", options_.node_name));
  api::Node node(*std::move(read));
  if (Json metadata = MakeMetadataPatch(node); !metadata.empty()) {
    ASSIGN_OR_RETURN(node, kube::MergePatch(client_, node, {{"metadata", std::move(metadata)}}));
  }
  return node;
}

Json NodeStatus::MakeReadyCondition(const api::Node& node, const Runtime& runtime) const {
  const std::string now = api::FormatTime(clock_.Now());
  Json ready = {{"type", "Ready"}, {"lastHeartbeatTime", now}, {"lastTransitionTime", now}};
  if (runtime.reachable) {
    ready.update({{"status", "True"},
                  {"reason", "KubeletReady"},
                  {"message", "the node agent runs and the container runtime answers"}});
  } else {
    ready.update(
        {{"status", "False"},
         {"reason", "ContainerRuntimeNotReady"},
         {"message", runtime.known ? fmt::format("no pod can run here: {}", runtime.message)
                                   : "the container runtime was not asked yet"}});
  }
  for (const Json& old : base::json::Array(node.json(), {"status", "conditions"})) {
    if (base::json::String(old, {"type"}) == "Ready" && old.contains("lastTransitionTime") &&
        base::json::String(old, {"status"}) == base::json::String(ready, {"status"})) {
      ready["lastTransitionTime"] = old["lastTransitionTime"];
    }
  }
  return ready;
}

Json NodeStatus::MakeStatusPatch(const api::Node& node, const Runtime& runtime) const {
  const Json capacity = ReadNodeCapacity(options_.kubelet_folder, options_.max_pods);
  Json conditions = Json::array();
  for (const Json& condition : base::json::Array(node.json(), {"status", "conditions"})) {
    if (base::json::String(condition, {"type"}) != "Ready") conditions.push_back(condition);
  }
  conditions.push_back(MakeReadyCondition(node, runtime));
  Json status = {{"conditions", std::move(conditions)},
                 {"capacity", capacity},
                 {"allocatable", capacity},
                 {"addresses", ReadNodeAddresses()},
                 {"nodeInfo", ReadNodeSystemInfo(options_.version, runtime.version)}};
  if (options_.port != 0) {
    status["daemonEndpoints"] = {{"kubeletEndpoint", {{"Port", options_.port}}}};
  }
  // The patch has the resourceVersion, because it replaces the whole list of conditions, to which
  // others write, too.
  return {{"metadata", {{"resourceVersion", node.resource_version()}}},
          {"status", std::move(status)}};
}

Outcome NodeStatus::WriteStatus() {
  Runtime runtime;
  {
    MutexLock lock(mutex_);
    runtime = runtime_;
  }
  const StatusOr<api::Node> node = EnsureNode();
  if (!node.ok()) return Outcome::Retry(node.status());
  {
    MutexLock lock(mutex_);
    registered_ = true;
    node_uid_ = node->uid();
    changed_.NotifyAll();
  }
  workers_.Add(std::string(kLease));
  // After a restart, the agent leaves the Ready condition as it is until the runtime has answered,
  // because controllers would act on a state that lasts only for moments.
  if (!runtime.known && node->condition("Ready") != nullptr && !std::exchange(waited_, true)) {
    return Outcome::After(kRuntimeWait);
  }
  const auto written = kube::MergePatch(client_, *node, MakeStatusPatch(*node, runtime), "status");
  // A conflict: other programs write to the Node too (taints, volumesAttached). The next try reads
  // it again.
  if (written.status().code() == StatusCode::kAborted) return Outcome::After(kConflictPause);
  if (!written.ok()) {
    return Outcome::Retry(base::Annotate(
        written.status(), fmt::format("write the status of node '{}'", options_.node_name)));
  }
  nodes_.Observe(written->json());
  return Outcome::After(options_.status_interval);
}

int64_t NodeStatus::LeaseSeconds() const {
  return std::chrono::ceil<std::chrono::seconds>(options_.lease_duration).count();
}

StatusOr<Json> NodeStatus::CreateLease() {
  std::string uid;
  {
    MutexLock lock(mutex_);
    uid = node_uid_;
  }
  const Json lease = {
      {"apiVersion", "coordination.k8s.io/v1"},
      {"kind", "Lease"},
      {"metadata",
       {{"name", options_.node_name},
        {"namespace", api::kNodeLeaseNamespace},
        {"ownerReferences",
         {{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", options_.node_name}, {"uid", uid}}}}}},
      {"spec",
       {{"holderIdentity", options_.node_name},
        {"leaseDurationSeconds", LeaseSeconds()},
        {"renewTime", api::FormatMicroTime(clock_.Now())}}}};
  StatusOr<Json> created = client_.Create(api::kinds::kLease, api::kNodeLeaseNamespace, lease);
  if (created.status().code() != StatusCode::kNotFound) return created;
  // The namespace is created only if it is missing; a kube-apiserver has already created it.
  const auto made = client_.Create(api::kinds::kNamespace, "",
                                   {{"apiVersion", "v1"},
                                    {"kind", "Namespace"},
                                    {"metadata", {{"name", api::kNodeLeaseNamespace}}}});
  if (!made.ok() && made.status().code() != StatusCode::kAlreadyExists) return created;
  return client_.Create(api::kinds::kLease, api::kNodeLeaseNamespace, lease);
}

Outcome NodeStatus::RenewLease() {
  const Status renewed = [this]() -> Status {
    if (lease_.is_null()) {
      auto read = client_.Get(api::kinds::kLease, api::kNodeLeaseNamespace, options_.node_name);
      if (read.status().code() == StatusCode::kNotFound) {
        ASSIGN_OR_RETURN(lease_, CreateLease());
        return OkStatus();
      }
      ASSIGN_OR_RETURN(lease_, std::move(read));
    }
    base::json::Set(lease_, {"spec", "holderIdentity"}, options_.node_name);
    base::json::Set(lease_, {"spec", "leaseDurationSeconds"}, LeaseSeconds());
    base::json::Set(lease_, {"spec", "renewTime"}, api::FormatMicroTime(clock_.Now()));
    auto written = client_.Update(api::kinds::kLease, lease_, "");
    if (!written.ok()) {
      lease_ = nullptr;  // so that the next renewal reads it again
      return written.status();
    }
    lease_ = *std::move(written);
    return OkStatus();
  }();
  if (!renewed.ok()) {
    return Outcome::Retry(
        base::Annotate(renewed, fmt::format("renew the lease of node '{}'", options_.node_name)));
  }
  return Outcome::After(options_.lease_duration / 4);
}

}  // namespace berth::node
