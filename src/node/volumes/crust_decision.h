// Whether a volume's file system is mounted in the pod's sandbox, by its runtime handler, or by the
// host (KEP-2857, stories 1 to 4; story 5 is the driver's to decide). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "proto/crust.pb.h"
#include "volume/volume_plugin.h"

namespace berth::node {

namespace crust_api = ::crust::v1alpha1;

// Whether volumes of the pod may be for its sandbox at all: it has a RuntimeClass.
inline bool MayDefer(const api::Pod& pod) {
  return !pod.String({"spec", "runtimeClassName"}).empty();
}

// What a handler says that it can do.
struct HandlerOffer {
  std::vector<crust_api::RuntimeCapability::RPC::Type> capabilities;
  std::vector<std::string> file_systems;
  bool Has(crust_api::RuntimeCapability::RPC::Type capability) const;
};

// What the pod needs, beyond the mount, of the volume that it calls by one of `names`.
struct PodNeeds {
  bool sub_path = false;
  bool bidirectional = false;  // mounts that containers make in it are to be seen by the host
  bool writes = false;
};
PodNeeds NeedsOf(const api::Pod& pod, const std::vector<std::string>& names);

// The reason why the host mounts the volume all the same; empty: the handler mounts it.
std::string WhyNotByHandler(const api::Pod& pod, const PodNeeds& needs,
                            const volume::VolumePlugin::Deferral& volume, bool secrets_allowed,
                            const HandlerOffer& offer);

// Whether two sandboxes may have the file system mounted at once, writing.
bool AllowsParallelMounts(std::string_view fs_type);

}  // namespace berth::node
