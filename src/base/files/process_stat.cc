#include "base/files/process_stat.h"

#include <algorithm>
#include <charconv>

#include "base/files/whole_file.h"

namespace berth::base {
namespace {

constexpr size_t kLongestLine = 4096;

// Removes the first word from `line` and returns it.
std::string_view CutWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \n"), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(" \n"));
  line.remove_prefix(word.size());
  return word;
}

template <typename Number>
bool ReadNumber(std::string_view word, Number& number) {
  return std::from_chars(word.data(), word.data() + word.size(), number).ec == std::errc();
}

// The kernel writes a line feed in a name as "\\n", and a backslash as two.
std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    ++i;
    out += text[i] == 'n' ? '\n' : text[i];
  }
  return out;
}

}  // namespace

std::optional<ProcessStat> ParseProcessStat(std::string_view line) {
  constexpr int kState = 3, kParent = 4, kUser = 14, kSystem = 15, kStart = 22, kVirtual = 23,
                kResident = 24, kExitCode = 52;
  const size_t begin = line.find('(');
  const size_t end = line.rfind(')');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    return std::nullopt;
  }
  ProcessStat stat;
  stat.name = line.substr(begin + 1, end - begin - 1);
  line.remove_prefix(end + 1);
  for (int field = kState; field <= kExitCode; ++field) {
    const std::string_view word = CutWord(line);
    if (field == kState && !word.empty()) stat.state = word.front();
    if (field == kParent && !ReadNumber(word, stat.parent)) return std::nullopt;
    if (field == kUser) ReadNumber(word, stat.user_ticks);
    if (field == kSystem) ReadNumber(word, stat.system_ticks);
    if (field == kStart) ReadNumber(word, stat.start_ticks);
    if (field == kVirtual) ReadNumber(word, stat.virtual_bytes);
    if (field == kResident) ReadNumber(word, stat.resident_pages);
    int code = 0;
    const bool ended = stat.state == 'Z' || stat.state == 'X';
    if (field == kExitCode && ended && ReadNumber(word, code)) stat.exit_code = code;
  }
  return stat;
}

std::optional<ProcessStat> ReadProcessStat(pid_t pid) {
  std::string line;
  if (ReadWholeFile("/proc/" + std::to_string(pid) + "/stat", kLongestLine, line) != 0) {
    return std::nullopt;
  }
  return ParseProcessStat(line);
}

std::optional<ProcessStatus> ParseProcessStatus(std::string_view text) {
  ProcessStatus status;
  bool named = false, has_state = false, has_parent = false;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t tab = line.find(":\t");
    if (tab == std::string_view::npos) continue;
    const std::string_view field = line.substr(0, tab), value = line.substr(tab + 2);
    if (field == "Name") {
      status.name = Unescape(value);
      named = true;
    } else if (field == "State" && !value.empty()) {
      status.state = value.front();
      has_state = true;
    } else if (field == "PPid") {
      has_parent = ReadNumber(value, status.parent);
    }
  }
  if (!named || !has_state || !has_parent) return std::nullopt;
  return status;
}

std::optional<ProcessStatus> ReadProcessStatus(pid_t pid) {
  std::string text;
  if (ReadWholeFile("/proc/" + std::to_string(pid) + "/status", 16 * kLongestLine, text) != 0) {
    return std::nullopt;
  }
  return ParseProcessStatus(text);
}

uint64_t ReadStartTicks(pid_t pid) {
  const auto stat = ReadProcessStat(pid);
  return stat.has_value() ? stat->start_ticks : 0;
}

std::string ReadBootId() {
  std::string id;
  ReadWholeFile("/proc/sys/kernel/random/boot_id", 128, id);
  return id.substr(0, id.find('\n'));
}

}  // namespace berth::base
