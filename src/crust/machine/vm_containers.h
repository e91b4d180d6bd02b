// The containers of a virtual machine: what they share with the host, and the calls about them
// (crust/containers/guest_containers.h).
#pragma once

#include <optional>
#include <string>

#include "crust/containers/guest_containers.h"
#include "crust/containers/shared_folder.h"
#include "crust/machine/machine.h"
#include "platform/mounts/mounter.h"

namespace berth::crust {

class VmContainers final : public GuestContainers {
 public:
  struct Paths {
    std::string pin;    // of the namespace whose files are shared
    std::string files;  // the shared folder
  };

  // `machine` and `mounter` are borrowed and must outlive this.
  VmContainers(Machine& machine, platform::Mounter& mounter, Paths paths)
      : machine_(machine), mounter_(mounter), paths_(std::move(paths)) {}

  base::Status Begin(const PodSetup& setup) override;
  base::StatusOr<base::UniqueFd> OpenProcess() override { return machine_.OpenProcess(); }
  base::StatusOr<std::string> FindVolume(const MountPlan& plan,
                                         const std::string& sub_path) override;
  base::StatusOr<std::string> Share(const std::string& container, const std::string& name,
                                    const std::string& source) override;
  base::StatusOr<GuestDevice> PlugDevice(const std::string& path, const Device& device) override;
  base::StatusOr<base::UniqueFd> Create(const std::string& container, bool terminal,
                                        const base::Json& config) override;
  base::StatusOr<base::ipc::Reply> Call(const base::ipc::Message& request) override;

  // Gives up what the host shares. The machine has ended.
  base::Status Remove();

 private:
  base::StatusOr<base::ipc::Message> CallGuest(base::ipc::Message request);
  // Makes a call whose process gets a stream, which is the reply's descriptor.
  base::StatusOr<base::ipc::Reply> CallWithStream(const base::ipc::Message& request);
  base::Status Delete(const base::ipc::Message& request);
  base::StatusOr<const SharedFolder*> OpenShare();

  Machine& machine_;
  platform::Mounter& mounter_;
  const Paths paths_;
  std::optional<SharedFolder> share_;
};

}  // namespace berth::crust
