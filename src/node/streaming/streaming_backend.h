// Implements StreamBackend with the pods of this node.
#pragma once

#include "node/pods/pod_manager.h"
#include "node/streaming/streaming_server.h"
#include "rpc/cri_client.h"

namespace berth::node {

class PodStreamBackend : public StreamBackend {
 public:
  // Both borrowed.
  PodStreamBackend(PodManager& pods, rpc::CriClient& cri) : pods_(pods), cri_(cri) {}

  base::StatusOr<Log> FindLog(const StreamTarget& target, bool previous) override;
  bool IsRunning(const StreamTarget& target, const std::string& container_id) override;
  base::StatusOr<std::string> Exec(const StreamTarget& target, const ExecOptions& options) override;
  base::StatusOr<std::string> Attach(const StreamTarget& target,
                                     const ExecOptions& options) override;
  base::StatusOr<std::string> PortForward(const StreamTarget& target,
                                          const std::vector<int32_t>& ports) override;

 private:
  // The pod of `target`; NOT_FOUND: it is not on this node, or has another uid.
  base::StatusOr<std::shared_ptr<const api::Pod>> FindPod(const StreamTarget& target) const;
  // The pod; NOT_FOUND also if it has no such container.
  base::StatusOr<std::shared_ptr<const api::Pod>> FindPodWithContainer(
      const StreamTarget& target) const;
  // The id of the container's running instance. INVALID_ARGUMENT: it does not run.
  base::StatusOr<std::string> RunningId(const StreamTarget& target) const;

  PodManager& pods_;
  rpc::CriClient& cri_;
};

}  // namespace berth::node
