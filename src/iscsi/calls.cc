#include "iscsi/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>

#include "base/log.h"
#include "iscsi/channel.h"
#include "iscsi/initiator_name.h"
#include "iscsi/logical_unit.h"
#include "iscsi/reservations.h"
#include "iscsi/settings.h"
#include "iscsi/wipe.h"

namespace berth::iscsi {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::chrono::seconds kLogoutTime{1};
constexpr size_t kMostNodes = 10'000;
// What a wipe leaves of the time of a call for what comes before and after the writes.
constexpr std::chrono::seconds kWipeMargin{4};

std::string KeyText(uint64_t key) { return fmt::format("{:#018x}", key); }

Json KeyTexts(const std::vector<uint64_t>& keys) {
  Json texts = Json::array();
  for (const uint64_t key : keys) texts.push_back(KeyText(key));
  return texts;
}

std::string DescribeUse(const Reservation& held, const Reservations& reservations) {
  if (held.type == ReservationType::kNone) return "";
  return reservations.IsGuard(held.key) ? "guard" : "used";
}

// Which LUNs are read for whether they are blank, which takes most of the time.
using ReadsData = std::function<bool(const std::string& identity)>;

StatusOr<Json> DescribeUnit(LogicalUnit& unit, uint16_t lun, const Settings& settings,
                            const ReadsData& reads_data = nullptr) {
  ASSIGN_OR_RETURN(const UnitInfo info, Inspect(unit));
  Json json = {{"lun", lun},
               {"identity", info.identity},
               {"serial", info.serial},
               {"size", info.capacity.size_bytes()},
               {"blockSize", info.capacity.block_bytes},
               {"vendor", info.vendor},
               {"product", info.product},
               {"blank", nullptr},
               {"problem", ""}};
  Reservations reservations(unit, settings.owner);
  const auto held = reservations.Read();
  json["reserved"] = held.ok() ? DescribeUse(*held, reservations) : "";
  json["own"] = held.ok() && NodeKeys(settings.owner, settings.node).Has(held->key);
  if (!held.ok()) json["problem"] = std::string(base::Message(held.status()));
  if (reads_data != nullptr && !reads_data(info.identity)) return json;
  const auto blank = IsBlank(unit, info.capacity);
  if (blank.ok()) {
    json["blank"] = *blank;
  } else if (held.ok()) {
    json["problem"] = std::string(base::Message(blank.status()));
  }
  return json;
}

StatusOr<Json> DescribeBriefly(LogicalUnit& unit, uint16_t lun) {
  ASSIGN_OR_RETURN(const UnitInfo info, Inspect(unit));
  return Json{{"lun", lun}, {"identity", info.identity}, {"size", info.capacity.size_bytes()}};
}

StatusOr<Json> ListUnits(Session& session, const Settings& settings, const Json& request,
                         Deadline deadline) {
  const bool brief = base::json::Bool(request, {"brief"});
  ReadsData reads_data;
  if (base::json::Find(request, {"identities"}) != nullptr) {
    reads_data = [wanted = base::json::Strings(base::json::Array(request, {"identities"}))](
                     const std::string& identity) {
      return std::ranges::find(wanted, identity) != wanted.end();
    };
  }
  SessionUnit first(session, 0, deadline);
  ASSIGN_OR_RETURN(const std::vector<uint16_t> luns, ListLuns(first));
  Json list = Json::array();
  int64_t unread = 0;
  for (const uint16_t lun : luns) {
    // Half of the time that is left, so that a LUN that is not ready does not hide the others.
    const auto now = std::chrono::steady_clock::now();
    SessionUnit unit(session, lun, now + (deadline - now) / 2);
    auto described =
        brief ? DescribeBriefly(unit, lun) : DescribeUnit(unit, lun, settings, reads_data);
    if (session.lost()) return Error(StatusCode::kDeadlineExceeded, "read LUN {}: no answer", lun);
    if (described.ok()) {
      list.push_back(*std::move(described));
    } else {
      LOG_DEBUG("LUN {} is left out: {}", lun, base::ToString(described.status()));
      const StatusCode code = described.status().code();
      unread += code == StatusCode::kUnavailable || code == StatusCode::kInternal ? 1 : 0;
    }
  }
  return Json{{"luns", std::move(list)}, {"unread", unread}};
}

// Names of nodes by their keys: those of the request, and those that are part of an initiator name.
std::string FindNode(uint64_t key, const std::string& initiator, const KeyOwner& owner,
                     const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes) {
    if (NodeKeys(owner, node).Has(key)) return node;
  }
  if (!initiator.starts_with(kInitiatorPrefix)) return "";
  std::string node = initiator.substr(kInitiatorPrefix.size());
  if (node.ends_with(kSecondName)) node.resize(node.size() - kSecondName.size());
  return NodeKeys(owner, node).Has(key) ? node : "";
}

StatusOr<Json> ReadHolders(LogicalUnit& unit, const Settings& settings, const Json& request) {
  Reservations reservations(unit, settings.owner);
  std::vector<std::string> nodes = base::json::Strings(base::json::Array(request, {"nodes"}));
  if (nodes.size() > kMostNodes) {
    return Error(StatusCode::kInvalidArgument, "'nodes' has more than {} names", kMostNodes);
  }
  nodes.push_back(settings.node);
  ASSIGN_OR_RETURN(const Reservations::State state, reservations.ReadState());
  const Reservation& held = state.held;
  // Optional for targets, so that it only adds the initiators' names.
  std::map<uint64_t, std::string> initiators;
  if (const auto full = reservations.ReadFullStatus(); full.ok()) {
    for (const Registration& one : *full) initiators[one.key] = one.initiator;
  }
  Json holders = Json::array();
  for (const uint64_t key : state.keys) {
    if (reservations.IsGuard(key)) continue;
    const std::string& initiator = initiators[key];
    holders.push_back({{"node", FindNode(key, initiator, settings.owner, nodes)},
                       {"address", initiator},
                       {"key", KeyText(key)},
                       {"reserved", held.key == key}});
  }
  return Json{{"holders", std::move(holders)},
              {"reservation",
               {{"type", TypeName(held.type)},
                {"key", KeyText(held.key)},
                {"guard", reservations.IsGuard(held.key)}}},
              {"ticket", reservations.Ticket(state)}};
}

Status CheckIdentity(LogicalUnit& unit, const std::string& wanted) {
  ASSIGN_OR_RETURN(const std::string found, ReadIdentity(unit));
  if (found == wanted) return base::OkStatus();
  return Error(StatusCode::kDataLoss, "the LUN is '{}' by now, and not '{}'", found, wanted);
}

Status CheckBlank(LogicalUnit& unit) {
  ASSIGN_OR_RETURN(const Capacity capacity, ReadCapacityOf(unit));
  ASSIGN_OR_RETURN(const bool blank, IsBlank(unit, capacity));
  if (blank) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition, "the LUN holds data");
}

StatusOr<Json> ClaimUnit(LogicalUnit& unit, uint16_t lun, const Settings& settings,
                         const Json& request, Deadline deadline) {
  RETURN_IF_ERROR(CheckIdentity(unit, base::json::String(request, {"identity"})));
  ASSIGN_OR_RETURN(const Capacity capacity, ReadCapacityOf(unit));
  if (const int64_t size = base::json::Int(request, {"size"}); capacity.size_bytes() < size) {
    return Error(StatusCode::kOutOfRange, "the LUN has {} bytes, which is less than {}",
                 capacity.size_bytes(), size);
  }
  const bool recorded = base::json::Bool(request, {"recorded"});
  // A LUN with data is not even reserved. The second look is at what came before the reservation.
  if (!recorded) RETURN_IF_ERROR(CheckBlank(unit));
  Reservations reservations(unit, settings.owner);
  ASSIGN_OR_RETURN(const bool claimed, reservations.Claim(recorded));
  if (claimed) {
    Status fit = CheckBlank(unit);
    if (fit.ok()) fit = FencesWriteSame(settings.login, lun, capacity, deadline).status();
    if (!fit.ok()) {
      RETURN_IF_ERROR(reservations.Unclaim());
      return fit;
    }
  }
  return DescribeUnit(unit, lun, settings);
}

// nullopt: the request has no `keys`.
StatusOr<std::optional<std::vector<uint64_t>>> ReadKeyTexts(const Json& request) {
  const Json* texts = base::json::Find(request, {"keys"});
  if (texts == nullptr) return std::nullopt;
  std::vector<uint64_t> keys;
  for (const std::string& text : base::json::Strings(base::json::Array(request, {"keys"}))) {
    uint64_t key = 0;
    const char* const end = text.data() + text.size();
    const bool prefixed = text.starts_with("0x");
    const auto parsed = std::from_chars(prefixed ? text.data() + 2 : end, end, key, 16);
    if (!prefixed || parsed.ec != std::errc() || parsed.ptr != end) {
      return Error(StatusCode::kInvalidArgument, "'keys' has {}, which is no key",
                   base::Quote(text));
    }
    keys.push_back(key);
  }
  if (!texts->is_array() || keys.size() != texts->size()) {
    return Error(StatusCode::kInvalidArgument, "'keys' is not a list of texts");
  }
  return keys;
}

StatusOr<Json> FenceNode(LogicalUnit& unit, const Settings& settings, const Json& request,
                         bool only_look) {
  const std::string target = base::json::String(request, {"target"});
  if (target.empty()) return Error(StatusCode::kInvalidArgument, "'target' is missing");
  // A number may be another LUN's by now, and a stranger's LUN is not reserved.
  const std::string identity = base::json::String(request, {"identity"});
  if (identity.empty()) return Error(StatusCode::kInvalidArgument, "'identity' is missing");
  RETURN_IF_ERROR(CheckIdentity(unit, identity));
  Reservations reservations(unit, settings.owner);
  ASSIGN_OR_RETURN(const auto listed, ReadKeyTexts(request));
  if (only_look) {
    ASSIGN_OR_RETURN(const Reservations::State state, reservations.ReadState());
    return Json{{"keys", KeyTexts(reservations.FindTargets(state, target))},
                {"ticket", reservations.Ticket(state)}};
  }
  ASSIGN_OR_RETURN(const Reservations::Fenced fenced, reservations.Fence(target, listed));
  LOG_INFO("LUN {} ({}): node {} is fenced, {} keys of it are removed",
           base::json::Int(request, {"lun"}), identity, target, fenced.keys.size());
  return Json{{"keys", KeyTexts(fenced.keys)}, {"ticket", fenced.ticket}};
}

StatusOr<Json> CheckPortals(const Settings& settings, Deadline deadline) {
  for (size_t i = 0; i < settings.login.portals.size(); ++i) {
    LoginOptions one = settings.login;
    one.portals = {settings.login.portals[i]};
    const auto share = (deadline - std::chrono::steady_clock::now()) /
                       static_cast<int64_t>(settings.login.portals.size() - i);
    ASSIGN_OR_RETURN(const auto session,
                     Session::LogIn(one, std::chrono::steady_clock::now() + share));
    session->LogOut(std::min(deadline, std::chrono::steady_clock::now() + kLogoutTime));
  }
  return Json::object();
}

StatusOr<Json> RunOn(Session& session, const std::string& call, const Settings& settings,
                     const Json& request, Deadline deadline) {
  if (call == "list") return ListUnits(session, settings, request, deadline);
  ASSIGN_OR_RETURN(const uint16_t lun, ReadLun(request));
  SessionUnit unit(session, lun, deadline);
  // Also a target that answers commands for a LUN that it does not have must not be believed.
  if (call == "info") return DescribeUnit(unit, lun, settings);
  RETURN_IF_ERROR(Inspect(unit));
  if (call == "holders") return ReadHolders(unit, settings, request);
  if (call == "claim") return ClaimUnit(unit, lun, settings, request, deadline);
  if (call == "wipe") {
    RETURN_IF_ERROR(CheckIdentity(unit, base::json::String(request, {"identity"})));
    return WipeUnit(unit, settings, request, deadline - kWipeMargin);
  }
  return FenceNode(unit, settings, request, /*only_look=*/call == "fenceTargets");
}

// As RunOn, by the name that a session needs which is to take the LUN.
StatusOr<Json> RunAsTaker(std::unique_ptr<Session>& session, const std::string& call,
                          Settings& settings, const Json& request, Deadline deadline) {
  if (call == "fence" || call == "wipe") {
    ASSIGN_OR_RETURN(const uint16_t lun, ReadLun(request));
    RETURN_IF_ERROR(AvoidHoldersName(session, settings.login, lun, deadline));
  }
  return RunOn(*session, call, settings, request, deadline);
}

}  // namespace

StatusOr<Json> RunCall(const Json& request, Deadline deadline) {
  const std::string call = base::json::String(request, {"call"});
  ASSIGN_OR_RETURN(Settings settings, ReadSettings(request));
  if (call == "check") return CheckPortals(settings, deadline);
  constexpr std::string_view kCalls[] = {"list",  "info",  "holders", "fenceTargets",
                                         "fence", "claim", "wipe"};
  if (std::ranges::find(kCalls, call) == std::end(kCalls)) {
    return Error(StatusCode::kInvalidArgument, "there is no call {}", base::Quote(call));
  }
  if (call != "list") RETURN_IF_ERROR(ReadLun(request));
  ASSIGN_OR_RETURN(auto session, Session::LogIn(settings.login, deadline));
  auto result = RunAsTaker(session, call, settings, request, deadline);
  session->LogOut(std::min(deadline, std::chrono::steady_clock::now() + kLogoutTime));
  if (!result.ok() && call != "list") {
    return base::Annotate(
        result.status(),
        fmt::format("LUN {} of '{}'", base::json::Int(request, {"lun"}), settings.login.target));
  }
  return result;
}

}  // namespace berth::iscsi
