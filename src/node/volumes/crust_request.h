// Makes the request by which a runtime handler mounts a deferred volume (proto/crust.proto). Pure.
#pragma once

#include <string>

#include "proto/crust.pb.h"
#include "volume/volume_plugin.h"

namespace berth::node {

// `target` is where the host would mount the volume. The caller adds the sandbox or the pod.
::crust::v1alpha1::RuntimePublishVolumeRequest MakePublishRequest(
    const volume::DeferredMount& mount, const std::string& target, bool read_only);

}  // namespace berth::node
