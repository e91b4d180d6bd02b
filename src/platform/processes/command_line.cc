#include "platform/processes/command_line.h"

#include <algorithm>

#include "platform/files/durable_file.h"

namespace berth::platform {

std::vector<std::string> ReadCommandLine(const std::string& process) {
  constexpr size_t kLargest = 256 * 1024;
  const auto line = ReadFile(process + "/cmdline", kLargest);
  if (!line.ok()) return {};
  std::vector<std::string> words;
  for (std::string_view left = *line; !left.empty();) {
    words.emplace_back(left.substr(0, left.find('\0')));
    left.remove_prefix(std::min(words.back().size() + 1, left.size()));
  }
  return words;
}

std::vector<std::string> FindFlagValues(const std::vector<std::string>& words,
                                        std::string_view name) {
  std::vector<std::string> values;
  for (size_t i = 1; i < words.size(); ++i) {
    std::string_view word = words[i];
    const size_t dashes = word.starts_with("--") ? 2 : word.starts_with('-') ? 1 : 0;
    word.remove_prefix(dashes);
    if (dashes == 0 || !word.starts_with(name)) continue;
    word.remove_prefix(name.size());
    if (word.starts_with('=')) {
      values.emplace_back(word.substr(1));
    } else if (word.empty() && i + 1 < words.size()) {
      values.push_back(words[i + 1]);
    }
  }
  return values;
}

std::string FindFlag(const std::vector<std::string>& words, std::string_view name) {
  const std::vector<std::string> values = FindFlagValues(words, name);
  return values.empty() ? "" : values.back();
}

}  // namespace berth::platform
