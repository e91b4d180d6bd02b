#include "crust/machine/guest_image.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/ipc/guest_call.h"
#include "base/log.h"
#include "crust/machine/cpio.h"
#include "crust/machine/elf_file.h"
#include "platform/files/durable_file.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;
using base::StatusOr;
namespace calls = base::ipc::guest;

constexpr size_t kLargestGuestFile = size_t{64} << 20;

// The machine's disks, its ports and its network card.
const std::vector<std::string>& BootModules() {
  static const std::vector<std::string> names = {"virtio_mmio", "virtio_console", "virtio_scsi",
                                                 "sd_mod", "virtio_net"};
  return names;
}

// The modules of a file system. btrfs asks for its other check sums by name, which modules.dep does
// not tell.
std::vector<std::string> ModulesOf(const std::string& type) {
  if (type == "btrfs") return {"xxhash_generic", "blake2b_generic", "btrfs"};
  return {type};
}

// "virtio_scsi" for "kernel/drivers/scsi/virtio_scsi.ko" and "crc32c-intel.ko.xz" alike: a module's
// name has no hyphens.
std::string NameOf(std::string_view path) {
  std::string_view file = path.substr(path.rfind('/') + 1);
  std::string name(file.substr(0, file.find(".ko")));
  std::ranges::replace(name, '-', '_');
  return name;
}

// Calls `use` with each line until it returns true, and returns that line.
template <typename Use>
std::string_view FindLineIn(std::string_view text, Use use) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (use(line)) return line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

// Adds runc, where the guest looks for it, and what it needs.
base::Status AddRunc(CpioWriter& archive, const std::string& runc) {
  ASSIGN_OR_RETURN(const std::vector<ProgramFile> files, ReadProgram(runc, LoaderFolders()));
  std::set<std::string> folders;
  for (const ProgramFile& file : files) {
    const std::string path = (file.path == runc ? std::string(calls::kRunc) : file.path).substr(1);
    for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
      if (folders.insert(path.substr(0, at)).second) archive.AddFolder(path.substr(0, at));
    }
    archive.AddFile(path, file.content, 0755);
  }
  return base::OkStatus();
}

}  // namespace

StatusOr<KernelModules> KernelModules::Read(const std::string& folder) {
  ASSIGN_OR_RETURN(std::string dependencies,
                   platform::ReadFile(folder + "/modules.dep", kLargestGuestFile));
  ASSIGN_OR_RETURN(std::string builtin,
                   platform::ReadFile(folder + "/modules.builtin", kLargestGuestFile));
  return KernelModules(folder, std::move(dependencies), std::move(builtin));
}

std::string_view KernelModules::FindLine(std::string_view name) const {
  return FindLineIn(dependencies_, [&](std::string_view line) {
    return NameOf(line.substr(0, line.find(':'))) == name;
  });
}

bool KernelModules::IsBuiltIn(std::string_view name) const {
  return !FindLineIn(builtin_, [&](std::string_view line) {
            return !line.empty() && NameOf(line) == name;
          }).empty();
}

bool KernelModules::Has(std::string_view name) const {
  return !FindLine(name).empty() || IsBuiltIn(name);
}

StatusOr<std::vector<std::string>> KernelModules::FindFiles(
    const std::vector<std::string>& names) const {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::string_view line = FindLine(name);
    if (line.empty()) {
      if (IsBuiltIn(name)) continue;
      return Error(StatusCode::kFailedPrecondition, "the guest's kernel in {} has no module {}",
                   Quote(folder_), Quote(name));
    }
    // "FILE: NEEDED NEEDED...", and each needed file comes before those that it needs itself.
    std::vector<std::string> order;
    while (!line.empty()) {
      const size_t end = std::min(line.find_first_of(": "), line.size());
      if (end > 0) order.emplace_back(line.substr(0, end));
      line.remove_prefix(std::min(end + 1, line.size()));
    }
    std::ranges::reverse(order);
    for (std::string& file : order) {
      if (std::ranges::find(files, file) == files.end()) files.push_back(std::move(file));
    }
  }
  return files;
}

std::vector<std::string> FindGuestFileSystems(const KernelModules& modules,
                                              const std::vector<std::string>& wanted) {
  std::vector<std::string> found;
  for (const std::string& type : wanted) {
    if (modules.Has(type)) {
      found.push_back(type);
    } else {
      LOG_INFO("volumes with {} are not mounted: the guest's kernel does not support it",
               Quote(type));
    }
  }
  return found;
}

StatusOr<std::string> MakeGuestImage(const std::string& program, const KernelModules& modules,
                                     const std::vector<std::string>& file_systems,
                                     const std::string& runc) {
  CpioWriter archive;
  for (const char* folder : {"dev", "proc", "sys", "modules"}) archive.AddFolder(folder);
  ASSIGN_OR_RETURN(const std::string init, platform::ReadFile(program, kLargestGuestFile));
  archive.AddFile("init", init, 0755);
  std::set<std::string> added;
  const auto add_list = [&](std::string_view list,
                            const std::vector<std::string>& names) -> base::Status {
    ASSIGN_OR_RETURN(const std::vector<std::string> files, modules.FindFiles(names));
    std::string text;
    for (const std::string& file : files) {
      const std::string path = "modules/" + file.substr(file.rfind('/') + 1);
      text += "/" + path + "\n";
      if (!added.insert(path).second) continue;
      ASSIGN_OR_RETURN(const std::string content,
                       platform::ReadFile(modules.folder() + "/" + file, kLargestGuestFile));
      archive.AddFile(path, content, 0644);
    }
    archive.AddFile(list.substr(1), text, 0644);
    return base::OkStatus();
  };
  RETURN_IF_ERROR(add_list(calls::kBootList, BootModules()));
  for (const std::string& type : file_systems) {
    RETURN_IF_ERROR(add_list(calls::ModuleList(type), ModulesOf(type)));
  }
  if (!runc.empty()) {
    RETURN_IF_ERROR(add_list(calls::ModuleList("virtiofs"), {"virtiofs"}));
    RETURN_IF_ERROR_WITH(AddRunc(archive, runc), "put runc into the image of the guests");
  }
  return archive.Finish();
}

}  // namespace berth::crust
