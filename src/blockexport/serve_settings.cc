#include "blockexport/serve_settings.h"

#include <signal.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/ipc/export_call.h"
#include "base/json_input.h"
#include "base/log.h"
#include "platform/limits.h"

namespace berth::blockexport {

using base::StatusCode;
using base::ipc::volume_export::kMostSettings;

void PrepareProcess() {
  signal(SIGPIPE, SIG_IGN);
  if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0) {
    LOG_WARNING("mark this process as one that storage waits for: {}", strerror(errno));
  }
}

base::StatusOr<base::Json> ReadSettings(int fd) {
  PrepareProcess();
  RETURN_IF_ERROR(platform::HideMemory());
  return base::json::ReadObject(fd, kMostSettings, "the settings");
}

base::StatusOr<ExportOptions> ParseExportOptions(const base::Json& settings) {
  namespace calls = base::ipc::volume_export;
  ExportOptions options{.socket = base::json::String(settings, {calls::kSocket}),
                        .file = base::json::String(settings, {calls::kFile})};
  for (const std::string& path : {options.socket, options.file}) {
    if (path.starts_with('/') && path.find('\0') == std::string::npos) continue;
    return base::Error(StatusCode::kInvalidArgument,
                       "the settings need the absolute paths of a socket and of a file");
  }
  return options;
}

}  // namespace berth::blockexport
