// The pod's registration for its volume plugins, as the design "Containerized mounter using volume
// utilities in pods" lays it out:
//
//   <kubelet-dir>/plugin-containers/kubernetes.io~glusterfs.json
//       {"podNamespace": ..., "podName": ..., "podUID": ..., "containerName": ...}
//
// A later pod overwrites it. It is withdrawn where it still is this pod's: looking whose it is and
// removing it is one step for other pods' berth-init, by a lock on the folder, so that a pod that
// comes never loses its registration to the one that goes.
#pragma once

#include "base/ipc/result.h"
#include "cmd/berth-init/options.h"

namespace berth::init {

// Makes the folder if it is missing, but not the kubelet's own: where that is not there, it is not
// mounted into the pod.
base::ipc::Failure Register(const Options& options);

// What cannot be removed stays: a pod that no longer runs is not used (the design).
void Withdraw(const Options& options);

}  // namespace berth::init
