// Random output of a Flexvolume driver through its parser, with secrets in it that no failure
// shows.

#include <cstdlib>
#include <string>

#include "volume/flex/driver_reply.h"

namespace {

using namespace berth;

constexpr std::string_view kSecret = "hunter2-hunter2";

void Try(const platform::CommandResult& result) {
  volume::SecretWords secrets;
  secrets.Add(kSecret);
  const auto reply = volume::ReadDriverReply("mount", result, secrets);
  if (reply.ok()) return;
  const std::string shown = base::ToString(reply.status());
  if (shown.find(kSecret) != std::string::npos || shown.find('\n') != std::string::npos ||
      shown.size() > 8192) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const int exit_code = size == 0 ? 0 : data[0] % 3;
  Try({.exit_code = exit_code, .out = text, .err = ""});
  Try({.exit_code = exit_code, .out = "", .err = text});
  Try({.exit_code = exit_code, .out = text + std::string(kSecret), .err = std::string(kSecret)});
  Try({.exit_code = 1,
       .out = R"({"status": "Failure", "message": ")" + text + std::string(kSecret) + "\"}",
       .err = text});
  return 0;
}
