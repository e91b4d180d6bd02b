// Keeps CSINode's count of the volumes that a driver can have on this node equal to the driver's
// own answer.
//
//   [registered] ── CSIDriver.spec.nodeAllocatableUpdatePeriodSeconds ──▶ NodeGetInfo ──▶ CSINode
//        ▲                                                                                  │
//        └── an attachment to this node failed with RESOURCE_EXHAUSTED: asked at once ◀─────┘
//
// This is done only for drivers whose CSIDriver has a period. After a failure the count stays, and
// the driver is asked again after the period. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/workers/keyed_workers.h"
#include "kube/informers/handler_gate.h"
#include "kube/informers/informers.h"
#include "node/drivers/csi_node.h"
#include "node/drivers/driver_identity.h"
#include "volume/host.h"

namespace berth::node {

// CSIDriver.spec.nodeAllocatableUpdatePeriodSeconds; nullopt: the count stays as registered.
std::optional<std::chrono::seconds> UpdatePeriodOf(const api::CsiDriver& driver);

// True if the attachment failed because the node has no room for more volumes
// (attachError.errorCode 8).
bool FailedForLackOfRoom(const api::VolumeAttachment& attachment);

class DriverLimits {
 public:
  // Everything is borrowed and must outlive this object. Call it before `informers` start, because
  // it adds handlers to them.
  DriverLimits(kube::Informers& informers, volume::DriverRegistry& drivers, CsiNodes& csi_nodes,
               std::string node_name);
  ~DriverLimits();

  void Start() { workers_.Start(); }
  void Stop() {
    questions_.Cancel();
    workers_.Stop();
  }
  void DriverRegistered(const std::string& driver);

 private:
  base::KeyedWorkers::Outcome UpdateLimit(const std::string& driver);
  std::optional<std::chrono::seconds> PeriodOf(const std::string& driver) const;

  volume::DriverRegistry& drivers_;
  CsiNodes& csi_nodes_;
  const std::string node_name_;
  kube::Informer<api::CsiDriver>& driver_objects_;
  DriverQuestions questions_;
  kube::HandlerGate<DriverLimits> gate_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::node
