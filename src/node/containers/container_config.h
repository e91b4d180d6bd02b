// Makes the ContainerConfig that the runtime gets for a container, and the files on the host that
// the container mounts: /etc/hosts and its termination message.
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
  // The id of the container whose process namespace it joins (targetContainerName); empty: as for
  // all containers of the pod.
  std::string processes_of;
};

// A hash of the container's name and image. If it changes, a running container is replaced, as the
// kubelet does.
std::string HashContainer(const api::Container& container);

class ContainerConfigs {
 public:
  // All borrowed.
  ContainerConfigs(const volume::Paths& paths, platform::Mounter& mounter, ObjectReader reader)
      : paths_(paths), mounter_(mounter), reader_(std::move(reader)) {}

  // Makes the files and subPath mounts, and then the configuration. Files that exist already are
  // used again. The caller reports an error as the kubelet's CreateContainerConfigError.
  base::StatusOr<rpc::cri::ContainerConfig> MakeConfig(const ContainerConfigInput& input) const;

  // Writes the pod's /etc/hosts: a copy of the host's with hostNetwork, else localhost and the
  // pod's addresses; then spec.hostAliases. The file is written in place, because running
  // containers have it mounted.
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
