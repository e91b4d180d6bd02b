#include "node/node_host.h"

#include "api/kinds.h"
#include "api/time.h"

namespace berth::node {
namespace {

using base::Json;
using base::MutexLock;
using base::StatusOr;

// Far more than a node has pods; only a flood of ever new audiences or pods comes near.
constexpr size_t kMaxTokens = 2000;

}  // namespace

NodeHost::NodeHost(std::string node_name, std::string kubelet_folder, kube::Client& client,
                   kube::Informers& informers, base::EventSink& events, const base::Clock& clock)
    : node_name_(std::move(node_name)),
      paths_(std::move(kubelet_folder)),
      client_(client),
      events_(events),
      clock_(clock),
      csi_drivers_(informers.Of<api::CsiDriver>()),
      nodes_(informers.Of<api::Node>()),
      mounter_(platform::NewMounter()),
      exec_(platform::NewHostExec()) {}

StatusOr<Json> NodeHost::GetObject(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name) {
  const kube::InformerBase* copy = nullptr;
  if (&kind == &api::kinds::kCsiDriver) copy = &csi_drivers_;
  if (&kind == &api::kinds::kNode) copy = &nodes_;
  if (copy != nullptr) {
    if (const auto object = copy->Find(api::ObjectKey(ns, name)); object != nullptr) {
      return object->json();
    }
    // Not there, or not there yet: only the API knows.
  }
  return client_.Get(kind, ns, name);
}

StatusOr<Json> NodeHost::CreateToken(std::string_view ns, std::string_view account,
                                     const Json& request) {
  const std::string key = fmt::format("{}/{}/{}", ns, account, base::json::Dump(request));
  const base::WallTime now = clock_.Now();
  {
    MutexLock lock(mutex_);
    const auto found = tokens_.find(key);
    if (found != tokens_.end() && now < found->second.renew_at) return found->second.answer;
  }
  ASSIGN_OR_RETURN(Json answer, client_.CreateSubresource(api::kinds::kServiceAccount, ns, account,
                                                          "token", request));
  const auto expires =
      api::ParseTime(base::json::String(answer, {"status", "expirationTimestamp"}));
  if (!expires.ok() || *expires <= now) return answer;
  MutexLock lock(mutex_);
  std::erase_if(tokens_, [now](const auto& item) { return item.second.renew_at <= now; });
  if (tokens_.size() < kMaxTokens) {
    tokens_[key] = {.answer = answer, .renew_at = now + (*expires - now) * 4 / 5};
  }
  return answer;
}

}  // namespace berth::node
