#include "crust/containers/bundle_config.h"

#include <algorithm>

#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "crust/plain_path.h"

namespace berth::crust {
namespace {

namespace json = base::json;
using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;

// runc treats a mount as a bind mount if its type or one of its options says so.
bool IsBind(const Json& mount) {
  if (json::String(mount, {"type"}) == "bind") return true;
  for (const Json& option : json::Array(mount, {"options"})) {
    if (option == "bind" || option == "rbind") return true;
  }
  return false;
}

}  // namespace

StatusOr<Json> ReadConfig(std::string_view text) {
  StatusOr<Json> config = json::Parse(text, {.max_bytes = base::ipc::crust::kLargestConfig});
  RETURN_IF_ERROR_WITH(config, "read the container's config.json");
  const Json* mounts = json::Find(*config, {"mounts"});
  if (!config->is_object() || (mounts != nullptr && !mounts->is_array() && !mounts->is_null())) {
    return Error(StatusCode::kInvalidArgument, "the container's config.json has no list of mounts");
  }
  return config;
}

StatusOr<std::vector<DeferredMount>> FindDeferredMounts(const Json& config,
                                                        const std::vector<KnownTarget>& targets,
                                                        std::string_view graft_folder) {
  std::vector<DeferredMount> found;
  const Json& mounts = json::Array(config, {"mounts"});
  for (size_t i = 0; i < mounts.size(); ++i) {
    if (!IsBind(mounts[i])) continue;
    const std::string source = PlainPath(json::String(mounts[i], {"source"}));
    std::string_view sub_path;
    if (IsBelow(source, graft_folder, sub_path)) {
      return Error(StatusCode::kFailedPrecondition,
                   "the container's config.json was made ready before, for another create");
    }
    for (size_t target = 0; target < targets.size(); ++target) {
      const KnownTarget& known = targets[target];
      if (IsBelow(source, known.path, sub_path) || IsBelow(source, known.resolved, sub_path)) {
        found.push_back({.mount = i, .target = target, .sub_path = std::string(sub_path)});
        break;
      }
      if ((IsBelow(source, known.sub_paths, sub_path) ||
           IsBelow(source, known.resolved_sub_paths, sub_path)) &&
          !sub_path.empty()) {
        found.push_back({.mount = i,
                         .target = target,
                         .bound = fmt::format("{}/{}", known.resolved_sub_paths, sub_path)});
        break;
      }
    }
    if (found.size() > base::ipc::crust::kMostMounts) {
      return Error(StatusCode::kResourceExhausted, "the container has more than {} such mounts",
                   base::ipc::crust::kMostMounts);
    }
  }
  return found;
}

void SetSource(Json& config, size_t mount, std::string source) {
  config["mounts"][mount]["source"] = std::move(source);
}

}  // namespace berth::crust
