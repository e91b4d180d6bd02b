// `berth node` without --roles runs a further node of the cluster of a `berth up`, whose API it
// reaches over HTTP.
#pragma once

#include <stop_token>
#include <string>

#include "base/status.h"
#include "standalone/local_node.h"

namespace berth::standalone {

// Runs the node until `stop` is requested. It also starts while the API does not answer; the
// controllers then wait until the informers have synced. `kubeconfig` is the path of an
// administrator's kubeconfig; empty: the one that kubectl would read.
// FAILED_PRECONDITION: another process uses the data folder. Other errors are those of
// CompleteOptions, of the kubeconfig and of the node's parts.
base::Status RunFurtherNode(const LocalNodeOptions& options, const std::string& kubeconfig,
                            const std::stop_token& stop);

}  // namespace berth::standalone
