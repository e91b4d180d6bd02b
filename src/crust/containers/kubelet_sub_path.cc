#include "crust/containers/kubelet_sub_path.h"

#include "base/log.h"
#include "crust/plain_path.h"
#include "crust/pods/placeholder.h"

namespace berth::crust {

using base::Error;
using base::Quote;
using base::StatusCode;
using base::StatusOr;

std::string SubPathFolder(std::string_view target, std::string_view kubelet_folder) {
  std::string_view rest;
  if (!IsBelow(target, kubelet_folder, rest)) return "";
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= rest.size();) {
    const size_t end = std::min(rest.find('/', at), rest.size());
    parts.push_back(rest.substr(at, end - at));
    at = end + 1;
  }
  if (parts.size() < 5 || parts[0] != "pods" || parts[2] != "volumes") return "";
  return fmt::format("{}/pods/{}/volume-subpaths/{}", kubelet_folder, parts[1], parts[4]);
}

StatusOr<std::string> FindSubPath(const std::vector<platform::MountEntry>& table,
                                  std::string_view target, std::string_view bound) {
  constexpr std::string_view kDeleted = "//deleted";  // the kernel appends it
  const auto refuse = [&](std::string_view why) {
    return Error(StatusCode::kFailedPrecondition,
                 "it is not known which path of the volume at {} is mounted at {}: {}",
                 Quote(target), Quote(bound), why);
  };
  const platform::MountEntry* placeholder = platform::FindMount(table, target);
  if (placeholder == nullptr || !platform::IsPlaceholder(*placeholder)) {
    return refuse("the placeholder of the volume is not mounted");
  }
  const platform::MountEntry* mount = platform::FindMount(table, bound);
  if (mount == nullptr) return refuse("nothing is mounted there");
  if (mount->major != placeholder->major || mount->minor != placeholder->minor) {
    return refuse("it is not a folder of the volume's placeholder");
  }
  if (mount->root.ends_with(kDeleted)) return refuse("its folder was deleted");
  return mount->root.substr(1);
}

}  // namespace berth::crust
