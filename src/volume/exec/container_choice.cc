#include "volume/exec/container_choice.h"

#include "base/log.h"
#include "rpc/outcome.h"

namespace berth::volume {

using base::Status;
using base::StatusOr;

StatusOr<std::optional<PodContainer>> ContainerChoice::Now(std::string_view plugin) {
  const auto registration = ReadRegistration(paths_, plugin, owner_);
  if (!registration.ok()) {
    if (IsNews(plugin, base::Message(registration.status()))) {
      LOG_WARNING("{}", base::Message(registration.status()));
      events_.Record(node_, base::EventType::kWarning, "PluginContainerRefused",
                     fmt::format("utilities of {} are not run: {}", plugin,
                                 base::Message(registration.status())));
    }
    return registration.status();
  }
  IsNews(plugin, "");
  if (!registration->has_value()) return std::nullopt;
  auto container = FindContainer(runtime_, **registration);
  if (!container.ok()) {
    // Whatever the code says: nothing was run.
    return rpc::NotSent(base::Annotate(
        container.status(),
        fmt::format("ask the runtime for container '{}' of pod {}/{}", (*registration)->container,
                    (*registration)->pod_namespace, (*registration)->pod_name)));
  }
  return *std::move(container);
}

bool ContainerChoice::IsNews(std::string_view plugin, std::string_view fault) {
  base::MutexLock lock(mutex_);
  const auto found = told_.find(plugin);
  if ((found == told_.end() ? std::string_view() : found->second) == fault) return false;
  if (fault.empty()) {
    told_.erase(found);
  } else {
    told_[std::string(plugin)] = fault;
  }
  return true;
}

}  // namespace berth::volume
