// The durable records of the pods that the node agent has accepted: <data>/node/pods/<uid>.json.
//
// A record is durable before anything of the pod exists on the node, and is removed after
// everything of it is gone. It holds the pod without its containers' `env`, which may hold secrets;
// it keeps what tear-down needs: names, grace period, preStop hooks. Thread-safe for different
// pods.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/kinds/kinds.h"
#include "base/status.h"

namespace berth::node {

struct PodRecord {
  std::shared_ptr<const api::Pod> pod;
  // True if a sandbox may exist in the runtime. The record says so before the first RunPodSandbox.
  bool sandbox_possible = false;
  // The phase in which the pod ended for good ("Succeeded" or "Failed"), with the reason and
  // message of its status; empty before. A pod that has ended never starts again.
  std::string ended_phase;
  std::string ended_reason;
  std::string ended_message;
};

class PodRecords {
 public:
  // Makes `folder` if it is missing, and removes unfinished writes from it.
  static base::StatusOr<std::unique_ptr<PodRecords>> Open(std::string folder);

  // All records by the pod's uid. A record that cannot be read is logged and left out; its pod is
  // found through its sandbox and its volumes. An error only if the folder cannot be read.
  base::StatusOr<std::map<std::string, PodRecord>> Load() const;

  // The change is durable when the call has returned OK. Remove is OK if there is no record.
  base::Status Write(const PodRecord& record) const;
  base::Status Remove(const std::string& uid) const;

 private:
  explicit PodRecords(std::string folder) : folder_(std::move(folder)) {}
  std::string Path(const std::string& uid) const;

  const std::string folder_;
};

}  // namespace berth::node
