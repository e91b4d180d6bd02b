#include "apiserver/documents/server_version.h"

namespace berth::apiserver {
namespace {

// Clients use this version to decide which features they can use.
constexpr std::string_view kMajor = "1";
constexpr std::string_view kMinor = "32";

#if defined(__x86_64__)
constexpr std::string_view kPlatform = "linux/amd64";
#elif defined(__aarch64__)
constexpr std::string_view kPlatform = "linux/arm64";
#else
constexpr std::string_view kPlatform = "linux";
#endif

}  // namespace

std::string ServerVersion() { return fmt::format("v{}.{}.0+berth", kMajor, kMinor); }

base::Json VersionDocument() {
  return {{"major", std::string(kMajor)},
          {"minor", std::string(kMinor)},
          {"gitVersion", ServerVersion()},
          {"gitCommit", ""},
          {"gitTreeState", "clean"},
          {"buildDate", "1970-01-01T00:00:00Z"},
          {"goVersion", ""},
          {"compiler", "clang"},
          {"platform", std::string(kPlatform)}};
}

}  // namespace berth::apiserver
