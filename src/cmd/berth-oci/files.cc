#include "cmd/berth-oci/files.h"

#include <errno.h>

#include "base/files/whole_file.h"

namespace berth::oci {

namespace ipc = base::ipc;

ipc::Result<std::string> ReadFile(const std::string& path, size_t largest) {
  std::string text;
  const int error = base::ReadWholeFile(path, largest, text);
  if (error == 0) return text;
  if (error == EFBIG) {
    return ipc::Failure{ipc::Problem::kTooLarge,
                        "'" + path + "' is larger than " + std::to_string(largest) + " bytes"};
  }
  ipc::Failure failure = ipc::SystemFailure("read '" + path + "'", error);
  if (error == ENOENT) failure.problem = ipc::Problem::kNobody;
  return failure;
}

void WriteText(int fd, std::string_view text) { static_cast<void>(base::WriteAll(fd, text)); }

}  // namespace berth::oci
