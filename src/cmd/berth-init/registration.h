// The pod's registration for its volume plugins, as the design "Containerized mounter using volume
// utilities in pods" lays it out:
//
//   <kubelet-dir>/plugin-containers/kubernetes.io~glusterfs.json
//       {"podNamespace": ..., "podName": ..., "podUID": ..., "containerName": ...}
//
// A later pod overwrites it. A pod withdraws it only if it is still the pod's own. A lock on the
// folder makes this check and the removal one step, so that a pod that goes never removes the
// registration of a pod that comes.
#pragma once

#include "base/ipc/result.h"
#include "cmd/berth-init/options.h"

namespace berth::init {

// Makes the folder plugin-containers if it is missing, but not the kubelet's folder: if that one is
// missing, it is not mounted into the pod.
base::ipc::Failure Register(const Options& options);

// A registration that cannot be removed stays. This does no harm, because a pod that no longer runs
// is not used (the design).
void Withdraw(const Options& options);

}  // namespace berth::init
