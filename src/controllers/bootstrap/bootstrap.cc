#include "controllers/bootstrap/bootstrap.h"

#include "api/kinds/kinds.h"
#include "base/log.h"

namespace berth::controllers::bootstrap {
namespace {

using base::Json;
using base::Status;

Status CreateIfMissing(kube::Client& client, const api::KindInfo& kind, Json object) {
  object["apiVersion"] = kind.api_version();
  object["kind"] = kind.kind;
  const std::string name = api::Object(object).name();
  const Status created = client.Create(kind, "", object).status();
  if (created.code() == base::StatusCode::kAlreadyExists) return base::OkStatus();
  RETURN_IF_ERROR_WITH(created, fmt::format("create {} '{}'", kind.kind, name));
  LOG_INFO("{} {} is created", kind.kind, base::Quote(name));
  return base::OkStatus();
}

// The CSIDriver object of the shipped driver. The driver supports inline volumes, too, which it
// recognizes by podInfoOnMount. Its capacity is published, so that pods are placed where there is
// room; they wait until it is known.
Json DriverObject(const std::string& driver) {
  return {{"metadata", {{"name", driver}}},
          {"spec",
           {{"attachRequired", true},
            {"podInfoOnMount", true},
            {"storageCapacity", true},
            {"fsGroupPolicy", "File"},
            {"volumeLifecycleModes", {"Persistent", "Ephemeral"}}}}};
}

// volumeLifecycleModes is immutable, so an object of an earlier version is deleted and created
// again. The other fields of its spec stay, because a person may have changed them.
Status RenewDriver(kube::Client& client, const std::string& driver) {
  const auto present = kube::Get<api::CsiDriver>(client, "", driver);
  if (present.status().code() == base::StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(present);
  if (present->supports_lifecycle("Ephemeral")) return base::OkStatus();
  Json object = DriverObject(driver);
  Json spec = base::json::Map(present->json(), {"spec"});
  spec["podInfoOnMount"] = true;
  spec["volumeLifecycleModes"] = {"Persistent", "Ephemeral"};
  object["spec"] = std::move(spec);
  RETURN_IF_ERROR(client.Delete(api::kinds::kCsiDriver, "", driver, {}));
  LOG_INFO(
      "CSIDriver {} of an earlier version is deleted, because it needs the lifecycle mode "
      "Ephemeral and the modes of an object cannot be changed",
      base::Quote(driver));
  return CreateIfMissing(client, api::kinds::kCsiDriver, std::move(object));
}

}  // namespace

Status CreateStandaloneObjects(kube::Client& client, const std::string& driver) {
  RETURN_IF_ERROR_WITH(RenewDriver(client, driver), fmt::format("renew CSIDriver '{}'", driver));
  RETURN_IF_ERROR(CreateIfMissing(client, api::kinds::kCsiDriver, DriverObject(driver)));
  return CreateIfMissing(
      client, api::kinds::kStorageClass,
      {{"metadata",
        {{"name", "local"},
         {"annotations", {{"storageclass.kubernetes.io/is-default-class", "true"}}}}},
       {"provisioner", driver},
       {"reclaimPolicy", "Delete"},
       {"volumeBindingMode", "WaitForFirstConsumer"},
       {"allowVolumeExpansion", true}});
}

}  // namespace berth::controllers::bootstrap
