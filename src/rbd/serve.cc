#include "rbd/serve.h"

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "blockexport/export_server.h"
#include "blockexport/serve_settings.h"
#include "rbd/cluster.h"
#include "rbd/cluster_settings.h"
#include "rbd/rbd_store.h"
#include "rbd/watchdog.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::StatusCode;

struct ServeSettings {
  ClusterSettings cluster;
  StoreOptions store;
  blockexport::ExportOptions served;
};

base::StatusOr<ServeSettings> ParseSettings(const base::Json& settings) {
  const base::Json* cluster = base::json::Find(settings, {"cluster"});
  if (cluster == nullptr) return Error(StatusCode::kInvalidArgument, "cluster is missing");
  ServeSettings parsed;
  ASSIGN_OR_RETURN(parsed.cluster, ParseClusterSettings(*cluster));
  parsed.store = {.image = base::json::String(settings, {"image"}),
                  .node = api::NodeName(base::json::String(settings, {"node"})),
                  .read_only = base::json::Bool(settings, {"readOnly"})};
  RETURN_IF_ERROR_WITH(CheckImageName(parsed.store.image), "image");
  RETURN_IF_ERROR_WITH(CheckNodeName(parsed.store.node.text()), "node");
  if (base::json::Bool(settings, {"shared"}) && !parsed.store.read_only) {
    return Error(StatusCode::kUnimplemented,
                 "an RBD image has one node that writes: several nodes can only read it");
  }
  ASSIGN_OR_RETURN(parsed.served, blockexport::ParseExportOptions(settings));
  return parsed;
}

// Ends the process with a failure.
std::function<void()> EndWith(base::Status failure) {
  return [failure = std::move(failure)] {
    blockexport::ReportFailure(failure);
    _exit(1);
  };
}

base::StatusOr<std::unique_ptr<RbdStore>> OpenStore(const ServeSettings& settings) {
  std::unique_ptr<Cluster> cluster;
  {
    // A connection has limits of its own, which say more, but not for each step: a namespace is
    // looked for in the OSDs, and monitors may stop to answer after the first of them did.
    Watchdog late(kPatience + std::chrono::seconds(1),
                  EndWith(Error(StatusCode::kDeadlineExceeded,
                                "the monitors, or the OSDs of the pool, did not answer within {} s",
                                kPatience.count())));
    const Watchdog::Watch watch(late);
    ASSIGN_OR_RETURN(cluster, Cluster::Connect(settings.cluster, Use::kServe));
  }
  // librbd has no limit of its own for what follows.
  Watchdog late(kPatience, EndWith(Error(StatusCode::kDeadlineExceeded,
                                         "the OSDs of the pool, or the client that has the lock, "
                                         "did not answer within {} s",
                                         kPatience.count())));
  const Watchdog::Watch watch(late);
  return RbdStore::Open(std::move(cluster), settings.store);
}

}  // namespace

int RunServe(const base::Json& settings) {
  const auto parsed = ParseSettings(settings);
  if (!parsed.ok()) {
    blockexport::ReportFailure(parsed.status());
    return 1;
  }
  blockexport::PrepareProcess();  // before librbd starts its threads
  auto store = OpenStore(*parsed);
  if (!store.ok()) {
    blockexport::ReportFailure(store.status());
    return 1;
  }
  LOG_INFO("image {} is {} by node {}", base::Quote(parsed->store.image),
           parsed->store.read_only ? "read" : "locked", parsed->store.node);
  return blockexport::RunExport(*std::move(store), parsed->served);
}

}  // namespace berth::rbd
