#include "volume/remote/iscsi.h"

#include <algorithm>
#include <thread>

#include "base/base64.h"
#include "base/log.h"
#include "base/text.h"
#include "volume/found_volumes.h"
#include "volume/remote/disk_names.h"
#include "volume/remote/iscsi_records.h"
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
// In a mark's state: the login has succeeded, or the volume may share that of another. Without it
// `logged_in` says only that a login was begun.
constexpr std::string_view kHasSession = "session";
// In a mark's state: where logins of the volume may have left records, also in an earlier boot.
constexpr const char* kRecords = "records";
constexpr size_t kMaxPortals = 16;
// Exit codes of iscsiadm (open-iscsi, include/iscsi_err.h).
constexpr int kSessionExists = 15;
constexpr int kNoObjects = 21;

// Notes in the mark that logins at `portals` may leave records. False: it said so already.
bool NoteRecords(DiskMark& mark, const std::vector<std::string>& portals,
                 const std::string& interface) {
  std::vector<std::string> all =
      base::json::Strings(base::json::Array(mark.state, {kRecords, "portals"}));
  const size_t before = all.size();
  for (const std::string& portal : portals) {
    if (std::find(all.begin(), all.end(), portal) == all.end()) all.push_back(portal);
  }
  if (all.size() == before) return false;
  mark.state[kRecords] = {{"portals", all}, {"interface", interface}};
  return true;
}

}  // namespace

std::string IscsiPlugin::InterfaceOf(const Target& target, const std::string& volume) {
  if (target.initiator.empty()) return target.interface;
  return fmt::format("{}:{}", target.portals.front(), volume);
}

IscsiPlugin::Target IscsiPlugin::ReadTarget(const Json& source) {
  Target target{.name = String(source, {"iqn"}),
                .portals = {WithIscsiPort(String(source, {"targetPortal"}))},
                .interface = String(source, {"iscsiInterface"}, "default"),
                .initiator = String(source, {"initiatorName"}),
                .lun = static_cast<int>(Int(source, {"lun"})),
                .chap_discovery = Bool(source, {"chapAuthDiscovery"}),
                .chap_session = Bool(source, {"chapAuthSession"}),
                .secrets = {}};
  for (const std::string& portal : base::json::Strings(base::json::Array(source, {"portals"}))) {
    const std::string full = WithIscsiPort(portal);
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

StatusOr<std::string> IscsiPlugin::RunOnDiscovery(const Target& target, const std::string& portal,
                                                  const std::vector<std::string>& more) {
  platform::Command command{.argv = {"iscsiadm", "-m", "discoverydb", "-t", "sendtargets", "-p",
                                     portal, "-I", target.interface},
                            .timeout = kTargetTime};
  command.argv.insert(command.argv.end(), more.begin(), more.end());
  return RunUtility(command);
}

Status IscsiPlugin::AppendToRecord(const std::string& pattern, const std::string& lines) {
  return RunUtility({.argv = {"sh", "-c", kAppendToRecord, "sh", "{lines}", pattern},
                     .secrets = {{.name = "lines", .content = lines}},
                     .timeout = kLocalTime})
      .status();
}

// An interface of its own has the initiator's name, and the parameters of the one that it is made
// from.
Status IscsiPlugin::MakeInterface(Target& target, const std::string& volume) {
  const std::string base = target.interface;
  target.interface = InterfaceOf(target, volume);
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
  Status done = TryLogin(target, portal);
  if (done.ok()) return done;
  const Status removed = RemoveRecords(target, portal);
  if (!removed.ok()) LOG_WARNING("{}", base::ToString(removed));
  return done;
}

Status IscsiPlugin::RemoveNodeRecord(const Target& target, const std::string& portal) {
  const platform::Command command{.argv = {"iscsiadm", "-m", "node", "-p", portal, "-T",
                                           target.name, "-I", target.interface, "-o", "delete"},
                                  .timeout = kLocalTime};
  ASSIGN_OR_RETURN(const auto result, Run(command));
  if (result.exit_code == 0 || result.exit_code == kNoObjects) return OkStatus();
  return platform::ExitFailure(command, result);
}

Status IscsiPlugin::RemoveRecords(const Target& target, const std::string& portal) {
  const Status dropped = DropDiscovery(portal);
  RETURN_IF_ERROR(RemoveNodeRecord(target, portal));
  return dropped;
}

Status IscsiPlugin::RemoveLeftRecords(const DiskMark& mark,
                                      const std::vector<IscsiSession>& sessions) {
  const Target target{.name = String(mark.state, {"target"}),
                      .portals = {},
                      .interface = String(mark.state, {kRecords, "interface"}),
                      .initiator = "",
                      .secrets = {}};
  for (const std::string& portal :
       base::json::Strings(base::json::Array(mark.state, {kRecords, "portals"}))) {
    const bool used =
        std::any_of(sessions.begin(), sessions.end(), [&](const IscsiSession& session) {
          return session.portal == portal && session.interface == target.interface;
        });
    if (!used) RETURN_IF_ERROR(RemoveRecords(target, portal));
  }
  return OkStatus();
}

// iscsiadm would delete the records of all targets that were found by this one, too.
Status IscsiPlugin::DropDiscovery(const std::string& portal) {
  return RunUtility({.argv = {"sh", "-c", kDropDiscovery, "sh", IscsiRecordName(portal)},
                     .timeout = kLocalTime})
      .status();
}

Status IscsiPlugin::TryLogin(const Target& target, const std::string& portal) {
  RETURN_IF_ERROR(RunOnDiscovery(target, portal, {"-o", "new"}).status());
  RETURN_IF_ERROR(
      AppendToRecord(fmt::format("send_targets/{}/st_config", IscsiRecordName(portal)),
                     MakeDiscoveryLines(target.chap_discovery ? &target.secrets : nullptr)));
  const Status discovered = RunOnDiscovery(target, portal, {"--discover"}).status();
  // The record is needed no more, and may hold a secret.
  RETURN_IF_ERROR(DropDiscovery(portal));
  RETURN_IF_ERROR_WITH(discovered, fmt::format("discovery at portal {}", portal));

  const Status told =
      AppendToRecord(NodeRecordPattern(target.name, portal, target.interface),
                     MakeNodeLines(target.chap_session ? &target.secrets : nullptr));
  RETURN_IF_ERROR_WITH(told,
                       fmt::format("portal {} does not offer target {}", portal, target.name));
  const platform::Command login{.argv = {"iscsiadm", "-m", "node", "-p", portal, "-T", target.name,
                                         "-I", target.interface, "--login"},
                                .timeout = kTargetTime};
  ASSIGN_OR_RETURN(const auto result, Run(login));
  if (result.exit_code == 0 || result.exit_code == kSessionExists) {
    LOG_INFO("this node is logged in to iSCSI target {} at {}", target.name, portal);
    return OkStatus();
  }
  return base::Annotate(platform::ExitFailure(login, result),
                        fmt::format("login to target {} at portal {}", target.name, portal));
}

std::vector<std::string> IscsiPlugin::FindMissing(const Target& target,
                                                  const std::vector<IscsiSession>& sessions) {
  std::vector<std::string> missing = target.portals;
  std::erase_if(missing, [&](const std::string& portal) {
    return std::any_of(sessions.begin(), sessions.end(),
                       [&](const IscsiSession& session) { return session.portal == portal; });
  });
  return missing;
}

Status IscsiPlugin::LoginToPortals(Target target, const std::string& volume,
                                   const std::vector<std::string>& missing) {
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
    const base::KeyLocks::Hold hold = targets_.WaitExclusive(target.name);
    ASSIGN_OR_RETURN(const auto sessions, ListSessions(target.name));
    const bool alone = sessions.empty();
    const std::vector<std::string> missing = FindMissing(target, sessions);
    const bool noted = NoteRecords(mark, missing, InterfaceOf(target, spec.folder_name()));
    if (noted && !alone) RETURN_IF_ERROR(marks().Write(mark));
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
    const Status done = LoginToPortals(target, spec.folder_name(), missing);
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
  ASSIGN_OR_RETURN(auto result, Run(command));
  if (result.exit_code == kNoObjects && !session.id.empty()) {
    // The record is gone, as after a login that came late. The session is known by its number.
    ASSIGN_OR_RETURN(result, Run({.argv = {"iscsiadm", "-m", "session", "-r", session.id, "-u"},
                                  .timeout = kTargetTime}));
  }
  if (result.exit_code != 0 && result.exit_code != kNoObjects) {
    return platform::ExitFailure(command, result);
  }
  LOG_INFO("this node is logged out of iSCSI target {} at {}", session.target, session.portal);
  const Status removed = RemoveNodeRecord(target, session.portal);
  // An interface that MakeInterface made is named after a portal. It goes also if the record stays,
  // because the next try finds no session that names it.
  if (session.interface.find(':') == std::string::npos) return removed;
  const Status gone =
      RunUtility({.argv = {"iscsiadm", "-m", "iface", "-I", session.interface, "-o", "delete"},
                  .timeout = kLocalTime})
          .status();
  if (!gone.ok()) LOG_DEBUG("{}", base::ToString(gone));
  return removed;
}

Status IscsiPlugin::UnmapDisk(const DiskMark& mark) {
  const std::string target = String(mark.state, {"target"});
  const base::KeyLocks::Hold hold = targets_.WaitExclusive(target);
  if (!mark.logged_in) {  // a session is somebody else's
    if (!mark.state.contains(kRecords)) return OkStatus();
    const auto sessions = ListSessions(target);
    if (sessions.status().code() == StatusCode::kNotFound) return OkStatus();
    RETURN_IF_ERROR(sessions);
    return RemoveLeftRecords(mark, *sessions);
  }
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
  ASSIGN_OR_RETURN(const auto sessions, ListSessions(target));
  RETURN_IF_ERROR(RemoveLeftRecords(mark, sessions));
  if (!others.empty()) return OkStatus();
  for (const IscsiSession& session : sessions) {
    if (session.disks.empty()) RETURN_IF_ERROR(Logout(session));
  }
  return OkStatus();
}

}  // namespace berth::volume
