#include "roles/pod_utilities.h"

#include "base/log.h"
#include "volume/exec/router.h"

namespace berth::roles {

void PodUtilities::LoggedEvents::Record(const base::ObjectReference& /*object*/,
                                        base::EventType /*type*/, std::string_view reason,
                                        std::string_view message) {
  LOG_WARNING("{}: {}", reason, message);
}

base::StatusOr<std::unique_ptr<PodUtilities>> PodUtilities::Open(
    const PodUtilitiesOptions& options) {
  if (!options.kubelet_folder.starts_with('/')) {
    return base::Error(base::StatusCode::kInvalidArgument, "the kubelet folder {} is not absolute",
                       base::Quote(options.kubelet_folder));
  }
  std::unique_ptr<PodUtilities> made(new PodUtilities(options.kubelet_folder));
  ASSIGN_OR_RETURN(made->utilities_,
                   volume::NewUtilityRouter({.data_folder = options.data_folder,
                                             .cri_endpoint = options.runtime_endpoint,
                                             .paths = made->paths_,
                                             .mounter = *made->mounter_,
                                             .events = made->events_,
                                             .node = {}}));
  return made;
}

PodUtilities::~PodUtilities() {
  if (utilities_ != nullptr) utilities_->Close();
}

}  // namespace berth::roles
