#include "controllers/bootstrap/bootstrap.h"

#include "api/kinds.h"

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

}  // namespace

Status CreateStandaloneObjects(kube::Client& client, const std::string& driver) {
  RETURN_IF_ERROR(CreateIfMissing(client, api::kinds::kCsiDriver,
                                  {{"metadata", {{"name", driver}}},
                                   {"spec",
                                    {{"attachRequired", true},
                                     {"podInfoOnMount", false},
                                     {"fsGroupPolicy", "File"},
                                     {"volumeLifecycleModes", {"Persistent"}}}}}));
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
