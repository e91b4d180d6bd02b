#include "controllers/provisioner/capacity/capacity_owner.h"

#include "api/kinds/kinds.h"
#include "api/names.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;

namespace {

// The object that an owner reference names. Owners of pods have regular plurals.
StatusOr<api::Object> ReadOwner(kube::Client& client, const std::string& ns,
                                const api::OwnerReference& owner) {
  const size_t slash = owner.api_version.find('/');
  const bool core = slash == std::string::npos;
  const std::string group = core ? "" : owner.api_version.substr(0, slash);
  const std::string version = core ? owner.api_version : owner.api_version.substr(slash + 1);
  const std::string singular = api::LowerCase(owner.kind);
  const std::string plural = singular + "s";
  const api::KindInfo info{.group = group,
                           .version = version,
                           .kind = owner.kind,
                           .plural = plural,
                           .singular = singular,
                           .namespaced = true};
  ASSIGN_OR_RETURN(Json object, client.Get(info, ns, owner.name));
  return api::Object(std::move(object));
}

Json Reference(const api::OwnerReference& owner) {
  return Json::array({{{"apiVersion", owner.api_version},
                       {"kind", owner.kind},
                       {"name", owner.name},
                       {"uid", owner.uid},
                       {"controller", true}}});
}

}  // namespace

StatusOr<Json> ReadCapacityOwner(kube::Client& client, const CapacityOptions& options) {
  if (options.owner_level < 0 && !options.node_owns) return Json::array();
  if (options.owner_level < 0) {
    const StatusOr<api::Node> node = kube::Get<api::Node>(client, "", options.node_name);
    RETURN_IF_ERROR_WITH(
        node,
        fmt::format("read Node '{}', the owner of CSIStorageCapacity objects", options.node_name));
    return Reference(
        {.api_version = "v1", .kind = "Node", .name = node->name(), .uid = node->uid()});
  }
  const StatusOr<api::Pod> pod = kube::Get<api::Pod>(client, options.ns, options.pod_name);
  RETURN_IF_ERROR_WITH(pod, fmt::format("read pod '{}/{}', the owner of CSIStorageCapacity objects",
                                        options.ns, options.pod_name));
  api::OwnerReference owner{
      .api_version = "v1", .kind = "Pod", .name = pod->name(), .uid = pod->uid()};
  api::Object object = *pod;
  for (int level = 0; level < options.owner_level; ++level) {
    if (level > 0) {
      ASSIGN_OR_RETURN(object, ReadOwner(client, options.ns, owner));
    }
    const std::optional<api::OwnerReference> above = object.controller();
    if (!above.has_value()) {
      return Error(StatusCode::kNotFound,
                   "{} '{}' has no controller, which --capacity-ownerref-level {} asks for",
                   owner.kind, owner.name, options.owner_level);
    }
    owner = *above;
  }
  return Reference(owner);
}

}  // namespace berth::controllers::provisioner
