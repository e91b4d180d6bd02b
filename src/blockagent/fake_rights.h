// The API as the agent of a node may use it in a cluster: with the rights of
// deploy/block-agent/rbac.yaml, and under the policies of deploy/block-agent/policy.yaml. The tests
// of agents run with it.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "blockagent/fake_admission.h"
#include "kube/fake_client.h"
#include "kube/fake_rbac.h"

namespace berth::blockagent {

// The texts of rbac.yaml and policy.yaml, in this order.
std::span<const std::string_view> RightsManifests();

// Makes the API serve the kinds of block storage.
void ServeBlockKinds(kube::FakeClient& api);

// The userInfo of a request of an agent's pod on `node`; without a node if that is empty.
base::Json AgentUser(const std::string& node);

class AgentClient : public kube::RestrictedClient {
 public:
  // Borrows `api`.
  AgentClient(kube::FakeClient& api, const std::string& node);
  // Fails the test if a call was refused: an agent needs no more than it is given.
  ~AgentClient() override;

  base::StatusOr<base::Json> Create(const api::KindInfo& kind, std::string_view ns,
                                    const base::Json& object) override;
  base::StatusOr<base::Json> Update(const api::KindInfo& kind, const base::Json& object,
                                    std::string_view subresource) override;
  base::StatusOr<base::Json> Patch(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name, kube::PatchType type,
                                   const base::Json& patch, std::string_view subresource) override;
  base::Status Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                      const kube::DeleteOptions& options) override;

 private:
  // Checks a write as the API server does. A write that would fail anyhow, because the object is
  // there, is not there, or has changed, is left to that.
  base::Status CheckPolicies(const api::KindInfo& kind, std::string_view subresource,
                             base::Json before, base::Json after);

  kube::FakeClient& api_;
  const base::Json user_;
  AdmissionPolicies policies_;
  base::Mutex mutex_;
  std::set<std::string> denied_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::blockagent
