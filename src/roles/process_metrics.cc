#include "roles/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>
#include <sstream>

#include "base/files/process_stat.h"
#include "base/files/whole_file.h"

namespace berth::roles {

namespace {

void AddFigure(std::string& text, const char* name, const char* type, const char* help,
               double value) {
  text += fmt::format("# HELP {} {}\n# TYPE {} {}\n{} {}\n", name, help, name, type, name, value);
}

// When the machine started, in seconds since the epoch.
double BootTime() {
  timespec since{};
  clock_gettime(CLOCK_BOOTTIME, &since);
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count() - static_cast<double>(since.tv_sec) - static_cast<double>(since.tv_nsec) / 1e9;
}

void AddTimesAndSizes(std::string& text) {
  // /proc/self is this process also if /proc belongs to another PID namespace.
  std::string line;
  constexpr size_t kLongestLine = 4096;
  if (base::ReadWholeFile("/proc/self/stat", kLongestLine, line) != 0) return;
  const auto stat = base::ParseProcessStat(line);
  if (!stat.has_value()) return;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  AddFigure(text, "process_cpu_seconds_total", "counter",
            "Total user and system CPU time spent in seconds.",
            static_cast<double>(stat->user_ticks + stat->system_ticks) / ticks);
  AddFigure(text, "process_start_time_seconds", "gauge",
            "Start time of the process since unix epoch in seconds.",
            BootTime() + static_cast<double>(stat->start_ticks) / ticks);
  AddFigure(text, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.",
            static_cast<double>(stat->virtual_bytes));
  AddFigure(text, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
            static_cast<double>(stat->resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE)));
}

std::optional<double> ReadLimit(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

// The network traffic is that of the whole network namespace, as in the Go client.
void AddTraffic(std::string& text) {
  std::string netstat;
  constexpr size_t kLongestFile = 65536;
  if (base::ReadWholeFile("/proc/self/net/netstat", kLongestFile, netstat) != 0) return;
  const IpTraffic traffic = ParseIpTraffic(netstat);
  AddFigure(text, "process_network_receive_bytes_total", "counter",
            "Number of bytes received by the process over the network.", traffic.received);
  AddFigure(text, "process_network_transmit_bytes_total", "counter",
            "Number of bytes sent by the process over the network.", traffic.sent);
}

}  // namespace

IpTraffic ParseIpTraffic(const std::string& netstat) {
  IpTraffic traffic;
  std::istringstream lines(netstat);
  std::string names_line;
  std::string values_line;
  while (std::getline(lines, names_line) && std::getline(lines, values_line)) {
    std::istringstream names(names_line);
    std::istringstream values(values_line);
    std::string protocol;
    if (!(names >> protocol && values >> protocol) || protocol != "IpExt:") continue;
    std::string name;
    double value = 0;
    while (names >> name && values >> value) {
      if (name == "InOctets") traffic.received = value;
      if (name == "OutOctets") traffic.sent = value;
    }
  }
  return traffic;
}

std::string RenderProcessMetrics() {
  std::string text;
  AddTimesAndSizes(text);
  if (const auto most = ReadLimit(RLIMIT_AS)) {
    AddFigure(text, "process_virtual_memory_max_bytes", "gauge",
              "Maximum amount of virtual memory available in bytes.", *most);
  }
  if (const auto most = ReadLimit(RLIMIT_NOFILE)) {
    AddFigure(text, "process_max_fds", "gauge", "Maximum number of open file descriptors.", *most);
  }
  std::error_code failed;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", failed);
  if (!failed) {
    AddFigure(text, "process_open_fds", "gauge", "Number of open file descriptors.",
              static_cast<double>(std::distance(begin(descriptors), end(descriptors))));
  }
  AddTraffic(text);
  return text;
}

}  // namespace berth::roles
