#include "platform/file_systems/kernel_file_systems.h"

#include <sys/mount.h>

#include <cerrno>

#include "platform/processes/child.h"

namespace berth::platform {

base::StatusOr<bool> KernelHasFileSystem(const std::string& type) {
  return AskChild<bool>(fmt::format("ask the kernel for file system {}", type),
                        std::chrono::seconds(30), [type](bool& has) {
                          has = fsopen(type.c_str(), FSOPEN_CLOEXEC) >= 0;
                          return has || errno == ENODEV ? 0 : errno;
                        });
}

}  // namespace berth::platform
