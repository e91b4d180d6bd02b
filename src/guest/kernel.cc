#include "guest/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/module.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "guest/files.h"

namespace berth::guest {
namespace {

// The parameters of the module on the kernel's command line, "MODULE.NAME=VALUE", as modprobe gives
// them to it.
std::string FindParameters(std::string_view module) {
  const std::string line = ReadFile("/proc/cmdline");
  std::string found;
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find_first_of(" \n", begin), line.size());
    const std::string_view word = std::string_view(line).substr(begin, end - begin);
    if (word.starts_with(module) && word.substr(module.size()).starts_with('.')) {
      if (!found.empty()) found += ' ';
      found += word.substr(module.size() + 1);
    }
    begin = end + 1;
  }
  return found;
}

// 0 or an errno.
int LoadModule(const std::string& path) {
  const base::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return errno;
  std::string name = path.substr(path.rfind('/') + 1);
  const bool packed = !name.ends_with(".ko");
  name = name.substr(0, name.find(".ko"));
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  const int flags = packed ? MODULE_INIT_COMPRESSED_FILE : 0;
  if (syscall(SYS_finit_module, file.get(), FindParameters(name).c_str(), flags) == 0) return 0;
  return errno == EEXIST ? 0 : errno;
}

}  // namespace

std::string LoadModules(const std::string& list) {
  const std::string text = ReadFile(list);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string path = text.substr(begin, end - begin);
    begin = end + 1;
    if (path.empty()) continue;
    if (const int error = LoadModule(path); error != 0) {
      return Describe("load the kernel's module " + path, error);
    }
  }
  return "";
}

KernelLog::KernelLog(From from) : log_(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (log_.valid()) lseek(log_.get(), 0, from == From::kNow ? SEEK_END : SEEK_SET);
}

std::string KernelLog::ReadProblems(std::string_view about, size_t largest) {
  constexpr int kWarning = 4, kSeverity = 7;
  std::string found;
  char buffer[8192];
  while (log_.valid()) {
    // Each read gives one record: "PRIORITY,SEQUENCE,TIME,FLAGS;MESSAGE\n".
    const ssize_t size = read(log_.get(), buffer, sizeof buffer);
    if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;  // EPIPE: records were dropped
    if (size <= 0) break;
    const std::string_view record(buffer, static_cast<size_t>(size));
    const size_t semicolon = record.find(';');
    if (semicolon == std::string_view::npos) continue;
    if ((std::atoi(buffer) & kSeverity) > kWarning) continue;
    std::string_view message = record.substr(semicolon + 1);
    message = message.substr(0, message.find('\n'));
    if (message.find(about) == std::string_view::npos) continue;
    if (!found.empty()) found += "; ";
    found += message;
    if (found.size() > largest) found.erase(0, found.size() - largest);
  }
  return found;
}

}  // namespace berth::guest
