// Decides whether the pod's runtime handler mounts a volume's file system in the pod's sandbox, or
// the host mounts it (KEP-2857, stories 1 to 4; the driver decides about story 5). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "proto/crust.pb.h"
#include "volume/volume_plugin.h"

namespace berth::node {

namespace crust_api = ::crust::v1alpha1;

// Whether volumes of the pod may be mounted in its sandbox: only if it has a RuntimeClass.
inline bool MayDefer(const api::Pod& pod) {
  return !pod.String({"spec", "runtimeClassName"}).empty();
}

// What a runtime handler supports, by its own answers.
struct HandlerOffer {
  std::vector<crust_api::RuntimeCapability::RPC::Type> capabilities;
  std::vector<std::string> file_systems;
  bool Has(crust_api::RuntimeCapability::RPC::Type capability) const;
};

// What the pod needs of a volume besides the mount. `names` are the names of the volume in
// pod.spec.volumes.
struct PodNeeds {
  bool sub_path = false;
  bool bidirectional = false;  // the host must see the mounts that containers make in it
  bool writes = false;
};
PodNeeds NeedsOf(const api::Pod& pod, const std::vector<std::string>& names);

// The reason why the host, and not the handler, mounts the volume; "": the handler mounts it.
std::string FindReasonForHostMount(const api::Pod& pod, const PodNeeds& needs,
                                   const volume::VolumePlugin::Deferral& volume,
                                   bool secrets_allowed, const HandlerOffer& offer);

// Whether two sandboxes may mount a file system of this type for writing at the same time.
bool AllowsParallelMounts(std::string_view fs_type);

}  // namespace berth::node
