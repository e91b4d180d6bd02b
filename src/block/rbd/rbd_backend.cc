#include "block/rbd/rbd_backend.h"

#include <algorithm>
#include <chrono>

#include "base/fault.h"
#include "base/ids.h"
#include "base/key_locks.h"
#include "base/log.h"
#include "base/mutex.h"
#include "block/images/image_record.h"
#include "block/images/proxy_mappings.h"
#include "block/mount_shutdown.h"
#include "block/rbd/rbd_kernel.h"
#include "block/rbd/rbd_settings.h"
#include "block/storage_check.h"
#include "block/storage_program.h"
#include "block/storage_secret.h"
#include "platform/devices/loop_table.h"
#include "platform/files/record_files.h"

namespace berth::block {

using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;
using base::json::Int;
using base::json::String;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// So that a StorageCluster and a pod say within ten seconds what is wrong.
constexpr seconds kCheckTime{8};
constexpr seconds kCallTime{30};
// librbd removes an image object by object.
constexpr seconds kDeleteTime{1800};
constexpr seconds kMapTime{30};
constexpr seconds kUnmapTime{60};

ImageInfo ToInfo(const Json& answer) {
  return {.name = String(answer, {"name"}),
          .size_bytes = Int(answer, {"size"}),
          .snapshot_of = String(answer, {"snapshotOf"})};
}

class RbdBackend : public Backend {
 public:
  RbdBackend(RbdSettings settings, const BackendParts& parts, const std::string& program)
      : settings_(std::move(settings)),
        node_(parts.node),
        mark_(base::Sha256Hex(parts.node).substr(0, 12) + "." +
              base::Sha256Hex(settings_.Store()).substr(0, 12)),
        secret_({.ns = settings_.secret_namespace,
                 .name = settings_.secret_name,
                 .member = "rbd.secretRef"},
                parts.read_secret,
                [](const auto& values, const std::string& secret) {
                  return FindCephKey(values, secret).status();
                }),
        exec_(parts.exec),
        mounter_(parts.mounter),
        program_name_(program),
        program_(parts.exec, program),
        proxied_(settings_.Store(), parts) {}

  base::StatusOr<ImageInfo> Create(const NewImage& wanted) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(wanted.name));
    return CallForInfo({{"call", "create"},
                        {"image", wanted.name},
                        {"size", wanted.size_bytes},
                        {"source", wanted.source}});
  }
  base::Status Delete(const std::string& image) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(image));
    return Call({{"call", "delete"}, {"image", image}}, kDeleteTime).status();
  }
  base::StatusOr<ImageInfo> CreateSnapshot(const std::string& image,
                                           const std::string& snapshot) override {
    RETURN_IF_ERROR(CheckImageName(image));
    ASSIGN_OR_RETURN(const auto hold, LockImage(snapshot));
    return CallForInfo({{"call", "snapshot"}, {"image", image}, {"snapshot", snapshot}});
  }
  SnapshotSupport OffersSnapshots() const override { return SnapshotSupport::kOfAny; }
  base::StatusOr<ImageInfo> Grow(const std::string& image, int64_t size_bytes) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(image));
    return CallForInfo({{"call", "grow"}, {"image", image}, {"size", size_bytes}});
  }
  base::StatusOr<std::vector<ImageInfo>> List() override {
    ASSIGN_OR_RETURN(const Json answer, Call({{"call", "list"}}, kCallTime));
    std::vector<ImageInfo> images;
    for (const Json& one : base::json::Array(answer, {"images"})) images.push_back(ToInfo(one));
    return images;
  }

  base::StatusOr<bool> HasLock(const std::string& image) override {
    ASSIGN_OR_RETURN(const Json holders, FindHolders(image));
    return !holders.empty();
  }
  base::StatusOr<bool> HoldsLock(const Mapping& mapping) override {
    const base::Status sound = Check(mapping);
    if (sound.code() == StatusCode::kDataLoss) return false;
    RETURN_IF_ERROR(sound);
    // The API may be away, and a request to it would take longer than the storage.
    ASSIGN_OR_RETURN(const Json holders, FindHolders(mapping.image, StorageSecret::Age::kAny));
    const std::string client = String(mapping.state, {"client"});
    return std::ranges::any_of(holders, [&](const Json& one) {
      return client.empty() ? String(one, {"node"}) == node_ : String(one, {"address"}) == client;
    });
  }
  // Ceph keeps the locks with the images, so there is nothing to exchange. The storage is asked
  // whether it can be used, so that a wrong key or a missing pool is told before a fence is taken.
  base::Status ExchangeLocks(const std::string& /*life*/) override {
    RETURN_IF_ERROR(ReadKey());  // before an earlier check counts, because the Secret may be gone
    if (check_.IsRecent()) return base::OkStatus();
    const base::Status checked = Call({{"call", "check"}}, kCheckTime).status();
    if (checked.code() == StatusCode::kNotFound ||
        checked.code() == StatusCode::kPermissionDenied) {
      return Error(StatusCode::kFailedPrecondition, "{}", base::Message(checked));
    }
    RETURN_IF_ERROR(checked);
    check_.NotePassed();
    return base::OkStatus();
  }
  // A client that opened the image before, and has not asked for the lock yet, gets it only if
  // nobody else has it.
  base::Status ProveLocks(const std::string& /*life*/, const api::NodeName& /*node*/) override {
    return base::OkStatus();
  }
  std::string DescribeLapse() override {
    return "Ceph keeps the lock of a machine that died until somebody breaks it";
  }
  bool FencesNodes() const override { return true; }
  base::StatusOr<std::vector<std::string>> FindClients(const std::string& image,
                                                       const api::NodeName& node) override {
    RETURN_IF_ERROR(CheckImageName(image));
    ASSIGN_OR_RETURN(
        const Json answer,
        Call({{"call", "fenceTargets"}, {"image", image}, {"target", node.text()}}, kCallTime));
    return base::json::Strings(base::json::Array(answer, {"addresses"}));
  }
  base::Status Fence(const std::string& image, const api::NodeName& node,
                     const std::vector<std::string>& clients) override {
    RETURN_IF_ERROR(CheckImageName(image));
    // Without addresses the program would fence whatever client the node has by then.
    if (clients.empty()) return base::OkStatus();
    RETURN_IF_ERROR(
        Call({{"call", "fence"}, {"image", image}, {"target", node.text()}, {"addresses", clients}},
             kCallTime)
            .status());
    LOG_INFO("node {} is fenced from image {}: {}", Quote(node.text()), Quote(image),
             fmt::join(clients, ", "));
    return base::OkStatus();
  }
  base::Status EndUnshown(const std::string& image,
                          std::optional<milliseconds> force_within) override {
    return proxied_.EndUnshown(image, force_within);
  }
  base::Status FreeFromDead(const std::string& image) override {
    const auto holders = FindHolders(image);
    if (holders.status().code() == StatusCode::kNotFound) return base::OkStatus();
    RETURN_IF_ERROR(holders);
    const bool ours = std::ranges::any_of(
        *holders, [&](const Json& one) { return String(one, {"node"}) == node_; });
    if (!ours) return base::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<std::string> clients,
                     FindClients(image, api::NodeName(node_)));
    return Fence(image, api::NodeName(node_), clients);
  }
  base::StatusOr<std::map<std::string, std::vector<std::string>>> ListFenced() override {
    ASSIGN_OR_RETURN(const Json answer, Call({{"call", "fenced"}}, kCallTime));
    std::map<std::string, std::vector<std::string>> fenced;
    for (const auto& [node, clients] : base::json::Map(answer, {"nodes"}).items()) {
      fenced[node] = base::json::Strings(clients);
    }
    return fenced;
  }
  base::Status Unfence(const api::NodeName& node,
                       const std::vector<std::string>& clients) override {
    if (clients.empty()) return base::OkStatus();
    return Call({{"call", "unfence"}, {"target", node.text()}, {"addresses", clients}}, kCallTime)
        .status();
  }

  base::Status NoteFormatting(const std::string& image, const std::string& uuid) override {
    RETURN_IF_ERROR(CheckImageName(image));
    return Call({{"call", "note"}, {"image", image}, {"uuid", uuid}}, kCallTime).status();
  }
  base::StatusOr<std::string> ReadFormatting(const std::string& image) override {
    RETURN_IF_ERROR(CheckImageName(image));
    ASSIGN_OR_RETURN(const Json answer, Call({{"call", "readNote"}, {"image", image}}, kCallTime));
    return String(answer, {"uuid"});
  }

  base::StatusOr<Mapping> Map(const std::string& image, const MapOptions& options) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(image));
    ASSIGN_OR_RETURN(const std::optional<Mapping> found, Find(image));
    const bool by_kernel = found.has_value() ? IsKernelDevice(*found) : UsesKernel();
    if (!by_kernel) {
      ASSIGN_OR_RETURN(const std::string key, ReadKey());
      return proxied_.Map({.image = image,
                           .read_only = options.read_only,
                           .shared = options.shared_writers,
                           .program = program_name_,
                           .settings = {{"cluster", Describe(key)}, {"node", node_}}});
    }
    if (!found.has_value()) return MapByKernel(image, options);
    // The agent may have died between the map and the note.
    if (!found->read_only || options.read_only) return KeepIfNoted(*found);
    return Error(StatusCode::kFailedPrecondition,
                 "image {} is mapped for reading only, as {}: unmap it first", Quote(image),
                 found->device);
  }
  base::StatusOr<std::optional<Mapping>> FindMapping(const std::string& image) override {
    return Find(image);
  }
  base::StatusOr<std::vector<Mapping>> ListMappings() override {
    ASSIGN_OR_RETURN(std::vector<Mapping> mappings, proxied_.ListMappings());
    ASSIGN_OR_RETURN(const std::vector<RbdDevice> devices, ListRbdDevices(mark_));
    for (const RbdDevice& device : devices) {
      ASSIGN_OR_RETURN(Mapping mapping, ToMapping(device));
      mappings.push_back(std::move(mapping));
    }
    return mappings;
  }
  base::Status Check(const Mapping& mapping) override {
    return IsKernelDevice(mapping) ? Backend::Check(mapping) : proxied_.Check(mapping);
  }
  base::StatusOr<Mapping> Refresh(const Mapping& mapping) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(mapping.image));
    if (!IsKernelDevice(mapping)) {
      ASSIGN_OR_RETURN(const ImageInfo info,
                       CallForInfo({{"call", "info"}, {"image", mapping.image}}));
      return proxied_.Refresh(mapping, info.size_bytes);
    }
    // No other call for a device of the kernel reads the key, and HoldsLock needs it once the API
    // is away, also if this process was started after the map.
    if (const auto key = ReadKey(); !key.ok()) LOG_WARNING("{}", base::ToString(key.status()));
    ASSIGN_OR_RETURN(const std::optional<RbdDevice> device, FindDevice(mapping));
    if (!device.has_value()) {
      return Error(StatusCode::kNotFound, "{} no longer shows image {}", mapping.device,
                   Quote(mapping.image));
    }
    RETURN_IF_ERROR(RefreshRbdDevice(device->id, kMapTime));
    ASSIGN_OR_RETURN(const std::optional<RbdDevice> now, FindDevice(mapping));
    return ToMapping(now.has_value() ? *now : *device);
  }
  base::Status Unmap(const Mapping& mapping) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(mapping.image));
    if (!IsKernelDevice(mapping)) {
      const bool died = proxied_.Check(mapping).code() == StatusCode::kDataLoss;
      RETURN_IF_ERROR(proxied_.Unmap(mapping));
      return died ? FreeFromDead(mapping.image) : base::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::optional<RbdDevice> device, FindDevice(mapping));
    if (!device.has_value()) return base::OkStatus();
    RETURN_IF_ERROR(base::FaultPoint<"block.rbd_unmap.before">());
    RETURN_IF_ERROR(UnmapRbdDevice(device->id, /*force=*/false, kUnmapTime));
    RETURN_IF_ERROR(base::FaultPoint<"block.rbd_unmap.after">());
    ForgetKernelClient(mapping.image, device->client);
    return base::OkStatus();
  }
  base::Status ForceUnmap(const Mapping& mapping, milliseconds patience) override {
    if (!IsKernelDevice(mapping)) {
      // The caller frees the lock (FreeFromDead), because that needs the storage.
      return proxied_.ForceUnmap(mapping, patience);
    }
    ASSIGN_OR_RETURN(const std::optional<RbdDevice> device, FindDevice(mapping));
    if (!device.has_value()) return base::OkStatus();
    bool mounted = false;
    ASSIGN_OR_RETURN(const uint64_t sequence, platform::ReadDiskSequence(device->path));
    const base::Status shut_down =
        ShutDownMounts(mounter_, {.path = device->path, .device = device->device_number}, sequence,
                       patience, mounted);
    if (!shut_down.ok()) LOG_WARNING("{}", base::ToString(shut_down));
    return UnmapRbdDevice(device->id, /*force=*/true, patience);
  }

 private:
  base::StatusOr<base::KeyLocks::Hold> LockImage(const std::string& image) {
    RETURN_IF_ERROR(CheckImageName(image));
    return keys_.LockExclusive(image);
  }

  // The member `cluster` of a call.
  Json Describe(const std::string& key) const {
    return {{"monitors", settings_.monitors},
            {"pool", settings_.pool},
            {"namespace", settings_.ns},
            {"user", settings_.user},
            {"key", key}};
  }

  base::StatusOr<std::string> ReadKey(StorageSecret::Age age = StorageSecret::Age::kRecent) {
    ASSIGN_OR_RETURN(const StorageSecret::Values values, secret_.Read(age));
    ASSIGN_OR_RETURN(std::string key, FindCephKey(values, secret_.Describe()));
    base::MutexLock lock(mutex_);
    if (key != last_key_) check_.Forget();
    last_key_ = key;
    return key;
  }

  base::StatusOr<Json> Call(Json request, milliseconds timeout,
                            StorageSecret::Age age = StorageSecret::Age::kRecent) {
    ASSIGN_OR_RETURN(const std::string key, ReadKey(age));
    request["cluster"] = Describe(key);
    request["node"] = node_.empty() ? kOperatorName : node_;
    auto answer = program_.Call(request, key, timeout);
    if (answer.status().code() == StatusCode::kPermissionDenied) {
      secret_.Forget();  // it may have another key by now
      check_.Forget();
    }
    return answer;
  }
  base::StatusOr<ImageInfo> CallForInfo(Json request) {
    ASSIGN_OR_RETURN(const Json answer, Call(std::move(request), kCallTime));
    return ToInfo(answer);
  }
  base::StatusOr<Json> FindHolders(const std::string& image,
                                   StorageSecret::Age age = StorageSecret::Age::kRecent) {
    RETURN_IF_ERROR(CheckImageName(image));
    ASSIGN_OR_RETURN(const Json answer,
                     Call({{"call", "holders"}, {"image", image}}, kCallTime, age));
    return base::json::Array(answer, {"holders"});
  }

  bool UsesKernel() const { return settings_.access == RbdAccess::kKernel; }
  static bool IsKernelDevice(const Mapping& mapping) { return mapping.state.contains("rbd"); }

  base::StatusOr<Mapping> ToMapping(const RbdDevice& device) const {
    ASSIGN_OR_RETURN(std::string boot_id, platform::ReadBootId());
    return Mapping{
        .image = device.image,
        .device = device.path,
        .device_number = device.device_number,
        .size_bytes = static_cast<int64_t>(device.size_bytes),
        .read_only = device.read_only,
        .state = {{"rbd", device.id}, {"client", device.client}, {"bootId", std::move(boot_id)}}};
  }
  base::StatusOr<std::optional<Mapping>> Find(const std::string& image) const {
    ASSIGN_OR_RETURN(const std::vector<RbdDevice> devices, ListRbdDevices(mark_));
    std::optional<Mapping> found;
    for (const RbdDevice& device : devices) {
      if (device.image != image) continue;
      if (found.has_value()) {
        return Error(StatusCode::kFailedPrecondition,
                     "image {} is mapped twice, as {} and {}: unmap the one that is not in use",
                     Quote(image), found->device, device.path);
      }
      ASSIGN_OR_RETURN(found, ToMapping(device));
    }
    if (found.has_value()) return found;
    return proxied_.Find(image);
  }
  // The device, if it still is that mapping: the address of its client is used once.
  base::StatusOr<std::optional<RbdDevice>> FindDevice(const Mapping& mapping) const {
    ASSIGN_OR_RETURN(const std::string boot_id, platform::ReadBootId());
    ASSIGN_OR_RETURN(const std::vector<RbdDevice> devices, ListRbdDevices(mark_));
    for (const RbdDevice& device : devices) {
      if (device.path == mapping.device && device.image == mapping.image &&
          device.client == String(mapping.state, {"client"}) &&
          platform::IsThisBoot(String(mapping.state, {"bootId"}), boot_id)) {
        return std::optional(device);
      }
    }
    return std::optional<RbdDevice>();
  }

  base::StatusOr<Mapping> MapByKernel(const std::string& image, const MapOptions& options) {
    if (!HasKernelRbd()) {
      // A failure of modprobe is only logged, because MapRbdDevice reports that there is no client.
      const auto loaded =
          exec_.Run({.argv = {"modprobe", "rbd", "single_major=Y"}, .timeout = seconds(20)});
      if (!loaded.ok()) LOG_DEBUG("modprobe rbd: {}", base::ToString(loaded.status()));
    }
    ASSIGN_OR_RETURN(const std::string key, ReadKey());
    // A fence finds the client of a node by its note. The kernel gives the client its address only
    // with the map, so an intent stands for it meanwhile.
    ASSIGN_OR_RETURN(const Json intent, NoteKernelClient(image, "", options.read_only));
    RETURN_IF_ERROR(base::FaultPoint<"block.rbd_map.before">());
    const base::Status mapped = MapRbdDevice(settings_,
                                             {.image = image,
                                              .mark = mark_,
                                              .key = key,
                                              .read_only = options.read_only,
                                              .shared_writers = options.shared_writers},
                                             kMapTime);
    if (!mapped.ok()) {
      // After a time-out the kernel may still map it.
      const bool is_final = mapped.code() != StatusCode::kDeadlineExceeded;
      if (is_final) ForgetKernelClient(image, String(intent, {"address"}));
      return mapped;
    }
    RETURN_IF_ERROR(base::FaultPoint<"block.rbd_map.after">());
    ASSIGN_OR_RETURN(const std::optional<Mapping> mapping, Find(image));
    if (!mapping.has_value()) {
      return Error(StatusCode::kInternal, "the kernel mapped image {}, but shows no device",
                   Quote(image));
    }
    return KeepIfNoted(*mapping);
  }

  // Notes the address of the mapping's client, which is OK also if it is noted already. If that
  // fails, which it does also if the intent was fenced meanwhile, the device is removed, because
  // nothing may be written by a client that no fence would find.
  base::StatusOr<Mapping> KeepIfNoted(const Mapping& mapping) {
    const base::Status noted =
        NoteKernelClient(mapping.image, String(mapping.state, {"client"}), mapping.read_only)
            .status();
    if (noted.ok()) return mapping;
    const auto id = static_cast<uint32_t>(Int(mapping.state, {"rbd"}));
    const base::Status undone = UnmapRbdDevice(id, /*force=*/false, kUnmapTime);
    if (!undone.ok()) LOG_WARNING("{}", base::ToString(undone));
    return noted;
  }
  base::StatusOr<Json> NoteKernelClient(const std::string& image, const std::string& address,
                                        bool read_only) {
    return Call({{"call", "noteHolder"},
                 {"image", image},
                 {"address", address},
                 {"program", "krbd"},
                 {"readOnly", read_only}},
                kCallTime);
  }
  // Removes the note. A failure is only logged, because a fence of a client that has ended harms
  // nobody.
  void ForgetKernelClient(const std::string& image, const std::string& address) {
    const base::Status forgotten =
        Call({{"call", "noteHolder"}, {"image", image}, {"address", address}, {"program", ""}},
             kCallTime)
            .status();
    if (!forgotten.ok()) LOG_WARNING("image {}: {}", Quote(image), base::ToString(forgotten));
  }

  const RbdSettings settings_;
  const std::string node_;
  const std::string mark_;
  StorageSecret secret_;
  platform::Exec& exec_;
  platform::Mounter& mounter_;
  const std::string program_name_;
  const StorageProgram program_;
  const ProxyMappings proxied_;
  base::KeyLocks keys_{"image"};
  base::Mutex mutex_;
  std::string last_key_ ABSL_GUARDED_BY(mutex_);  // a check counts only for this key
  StorageCheck check_;
};

}  // namespace

base::StatusOr<std::unique_ptr<Backend>> OpenRbdBackend(const Json& settings,
                                                        const BackendParts& parts,
                                                        const std::string& program) {
  ASSIGN_OR_RETURN(RbdSettings read, ReadRbdSettings(settings));
  return std::make_unique<RbdBackend>(std::move(read), parts, program);
}

}  // namespace berth::block
