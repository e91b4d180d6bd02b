// `berth-rbd`: the images of a Ceph cluster, for `berth`, which starts it as a child so that it
// does not link librbd itself (docs/adr/0032).
//
//   berth-rbd call    one call (rbd/request.h): a JSON object on standard input, one on output
//   berth-rbd serve   serves one image (rbd/serve.h), with its settings on standard input
//
// Exit code 0 with the result, or 1 with {"error": {"code": ..., "message": ...}}; 2: wrong usage.

#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/whole_file.h"
#include "base/json_input.h"
#include "base/log.h"
#include "platform/limits.h"
#include "rbd/request.h"
#include "rbd/serve.h"

namespace {

constexpr char kUsage[] = "usage: berth-rbd call|serve, with a JSON object on standard input\n";

// Ceph's libraries read settings from such variables.
void RemoveCephVariables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("CEPH_")) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

// At most each second, so that a fast deletion does not write thousands of lines.
void ReportProgress(double part) {
  using Clock = std::chrono::steady_clock;
  static std::atomic<Clock::rep> last{Clock::now().time_since_epoch().count()};
  const Clock::time_point now = Clock::now();
  Clock::rep before = last.load();
  if (now.time_since_epoch() - Clock::duration(before) < std::chrono::seconds(1)) return;
  if (!last.compare_exchange_strong(before, now.time_since_epoch().count())) return;
  const std::string line = fmt::format("{{\"progress\": {:.2f}}}\n", part);
  berth::base::WriteAll(STDERR_FILENO, line);
}

int RunCall(const berth::base::Json& request) {
  const auto reply = berth::rbd::RunCall(request, ReportProgress);
  const berth::base::Json output =
      reply.ok() ? *reply : berth::base::json::FailureReply(reply.status());
  berth::base::WriteAll(STDOUT_FILENO, berth::base::json::Dump(output) + "\n");
  return reply.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 2 ? argv[1] : "";
  if (mode != "call" && mode != "serve") {
    berth::base::WriteAll(STDERR_FILENO, kUsage);
    return 2;
  }
  berth::base::InitLogging("berth-rbd", 0);
  // The key of the cluster is in this memory.
  if (const auto hidden = berth::platform::HideMemory(); !hidden.ok()) {
    LOG_WARNING("{}", berth::base::Message(hidden));
  }
  RemoveCephVariables();
  const auto request = berth::rbd::ReadRequest(STDIN_FILENO);
  if (!request.ok()) {
    const auto reply = berth::base::json::FailureReply(request.status());
    berth::base::WriteAll(STDOUT_FILENO, berth::base::json::Dump(reply) + "\n");
    return 1;
  }
  return mode == "call" ? RunCall(*request) : berth::rbd::RunServe(*request);
}
