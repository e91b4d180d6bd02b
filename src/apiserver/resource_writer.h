// The verbs that change objects: create, update, patch, delete, deletecollection, and a pod's
// binding and eviction.
//
// delete and deletecollection are in resource_delete.cc, server-side apply is in resource_apply.cc,
// and the pod's verbs are in pod_writes.cc. Each verb runs on a worker until its write is queued;
// the store's completion callback sends the answer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/merging/conform.h"
#include "apiserver/api_context.h"

namespace berth::apiserver {

// Whether a PATCH is a server-side apply, which creates the object if it is missing.
bool IsApply(const http::Request& request);

class ResourceWriter {
 public:
  explicit ResourceWriter(ApiContext& context) : context_(context) {}

  // Each answers the request, once its write is done or has failed. Call them on a worker.
  void Create(const ResourceRequest& request);
  void Update(const ResourceRequest& request);
  void Patch(const ResourceRequest& request);
  void Delete(const ResourceRequest& request);
  void DeleteCollection(const ResourceRequest& request);
  void Bind(const ResourceRequest& request);   // POST pods/NAME/binding
  void Evict(const ResourceRequest& request);  // POST pods/NAME/eviction

 private:
  using Planner = Mutation::Planner;
  using Render = std::function<void(http::Exchange&, const Mutation::Result&)>;

  // The total number of attempts of a write that conflicts with other writes.
  static constexpr int kConflictAttempts = 6;

  // Returns `planner` with the check of what a node agent or a block agent may write
  // (node_restriction.h, block_agent_restriction.h), if the user is one.
  Planner AddNodeRestriction(const ResourceRequest& request, Planner planner);
  // Gives the Node of that name; nullopt: there is none.
  base::StatusOr<std::optional<Json>> FindNode(const std::string& name);
  // Makes the answer from the written object, with code 201 if it was created, else `code`.
  static Render ObjectRenderer(KindPtr kind, int code = 200);
  // Starts a mutation of the request's object. `render` makes the answer from the result.
  // RunMutation itself answers errors.
  void RunMutation(const ResourceRequest& request, bool dry_run, Mutation::Options options,
                   Planner planner, Render render);
  void StartMutation(bool dry_run, Mutation::Options options, Planner planner, Mutation::Done done);
  // Answers a PATCH that is a server-side apply.
  void Apply(const ResourceRequest& request);

  // `current` is null if the object is missing.
  base::StatusOr<Mutation::Plan> PlanPut(const ResourceRequest& request, Json wanted,
                                         const std::string& manager, const store::Record* current);
  base::StatusOr<Mutation::Plan> PlanPatch(const ResourceRequest& request, int kind,
                                           const Json& patch, const std::string& manager,
                                           api::StrictErrors strict, const store::Record* current);
  base::StatusOr<Mutation::Plan> PlanApply(const ResourceRequest& request, const Json& config,
                                           const std::string& manager,
                                           const store::Record* current);
  base::StatusOr<Mutation::Plan> PlanApplyNew(const ResourceRequest& request, const Json& config,
                                              const std::string& manager);
  // 404 if the request's namespace is missing, 403 if it is being deleted. `name` is the object's.
  base::Status CheckNamespace(const ResourceRequest& request, std::string_view name);

  ApiContext& context_;
};

}  // namespace berth::apiserver
