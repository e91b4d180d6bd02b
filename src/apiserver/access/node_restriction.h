// What a node agent may write, beyond what node_rules.h lets through: as Kubernetes'
// NodeRestriction admission has it, only objects of its own node and of the pods that are bound to
// it, and nothing of them by which it could draw pods or secrets to itself. Pure.
#pragma once

#include <string>
#include <string_view>

#include "api/kind_info.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::apiserver {

struct NodeWrite {
  std::string_view node;  // who writes
  const api::KindInfo& info;
  std::string_view subresource;
  bool deletes = false;
  const base::Json* before = nullptr;  // null: a create
  const base::Json* after = nullptr;   // null with `deletes`
};

// 403 in Kubernetes' words, or OK.
base::Status CheckNodeWrite(const NodeWrite& write);

// A node asks for tokens of its pods only, and binds each to its pod. `pod` is null if there is
// none of that name.
base::Status CheckNodeTokenRequest(std::string_view node, std::string_view account,
                                   const base::Json& bound_object, const base::Json* pod);

}  // namespace berth::apiserver
