// Authorization: decides what a user may do. It is checked once per request, before the body is
// read.
//
// There are two roles (docs/adr/0006-two-roles.md), and one for the block agent. Members of
// system:masters are administrators and may do everything. A node agent (user system:node:NAME,
// group system:nodes) may do what the Node authorizer of Kubernetes allows: node_rules.h. The block
// agent of a node (user berth.dev:block-agent:NAME, group berth.dev:block-agents) may do what
// deploy/block-agent grants it in Kubernetes: block_agent_rules.h. A service account has the role
// that its annotation "berth.dev/role" names, "administrator", or "node" or "block-agent" (of the
// node of the pod that its token is bound to), and none without it. Every authenticated user may
// read the server's own documents (version, discovery, OpenAPI) and send reviews about their own
// rights.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/access/node_reach.h"
#include "base/json.h"
#include "base/status.h"
#include "http/message.h"
#include "store/store.h"

namespace berth::apiserver {

// What a request asks for: a verb on a resource, or a path that is no resource.
struct AccessAttributes {
  std::string verb;
  std::string group;
  std::string resource;  // empty: a path
  std::string subresource;
  std::string ns;
  std::string name;
  std::string path;
  // The field selector of a list or watch: each field and the value that it must have.
  std::vector<std::pair<std::string, std::string>> fields;

  // The value that the selector requires of `field`; empty if any value is allowed.
  std::string_view FieldValue(std::string_view field) const;
};

struct Role {
  enum class Kind { kNone, kAdministrator, kNode, kBlockAgent };
  Kind kind = Kind::kNone;
  // For kNode and kBlockAgent: the node's name; empty for a member of the group whose user names no
  // node.
  std::string node;
};

struct Decision {
  bool allowed = false;
  std::string reason;  // the reason of a refusal; may be empty
};

inline constexpr std::string_view kAdministrators = "system:masters";
inline constexpr std::string_view kNodes = "system:nodes";
inline constexpr std::string_view kNodePrefix = "system:node:";  // prefix of a node agent's user
inline constexpr std::string_view kBlockAgents = "berth.dev:block-agents";
inline constexpr std::string_view kBlockAgentPrefix = "berth.dev:block-agent:";
inline constexpr std::string_view kRoleAnnotation = "berth.dev/role";

// "system:serviceaccount:NS:NAME" as namespace and name; nullopt for other users.
std::optional<std::pair<std::string, std::string>> ServiceAccountOf(std::string_view user);

// Must not be called on the event loop, because it reads the store. Thread-safe.
class Authorizer {
 public:
  explicit Authorizer(store::Store& store) : store_(store), reach_(store) {}

  // The role of a user. A service account has none if the store cannot be read.
  Role RoleOf(const http::User& user);
  // Whether the user may do what `asked` describes.
  Decision Decide(const http::User& user, const Role& role, const AccessAttributes& asked);
  // OK, or 403 in Kubernetes' words.
  base::Status Authorize(const http::User& user, const Role& role, const AccessAttributes& asked);
  // The status of a SelfSubjectRulesReview: what a user with `role` may do.
  base::Json RulesOf(const Role& role);

 private:
  store::Store& store_;
  NodeReach reach_;
};

// The 403 for a refused request; `reason` may be empty.
base::Status AccessDeniedError(const http::User& user, const AccessAttributes& asked,
                               std::string_view reason);

}  // namespace berth::apiserver
