#include "apiserver/authorization.h"

#include "apiserver/kube_status.h"

namespace berth::apiserver {
namespace {

constexpr std::string_view kAdministrators = "system:masters";

std::string Refusal(const User& user, const AccessAttributes& asked) {
  if (asked.resource.empty()) {
    return fmt::format("forbidden: User \"{}\" cannot {} path \"{}\"", user.name, asked.verb,
                       asked.path);
  }
  const std::string resource = asked.subresource.empty()
                                   ? std::string(asked.resource)
                                   : fmt::format("{}/{}", asked.resource, asked.subresource);
  const std::string scope = asked.ns.empty() ? " at the cluster scope"
                                             : fmt::format(" in the namespace \"{}\"", asked.ns);
  const std::string qualified = asked.group.empty()
                                    ? std::string(asked.resource)
                                    : fmt::format("{}.{}", asked.resource, asked.group);
  return fmt::format(
      "{} \"{}\" is forbidden: User \"{}\" cannot {} resource \"{}\" in API group \"{}\"{}",
      qualified, asked.name, user.name, asked.verb, resource, asked.group, scope);
}

}  // namespace

base::Status Authorize(const User& user, const AccessAttributes& asked) {
  if (std::find(user.groups.begin(), user.groups.end(), kAdministrators) != user.groups.end()) {
    return base::OkStatus();
  }
  return KubeError(Reason::kForbidden, Refusal(user, asked),
                   {.name = std::string(asked.name),
                    .group = std::string(asked.group),
                    .kind = std::string(asked.resource)});
}

}  // namespace berth::apiserver
