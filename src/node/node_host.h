// Implements volume::Host with the API client, the informers and this machine.
//
// CSIDriver and Node objects come from informers, or from the API if the informer does not have the
// object. The constructor makes these informers, so it must run before the informers start. All
// other objects, such as Secrets and ConfigMaps, are read from the API each time, because a copy
// might be older than the pod. Each CreateToken asks the API for a new token. Thread-safe, except
// UseUtilities.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "api/kinds/object_ids.h"
#include "base/clock.h"
#include "base/event_sink.h"
#include "kube/client.h"
#include "kube/informers/informers.h"
#include "volume/host.h"
#include "volume/utilities.h"

namespace berth::node {

class NodeHost : public volume::Host {
 public:
  // The references are borrowed and must outlive the host.
  NodeHost(const api::NodeName& node, std::string kubelet_folder, kube::Client& client,
           kube::Informers& informers, base::EventSink& events, const base::Clock& clock);

  // Call it before any plugin is made. Without this call, all utilities run on this host.
  void UseUtilities(std::unique_ptr<volume::Utilities> utilities) {
    utilities_ = std::move(utilities);
  }
  volume::Utilities& utilities() { return *utilities_; }

  const std::string& node_name() const override { return node_name_; }
  const volume::Paths& paths() const override { return paths_; }
  platform::Mounter& mounter() override { return *mounter_; }
  platform::Exec& exec(std::string_view plugin) override { return utilities_->GetExec(plugin); }
  volume::HelperMounts& helper_mounts() override { return utilities_->helper_mounts(); }
  base::EventSink& events() override { return events_; }
  const base::Clock& clock() const override { return clock_; }
  volume::DriverRegistry& drivers() override { return drivers_; }
  bool selinux() const override { return selinux_; }
  bool ending() const override { return ending_; }
  void SetEnding() { ending_ = true; }
  base::StatusOr<base::Json> GetObject(const api::KindInfo& kind, std::string_view ns,
                                       std::string_view name) override;
  base::StatusOr<base::Json> CreateToken(std::string_view ns, std::string_view account,
                                         const base::Json& request) override;

 private:
  const std::string node_name_;
  const volume::Paths paths_;
  kube::Client& client_;
  base::EventSink& events_;
  const base::Clock& clock_;
  kube::InformerBase& csi_drivers_;
  kube::InformerBase& nodes_;
  const std::unique_ptr<platform::Mounter> mounter_;
  std::unique_ptr<volume::Utilities> utilities_;
  volume::DriverRegistry drivers_;
  const bool selinux_;
  std::atomic<bool> ending_ = false;
};

}  // namespace berth::node
