#include "node/node_facts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "base/text.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"

namespace berth::node {
namespace {

using base::Json;

std::string ReadFirstLine(const std::string& path) {
  auto text = platform::ReadFile(path, 4096);
  if (!text.ok()) return "";
  return std::string(base::Trim(text->substr(0, text->find('\n'))));
}

// Returns PRETTY_NAME of os-release(5), or "Linux" if it is missing.
std::string ReadOsImage() {
  for (const char* path : {"/etc/os-release", "/usr/lib/os-release"}) {
    const auto text = platform::ReadFile(path, 64 * 1024);
    if (!text.ok()) continue;
    constexpr std::string_view key = "PRETTY_NAME=";
    for (size_t begin = 0; begin < text->size();) {
      const size_t end = std::min(text->find('\n', begin), text->size());
      std::string_view line = std::string_view(*text).substr(begin, end - begin);
      begin = end + 1;
      if (!line.starts_with(key)) continue;
      line.remove_prefix(key.size());
      if (line.size() >= 2 && line.front() == '"' && line.back() == '"') {
        line = line.substr(1, line.size() - 2);
      }
      return std::string(line);
    }
  }
  return "Linux";
}

std::string FindFirstAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "127.0.0.1";
  std::string found = "127.0.0.1";
  for (const ifaddrs* it = all; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || it->ifa_addr->sa_family != AF_INET ||
        (it->ifa_flags & IFF_LOOPBACK) != 0 || (it->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(it->ifa_addr);
    if (inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size()) != nullptr) {
      found = text.data();
      break;
    }
  }
  freeifaddrs(all);
  return found;
}

}  // namespace

std::string ReadArchitecture() {
  utsname names{};
  if (uname(&names) != 0) return "amd64";
  const std::string_view machine = names.machine;
  if (machine == "x86_64") return "amd64";
  if (machine == "aarch64") return "arm64";
  return std::string(machine);
}

Json ReadNodeCapacity(const std::string& folder, int max_pods) {
  Json capacity = {{"cpu", std::to_string(sysconf(_SC_NPROCESSORS_ONLN))},
                   {"pods", std::to_string(max_pods)}};
  struct sysinfo memory{};
  if (sysinfo(&memory) == 0) {
    capacity["memory"] = fmt::format("{}Ki", memory.totalram * memory.mem_unit / 1024);
  }
  struct statvfs disk{};
  if (statvfs(folder.c_str(), &disk) == 0) {
    capacity["ephemeral-storage"] = fmt::format("{}Ki", disk.f_blocks * disk.f_frsize / 1024);
  }
  return capacity;
}

Json ReadNodeSystemInfo(const std::string& version, const std::string& runtime_version) {
  utsname names{};
  const bool named = uname(&names) == 0;
  return {{"machineID", ReadFirstLine("/etc/machine-id")},
          {"systemUUID", ReadFirstLine("/sys/class/dmi/id/product_uuid")},
          {"bootID", platform::ReadBootId().value_or("")},
          {"kernelVersion", named ? names.release : ""},
          {"osImage", ReadOsImage()},
          {"containerRuntimeVersion", runtime_version},
          {"kubeletVersion", version},
          {"kubeProxyVersion", ""},
          {"operatingSystem", "linux"},
          {"architecture", ReadArchitecture()}};
}

Json ReadNodeAddresses() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return Json::array({{{"type", "InternalIP"}, {"address", FindFirstAddress()}},
                      {{"type", "Hostname"}, {"address", name.data()}}});
}

}  // namespace berth::node
