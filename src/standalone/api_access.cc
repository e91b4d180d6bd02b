#include "standalone/api_access.h"

namespace berth::standalone {

base::StatusOr<std::unique_ptr<ApiAccess>> ApiAccess::New(const MakeClient& make_client,
                                                          const std::string& node_name,
                                                          const base::Clock& clock) {
  auto api = std::make_unique<ApiAccess>();
  ASSIGN_OR_RETURN(api->client, make_client("", {}));
  // The node agent has only the rights of its node, like a node agent on another machine.
  ASSIGN_OR_RETURN(api->node_client, make_client("system:node:" + node_name, {"system:nodes"}));
  api->controller_events =
      std::make_unique<kube::EventRecorder>(*api->client, clock, "berth-controllers", node_name);
  api->node_events =
      std::make_unique<kube::EventRecorder>(*api->node_client, clock, "berth-node", node_name);
  api->informers = std::make_unique<kube::Informers>(*api->client);
  return api;
}

}  // namespace berth::standalone
