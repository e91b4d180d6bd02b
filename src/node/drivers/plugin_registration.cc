#include "node/drivers/plugin_registration.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "api/kinds/csi_names.h"
#include "base/fault.h"
#include "base/log.h"
#include "node/drivers/driver_identity.h"
#include "platform/files/durable_file.h"

namespace berth::node {
namespace {

using base::Error;
using base::MutexLock;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Outcome = base::KeyedWorkers::Outcome;

constexpr auto kNotifyTimeout = std::chrono::seconds(5);
constexpr int kMaxDepth = 4;
constexpr size_t kMaxSockets = 1000;
constexpr int kMaxWorkers = 32;
constexpr std::string_view kDriverSocket = "csi.sock";
// The work queue's key of the node's CSINode object; it is not a path.
constexpr std::string_view kCsiNode = "CSINode";
// A driver's own socket lies directly in a folder of the driver's name. Deeper folders are not
// searched, because volumes that may hang are mounted there.
constexpr int kPluginsDepth = 1;
// The work queue's key of RemoveAbsentDrivers; it is not a path.
constexpr char kAbsent[] = "";

StatusOr<PluginVersion> ParseVersion(std::string_view text) {
  const auto wrong = [text] {
    return Error(StatusCode::kInvalidArgument, "{} is not a version", Quote(text));
  };
  std::string_view rest = text.starts_with('v') ? text.substr(1) : text;
  PluginVersion version;
  for (int* part : {&version.major, &version.minor, &version.patch}) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), *part);
    if (error != std::errc() || *part < 0) return wrong();
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (rest.empty()) return version;
    // A pre-release or build tag may follow the number.
    if (rest.front() == '-' || rest.front() == '+') return version;
    if (rest.front() != '.') return wrong();
    rest.remove_prefix(1);
  }
  return wrong();
}

bool IsApiTrouble(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kAborted ||
         status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kNotFound ||
         status.code() == StatusCode::kUnauthenticated ||
         status.code() == StatusCode::kPermissionDenied;
}

// Marks a failure that the API caused.
constexpr absl::string_view kApiPayload = "berth/api";

bool IsApiFailure(const Status& status) { return status.GetPayload(kApiPayload).has_value(); }

Status WithContext(const Status& status, std::string_view context) {
  Status out = base::Annotate(status, context);
  if (IsApiFailure(status)) out.SetPayload(kApiPayload, absl::Cord("1"));
  return out;
}

}  // namespace

StatusOr<PluginVersion> FindHighestVersion(const std::vector<std::string>& versions) {
  std::optional<PluginVersion> highest;
  for (const std::string& text : versions) {
    ASSIGN_OR_RETURN(const PluginVersion version, ParseVersion(text));
    if (version.major < 1) {
      return Error(StatusCode::kInvalidArgument, "version {} is not supported any more",
                   Quote(text));
    }
    if (version.major == 1 && (!highest.has_value() || *highest < version)) highest = version;
  }
  if (!highest.has_value()) {
    return Error(StatusCode::kInvalidArgument, "the plugin supports no version with major 1");
  }
  return *highest;
}

PluginRegistration::PluginRegistration(PluginRegistrationOptions options, CsiNodes& csi_nodes,
                                       volume::DriverRegistry& drivers,
                                       std::function<void(const std::string&)> on_registered)
    : options_(std::move(options)),
      csi_nodes_(csi_nodes),
      drivers_(drivers),
      on_registered_(std::move(on_registered)),
      workers_({.name = "registration",
                .workers = 2,
                .max_workers = kMaxWorkers,
                .retry_start = options_.retry_start,
                .retry_max = options_.retry_max},
               [this](const std::string& path) { return Reconcile(path); }) {}

Status PluginRegistration::Start() {
  RETURN_IF_ERROR_WITH(platform::MakeFolders(options_.folder, 0755),
                       "make the folder of plugins' registration sockets");
  workers_.Start();
  workers_.AddNow(std::string(kCsiNode));
  workers_.AddAfter(kAbsent, options_.absent_delay);
  // The watch calls once at the start, which finds the sockets that exist already.
  ASSIGN_OR_RETURN(watch_, platform::WatchFolder(options_.folder, [this] { ScanFolders(); }));
  if (options_.plugins_folder.empty()) return OkStatus();
  RETURN_IF_ERROR_WITH(platform::MakeFolders(options_.plugins_folder, 0750),
                       "make the folder of drivers' sockets");
  ASSIGN_OR_RETURN(plugins_watch_,
                   platform::WatchFolder(options_.plugins_folder, [this] { ScanFolders(); },
                                         {.max_depth = kPluginsDepth}));
  return OkStatus();
}

void PluginRegistration::Stop() {
  watch_.reset();
  plugins_watch_.reset();
  questions_.Cancel();
  workers_.Stop();
}

std::optional<PluginRegistration::Identity> PluginRegistration::FindSocket(
    const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return std::nullopt;
  // The kernel may use an inode's number again at once, so the time of its making is part of the
  // identity.
  return Identity{.device = info.st_dev,
                  .inode = info.st_ino,
                  .seconds = info.st_mtim.tv_sec,
                  .nanoseconds = info.st_mtim.tv_nsec};
}

void PluginRegistration::CollectAnnounced(const std::string& folder, int depth, Sightings& out) {
  const auto names = platform::ListFolder(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.starts_with('.') || out.size() >= kMaxSockets) continue;
    const std::string path = fmt::format("{}/{}", folder, name);
    if (const auto socket = FindSocket(path)) {
      out[path] = *socket;
      continue;
    }
    struct stat info{};
    if (depth < kMaxDepth && lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      CollectAnnounced(path, depth + 1, out);
    }
  }
}

void PluginRegistration::CollectUnannounced(const std::string& folder, Sightings& out) {
  const auto names = platform::ListFolder(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (out.size() >= kMaxSockets || name.starts_with('.')) continue;
    const std::string path = fmt::format("{}/{}/{}", folder, name, kDriverSocket);
    if (const auto socket = FindSocket(path)) out[path] = *socket;
  }
}

void PluginRegistration::ScanFolders() {
  MutexLock scan(scan_mutex_);
  Sightings announced, unannounced;
  CollectAnnounced(options_.folder, 0, announced);
  if (!options_.plugins_folder.empty()) CollectUnannounced(options_.plugins_folder, unannounced);
  std::vector<std::string> changed, later;
  {
    MutexLock lock(mutex_);
    const auto see = [&](const Sightings& found, bool by_announcement)
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                           for (const auto& [path, identity] : found) {
                             Socket& socket = sockets_[path];
                             if (socket.seen == identity) continue;
                             socket.seen = identity;
                             socket.announced = by_announcement;
                             (by_announcement ? changed : later).push_back(path);
                           }
                         };
    see(announced, true);
    see(unannounced, false);
    for (auto& [path, socket] : sockets_) {
      if (!socket.seen.has_value() || announced.contains(path) || unannounced.contains(path)) {
        continue;
      }
      socket.seen.reset();
      changed.push_back(path);
    }
  }
  for (const std::string& path : changed) workers_.AddNow(path);
  for (const std::string& path : later) workers_.AddAfter(path, options_.unannounced_delay);
}

Outcome PluginRegistration::Reconcile(const std::string& path) {
  if (path == kCsiNode) return Outcome::From(csi_nodes_.EnsureCsiNode());
  if (path == kAbsent) return Outcome::From(RemoveAbsentDrivers());
  Socket socket;
  {
    MutexLock lock(mutex_);
    const auto found = sockets_.find(path);
    if (found == sockets_.end()) return Outcome::Done();
    socket = found->second;
  }
  if (!socket.seen.has_value()) {
    if (socket.registered.has_value()) {
      if (const Status gone = Unregister(path, *socket.registered); !gone.ok()) {
        return Outcome::Retry(gone);
      }
    }
    MutexLock lock(mutex_);
    const auto found = sockets_.find(path);
    if (found != sockets_.end() && !found->second.seen.has_value()) sockets_.erase(found);
    return Outcome::Done();
  }
  if (socket.registered.has_value() && socket.registered->identity == *socket.seen) {
    return socket.write_again ? Outcome::From(RewriteDriver(path, *socket.registered))
                              : Outcome::Done();
  }
  if (!socket.announced && IsAnnouncedElsewhere(path)) return Outcome::Done();
  const Status registered = Register(path, socket);
  if (registered.ok()) return Outcome::Done();
  // The driver that an earlier socket at this path had registered does not answer any more, so it
  // is unregistered. It stays if only the API failed or this process stops.
  const bool in_order = IsApiFailure(registered) || registered.code() == StatusCode::kCancelled;
  if (socket.registered.has_value() && !in_order) {
    if (const Status gone = Unregister(path, *socket.registered); !gone.ok()) {
      LOG_WARNING("{}", base::ToString(gone));
    }
  }
  return Outcome::Retry(registered);
}

Status PluginRegistration::ValidatePlugin(const std::string& path, const rpc::PluginInfo& info,
                                          PluginVersion& version) const {
  if (info.type != "CSIPlugin") {
    return Error(StatusCode::kInvalidArgument, "plugins of type {} are not supported",
                 Quote(info.type));
  }
  RETURN_IF_ERROR(api::CheckCsiDriverName(info.name));
  ASSIGN_OR_RETURN(version, FindHighestVersion(info.supported_versions));
  MutexLock lock(mutex_);
  for (const auto& [other, socket] : sockets_) {
    if (other == path || !socket.registered.has_value() || !socket.announced ||
        socket.registered->driver != info.name || version > socket.registered->version) {
      continue;
    }
    return Error(StatusCode::kAlreadyExists,
                 "driver '{}' is registered already, with the same version or a higher one, by {}",
                 info.name, Quote(other));
  }
  return OkStatus();
}

bool PluginRegistration::IsAnnouncedElsewhere(const std::string& path) const {
  const std::string driver = std::filesystem::path(path).parent_path().filename();
  return IsAnnounced(driver);
}

bool PluginRegistration::IsAnnounced(const std::string& driver) const {
  MutexLock lock(mutex_);
  return announced_.contains(driver);
}

bool PluginRegistration::IsStillRegistered(const std::string& path,
                                           const Registered& registered) const {
  MutexLock lock(mutex_);
  const auto found = sockets_.find(path);
  return found != sockets_.end() && found->second.registered.has_value() &&
         found->second.registered->identity == registered.identity &&
         found->second.registered->driver == registered.driver;
}

// Registers a driver, whose identity is checked, with the CSI volume plugin and the API.
Status PluginRegistration::EnterDriver(const std::string& path, const std::string& name,
                                       const std::string& endpoint) {
  const bool known = drivers_.FindSocket(name).ok();
  const StatusOr<NodeDriver> driver = questions_.AskNodeInfo(name, endpoint);
  if (driver.status().code() == StatusCode::kCancelled) return driver.status();
  const auto take_out = [this, &name] {
    drivers_.Unregister(name);
    const Status undone = csi_nodes_.RemoveDriver(name);
    if (!undone.ok()) LOG_WARNING("{}", base::ToString(undone));
  };
  if (!driver.ok()) {
    // The data that an earlier version of the driver reported about the node are not valid any
    // more.
    take_out();
    return base::Annotate(driver.status(), fmt::format("driver '{}'", name));
  }
  SetWriteAgain(path, false);
  // The driver is registered before the API lists it, because the first pod may come at once.
  drivers_.Register(name, endpoint);
  Status written = csi_nodes_.AddDriver(*driver);
  if (written.ok()) return OkStatus();
  if (!IsApiTrouble(written)) {
    take_out();
    return written;
  }
  // A driver that was registered before stays registered, because pods end also while the API
  // cannot be reached.
  if (!known) drivers_.Unregister(name);
  written.SetPayload(kApiPayload, absl::Cord("1"));
  return written;
}

void PluginRegistration::ReportFailure(const std::string& path, const Socket& socket,
                                       const Status& why) const {
  if (why.code() == StatusCode::kCancelled) return;
  if (!IsApiFailure(why)) return ReportRefusal(path, socket, why);
  if (options_.on_delayed) options_.on_delayed(why);
}

void PluginRegistration::ReportRefusal(const std::string& path, const Socket& socket,
                                       const Status& why) const {
  if (socket.announced) {
    const Status notified =
        rpc::NotifyRegistrationStatus(path, false, std::string(base::Message(why)), kNotifyTimeout);
    if (!notified.ok())
      LOG_WARNING("register the plugin at {}: {}", Quote(path), base::ToString(notified));
  }
  if (options_.on_refused) options_.on_refused(why);
}

StatusOr<std::shared_ptr<void>> PluginRegistration::ReserveName(const std::string& driver) {
  MutexLock lock(mutex_);
  if (!taken_.insert(driver).second) {
    return Error(StatusCode::kUnavailable,
                 "driver '{}' is being registered or unregistered by another socket", driver);
  }
  return std::shared_ptr<void>(nullptr, [this, driver](void*) {
    MutexLock lock(mutex_);
    taken_.erase(driver);
  });
}

Status PluginRegistration::Register(const std::string& path, const Socket& socket) {
  const std::string context = fmt::format("register the plugin at {}", Quote(path));
  RETURN_IF_ERROR(base::FaultPoint<"node.registration.begin">());
  const StatusOr<rpc::PluginInfo> info =
      socket.announced ? AskRegistrationSocket(path) : AskDriverSocket(path);
  if (!info.ok()) {
    const Status why = base::Annotate(info.status(), context);
    // A wrong answer is reported to the registrar. A driver that does not answer may still be
    // starting.
    if (why.code() == StatusCode::kInvalidArgument) ReportRefusal(path, socket, why);
    return why;
  }
  if (!socket.announced) {
    // The socket of an announced driver may lie in a folder of any name.
    if (IsAnnounced(info->name)) return OkStatus();
    if (const Status folder = CheckDriverFolder(path, info->name); !folder.ok()) {
      const Status why = base::Annotate(folder, context);
      ReportRefusal(path, socket, why);
      return why;
    }
  }
  // Another driver than before answers at this path. The earlier one is unregistered here, because
  // nothing else reports its end.
  if (socket.registered.has_value() && socket.registered->driver != info->name) {
    RETURN_IF_ERROR_WITH(Unregister(path, *socket.registered), context);
  }
  const auto name = ReserveName(info->name);
  RETURN_IF_ERROR_WITH(name, context);
  if (socket.announced) {
    MutexLock lock(mutex_);
    announced_.insert(info->name);
  }
  Registered registered{.driver = info->name, .endpoint = info->endpoint, .identity = *socket.seen};
  Status entered = ValidatePlugin(path, *info, registered.version);
  if (entered.ok()) entered = EnterDriver(path, info->name, info->endpoint);
  if (!entered.ok()) {
    const Status why = WithContext(entered, context);
    ReportFailure(path, socket, why);
    return why;
  }
  {
    MutexLock lock(mutex_);
    // A higher version replaces the registration by another socket, and an announced driver
    // replaces an unannounced one.
    for (auto& [other, entry] : sockets_) {
      if (entry.registered.has_value() && entry.registered->driver == info->name) {
        entry.registered.reset();
      }
    }
    sockets_[path].registered = registered;
  }
  LOG_INFO("CSI driver {} is registered, at {}", Quote(info->name), Quote(info->endpoint));
  on_registered_(info->name);
  if (!socket.announced) return OkStatus();
  const Status notified = rpc::NotifyRegistrationStatus(path, true, "", kNotifyTimeout);
  // The driver stays registered although the notice failed. If the driver has ended, its socket
  // changes, and that is noticed.
  if (!notified.ok()) LOG_WARNING("{}: {}", context, base::ToString(notified));
  return OkStatus();
}

void PluginRegistration::WriteAgain() {
  std::vector<std::string> paths;
  {
    MutexLock lock(mutex_);
    for (auto& [path, socket] : sockets_) {
      // This is set also while a registration runs, because its writes may be done already.
      socket.write_again = true;
      paths.push_back(path);
    }
  }
  workers_.AddNow(std::string(kCsiNode));
  for (const std::string& path : paths) workers_.AddNow(path);
}

void PluginRegistration::SetWriteAgain(const std::string& path, bool again) {
  MutexLock lock(mutex_);
  if (const auto found = sockets_.find(path); found != sockets_.end()) {
    found->second.write_again = again;
  }
}

Status PluginRegistration::RewriteDriver(const std::string& path, const Registered& registered) {
  const std::string context = fmt::format("write driver '{}' again", registered.driver);
  const auto name = ReserveName(registered.driver);
  RETURN_IF_ERROR_WITH(name, context);
  // Another socket may have registered the driver while this call waited for the name.
  if (!IsStillRegistered(path, registered)) return OkStatus();
  const Status entered = EnterDriver(path, registered.driver, registered.endpoint);
  if (entered.ok()) return OkStatus();
  const Status why = WithContext(entered, context);
  Socket socket;
  {
    MutexLock lock(mutex_);
    const auto found = sockets_.find(path);
    if (found == sockets_.end()) return why;
    if (IsApiFailure(why) || why.code() == StatusCode::kCancelled) {
      found->second.write_again = true;
    } else {
      // The registration is undone, so it is tried again as a failed registration.
      found->second.registered.reset();
    }
    socket = found->second;
  }
  ReportFailure(path, socket, why);
  return why;
}

bool PluginRegistration::IsRegistered(const std::string& driver) const {
  MutexLock lock(mutex_);
  return std::any_of(sockets_.begin(), sockets_.end(), [&](const auto& entry) {
    return entry.second.registered.has_value() && entry.second.registered->driver == driver;
  });
}

Status PluginRegistration::RemoveAbsentDrivers() {
  ASSIGN_OR_RETURN(const std::vector<std::string> listed, csi_nodes_.ReadDrivers());
  for (const std::string& driver : listed) {
    ASSIGN_OR_RETURN(const auto name, ReserveName(driver));
    if (IsRegistered(driver)) continue;
    RETURN_IF_ERROR(csi_nodes_.RemoveDriver(driver));
    LOG_INFO("CSI driver {} is not on this node any more, so it is removed from CSINode",
             Quote(driver));
  }
  return OkStatus();
}

Status PluginRegistration::Unregister(const std::string& path, const Registered& registered) {
  ASSIGN_OR_RETURN(const auto name, ReserveName(registered.driver));
  {
    MutexLock lock(mutex_);
    const auto found = sockets_.find(path);
    // Another socket has registered the driver since.
    if (found == sockets_.end() || !found->second.registered.has_value()) return OkStatus();
  }
  drivers_.Unregister(registered.driver);
  RETURN_IF_ERROR_WITH(csi_nodes_.RemoveDriver(registered.driver),
                       fmt::format("unregister driver '{}'", registered.driver));
  LOG_INFO("CSI driver {} is unregistered: its socket is gone", Quote(registered.driver));
  MutexLock lock(mutex_);
  const auto found = sockets_.find(path);
  if (found != sockets_.end() && found->second.registered.has_value() &&
      found->second.registered->identity == registered.identity) {
    found->second.registered.reset();
  }
  return OkStatus();
}

}  // namespace berth::node
