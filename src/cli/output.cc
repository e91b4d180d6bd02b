#include "cli/output.h"

#include <cstdio>

namespace berth::cli {

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void PrintError(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

int ReportError(const base::Status& status) {
  if (status.ok()) return 0;
  PrintError(fmt::format("Error: {}\n", base::Message(status)));
  return 1;
}

base::StatusOr<base::Json> GetJson(kube::Client& client, std::string_view path,
                                   std::string_view accept) {
  constexpr size_t kLargest = 64 * 1024 * 1024;
  std::string text;
  RETURN_IF_ERROR(client.GetStream(path, accept, {}, [&](std::string_view chunk) {
    text += chunk;
    return text.size() <= kLargest;
  }));
  return base::json::Parse(text, {.max_bytes = kLargest, .max_depth = 128});
}

}  // namespace berth::cli
