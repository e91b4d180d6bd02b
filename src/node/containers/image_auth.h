// Finds the credentials for pulling an image in spec.imagePullSecrets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "node/containers/container_env.h"
#include "rpc/cri_client.h"

namespace berth::node {

// The registry of an image name: "docker.io" for "busybox", "ghcr.io" for "ghcr.io/a/b:1",
// "localhost:5000" for "localhost:5000/x".
std::string ImageRegistry(std::string_view image);

// The first credentials for the image's registry in the pod's pull secrets (types
// kubernetes.io/dockerconfigjson and dockercfg); nullopt: none. Secrets that are missing or
// malformed are skipped, as in the kubelet. Credentials are never logged.
std::optional<rpc::cri::AuthConfig> FindPullCredentials(const api::Pod& pod, std::string_view image,
                                                        const ObjectReader& reader);

}  // namespace berth::node
