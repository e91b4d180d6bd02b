// Creates the objects with which a standalone Berth starts, so that its own CSI driver is usable at
// once.
#pragma once

#include <string>

#include "kube/client.h"

namespace berth::controllers::bootstrap {

// Creates, where they are missing, the CSIDriver object of the driver named `driver`, and the
// StorageClass "local": the default class, with this driver and WaitForFirstConsumer. Objects that
// exist stay as they are, with one exception: a CSIDriver without the lifecycle mode "Ephemeral"
// comes from an earlier version, and is deleted and created again with this mode and
// podInfoOnMount. The rest of its spec stays, its labels and annotations do not. Errors come from
// the API.
base::Status CreateStandaloneObjects(kube::Client& client, const std::string& driver);

}  // namespace berth::controllers::bootstrap
