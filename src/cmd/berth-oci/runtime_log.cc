#include "cmd/berth-oci/runtime_log.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/ipc/message.h"
#include "base/unique_fd.h"
#include "cmd/berth-oci/files.h"

namespace berth::oci {

namespace ipc = base::ipc;

std::string FormatLogLine(std::string_view message, time_t when, bool json) {
  char stamp[32] = "";
  tm broken{};
  gmtime_r(&when, &broken);
  strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &broken);
  const std::string text(message);
  if (json) {
    return ipc::WriteJson(ipc::Message()
                              .Set("level", std::string("error"))
                              .Set("msg", text)
                              .Set("time", std::string(stamp))) +
           "\n";
  }
  // The text format (logfmt) quotes strings as JSON does.
  const std::string quoted = ipc::WriteJson(ipc::Message().Set("m", text));
  constexpr std::string_view kBefore = "{\"m\":";
  return "time=\"" + std::string(stamp) +
         "\" level=error msg=" + quoted.substr(kBefore.size(), quoted.size() - kBefore.size() - 1) +
         "\n";
}

int ReportFailure(const Arguments& arguments, const std::string& message) {
  const std::string text = "berth-oci: " + message;
  if (!arguments.log.empty()) {
    const base::UniqueFd fd(
        open(arguments.log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
    if (fd.valid()) WriteText(fd.get(), FormatLogLine(text, time(nullptr), arguments.log_is_json));
  }
  WriteText(STDERR_FILENO, text + "\n");
  return 1;
}

}  // namespace berth::oci
