#include "cli/output.h"

#include <cctype>
#include <cstdio>

namespace berth::cli {

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void PrintError(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

std::string PercentEncode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
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
