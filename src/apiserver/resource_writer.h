// The verbs that change objects: create, update, patch, delete, deletecollection, and a pod's
// binding and eviction.
//
// (delete and deletecollection are in resource_delete.cc, what is only for pods in pod_writes.cc).
// Each runs on a worker until its write is queued; the store's completion answers.
#pragma once

#include <functional>
#include <memory>

#include "apiserver/api_context.h"

namespace berth::apiserver {

class ResourceWriter {
 public:
  explicit ResourceWriter(ApiContext& context) : context_(context) {}

  void Create(const ResourceRequest& request);
  void Update(const ResourceRequest& request);
  void Patch(const ResourceRequest& request);
  void Delete(const ResourceRequest& request);
  void DeleteCollection(const ResourceRequest& request);
  void Bind(const ResourceRequest& request);   // POST pods/NAME/binding
  void Evict(const ResourceRequest& request);  // POST pods/NAME/eviction

 private:
  using Planner = Mutation::Planner;
  using Render = std::function<void(Exchange&, const Mutation::Result&)>;

  // A write that meets changes of others is tried once and up to five times more.
  static constexpr int kConflictAttempts = 6;

  // Answers with the object; `code` unless it was created, which a dry run never does.
  static Render ObjectRenderer(KindPtr kind, int code = 200);
  // Starts a mutation of the request's object; `render` answers with its result, errors are
  // answered here.
  void Run(const ResourceRequest& request, bool dry_run, Mutation::Options options, Planner planner,
           Render render);
  void Start(bool dry_run, Mutation::Options options, Planner planner, Mutation::Done done);
  base::StatusOr<Mutation::Plan> PlanPut(const ResourceRequest& request, Json wanted,
                                         const store::Record* current);
  base::StatusOr<Mutation::Plan> PlanPatch(const ResourceRequest& request, int kind,
                                           const Json& patch, const store::Record* current);
  base::Status CheckNamespace(const ResourceRequest& request, std::string_view name);

  ApiContext& context_;
};

}  // namespace berth::apiserver
