// The mounts of a container that is about to be created: finds those of deferred volumes in its
// config.json, and makes a graft of each, or creates the container in the sandbox's guest.
//
// The caller holds the sandbox's entry, which is open. Thread-safe for different entries.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "crust/containers/bundle_config.h"
#include "crust/pods/pod_volumes.h"
#include "crust/sandbox.h"
#include "crust/sandbox_table.h"
#include "crust/volume_steps.h"
#include "platform/mounts/mounter.h"

namespace berth::crust {

// A container that is about to be created.
struct CreateRequest {
  std::string sandbox_id;
  api::PodUid pod_uid;
  std::string container;  // its id; only of one that runs in a guest, as the next two
  std::string bundle;     // its folder
  bool terminal = false;
  std::string config;  // the text of config.json in its bundle
  size_t from = 0;     // index of the first deferred mount for which the reply has a graft
  size_t most = 0;     // the largest number of grafts in the reply
};
struct CreateReply {
  size_t count = 0;           // how many mounts of deferred volumes the container has
  std::vector<Graft> grafts;  // of the mounts from number `from` on, `most` of them at most
  // The config with sources in the graft folder; "" if `from` is not 0 or `count` is 0.
  std::string config;
  // Valid: the container was created in a guest, and this is the host's end of its stream. All
  // other members are empty.
  base::UniqueFd stream;
};

class ContainerMounts {
 public:
  struct Options {
    std::string run_folder;
    std::string kubelet_folder;
    std::string resolved_kubelet_folder;  // the same without symlinks
    bool sub_paths = false;               // whether containers may have a path of a volume
  };
  // The references are borrowed and must outlive this. `mounter`: the mounts of the host.
  ContainerMounts(Options options, VolumeSteps& steps, PodVolumes& pods, platform::Mounter& mounter)
      : options_(std::move(options)), steps_(steps), pods_(pods), mounter_(mounter) {}

  // FAILED_PRECONDITION: the sandbox has ended or is another pod's, a volume is not published in
  // it, or it is not known which subPath of a volume is meant. Other errors of a container in a
  // guest: see CreateInGuest.
  base::StatusOr<CreateReply> PrepareContainer(SandboxTable::Entry& entry,
                                               const CreateRequest& request);

 private:
  // The targets as they may stand in a config.json, from the pod's plan and the sandbox's record.
  base::StatusOr<std::vector<KnownTarget>> ListTargets(const SandboxRecord& record) const;
  // Returns a path in the kubelet's folder without symlinks. If its folder does not exist yet, only
  // the kubelet's folder is resolved.
  std::string Resolve(const std::string& path) const;
  // Finds the sub paths of those mounts whose source is a mount of the kubelet.
  base::Status FindSubPaths(const std::vector<KnownTarget>& targets,
                            std::vector<DeferredMount>& mounts) const;
  // A mount of a container, and the volume that it shows.
  struct VolumeMount {
    size_t mount = 0;  // its index in the config's "mounts"
    VolumeRecord* volume = nullptr;
    std::string sub_path;
  };
  // Finds the container's mounts of volumes, which must be published.
  base::StatusOr<std::vector<VolumeMount>> FindVolumes(SandboxTable::Entry& entry,
                                                       const base::Json& config) const;
  // INVALID_ARGUMENT, FAILED_PRECONDITION: no container can have this path of a volume.
  base::Status CheckSubPath(const std::string& sub_path) const;
  // Calls `give`, and once more after the volume was mounted again if the sandbox has lost its
  // mount.
  template <typename Give>
  auto GiveVolume(SandboxTable::Entry& entry, const VolumeMount& mount, base::StatusCode lost,
                  Give give) -> decltype(give());
  base::StatusOr<CreateReply> MakeGrafts(SandboxTable::Entry& entry, const CreateRequest& request,
                                         base::Json config, std::vector<VolumeMount> mounts);
  base::StatusOr<CreateReply> CreateInSandbox(SandboxTable::Entry& entry,
                                              const CreateRequest& request, base::Json config,
                                              const std::vector<VolumeMount>& mounts);

  const Options options_;
  VolumeSteps& steps_;
  PodVolumes& pods_;
  platform::Mounter& mounter_;
};

}  // namespace berth::crust
