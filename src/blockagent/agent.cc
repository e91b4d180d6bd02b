#include "blockagent/agent.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "api/kinds/secret_data.h"
#include "base/ipc/block_call.h"
#include "base/ipc/message.h"
#include "base/log.h"
#include "base/workers/keyed_workers.h"
#include "blockagent/cluster_cleanup.h"
#include "blockagent/driver_service.h"
#include "blockagent/lock_watch.h"
#include "blockagent/node_cleanup_worker.h"
#include "kube/informers/informers.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "rpc/unix_socket.h"
#include "volume/flex/driver_install.h"
#include "volume/flex/plugin_folder.h"

namespace berth::blockagent {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Deadline = Attachments::Deadline;
using Outcome = base::KeyedWorkers::Outcome;

constexpr size_t kLargestDriver = 8 * 1024 * 1024;
// How long Reconcile and the node's cleanup wait for a volume that a request works on.
constexpr std::chrono::seconds kOwnPatience{30};
// The delay before the agent works again on a volume for which Reconcile left something open.
constexpr std::chrono::seconds kSoon{10};
// The patience of each step that shuts a device off: a part of kShutOffTime.
constexpr std::chrono::seconds kShutOffPatience{5};

// Reads the driver's executable, and appends its trailer (base/ipc/block_call.h).
StatusOr<std::string> ReadDriverWithTrailer(const std::string& executable,
                                            const std::string& socket) {
  namespace call = base::ipc::block;
  ASSIGN_OR_RETURN(std::string content, platform::ReadFile(executable, kLargestDriver));
  const std::string trailer =
      base::ipc::WriteJson(base::ipc::Message().Set(call::kTrailerSocket, socket));
  if (trailer.size() > call::kLargestTrailer) {
    return Error(StatusCode::kInvalidArgument, "the socket's path {} is too long", Quote(socket));
  }
  const auto length = static_cast<uint32_t>(trailer.size());
  content += trailer;
  content.append(reinterpret_cast<const char*>(&length), sizeof(length));
  content += call::kTrailerMagic;
  return content;
}

StatusOr<std::map<std::string, std::string>> ReadSecret(kube::Client& client, const std::string& ns,
                                                        const std::string& name) {
  const auto secret = kube::Get<api::Secret>(client, ns, name);
  RETURN_IF_ERROR(secret);
  return api::DecodeSecretData(*secret);
}

class AgentImpl : public Agent {
 public:
  AgentImpl(AgentOptions options, kube::Client& client)
      : options_(std::move(options)),
        informers_(client),
        workers_({.name = "block-agent",
                  .workers = 4,
                  .max_workers = 32,
                  .retry_start = std::chrono::seconds(2),
                  .retry_max = std::chrono::minutes(2)},
                 [this](const std::string& volume) { return ReconcileVolume(volume); }),
        cleanups_({.name = "node-cleanup",
                   .workers = 1,
                   .retry_start = std::chrono::seconds(2),
                   .retry_max = std::chrono::minutes(1)},
                  [this](const std::string&) { return RunNodeCleanup(); }) {}

  ~AgentImpl() override {
    if (attachments_ != nullptr) attachments_->EndWaits();
    service_.reset();
    if (self_fence_ != nullptr) self_fence_->Stop();
    informers_.Stop();
    if (lock_watch_ != nullptr) lock_watch_->Stop();
    if (cluster_cleanup_ != nullptr) cluster_cleanup_->Stop();
    cleanups_.Stop();
    workers_.Stop();
  }

  Status StartParts(kube::Client& client, base::EventSink& events, const base::Clock& clock,
                    MakeBackend make_backend, kube::Client& probe) {
    if (options_.self_fence.has_value()) RETURN_IF_ERROR(CheckSelfFenceTimes(*options_.self_fence));
    if (!make_backend) {
      make_backend = [this, &client](const base::Json& settings) {
        return block::OpenBackend(settings,
                                  {.exec = *exec_,
                                   .mounter = *mounter_,
                                   .proxy_socket = options_.proxy_socket,
                                   .node = options_.node,
                                   .read_secret = [&client](const auto& ns, const auto& name) {
                                     return ReadSecret(client, ns, name);
                                   }});
      };
    }
    ASSIGN_OR_RETURN(const std::string socket, rpc::SocketPath(options_.socket));
    RETURN_IF_ERROR(platform::MakeNamedFolder(
        {.path = options_.data_folder, .names = platform::kDataFolderNames}));
    const std::string folder = options_.data_folder + "/block-agent";
    RETURN_IF_ERROR(platform::MakePrivateFolder(folder));
    auto lock = platform::LockFile(folder + "/lock");
    RETURN_IF_ERROR_WITH(lock, "another block agent of this node runs");
    lock_ = *std::move(lock);
    ASSIGN_OR_RETURN(attachments_,
                     Attachments::Open({.node = options_.node,
                                        .data_folder = folder,
                                        .kubelet_folder = options_.kubelet_folder,
                                        .consumers = {.lease_time = options_.node_silence}},
                                       {.client = client,
                                        .exec = *exec_,
                                        .mounter = *mounter_,
                                        .events = events,
                                        .clock = clock,
                                        .make_backend = std::move(make_backend)}));
    cleanup_worker_.emplace(NodeCleanupWorker::Options{.node = options_.node}, client, events,
                            *attachments_);
    cluster_cleanup_ = std::make_unique<ClusterCleanup>(options_.node, client, *attachments_);
    lock_watch_ = std::make_unique<LockWatch>(
        LockWatch::Options{.node = options_.node, .resync = options_.resync}, events,
        informers_.OfOptional<api::StorageCluster>(), *attachments_);
    WatchObjects();
    for (const std::string& volume : attachments_->ListVolumes()) workers_.Add(volume);
    workers_.Start();
    cleanups_.Add(options_.node);
    cleanups_.Start();
    cluster_cleanup_->Start();
    lock_watch_->Start();
    StartSelfFence(probe);
    informers_.Start();
    ASSIGN_OR_RETURN(
        service_, DriverService::Start(
                      {.socket = socket,
                       .mount =
                           [this](const MountCall& call, Deadline deadline) {
                             const Status mounted = attachments_->Mount(call, deadline);
                             QueueLater(call.volume);
                             return mounted;
                           },
                       .unmount =
                           [this](const std::string& mount_dir, Deadline deadline) {
                             return attachments_->Unmount(mount_dir, deadline);
                           },
                       .expand =
                           [this](const std::string& mount_dir, int64_t bytes, Deadline deadline) {
                             return attachments_->Expand(mount_dir, bytes, deadline);
                           }}));
    return InstallDriver(socket);
  }

  Status Health() const override {
    if (service_ != nullptr && service_->ready()) return base::OkStatus();
    return Error(StatusCode::kUnavailable, "the driver in {} has not made its handshake yet{}",
                 Quote(plugin_folder_), hint_);
  }

  Attachments& attachments() override { return *attachments_; }

 private:
  void StartSelfFence(kube::Client& probe) {
    if (!options_.self_fence.has_value()) return;
    self_fence_ = std::make_unique<SelfFence>(
        SelfFence::Options{.after = options_.self_fence->after},
        SelfFence::Parts{
            .ask_api = [this, &probe] { return AskApi(probe); },
            .list = [this] { return attachments_->ListMovableVolumes(); },
            .ask_lock =
                [this](const std::string& volume) { return attachments_->CheckOwnLock(volume); },
            .take_off =
                [this](const std::string& volume) {
                  return attachments_->TakeOffCutOff(
                      volume, {.on = true, .patience = kShutOffPatience},
                      std::chrono::steady_clock::now() + kOwnPatience);
                },
            .returned =
                [this](const std::set<std::string>& volumes) {
                  for (const std::string& volume : volumes) {
                    attachments_->ReportCutOff(volume);
                    workers_.AddNow(volume);
                  }
                }});
    self_fence_->Start();
  }

  // Reads the Lease that the kubelet renews, because its duration bounds the time for which others
  // wait, too.
  Status AskApi(kube::Client& probe) {
    const auto lease = kube::Get<api::Lease>(probe, "kube-node-lease", options_.node);
    // A refusal is an answer as well.
    if (lease.status().code() == StatusCode::kNotFound ||
        lease.status().code() == StatusCode::kPermissionDenied) {
      return base::OkStatus();
    }
    RETURN_IF_ERROR(lease);
    const std::chrono::seconds duration(lease->Int({"spec", "leaseDurationSeconds"}));
    if (duration.count() <= 0 || duration >= options_.self_fence->grace_period) {
      return base::OkStatus();
    }
    const Status fits =
        CheckSelfFenceTimes({.after = options_.self_fence->after, .grace_period = duration});
    if (!fits.ok() && !std::exchange(told_short_lease_, true)) {
      LOG_ERROR("the Lease of node {} counts for {} s only: {}", Quote(options_.node),
                duration.count(), base::Message(fits));
    }
    return base::OkStatus();
  }

  void WatchObjects() {
    informers_.OfOptional<api::VolumeFence>().AddHandler([this](const auto& change) {
      QueueByFence(change.key, change.after.get());
      for (const api::FenceEntry& entry : change.latest().entries()) {
        if (entry.node != options_.node) lock_watch_->QueueCluster(entry.cluster_name);
      }
    });
    informers_.Of<api::PersistentVolume>().AddHandler(
        [this](const auto& change) { QueueNow(change.key); });
    informers_.OfOptional<api::NodeCleanup>().AddHandler([this](const auto& change) {
      if (change.key == options_.node) cleanups_.AddNow(change.key);
    });
    informers_.OfOptional<api::StorageCluster>().AddHandler([this](const auto& change) {
      if (change.latest().deleting()) cluster_cleanup_->QueueCluster(change.key);
      lock_watch_->QueueCluster(change.key);
    });
  }

  // Queues a volume whose fence has changed; `fence` is null if it was deleted. A fence that allows
  // every use on record is no news: most of its changes are this agent's own, in which a mount
  // writes its pod and its device. A run at once would wait for that mount and then ask the
  // API and the device again, so the run comes later.
  void QueueByFence(const std::string& volume, const api::VolumeFence* fence) {
    const std::optional<Record> record = attachments_->Find(volume);
    if (!record.has_value()) return;
    const bool allows_all = fence != nullptr && !record->uses.empty() &&
                            std::ranges::all_of(record->uses, [&](const Use& use) {
                              return use.state != State::kDetaching && AllowsUse(*fence, use.entry);
                            });
    if (allows_all) {
      workers_.AddAfter(volume, options_.after_harmless_change);
    } else {
      workers_.AddNow(volume);
    }
  }
  void QueueNow(const std::string& volume) {
    if (attachments_->Find(volume).has_value()) workers_.AddNow(volume);
  }
  void QueueLater(const std::string& volume) {
    if (attachments_->Find(volume).has_value()) workers_.AddAfter(volume, options_.resync);
  }

  Outcome ReconcileVolume(const std::string& volume) {
    const auto again =
        attachments_->Reconcile(volume, std::chrono::steady_clock::now() + kOwnPatience);
    if (!again.ok()) return Outcome::Retry(again.status());
    if (!attachments_->Find(volume).has_value()) return Outcome::Done();
    return Outcome::After(*again ? kSoon : options_.resync);
  }

  Outcome RunNodeCleanup() {
    const Status done =
        cleanup_worker_->WorkOffEntries(std::chrono::steady_clock::now() + kOwnPatience);
    // It may leave records without uses.
    for (const std::string& volume : attachments_->ListVolumes()) QueueLater(volume);
    return done.ok() ? Outcome::After(options_.resync) : Outcome::Retry(done);
  }

  Status InstallDriver(const std::string& socket) {
    plugin_folder_ = options_.plugin_folder;
    if (plugin_folder_.empty()) {
      ASSIGN_OR_RETURN(const volume::PluginFolder found,
                       volume::FindPluginFolder(options_.host_root));
      plugin_folder_ = found.path;
      if (found.known) {
        LOG_INFO("the kubelet looks for drivers in '{}': {}", found.path, found.why);
      } else {
        hint_ =
            "; the folder is a guess, because the kubelet's settings were not found: if the "
            "kubelet "
            "looks elsewhere (volumePluginDir in its configuration), give this agent "
            "--volume-plugin-dir";
        LOG_WARNING("the kubelet's folder of drivers is not known, and '{}' is taken: {}{}",
                    found.path, found.why, hint_);
      }
    }
    ASSIGN_OR_RETURN(const std::string content,
                     ReadDriverWithTrailer(options_.driver_executable, socket));
    for (const std::string& driver : options_.drivers) {
      RETURN_IF_ERROR_WITH(
          volume::InstallDriverFile(options_.host_root + plugin_folder_, driver, content),
          fmt::format("install driver {} in {}", Quote(driver), Quote(plugin_folder_)));
      LOG_INFO("driver '{}' is installed in '{}'", driver, plugin_folder_);
    }
    return base::OkStatus();
  }

  const AgentOptions options_;
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::string plugin_folder_;
  std::string hint_;  // what to do if the folder is not the kubelet's
  base::UniqueFd lock_;
  std::unique_ptr<Attachments> attachments_;
  std::optional<NodeCleanupWorker> cleanup_worker_;
  std::unique_ptr<ClusterCleanup> cluster_cleanup_;
  std::unique_ptr<LockWatch> lock_watch_;
  std::unique_ptr<SelfFence> self_fence_;
  bool told_short_lease_ = false;  // only the thread that asks the API uses it
  kube::Informers informers_;
  base::KeyedWorkers workers_;
  base::KeyedWorkers cleanups_;  // one key: the node
  std::unique_ptr<DriverService> service_;
};

}  // namespace

StatusOr<std::unique_ptr<Agent>> Agent::Start(AgentOptions options, kube::Client& client,
                                              base::EventSink& events, const base::Clock& clock,
                                              MakeBackend make_backend, kube::Client* probe) {
  auto agent = std::make_unique<AgentImpl>(std::move(options), client);
  RETURN_IF_ERROR(agent->StartParts(client, events, clock, std::move(make_backend),
                                    probe == nullptr ? client : *probe));
  return std::unique_ptr<Agent>(std::move(agent));
}

}  // namespace berth::blockagent
