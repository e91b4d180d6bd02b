#include "controllers/bootstrap/bootstrap.h"

#include "api/kinds/kinds.h"

namespace berth::controllers::bootstrap {
namespace {

using base::Json;
using base::Status;

Status CreateIfMissing(kube::Client& client, const api::KindInfo& kind, Json object) {
  object["apiVersion"] = kind.api_version();
  object["kind"] = kind.kind;
  const Status created = client.Create(kind, "", object).status();
  if (created.code() == base::StatusCode::kAlreadyExists) return base::OkStatus();
  return base::Annotate(created,
                        fmt::format("create {} '{}'", kind.kind, api::Object(object).name()));
}

// What the shipped driver can do: inline volumes, too, which it knows by podInfoOnMount. Its room
// is published, so that pods go where there is some; until it is known they wait.
Json DriverObject(const std::string& driver) {
  return {{"metadata", {{"name", driver}}},
          {"spec",
           {{"attachRequired", true},
            {"podInfoOnMount", true},
            {"storageCapacity", true},
            {"fsGroupPolicy", "File"},
            {"volumeLifecycleModes", {"Persistent", "Ephemeral"}}}}};
}

// The lifecycle modes cannot be changed: an object of an earlier version is made anew, with all
// else that a person may have set in it.
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
