#include "node/plugin_registration.h"

#include <sys/stat.h>

#include <charconv>

#include "api/names.h"
#include "base/fault.h"
#include "base/log.h"
#include "platform/durable_file.h"
#include "rpc/csi_client.h"

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

constexpr auto kGetInfoTimeout = std::chrono::seconds(1);
constexpr auto kNotifyTimeout = std::chrono::seconds(5);
constexpr auto kNodeGetInfoTimeout = std::chrono::minutes(2);
constexpr int kMaxDepth = 4;
constexpr size_t kMaxSockets = 1000;
// CSI: a plugin's name has at most 63 characters.
constexpr size_t kMaxDriverName = 63;

StatusOr<PluginVersion> ParseVersion(std::string_view text) {
  const auto wrong = [text] {
    return Error(StatusCode::kInvalidArgument, "{} is no version", Quote(text));
  };
  std::string_view rest = text.starts_with('v') ? text.substr(1) : text;
  PluginVersion version;
  for (int* part : {&version.major, &version.minor, &version.patch}) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), *part);
    if (error != std::errc() || *part < 0) return wrong();
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (rest.empty()) return version;
    // What follows the number is a pre-release or build tag.
    if (rest.front() == '-' || rest.front() == '+') return version;
    if (rest.front() != '.') return wrong();
    rest.remove_prefix(1);
  }
  return wrong();
}

bool IsApiTrouble(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kAborted ||
         status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kNotFound ||
         status.code() == StatusCode::kUnauthenticated;
}

// Marks a failure that lies with the API.
constexpr absl::string_view kApiPayload = "berth/api";

}  // namespace

StatusOr<PluginVersion> HighestVersion(const std::vector<std::string>& versions) {
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
                .retry_start = options_.retry_start,
                .retry_max = options_.retry_max},
               [this](const std::string& path) { return Reconcile(path); }) {}

Status PluginRegistration::Start() {
  RETURN_IF_ERROR_WITH(platform::MakeFolders(options_.folder, 0755),
                       "make the folder of plugins' registration sockets");
  workers_.Start();
  // The watch calls once at the start: that finds the sockets which are there already.
  ASSIGN_OR_RETURN(watch_, platform::WatchFolder(options_.folder, [this] { Scan(); }));
  return OkStatus();
}

void PluginRegistration::Stop() {
  watch_.reset();
  workers_.Stop();
}

void PluginRegistration::Collect(const std::string& folder, int depth,
                                 std::map<std::string, Identity>& out) {
  const auto names = platform::ListFolder(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.starts_with('.') || out.size() >= kMaxSockets) continue;
    const std::string path = fmt::format("{}/{}", folder, name);
    struct stat info{};
    if (lstat(path.c_str(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode) && depth < kMaxDepth) {
      Collect(path, depth + 1, out);
    } else if (S_ISSOCK(info.st_mode)) {
      // An inode's number may be used again at once; with its time of making it is unique.
      out[path] = {.device = info.st_dev,
                   .inode = info.st_ino,
                   .seconds = info.st_mtim.tv_sec,
                   .nanoseconds = info.st_mtim.tv_nsec};
    }
  }
}

void PluginRegistration::Scan() {
  std::map<std::string, Identity> found;
  Collect(options_.folder, 0, found);
  std::vector<std::string> changed;
  {
    MutexLock lock(mutex_);
    for (const auto& [path, identity] : found) {
      Socket& socket = sockets_[path];
      if (socket.seen == identity) continue;
      socket.seen = identity;
      changed.push_back(path);
    }
    for (auto& [path, socket] : sockets_) {
      if (!socket.seen.has_value() || found.contains(path)) continue;
      socket.seen.reset();
      changed.push_back(path);
    }
  }
  for (const std::string& path : changed) workers_.AddNow(path);
}

Outcome PluginRegistration::Reconcile(const std::string& path) {
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
    return socket.write_again ? Outcome::From(WriteOnceMore(path, *socket.registered))
                              : Outcome::Done();
  }
  const Status registered = Register(path, *socket.seen);
  if (registered.ok()) return Outcome::Done();
  // What an earlier socket at this path had registered answers no more.
  if (socket.registered.has_value()) {
    if (const Status gone = Unregister(path, *socket.registered); !gone.ok()) {
      LOG_WARNING("{}", base::ToString(gone));
    }
  }
  return Outcome::Retry(registered);
}

Status PluginRegistration::Validate(const std::string& path, const rpc::PluginInfo& info,
                                    PluginVersion& version) const {
  if (info.type != "CSIPlugin") {
    return Error(StatusCode::kInvalidArgument, "plugins of type {} are not handled here",
                 Quote(info.type));
  }
  if (info.name.size() > kMaxDriverName) {
    return Error(StatusCode::kInvalidArgument, "the driver's name is longer than {} characters",
                 kMaxDriverName);
  }
  RETURN_IF_ERROR_WITH(api::CheckDns1123Subdomain(info.name),
                       fmt::format("the driver's name {}", Quote(info.name)));
  ASSIGN_OR_RETURN(version, HighestVersion(info.supported_versions));
  MutexLock lock(mutex_);
  for (const auto& [other, socket] : sockets_) {
    if (other == path || !socket.registered.has_value() || socket.registered->driver != info.name ||
        version > socket.registered->version) {
      continue;
    }
    return Error(StatusCode::kAlreadyExists,
                 "driver '{}' is registered already, with the same version or a higher one, by {}",
                 info.name, Quote(other));
  }
  return OkStatus();
}

StatusOr<NodeDriver> PluginRegistration::AskDriver(const std::string& name,
                                                   const std::string& endpoint) const {
  ASSIGN_OR_RETURN(const auto client, rpc::CsiClient::New(endpoint));
  const auto info = client->NodeGetInfo(csi::v1::NodeGetInfoRequest(), kNodeGetInfoTimeout);
  RETURN_IF_ERROR(info);
  NodeDriver driver{
      .name = name, .node_id = info->node_id(), .max_volumes = info->max_volumes_per_node()};
  for (const auto& [key, value] : info->accessible_topology().segments()) {
    driver.topology[key] = value;
  }
  return driver;
}

Status PluginRegistration::Register(const std::string& path, const Identity& identity) {
  const std::string context = fmt::format("register the plugin at {}", Quote(path));
  RETURN_IF_ERROR(base::FaultPoint<"node.registration.begin">());
  const StatusOr<rpc::PluginInfo> info = rpc::GetPluginInfo(path, kGetInfoTimeout);
  RETURN_IF_ERROR_WITH(info, context);
  std::string endpoint = info->endpoint.empty() ? path : info->endpoint;
  if (endpoint.starts_with("unix://")) endpoint.erase(0, 7);
  Registered registered{.driver = info->name, .endpoint = endpoint, .identity = identity};
  const Status done = [&]() -> Status {
    RETURN_IF_ERROR(Validate(path, *info, registered.version));
    ASSIGN_OR_RETURN(const NodeDriver driver, AskDriver(info->name, endpoint));
    SetWriteAgain(path, false);
    // Before the API tells of it: the first pod may come at once.
    drivers_.Register(info->name, endpoint);
    Status written = csi_nodes_.Add(driver);
    if (!written.ok()) {
      drivers_.Unregister(info->name);
      if (IsApiTrouble(written)) {
        written.SetPayload(kApiPayload, absl::Cord("1"));
      } else if (const Status undone = csi_nodes_.Remove(info->name); !undone.ok()) {
        LOG_WARNING("{}", base::ToString(undone));
      }
    }
    return written;
  }();
  if (!done.ok()) {
    if (!done.GetPayload(kApiPayload).has_value()) {
      const Status told = rpc::NotifyRegistrationStatus(
          path, false, std::string(base::Message(done)), kNotifyTimeout);
      if (!told.ok()) LOG_WARNING("{}: {}", context, base::ToString(told));
      if (options_.on_refused) options_.on_refused(base::Annotate(done, context));
    }
    return base::Annotate(done, context);
  }
  {
    MutexLock lock(mutex_);
    // A higher version takes the name over from another socket.
    for (auto& [other, socket] : sockets_) {
      if (socket.registered.has_value() && socket.registered->driver == info->name) {
        socket.registered.reset();
      }
    }
    sockets_[path].registered = registered;
  }
  LOG_INFO("CSI driver {} is registered, at {}", Quote(info->name), Quote(endpoint));
  on_registered_(info->name);
  const Status told = rpc::NotifyRegistrationStatus(path, true, "", kNotifyTimeout);
  // It is registered all the same; if it died, its socket will tell.
  if (!told.ok()) LOG_WARNING("{}: {}", context, base::ToString(told));
  return OkStatus();
}

void PluginRegistration::WriteAgain() {
  std::vector<std::string> paths;
  {
    MutexLock lock(mutex_);
    for (auto& [path, socket] : sockets_) {
      socket.write_again = true;  // of one whose registration runs, too: it may be past its writes
      paths.push_back(path);
    }
  }
  for (const std::string& path : paths) workers_.AddNow(path);
}

void PluginRegistration::SetWriteAgain(const std::string& path, bool again) {
  MutexLock lock(mutex_);
  if (const auto found = sockets_.find(path); found != sockets_.end()) {
    found->second.write_again = again;
  }
}

Status PluginRegistration::WriteOnceMore(const std::string& path, const Registered& registered) {
  const std::string context = fmt::format("write driver '{}' again", registered.driver);
  SetWriteAgain(path, false);
  const StatusOr<NodeDriver> driver = AskDriver(registered.driver, registered.endpoint);
  const Status written = driver.ok() ? csi_nodes_.Add(*driver) : driver.status();
  if (!written.ok()) SetWriteAgain(path, true);
  return base::Annotate(written, context);
}

Status PluginRegistration::Unregister(const std::string& path, const Registered& registered) {
  drivers_.Unregister(registered.driver);
  RETURN_IF_ERROR_WITH(csi_nodes_.Remove(registered.driver),
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
