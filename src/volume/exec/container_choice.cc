#include "volume/exec/container_choice.h"

#include "base/log.h"
#include "rpc/outcome.h"

namespace berth::volume {

using base::Status;
using base::StatusOr;

StatusOr<std::optional<PodContainer>> ContainerChoice::ChooseContainer(std::string_view plugin) {
  const auto registration = ReadRegistration(paths_, plugin, owner_);
  if (!registration.ok()) {
    if (IsNewFault(plugin, base::Message(registration.status()))) {
      LOG_WARNING("{}", base::Message(registration.status()));
      events_.Record(node_, base::EventType::kWarning, "PluginContainerRefused",
                     fmt::format("utilities of {} are not run: {}", plugin,
                                 base::Message(registration.status())));
    }
    return registration.status();
  }
  IsNewFault(plugin, "");
  if (!registration->has_value()) return std::nullopt;
  {
    base::MutexLock lock(mutex_);
    const auto last = last_.find(plugin);
    if (last != last_.end() && last->second.registration == **registration) return last->second;
  }
  auto container = FindContainer(runtime_, **registration);
  if (!container.ok()) {
    // NotSent is set for every code, because nothing was run.
    return rpc::NotSent(base::Annotate(
        container.status(),
        fmt::format("ask the runtime for container '{}' of pod {}/{}", (*registration)->container,
                    (*registration)->pod_namespace, (*registration)->pod_name)));
  }
  if (container->has_value()) {
    base::MutexLock lock(mutex_);
    last_.insert_or_assign(std::string(plugin), **container);
  }
  return *std::move(container);
}

void ContainerChoice::NoteEnded(std::string_view plugin, const PodContainer& container) {
  base::MutexLock lock(mutex_);
  const auto last = last_.find(plugin);
  if (last != last_.end() && last->second.id == container.id) last_.erase(last);
}

bool ContainerChoice::IsNewFault(std::string_view plugin, std::string_view fault) {
  base::MutexLock lock(mutex_);
  const auto found = reported_.find(plugin);
  if ((found == reported_.end() ? std::string_view() : found->second) == fault) return false;
  if (fault.empty()) {
    reported_.erase(found);
  } else {
    reported_[std::string(plugin)] = fault;
  }
  return true;
}

}  // namespace berth::volume
