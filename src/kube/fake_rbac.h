// A client that allows only the calls that its RBAC rules grant, as an API server does. Other calls
// get PERMISSION_DENIED and are recorded. Tests check with it that a program needs no other rights
// than those that a cluster gives it.
//
// Without any rules every call is allowed. Thread-safe. Borrows the client behind it.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "kube/client.h"

namespace berth::kube {

// The rules of the Roles and ClusterRoles in the YAML texts `manifests` that have one of `names`.
// They are empty if none has.
Json FindRoleRules(std::span<const std::string_view> manifests,
                   const std::vector<std::string>& names);

class RestrictedClient : public Client {
 public:
  explicit RestrictedClient(Client& client) : client_(client) {}

  // Adds `rules` of a Role or ClusterRole: [{"apiGroups", "resources", "verbs"}]. resourceNames and
  // namespaces are ignored, and wildcards are not supported.
  void Grant(const Json& rules);

  // The calls that were refused, as "patch persistentvolumeclaims".
  std::set<std::string> refused() const;
  // The rights that were granted and used, and those that were granted and never used.
  std::set<std::string> used() const;
  std::set<std::string> unused() const;

  StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                     std::string_view name) override;
  StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                            const ListOptions& options) override;
  StatusOr<Json> Create(const api::KindInfo& kind, std::string_view ns,
                        const Json& object) override;
  StatusOr<Json> Update(const api::KindInfo& kind, const Json& object,
                        std::string_view subresource) override;
  StatusOr<Json> Patch(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                       PatchType type, const Json& patch, std::string_view subresource) override;
  Status Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                const DeleteOptions& options) override;
  Status DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                          const DeleteOptions& options) override;
  StatusOr<Json> CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name, std::string_view subresource,
                                   const Json& body) override;
  Status Watch(const api::KindInfo& kind, std::string_view ns, const ListOptions& options,
               std::stop_token stop,
               const std::function<bool(WatchEvent event)>& on_event) override;
  Status GetStream(std::string_view target, std::string_view accept, std::stop_token stop,
                   const std::function<bool(std::string_view chunk)>& on_chunk) override;

 private:
  Status CheckRights(std::string_view verb, const api::KindInfo& kind,
                     std::string_view subresource = "") ABSL_LOCKS_EXCLUDED(mutex_);

  Client& client_;
  mutable base::Mutex mutex_;
  std::set<std::string> granted_ ABSL_GUARDED_BY(mutex_);  // "patch pods/status.GROUP"
  std::set<std::string> used_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> refused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::kube
