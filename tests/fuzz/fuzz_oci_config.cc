// Random bytes as a container's config.json: to berth-oci, which reads the annotations, and to the
// handler, which reads it all. berth-oci must accept all JSON that the handler accepts, because
// otherwise it would start containers that the handler never hears of.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cmd/berth-oci/annotations.h"
#include "crust/containers/bundle_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace berth;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto annotations = oci::ReadAnnotations(text);
  const auto config = crust::ReadConfig(text);
  // The handler skips a byte order mark. berth-oci refuses it, but then starts no container.
  if (!config.ok() || text.starts_with("\xef\xbb\xbf")) return 0;
  if (!annotations.ok()) std::abort();
  for (const auto& [name, value] : base::json::Map(*config, {"annotations"}).items()) {
    if (!value.is_string()) continue;
    const auto found = annotations->find(name);
    const std::string& text_of = value.get_ref<const std::string&>();
    const auto plain = [](std::string_view s) {
      return std::ranges::all_of(s, [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
    };
    if (!plain(name) || !plain(text_of)) continue;
    if (found == annotations->end() || found->second != text_of) std::abort();
  }
  const std::vector<crust::KnownTarget> targets = {
      {.path = "/t/v", .resolved = "/r/t/v", .sub_paths = "/s", .resolved_sub_paths = "/r/s"}};
  const auto mounts = crust::FindDeferredMounts(*config, targets, "/run/graft");
  if (!mounts.ok()) return 0;
  base::Json changed = *config;
  for (const auto& mount : *mounts) crust::SetSource(changed, mount.mount, "/run/graft/m0");
  // A config whose sources were replaced must be refused, because it was made ready before.
  if (!mounts->empty() && crust::FindDeferredMounts(changed, targets, "/run/graft").ok())
    std::abort();
  return 0;
}
