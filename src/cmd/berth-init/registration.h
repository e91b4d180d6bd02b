// Registers the pod for its volume plugins, as the design "Containerized mounter using volume
// utilities in pods" prescribes:
//
//   <kubelet-dir>/plugin-containers/kubernetes.io~glusterfs.json
//       {"podNamespace": ..., "podName": ..., "podUID": ..., "containerName": ...}
//
// A later pod overwrites the file. A pod removes the file only if it is still the pod's own. A lock
// on the folder makes this check and the removal one step, so that an old pod never removes the
// registration of a new pod.
#pragma once

#include "base/ipc/result.h"
#include "cmd/berth-init/options.h"

namespace berth::init {

// Writes the registrations. Creates the folder plugin-containers if it does not exist. It is a
// failure if the kubelet's folder does not exist, because then it is not mounted into the pod.
base::ipc::Failure RegisterPod(const Options& options);

// Removes the registrations that are still the pod's own. A registration that cannot be removed
// stays. This does no harm, because a pod that no longer runs is not used (the design).
void WithdrawRegistration(const Options& options);

}  // namespace berth::init
