// Shows a provisioner its own node alone, as the driver describes it, in a node deployment
// (options.h). Kubernetes' external-provisioner does the same with --node-deployment. So the
// provisioner needs no right to nodes and CSINodes, and gets none of the many updates of Nodes.
//
//   Node      the node's name; labels: the segments of NodeGetInfo's accessible_topology
//   CSINode   the node's name; its only driver, with node_id and the keys of the segments
//
// Lists of these two kinds call NodeGetInfo. Their watches end when the driver is ready again, so
// that it is asked anew, because another version may have taken its place. UNAVAILABLE: the driver
// does not answer, or its name is not known yet; the role waits for it. Everything else goes to
// the client behind it. Thread-safe.
#pragma once

#include <chrono>
#include <string>

#include "base/mutex.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "kube/guarded_client.h"

namespace berth::controllers::provisioner {

class OwnNodeClient : public kube::GuardedClient {
 public:
  // `client` and `driver` are borrowed and must outlive the calls. `timeout` is that of
  // NodeGetInfo.
  OwnNodeClient(kube::Client& client, DriverConnection& driver, std::string node,
                std::chrono::milliseconds timeout);

  base::StatusOr<base::Json> Get(const api::KindInfo& kind, std::string_view ns,
                                 std::string_view name) override;
  base::StatusOr<kube::ListResult> List(const api::KindInfo& kind, std::string_view ns,
                                        const kube::ListOptions& options) override;
  base::Status Watch(const api::KindInfo& kind, std::string_view ns,
                     const kube::ListOptions& options, std::stop_token stop,
                     const std::function<bool(kube::WatchEvent event)>& on_event) override;

  // To be called when the driver has become ready or has come back: ends the watches.
  void NoteDriverReady() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // How often the driver has become ready, as the resourceVersion of what it says.
  std::string ReadVersion() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Asks the driver for the Node or CSINode.
  base::StatusOr<base::Json> Describe(const api::KindInfo& kind, const std::string& version);

  DriverConnection& driver_;
  const std::string node_;
  const std::chrono::milliseconds timeout_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  int version_ ABSL_GUARDED_BY(mutex_) = 1;
};

// Lets the controllers that are made with `context` afterwards see only the node `node`, as
// `driver` describes it. `driver` must not have been started, and outlives the informers' work.
void ShowOwnNode(const Context& context, DriverConnection& driver, const std::string& node,
                 std::chrono::milliseconds timeout);

}  // namespace berth::controllers::provisioner
