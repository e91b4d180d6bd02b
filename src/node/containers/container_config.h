// A container of a pod as the ContainerConfig that the runtime gets, with the files on the host
// that it mounts: /etc/hosts and its termination message.
#pragma once

#include <map>
#include <string>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "node/containers/container_env.h"
#include "platform/mounts/mounter.h"
#include "rpc/cri_client.h"
#include "volume/paths.h"
#include "volume/volume_plugin.h"

namespace berth::node {

struct ContainerConfigInput {
  const api::Pod& pod;
  const api::Container& container;
  uint32_t restart_count = 0;
  const rpc::cri::Image& image;
  const PodFacts& facts;
  const std::map<std::string, volume::Published>& volumes;
  // Id of the container whose processes it is to see (targetContainerName); empty: as all of the
  // pod's containers.
  std::string processes_of;
};

// The part of a container's spec whose change makes a running container be replaced; the kubelet's
// rule: name and image.
std::string ContainerHash(const api::Container& container);

class ContainerConfigs {
 public:
  // All borrowed.
  ContainerConfigs(const volume::Paths& paths, platform::Mounter& mounter, ObjectReader reader)
      : paths_(paths), mounter_(mounter), reader_(std::move(reader)) {}

  // Makes the files and subPath mounts, then the configuration. An error is the kubelet's
  // CreateContainerConfigError; what exists already is used again.
  base::StatusOr<rpc::cri::ContainerConfig> Make(const ContainerConfigInput& input) const;

  // Writes the pod's /etc/hosts: the host's own with hostNetwork, else localhost, the pod's address
  // and spec.hostAliases.
  base::Status WriteHosts(const api::Pod& pod, const std::vector<std::string>& pod_ips) const;

 private:
  base::Status AddVolumes(const ContainerConfigInput& input,
                          const std::map<std::string, std::string>& environment,
                          rpc::cri::ContainerConfig& config) const;
  base::Status AddFiles(const ContainerConfigInput& input, rpc::cri::ContainerConfig& config) const;

  const volume::Paths& paths_;
  platform::Mounter& mounter_;
  const ObjectReader reader_;
};

}  // namespace berth::node
