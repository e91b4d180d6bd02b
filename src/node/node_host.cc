#include "node/node_host.h"

#include "api/kinds/kinds.h"
#include "platform/files/selinux.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusOr;

}  // namespace

NodeHost::NodeHost(const api::NodeName& node, std::string kubelet_folder, kube::Client& client,
                   kube::Informers& informers, base::EventSink& events, const base::Clock& clock)
    : node_name_(node.text()),
      paths_(std::move(kubelet_folder)),
      client_(client),
      events_(events),
      clock_(clock),
      csi_drivers_(informers.Of<api::CsiDriver>()),
      nodes_(informers.Of<api::Node>()),
      mounter_(platform::NewMounter()),
      utilities_(volume::NewHostUtilities(*mounter_)),
      selinux_(platform::KernelHasSelinux()) {}

StatusOr<Json> NodeHost::GetObject(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name) {
  const kube::InformerBase* copy = nullptr;
  if (&kind == &api::kinds::kCsiDriver) copy = &csi_drivers_;
  if (&kind == &api::kinds::kNode) copy = &nodes_;
  if (copy != nullptr) {
    if (const auto object = copy->Find(api::ObjectKey(ns, name)); object != nullptr) {
      return object->json();
    }
    // The informer may lack the object because it has not seen it yet, so the API is asked.
  }
  return client_.Get(kind, ns, name);
}

StatusOr<Json> NodeHost::CreateToken(std::string_view ns, std::string_view account,
                                     const Json& request) {
  return client_.CreateSubresource(api::kinds::kServiceAccount, ns, account, "token", request);
}

}  // namespace berth::node
