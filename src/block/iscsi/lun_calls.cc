#include "block/iscsi/lun_calls.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "block/iscsi/lun_image.h"

namespace berth::block {

using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;
using base::StatusOr;
using base::json::Int;
using base::json::String;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// So that a StorageCluster and a pod say within ten seconds what is wrong.
constexpr milliseconds kTargetCheckTime{8'500};
// The program ends by itself within 9.5 s.
constexpr seconds kTargetCallTime{15};
// No volume: for a list that does not ask for reservations.
constexpr char kNoVolume[] = "none";

Lun ToLun(const Json& answer) {
  const std::string reserved = String(answer, {"reserved"});
  return {.number = Int(answer, {"lun"}),
          .identity = String(answer, {"identity"}),
          .size_bytes = Int(answer, {"size"}),
          .reserved = reserved.empty()                    ? Lun::Reserved::kNobody
                      : reserved == "guard"               ? Lun::Reserved::kGuard
                      : base::json::Bool(answer, {"own"}) ? Lun::Reserved::kWipe
                                                          : Lun::Reserved::kOther,
          .blank = base::json::Bool(answer, {"blank"}),
          .problem = String(answer, {"problem"})};
}

}  // namespace

LunCalls::LunCalls(IscsiSettings settings, const BackendParts& parts, const std::string& program)
    : settings_(std::move(settings)),
      node_(parts.node.empty() ? kOperatorName : parts.node),
      program_(parts.exec, program),
      secret_({.ns = settings_.secret_namespace,
               .name = settings_.secret_name,
               .member = "iscsi.chapSecretRef"},
              parts.read_secret, [](const auto& values, const std::string& secret) {
                return FindChapSecret(values, secret).status();
              }) {}

StatusOr<ChapSecret> LunCalls::ReadChap(StorageSecret::Age age) {
  if (settings_.secret_name.empty()) return ChapSecret();
  ASSIGN_OR_RETURN(const StorageSecret::Values values, secret_.Read(age));
  return FindChapSecret(values, secret_.Describe());
}

Json LunCalls::Describe(const ChapSecret& chap, const std::string& volume) const {
  Json cluster = {{"portals", settings_.portals}, {"target", settings_.target}, {"owner", volume}};
  if (!settings_.initiator.empty()) cluster["initiator"] = settings_.initiator;
  if (!chap.user.empty()) cluster["chapUser"] = chap.user;
  if (!chap.password.empty()) cluster["chapPassword"] = chap.password;
  return cluster;
}

StatusOr<Json> LunCalls::Call(Json request, const std::string& volume, milliseconds timeout,
                              StorageSecret::Age age) {
  ASSIGN_OR_RETURN(const ChapSecret chap, ReadChap(age));
  request["cluster"] = Describe(chap, volume);
  request["node"] = node_;
  auto answer = program_.Call(request, chap.password, timeout);
  // The Secret may have another password by now.
  if (answer.status().code() == StatusCode::kUnauthenticated) secret_.Forget();
  return answer;
}

StatusOr<LunCalls::Listed> LunCalls::List(Json request, const std::string& volume,
                                          milliseconds timeout, StorageSecret::Age age) {
  ASSIGN_OR_RETURN(const Json answer, Call(std::move(request), volume, timeout, age));
  std::map<std::string, int> seen;
  std::vector<Lun> luns;
  for (const Json& one : base::json::Array(answer, {"luns"})) {
    Lun lun = ToLun(one);
    if (std::ranges::find(settings_.allowed, lun.identity) == settings_.allowed.end()) continue;
    ++seen[lun.identity];
    luns.push_back(std::move(lun));
  }
  for (const auto& [identity, count] : seen) {
    if (count == 1) continue;
    LOG_WARNING("target {} shows {} LUNs of the identity {}, which are not used",
                Quote(settings_.target), count, Quote(identity));
  }
  std::erase_if(luns, [&](const Lun& lun) { return seen[lun.identity] > 1; });
  return Listed{.luns = std::move(luns), .unread = Int(answer, {"unread"})};
}

StatusOr<std::vector<Lun>> LunCalls::ListLuns(const std::string& volume) {
  ASSIGN_OR_RETURN(Listed listed, List({{"call", "list"}, {"identities", settings_.allowed}},
                                       volume, kTargetCallTime, StorageSecret::Age::kRecent));
  return std::move(listed.luns);
}

StatusOr<LunCalls::Listed> LunCalls::ListBriefly(StorageSecret::Age age) {
  return List({{"call", "list"}, {"brief", true}}, kNoVolume, kTargetCheckTime, age);
}

StatusOr<std::vector<Lun>> LunCalls::FindLuns() {
  ASSIGN_OR_RETURN(Listed listed, ListBriefly(StorageSecret::Age::kRecent));
  return std::move(listed.luns);
}

StatusOr<Lun> LunCalls::FindLun(const std::string& image, StorageSecret::Age age) {
  const std::string digest = ParseLunImage(image).digest;
  if (digest.empty()) {
    return Error(StatusCode::kNotFound,
                 "image {} names no LUN: its name does not end with a digest", Quote(image));
  }
  const auto identity = std::ranges::find_if(
      settings_.allowed, [&](const std::string& one) { return DigestLun(one) == digest; });
  if (identity == settings_.allowed.end()) {
    return Error(StatusCode::kFailedPrecondition,
                 "the LUN of image {} is not in iscsi.luns.allow: put it there again",
                 Quote(image));
  }
  ASSIGN_OR_RETURN(const Listed listed, ListBriefly(age));
  const auto found = std::ranges::find(listed.luns, *identity, &Lun::identity);
  if (found != listed.luns.end()) return *found;
  // A portal in standby, or a disk with an error, is no proof that the LUN is gone.
  if (listed.unread > 0) {
    return Error(StatusCode::kUnavailable,
                 "LUN {}, which image {} is, may be one of {} at target {} that cannot be read",
                 Quote(*identity), Quote(image), listed.unread, Quote(settings_.target));
  }
  return Error(StatusCode::kNotFound, "target {} does not show LUN {}, which image {} is",
               Quote(settings_.target), Quote(*identity), Quote(image));
}

StatusOr<Json> LunCalls::CallFor(const std::string& volume, const Lun& lun, Json request,
                                 StorageSecret::Age age) {
  request["lun"] = lun.number;
  request["identity"] = lun.identity;
  return Call(std::move(request), volume, kTargetCallTime, age);
}

StatusOr<Json> LunCalls::MakeServeSettings(const std::string& volume, const Lun& lun) {
  ASSIGN_OR_RETURN(const ChapSecret chap, ReadChap(StorageSecret::Age::kRecent));
  return Json{{"cluster", Describe(chap, volume)},
              {"node", node_},
              {"lun", lun.number},
              {"identity", lun.identity}};
}

}  // namespace berth::block
