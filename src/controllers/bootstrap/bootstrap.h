// Creates the objects with which a standalone Berth starts, so that its own CSI driver is usable at
// once.
#pragma once

#include <string>

#include "kube/client.h"

namespace berth::controllers::bootstrap {

// Creates, where they are missing, the CSIDriver object of `driver` and the default StorageClass
// "local" that provisions from it on the node of the first pod. What a person has changed stays.
base::Status CreateStandaloneObjects(kube::Client& client, const std::string& driver);

}  // namespace berth::controllers::bootstrap
