#include "rbd/serve.h"

#include <unistd.h>

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
                  .node = base::json::String(settings, {"node"}),
                  .read_only = base::json::Bool(settings, {"readOnly"})};
  RETURN_IF_ERROR_WITH(CheckImageName(parsed.store.image), "image");
  RETURN_IF_ERROR_WITH(CheckNodeName(parsed.store.node), "node");
  if (base::json::Bool(settings, {"shared"}) && !parsed.store.read_only) {
    return Error(StatusCode::kUnimplemented,
                 "an RBD image has one node that writes: several nodes can only read it");
  }
  ASSIGN_OR_RETURN(parsed.served, blockexport::ParseExportOptions(settings));
  return parsed;
}

base::StatusOr<std::unique_ptr<RbdStore>> OpenStore(const ServeSettings& settings) {
  // librbd has no limit of its own for what follows the connection.
  Watchdog late(kPatience, [] {
    blockexport::ReportFailure(Error(StatusCode::kDeadlineExceeded,
                                     "the OSDs of the pool, or the client that has the lock, did "
                                     "not answer within {} s",
                                     kPatience.count()));
    _exit(1);
  });
  ASSIGN_OR_RETURN(auto cluster, Cluster::Connect(settings.cluster, Use::kServe));
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
           parsed->store.read_only ? "read" : "locked", base::Quote(parsed->store.node));
  return blockexport::RunExport(*std::move(store), parsed->served);
}

}  // namespace berth::rbd
