#include "controllers/provisioner/reference_grants.h"

#include <algorithm>

#include "base/json.h"
#include "controllers/data_source.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// The grants of a namespace are read in pages, and no more of them, because a claim that names the
// namespace makes the provisioner read them.
constexpr int kPageSize = 500;
constexpr int kMaxPages = 20;

}  // namespace

const api::KindInfo ReferenceGrant::kInfo{.group = "gateway.networking.k8s.io",
                                          .version = "v1beta1",
                                          .kind = "ReferenceGrant",
                                          .plural = "referencegrants",
                                          .singular = "referencegrant",
                                          .namespaced = true};

bool ReferenceGrant::Allows(const api::PersistentVolumeClaim& claim) const {
  const api::Part source = claim.data_source();
  if (ns() != DataSourceNamespace(claim)) return false;
  const Json& from = base::json::Array(json(), {"spec", "from"});
  const bool from_claim = std::any_of(from.begin(), from.end(), [&](const Json& item) {
    return base::json::String(item, {"group"}).empty() &&
           base::json::String(item, {"kind"}) == "PersistentVolumeClaim" &&
           base::json::String(item, {"namespace"}) == claim.ns();
  });
  if (!from_claim) return false;
  const Json& to = base::json::Array(json(), {"spec", "to"});
  return std::any_of(to.begin(), to.end(), [&](const Json& item) {
    const std::string name = base::json::String(item, {"name"});
    return base::json::String(item, {"group"}) == source.String({"apiGroup"}) &&
           base::json::String(item, {"kind"}) == source.String({"kind"}) &&
           (name.empty() || name == source.String({"name"}));
  });
}

Status CheckGranted(const api::PersistentVolumeClaim& claim,
                    std::span<const ReferenceGrant> grants) {
  const bool allowed = std::any_of(grants.begin(), grants.end(), [&](const ReferenceGrant& grant) {
    return grant.Allows(claim);
  });
  if (allowed) return base::OkStatus();
  const api::Part source = claim.data_source();
  return Error(StatusCode::kFailedPrecondition,
               "accessing {}/{} of {} dataSource from {}/{} isn't allowed",
               DataSourceNamespace(claim), source.String({"name"}), source.String({"kind"}),
               claim.ns(), claim.name());
}

StatusOr<std::vector<ReferenceGrant>> ListGrants(const std::string& ns, kube::Client& client) {
  std::vector<ReferenceGrant> grants;
  kube::ListOptions options{.limit = kPageSize};
  for (int page = 0; page < kMaxPages; ++page) {
    ASSIGN_OR_RETURN(auto listed, client.List(ReferenceGrant::kInfo, ns, options));
    for (Json& item : listed.items) grants.emplace_back(std::move(item));
    options.continue_token = listed.continue_token;
    if (options.continue_token.empty()) break;
  }
  return grants;
}

Status CheckGranted(const api::PersistentVolumeClaim& claim, kube::Client& client) {
  const std::string ns = DataSourceNamespace(claim);
  const auto grants = ListGrants(ns, client);
  if (!grants.ok()) {
    const StatusCode code = grants.status().code();
    return Error(code == StatusCode::kNotFound ? StatusCode::kFailedPrecondition : code,
                 "error getting ReferenceGrants in {} namespace from api server: {}", ns,
                 base::Message(grants.status()));
  }
  return CheckGranted(claim, *grants);
}

}  // namespace berth::controllers::provisioner
