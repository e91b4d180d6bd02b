#include "node/drivers/driver_limits.h"

#include "base/log.h"
#include "node/drivers/driver_identity.h"

namespace berth::node {
namespace {

using Outcome = base::KeyedWorkers::Outcome;

constexpr int64_t kResourceExhausted = 8;
constexpr int kMaxLimitWorkers = 16;

}  // namespace

std::optional<std::chrono::seconds> UpdatePeriodOf(const api::CsiDriver& driver) {
  const base::Json* period =
      base::json::Find(driver.json(), {"spec", "nodeAllocatableUpdatePeriodSeconds"});
  if (period == nullptr || !period->is_number_integer() || period->get<int64_t>() <= 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(period->get<int64_t>());
}

bool FailedForLackOfRoom(const api::VolumeAttachment& attachment) {
  const base::Json* code =
      base::json::Find(attachment.json(), {"status", "attachError", "errorCode"});
  return code != nullptr && code->is_number_integer() && code->get<int64_t>() == kResourceExhausted;
}

DriverLimits::DriverLimits(kube::Informers& informers, volume::DriverRegistry& drivers,
                           CsiNodes& csi_nodes, std::string node_name)
    : drivers_(drivers),
      csi_nodes_(csi_nodes),
      node_name_(std::move(node_name)),
      driver_objects_(informers.Of<api::CsiDriver>()),
      // A driver that hangs delays only its own count.
      workers_({.name = "driver-limits", .workers = 1, .max_workers = kMaxLimitWorkers},
               [this](const std::string& driver) { return UpdateLimit(driver); }) {
  gate_.Open(this);
  driver_objects_.AddHandler(gate_.Wrap([](DriverLimits& self, const auto& change) {
    if (change.after == nullptr) return;
    const auto period = UpdatePeriodOf(*change.after);
    const auto before = change.before == nullptr ? std::nullopt : UpdatePeriodOf(*change.before);
    if (period.has_value() && period != before) self.workers_.AddAfter(change.key, *period);
  }));
  informers.Of<api::VolumeAttachment>().AddHandler(
      gate_.Wrap([](DriverLimits& self, const auto& change) {
        if (change.after == nullptr || change.after->node_name() != self.node_name_) return;
        if (!FailedForLackOfRoom(*change.after)) return;
        // The attacher writes the same failure again with each of its tries, so only a new one
        // counts.
        if (change.before != nullptr && FailedForLackOfRoom(*change.before)) return;
        self.workers_.AddNow(change.after->attacher());
      }));
}

DriverLimits::~DriverLimits() {
  gate_.Close();
  Stop();
}

std::optional<std::chrono::seconds> DriverLimits::PeriodOf(const std::string& driver) const {
  const auto object = driver_objects_.Get(driver);
  return object == nullptr ? std::nullopt : UpdatePeriodOf(*object);
}

void DriverLimits::DriverRegistered(const std::string& driver) {
  if (const auto period = PeriodOf(driver)) workers_.AddAfter(driver, *period);
}

Outcome DriverLimits::UpdateLimit(const std::string& driver) {
  const auto period = PeriodOf(driver);
  const auto socket = drivers_.FindSocket(driver);
  if (!period.has_value() || !socket.ok()) return Outcome::Done();
  const base::StatusOr<NodeDriver> info = questions_.AskNodeInfo(driver, *socket);
  const base::Status updated = info.ok() ? csi_nodes_.UpdateCount(*info) : info.status();
  if (!updated.ok()) {
    LOG_WARNING("the volume limit of driver {} on this node was not updated: {}",
                base::Quote(driver), base::ToString(updated));
  }
  return Outcome::After(*period);
}

}  // namespace berth::node
