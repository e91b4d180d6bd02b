// Checks the content of a node agent's write, after node_rules.h has allowed the request. As in
// Kubernetes' NodeRestriction admission, an agent may write only objects of its own node and of the
// pods that are bound to it, and may not change fields by which it could attract pods or secrets.
// Pure, except for the Lookup.
#pragma once

#include <string>
#include <string_view>

#include "api/kind_info.h"
#include "api/kinds/object_ids.h"
#include "apiserver/kinds/kind_rules.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::apiserver {

struct NodeWrite {
  std::string_view node;  // the node whose agent writes
  const api::KindInfo& info;
  std::string_view subresource;
  bool deletes = false;
  const base::Json* before = nullptr;  // the stored object; null: a create
  const base::Json* after = nullptr;   // the object to store; null with `deletes`
};

// OK, or 403 with Kubernetes' message.
base::Status CheckNodeWrite(const NodeWrite& write);

// Checks a node's TokenRequest for the service account named `account`. A node may request tokens
// only for its own pods, and must bind each token to its pod. `bound_object` is
// spec.boundObjectRef; `pod` is null if no pod has that name. 403 if the request is refused, 404 if
// the pod is missing.
base::Status CheckNodeTokenRequest(const api::NodeName& node, std::string_view account,
                                   const base::Json& bound_object, const base::Json* pod);

// Checks the audiences of a node's TokenRequest for `pod`: at most one, which a projected volume of
// the pod names, or the CSIDriver of one of its volumes; without one, it is the API's own. 403 if
// the request is refused; errors of `lookup`. Kubernetes also allows the audiences that RBAC grants
// by the verb request-serviceaccounts-token-audience, but this API has no RBAC (ADR 6).
base::Status CheckNodeTokenAudience(const api::NodeName& node, std::string_view account,
                                    const base::Json& audiences, const base::Json& pod,
                                    Lookup& lookup);

}  // namespace berth::apiserver
