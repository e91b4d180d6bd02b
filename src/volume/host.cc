#include "volume/host.h"

namespace berth::volume {

void DriverRegistry::Register(const std::string& driver, const std::string& socket) {
  base::MutexLock lock(mutex_);
  sockets_[driver] = socket;
}

void DriverRegistry::Unregister(const std::string& driver) {
  base::MutexLock lock(mutex_);
  sockets_.erase(driver);
}

base::StatusOr<std::string> DriverRegistry::FindSocket(const std::string& driver) const {
  base::MutexLock lock(mutex_);
  const auto it = sockets_.find(driver);
  if (it != sockets_.end()) return it->second;
  std::string registered;
  for (const auto& [name, socket] : sockets_) {
    registered += fmt::format("{}{}", registered.empty() ? "" : ", ", name);
  }
  return base::Error(base::StatusCode::kUnavailable,
                     "CSI driver '{}' is not registered on this node (registered: {})", driver,
                     registered.empty() ? "none" : registered);
}

std::map<std::string, std::string> DriverRegistry::ListDrivers() const {
  base::MutexLock lock(mutex_);
  return sockets_;
}

}  // namespace berth::volume
