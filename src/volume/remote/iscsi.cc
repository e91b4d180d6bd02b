#include "volume/remote/iscsi.h"

#include <algorithm>
#include <thread>

#include "base/base64.h"
#include "base/log.h"
#include "base/text.h"
#include "volume/found_volumes.h"
#include "volume/remote/disk_names.h"
#include "volume/remote/network_plugin.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;
using base::json::Bool;
using base::json::Int;
using base::json::String;
using std::chrono::seconds;

constexpr seconds kTargetTime{40};  // for what asks the target
constexpr std::string_view kDefaultPort = "3260";
// In a mark's state: the login has succeeded, or the volume may share that of another. Without it
// `logged_in` says only that a login was begun.
constexpr std::string_view kHasSession = "session";
constexpr size_t kMaxPortals = 16;
// Exit codes of iscsiadm (open-iscsi, include/iscsi_err.h).
constexpr int kSessionExists = 15;
constexpr int kNoObjects = 21;
// A login to a portal that is away must fail before the volume manager's caller gives up.
constexpr char kDiscoveryTimes[] =
    "discovery.sendtargets.timeo.login_timeout = 9\ndiscovery.sendtargets.reopen_max = 0\n";
// The LUNs of others must not become devices of this node, so the scan is left to the plugin.
constexpr char kNodeTimes[] =
    "node.conn[0].timeo.login_timeout = 9\nnode.session.initial_login_retry_max = 1\n"
    "node.startup = manual\nnode.session.scan = manual\n";
// $1: the file with the lines; $2: the record, as a pattern. open-iscsi's folder differs by its
// build.
constexpr char kAppend[] =
    R"(umask 077; found=1; for record in /etc/iscsi/$2 /var/lib/iscsi/$2; do )"
    R"([ -f "$record" ] && cat "$1" >>"$record" && found=0; done; )"
    R"([ $found = 0 ] || echo "open-iscsi has no record $2" >&2; exit $found)";

constexpr char kDropDiscovery[] =
    R"(rm -rf "/etc/iscsi/send_targets/$1" "/var/lib/iscsi/send_targets/$1")";

std::string WithPort(std::string_view portal) {
  const bool has_port = portal.starts_with('[') ? portal.find("]:") != std::string_view::npos
                                                : portal.find(':') != std::string_view::npos;
  return has_port ? std::string(portal) : fmt::format("{}:{}", portal, kDefaultPort);
}

// "10.0.0.7,3260", as open-iscsi names the record of a portal.
std::string RecordName(const std::string& portal) {
  const size_t colon = portal.rfind(':');
  std::string address = portal.substr(0, colon);
  if (address.starts_with('[')) address = address.substr(1, address.size() - 2);
  return fmt::format("{},{}", address, portal.substr(colon + 1));
}

std::string MakeChapLines(std::string_view prefix,
                          const std::map<std::string, std::string>& given) {
  std::string lines = fmt::format("{}.authmethod = CHAP\n", prefix);
  for (const char* key : {"username", "password", "username_in", "password_in"}) {
    const std::string name = fmt::format("{}.{}", prefix, key);
    const auto entry = given.find(name);
    if (entry != given.end() && !entry->second.empty()) {
      lines += fmt::format("{} = {}\n", name, entry->second);
    }
  }
  return lines;
}

}  // namespace

IscsiPlugin::Target IscsiPlugin::ReadTarget(const Json& source) {
  Target target{.name = String(source, {"iqn"}),
                .portals = {WithPort(String(source, {"targetPortal"}))},
                .interface = String(source, {"iscsiInterface"}, "default"),
                .initiator = String(source, {"initiatorName"}),
                .lun = static_cast<int>(Int(source, {"lun"})),
                .chap_discovery = Bool(source, {"chapAuthDiscovery"}),
                .chap_session = Bool(source, {"chapAuthSession"}),
                .secrets = {}};
  for (const std::string& portal : base::json::Strings(base::json::Array(source, {"portals"}))) {
    const std::string full = WithPort(portal);
    if (std::find(target.portals.begin(), target.portals.end(), full) == target.portals.end()) {
      target.portals.push_back(full);
    }
  }
  return target;
}

StatusOr<DiskPlugin::Disk> IscsiPlugin::ReadDisk(const VolumeSpec& spec) const {
  const Target target = ReadTarget(Source(spec));
  if (target.portals.size() > kMaxPortals) {
    return Error(StatusCode::kInvalidArgument, "iscsi.portals has {} members, more than {}",
                 target.portals.size(), kMaxPortals);
  }
  for (const std::string& portal : target.portals) {
    RETURN_IF_ERROR(CheckServer("iscsi.targetPortal", portal));
    // It becomes a part of a path.
    if (portal.find_first_of("/%") != std::string::npos) {
      return Error(StatusCode::kInvalidArgument, "iscsi.targetPortal {} is not HOST:PORT",
                   Quote(portal));
    }
  }
  RETURN_IF_ERROR(CheckPlainName("iscsi.iqn", target.name, ":"));
  RETURN_IF_ERROR(CheckPlainName("iscsi.iscsiInterface", target.interface, ":"));
  if (!target.initiator.empty()) {
    RETURN_IF_ERROR(CheckPlainName("iscsi.initiatorName", target.initiator, ":"));
  }
  // The name of a target is unique in the world, whichever portal leads to it.
  return Disk{.identity = fmt::format("{}:{}", target.name, target.lun),
              .fs_type = String(Source(spec), {"fsType"}),
              .read_only = IsReadOnly(spec),
              .state = {{"target", target.name},
                        {"lun", target.lun},
                        {"namespace", spec.pv != nullptr ? "" : spec.pod_ns}}};
}

StatusOr<IscsiPlugin::Secrets> IscsiPlugin::ReadSecrets(const api::Pod& pod,
                                                        const VolumeSpec& spec) {
  const Json& reference = base::json::Map(Source(spec), {"secretRef"});
  const std::string name = String(reference, {"name"});
  if (name.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "iscsi.secretRef is missing, and the volume asks for CHAP");
  }
  std::string ns = spec.pv != nullptr ? String(reference, {"namespace"}) : "";
  if (ns.empty()) ns = pod.ns();
  const std::string what =
      fmt::format("Secret '{}/{}', which has the names and secrets of CHAP", ns, name);
  const auto secret = host().GetObject(api::kinds::kSecret, ns, name);
  if (secret.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kNotFound, "{}, does not exist", what);
  }
  RETURN_IF_ERROR_WITH(secret, fmt::format("read {}", what));
  Secrets secrets;
  for (const auto& [key, value] : base::json::Map(*secret, {"data"}).items()) {
    const auto text =
        value.is_string() ? base::DecodeBase64(value.get<std::string>()) : std::nullopt;
    // A line's end would begin another line of the record.
    const bool plain = text && std::all_of(text->begin(), text->end(),
                                           [](unsigned char c) { return c > ' ' && c != 0x7f; });
    if (!plain) {
      return Error(StatusCode::kFailedPrecondition,
                   "the entry '{}' of {} has a blank or a control character", key, what);
    }
    secrets[key] = *text;
  }
  return secrets;
}

StatusOr<std::vector<IscsiSession>> IscsiPlugin::ListSessions(const std::string& target) {
  const platform::Command command{.argv = {"iscsiadm", "-m", "session", "-P", "3"},
                                  .timeout = kLocalTime,
                                  .max_output = 1 << 20};
  ASSIGN_OR_RETURN(const platform::CommandResult result, Run(command));
  if (result.exit_code == kNoObjects) return std::vector<IscsiSession>();
  if (result.exit_code != 0) return platform::ExitFailure(command, result);
  std::vector<IscsiSession> sessions = ParseSessions(result.out);
  std::erase_if(sessions, [&](const IscsiSession& other) { return other.target != target; });
  return sessions;
}

StatusOr<bool> IscsiPlugin::MayShare(const DiskMark& mark) const {
  const std::string ns = String(mark.state, {"namespace"});
  ASSIGN_OR_RETURN(auto all, marks().List());
  std::erase_if(all, [&](const DiskMark& other) {
    return other.device_name == mark.device_name || !other.logged_in ||
           String(other.state, {"target"}) != String(mark.state, {"target"});
  });
  // A crash came between this volume's login and its mark if nobody else has begun one.
  const bool made_here = all.empty()
                             ? mark.logged_in
                             : std::any_of(all.begin(), all.end(), [&](const DiskMark& other) {
                                 return Bool(other.state, {kHasSession}) &&
                                        (ns.empty() || String(other.state, {"namespace"}) == ns);
                               });
  if (made_here || ns.empty()) return made_here;
  return Error(StatusCode::kFailedPrecondition,
               "this node is logged in to target {} for others, whose login a volume that a pod "
               "names itself must not use: make a PersistentVolume of it",
               Quote(String(mark.state, {"target"})));
}

StatusOr<std::string> IscsiPlugin::RunOnNode(const Target& target, const std::string& portal,
                                             const std::vector<std::string>& more) {
  platform::Command command{
      .argv = {"iscsiadm", "-m", "node", "-p", portal, "-T", target.name, "-I", target.interface},
      .timeout = kTargetTime};
  command.argv.insert(command.argv.end(), more.begin(), more.end());
  return RunUtility(command);
}

StatusOr<std::string> IscsiPlugin::RunOnDiscovery(const Target& target, const std::string& portal,
                                                  const std::vector<std::string>& more) {
  platform::Command command{.argv = {"iscsiadm", "-m", "discoverydb", "-t", "sendtargets", "-p",
                                     portal, "-I", target.interface},
                            .timeout = kTargetTime};
  command.argv.insert(command.argv.end(), more.begin(), more.end());
  return RunUtility(command);
}

Status IscsiPlugin::AppendToRecord(const std::string& pattern, const std::string& lines) {
  return RunUtility({.argv = {"sh", "-c", kAppend, "sh", "{lines}", pattern},
                     .secrets = {{.name = "lines", .content = lines}},
                     .timeout = kLocalTime})
      .status();
}

// An interface of its own has the initiator's name, and the parameters of the one that it is made
// from.
Status IscsiPlugin::MakeInterface(Target& target, const std::string& volume) {
  const std::string base = target.interface;
  target.interface = fmt::format("{}:{}", target.portals.front(), volume);
  const auto run = [&](const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> argv = {"iscsiadm", "-m", "iface", "-I", name};
    argv.insert(argv.end(), more.begin(), more.end());
    return RunUtility({.argv = argv, .timeout = kLocalTime});
  };
  ASSIGN_OR_RETURN(std::string shown, run(base, {"-o", "show"}));
  const auto made = run(target.interface, {"-o", "new"});
  if (!made.ok() && made.status().code() != StatusCode::kInternal) return made.status();
  std::string_view rest = shown;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = base::Trim(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const size_t equals = line.find(" = ");
    if (!line.starts_with("iface.") || equals == std::string_view::npos) continue;
    const std::string key(line.substr(0, equals)), value(base::Trim(line.substr(equals + 3)));
    if (key == "iface.iscsi_ifacename" || key == "iface.initiatorname" || value == "<empty>") {
      continue;
    }
    RETURN_IF_ERROR(run(target.interface, {"-o", "update", "-n", key, "-v", value}).status());
  }
  return run(target.interface,
             {"-o", "update", "-n", "iface.initiatorname", "-v", target.initiator})
      .status();
}

Status IscsiPlugin::Login(const Target& target, const std::string& portal) {
  const std::string record = RecordName(portal);
  RETURN_IF_ERROR(RunOnDiscovery(target, portal, {"-o", "new"}).status());
  std::string lines = kDiscoveryTimes;
  if (target.chap_discovery) lines += MakeChapLines("discovery.sendtargets.auth", target.secrets);
  RETURN_IF_ERROR(AppendToRecord(fmt::format("send_targets/{}/st_config", record), lines));
  const Status discovered = RunOnDiscovery(target, portal, {"--discover"}).status();
  // The record is needed no more, and may hold a secret. iscsiadm would delete the records of all
  // targets that were found by it, too.
  RETURN_IF_ERROR(
      RunUtility({.argv = {"sh", "-c", kDropDiscovery, "sh", record}, .timeout = kLocalTime})
          .status());
  RETURN_IF_ERROR_WITH(discovered, fmt::format("discovery at portal {}", portal));

  lines = kNodeTimes;
  if (target.chap_session) lines += MakeChapLines("node.session.auth", target.secrets);
  // An interface that is named after an IPv6 portal has brackets, which a pattern reads as a class.
  std::string interface = target.interface;
  std::replace(interface.begin(), interface.end(), '[', '?');
  const std::string pattern = fmt::format("nodes/{}/{},*/{}", target.name, record, interface);
  const Status told = AppendToRecord(pattern, lines);
  RETURN_IF_ERROR_WITH(told,
                       fmt::format("portal {} does not offer target {}", portal, target.name));
  const platform::Command login{.argv = {"iscsiadm", "-m", "node", "-p", portal, "-T", target.name,
                                         "-I", target.interface, "--login"},
                                .timeout = kTargetTime};
  ASSIGN_OR_RETURN(const auto result, Run(login));
  if (result.exit_code == 0 || result.exit_code == kSessionExists) {
    LOG_INFO("logged in to iSCSI target {} at {}", target.name, portal);
    return OkStatus();
  }
  const Status removed = RunOnNode(target, portal, {"-o", "delete"}).status();
  if (!removed.ok()) LOG_DEBUG("{}", base::ToString(removed));
  return base::Annotate(platform::ExitFailure(login, result),
                        fmt::format("login to target {} at portal {}", target.name, portal));
}

Status IscsiPlugin::LoginToPortals(Target target, const std::string& volume,
                                   const std::vector<IscsiSession>& sessions) {
  std::vector<std::string> missing = target.portals;
  std::erase_if(missing, [&](const std::string& portal) {
    return std::any_of(sessions.begin(), sessions.end(),
                       [&](const IscsiSession& session) { return session.portal == portal; });
  });
  if (missing.empty()) return OkStatus();
  if (!target.initiator.empty()) RETURN_IF_ERROR(MakeInterface(target, volume));
  Status last = OkStatus();
  bool any = missing.size() < target.portals.size();
  for (const std::string& portal : missing) {
    const Status done = Login(target, portal);
    any = any || done.ok();
    if (done.ok()) continue;
    LOG_WARNING("{}", base::ToString(done));
    last = done;
  }
  return any ? OkStatus() : last;
}

StatusOr<std::string> IscsiPlugin::FindLun(const Target& target) {
  const auto deadline = std::chrono::steady_clock::now() + kAppearTime;
  for (bool scanned = false;; scanned = true) {
    ASSIGN_OR_RETURN(const auto sessions, ListSessions(target.name));
    std::string first;
    std::vector<std::string> without;  // hosts of sessions that do not show the LUN
    for (const IscsiSession& session : sessions) {
      bool shown = false;
      for (const IscsiDisk& disk : session.disks) {
        if (disk.lun != target.lun) continue;
        shown = true;
        if (first.empty()) first = disk.name;
        // The host's multipathd has joined the paths.
        ASSIGN_OR_RETURN(const auto holders,
                         ListNames(fmt::format("/sys/block/{}/holders", disk.name)));
        for (const std::string& holder : holders) {
          if (holder.starts_with("dm-")) return "/dev/" + holder;
        }
      }
      if (!shown && !session.host.empty()) without.push_back(session.host);
    }
    if (!first.empty() && (scanned || without.empty())) return "/dev/" + first;
    if (scanned && (host().ending() || std::chrono::steady_clock::now() >= deadline)) {
      return Error(StatusCode::kNotFound, "target {} shows this node no disk with LUN {}",
                   Quote(target.name), target.lun);
    }
    if (scanned) std::this_thread::sleep_for(kLookAgain);
    for (const std::string& scsi_host : without) {
      RETURN_IF_ERROR(WriteFile(fmt::format("/sys/class/scsi_host/host{}/scan", scsi_host),
                                fmt::format("0 0 {}", target.lun)));
    }
  }
}

StatusOr<std::string> IscsiPlugin::MapDisk(const api::Pod& pod, const VolumeSpec& spec, const Disk&,
                                           DiskMark& mark) {
  Target target = ReadTarget(Source(spec));
  if (target.chap_discovery || target.chap_session) {
    ASSIGN_OR_RETURN(target.secrets, ReadSecrets(pod, spec));
  }
  {
    const NameLocks::Hold hold(targets_, target.name);
    ASSIGN_OR_RETURN(const auto sessions, ListSessions(target.name));
    const bool alone = sessions.empty();
    if (alone) {
      mark.logged_in = true;
      mark.state[kHasSession] = false;
      RETURN_IF_ERROR(marks().Write(mark));
    } else if (!mark.logged_in || !Bool(mark.state, {kHasSession})) {
      ASSIGN_OR_RETURN(const bool made_here, MayShare(mark));
      if (made_here) {
        mark.logged_in = true;
        mark.state[kHasSession] = true;
        RETURN_IF_ERROR(marks().Write(mark));
      }
    }
    const Status done = LoginToPortals(target, spec.folder_name(), sessions);
    if (alone && done.ok()) {
      mark.state[kHasSession] = true;
      RETURN_IF_ERROR(marks().Write(mark));
    } else if (alone) {
      // A session that others make later is not this volume's.
      const auto left = ListSessions(target.name);
      mark.logged_in = !left.ok() || !left->empty();
      if (!mark.logged_in) RETURN_IF_ERROR(marks().Write(mark));
    }
    RETURN_IF_ERROR(done);
  }
  return FindLun(target);
}

Status IscsiPlugin::RemoveLun(const std::string& target, int lun) {
  ASSIGN_OR_RETURN(const auto sessions, ListSessions(target));
  for (const IscsiSession& session : sessions) {
    for (const IscsiDisk& disk : session.disks) {
      if (disk.lun != lun) continue;
      RETURN_IF_ERROR(WriteFile(fmt::format("/sys/block/{}/device/delete", disk.name), "1"));
    }
  }
  return OkStatus();
}

Status IscsiPlugin::Logout(const IscsiSession& session) {
  const Target target{.name = session.target,
                      .portals = {},
                      .interface = session.interface,
                      .initiator = "",
                      .secrets = {}};
  const platform::Command command{.argv = {"iscsiadm", "-m", "node", "-p", session.portal, "-T",
                                           session.target, "-I", session.interface, "--logout"},
                                  .timeout = kTargetTime};
  ASSIGN_OR_RETURN(const auto result, Run(command));
  if (result.exit_code != 0 && result.exit_code != kNoObjects) {
    return platform::ExitFailure(command, result);
  }
  LOG_INFO("logged out of iSCSI target {} at {}", session.target, session.portal);
  const Status removed = RunOnNode(target, session.portal, {"-o", "delete"}).status();
  if (!removed.ok()) LOG_DEBUG("{}", base::ToString(removed));
  // An interface that MakeInterface made is named after a portal.
  if (session.interface.find(':') == std::string::npos) return OkStatus();
  const Status gone =
      RunUtility({.argv = {"iscsiadm", "-m", "iface", "-I", session.interface, "-o", "delete"},
                  .timeout = kLocalTime})
          .status();
  if (!gone.ok()) LOG_DEBUG("{}", base::ToString(gone));
  return OkStatus();
}

Status IscsiPlugin::UnmapDisk(const DiskMark& mark) {
  if (!mark.logged_in) return OkStatus();  // the session is somebody else's
  const std::string target = String(mark.state, {"target"});
  const NameLocks::Hold hold(targets_, target);
  ASSIGN_OR_RETURN(auto others, marks().List());
  std::erase_if(others, [&](const DiskMark& other) {
    return other.device_name == mark.device_name || String(other.state, {"target"}) != target;
  });
  // A PersistentVolume and a pod's own volume may name one LUN. The last of them removes it,
  // because the kernel would take it away under a mount.
  const int64_t lun = Int(mark.state, {"lun"});
  const bool last = std::none_of(others.begin(), others.end(), [&](const DiskMark& other) {
    return other.logged_in && Int(other.state, {"lun"}) == lun;
  });
  if (last) {
    const Status removed = RemoveLun(target, static_cast<int>(lun));
    // Where there is no iscsiadm, none has logged in for this mark.
    if (removed.code() == StatusCode::kNotFound && mark.device.empty()) return OkStatus();
    RETURN_IF_ERROR(removed);
  }
  if (!others.empty()) return OkStatus();
  ASSIGN_OR_RETURN(const auto sessions, ListSessions(target));
  for (const IscsiSession& session : sessions) {
    if (session.disks.empty()) RETURN_IF_ERROR(Logout(session));
  }
  return OkStatus();
}

}  // namespace berth::volume
