#include "api/kinds/runtime_mount.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "base/text.h"

namespace berth::api {
namespace {

bool IsTrue(const base::Json& object, std::string_view annotation) {
  return base::json::String(object, {"metadata", "annotations", annotation}) == "true";
}

}  // namespace

bool AllowsRuntimeAssistedMount(const base::Json& storage_class) {
  return base::json::Bool(storage_class, {"allowRuntimeAssistedMount"}) ||
         IsTrue(storage_class, kAllowAnnotation);
}

bool AllowsSecrets(const base::Json& storage_class) {
  return IsTrue(storage_class, kAllowSecretsAnnotation);
}

std::string FindHandlerSocket(const base::Json& runtime_class) {
  std::string socket = base::json::String(runtime_class, {"fsMgmtSocket"});
  if (!socket.empty()) return socket;
  return base::json::String(runtime_class, {"metadata", "annotations", kSocketAnnotation});
}

std::optional<std::vector<std::string>> FindAllowedModes(const base::Json& runtime_class) {
  const base::Json* text =
      base::json::Find(runtime_class, {"metadata", "annotations", kAccessModesAnnotation});
  if (text == nullptr || !text->is_string()) return std::nullopt;
  std::vector<std::string> modes;
  for (const auto part : std::views::split(text->get_ref<const std::string&>(), ',')) {
    const std::string_view mode = base::Trim(std::string_view(part.begin(), part.end()));
    if (!mode.empty()) modes.emplace_back(mode);
  }
  return modes;
}

std::string FindReasonAgainstModes(const base::Json& runtime_class, std::string_view claim,
                                   const std::vector<std::string>& modes) {
  const auto allowed = FindAllowedModes(runtime_class);
  if (!allowed) return "";
  for (const std::string& mode : modes) {
    if (std::ranges::find(*allowed, mode) != allowed->end()) continue;
    return fmt::format(
        "claim '{}' has access mode {}, but claims of pods with RuntimeClass '{}' may only have {} "
        "(its annotation {}); use a claim with an allowed mode, because the modes of a claim "
        "cannot be changed, or another RuntimeClass",
        claim, mode, base::json::String(runtime_class, {"metadata", "name"}),
        allowed->empty() ? "none" : fmt::format("{}", fmt::join(*allowed, ", ")),
        kAccessModesAnnotation);
  }
  return "";
}

}  // namespace berth::api
