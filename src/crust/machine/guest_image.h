// Makes the initramfs of the guests: berth-guest, the modules of the guest's kernel that it needs,
// and the order in which they are loaded (base/ipc/guest_call.h); and runc for containers, with
// what it needs itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::crust {

// The modules of one kernel, as depmod(8) lists them.
class KernelModules {
 public:
  // Reads the lists in a folder such as /lib/modules/6.1.0-42-cloud-amd64. NOT_FOUND: there are
  // none.
  static base::StatusOr<KernelModules> Read(const std::string& folder);
  // For lists that were read already: modules.dep and modules.builtin.
  KernelModules(std::string folder, std::string dependencies, std::string builtin)
      : folder_(std::move(folder)),
        dependencies_(std::move(dependencies)),
        builtin_(std::move(builtin)) {}

  const std::string& folder() const { return folder_; }
  // Whether the kernel has the module, as a file or built in.
  bool Has(std::string_view name) const;
  // Returns the files of these modules and of all that they need, each once, in the order in which
  // they must be loaded; relative to the folder. What is built in has no file. FAILED_PRECONDITION:
  // the kernel lacks one of them.
  base::StatusOr<std::vector<std::string>> FindFiles(const std::vector<std::string>& names) const;

 private:
  // The line of modules.dep about a module; "": there is none.
  std::string_view FindLine(std::string_view name) const;
  bool IsBuiltIn(std::string_view name) const;

  std::string folder_, dependencies_, builtin_;
};

// Returns those of `wanted` (ext4, xfs, btrfs) for which the kernel has a module.
std::vector<std::string> FindGuestFileSystems(const KernelModules& modules,
                                              const std::vector<std::string>& wanted);

// Returns the archive. `program` is the path of berth-guest, and `runc` that of runc; "": the
// guests have no containers. FAILED_PRECONDITION: the kernel or this machine lacks what they need.
base::StatusOr<std::string> MakeGuestImage(const std::string& program, const KernelModules& modules,
                                           const std::vector<std::string>& file_systems,
                                           const std::string& runc = "");

}  // namespace berth::crust
