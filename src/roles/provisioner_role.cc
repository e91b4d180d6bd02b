#include "roles/provisioner_role.h"

#include <cstdlib>

#include "controllers/provisioner/own_node_client.h"
#include "kube/guarded_client.h"
#include "kube/http/pace.h"

namespace berth::roles {

namespace {

namespace provisioner = controllers::provisioner;
using controllers::Controller;

// How long a write of capacity waits for the rate limit. After that it fails, and is retried.
constexpr std::chrono::seconds kMaxPaceWait{30};

std::string ReadEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The provisioner and the capacity controller of a driver, as one controller.
class ProvisionerWithCapacity : public Controller {
 public:
  ProvisionerWithCapacity(const controllers::Context& context,
                          controllers::DriverConnection& driver, provisioner::Options options,
                          provisioner::CapacityOptions capacity, double writes_per_second,
                          int burst)
      : pace_(writes_per_second, burst),
        paced_(
            context.client,
            [this] { return pace_.WaitForTurn(std::chrono::steady_clock::now() + kMaxPaceWait); }),
        provisioner_(context, driver, WithRefresh(std::move(options))),
        capacity_({paced_, context.informers, context.events, context.clock, context.flight,
                   context.metrics},
                  driver, std::move(capacity)) {}
  ~ProvisionerWithCapacity() override { Stop(); }

  std::string_view name() const override { return provisioner_.name(); }
  void Start() override {
    provisioner_.Start();
    capacity_.Start();
  }
  void Stop() override {
    capacity_.Stop();
    provisioner_.Stop();
  }

 private:
  provisioner::Options WithRefresh(provisioner::Options options) {
    options.on_refused = [this](const std::string& name) { capacity_.RefreshClass(name); };
    return options;
  }

  kube::Pace pace_;
  kube::GuardedClient paced_;
  provisioner::Provisioner provisioner_;
  provisioner::CapacityController capacity_;
};

}  // namespace

std::unique_ptr<Controller> MakeProvisionerRole(const controllers::Context& context,
                                                controllers::DriverConnection* driver,
                                                const RoleSettings& settings) {
  provisioner::Options options = settings.provisioner;
  if (options.node_deployment.enabled() && !options.node_deployment.watch_nodes) {
    provisioner::ShowOwnNode(context, *driver, options.node_deployment.node_name, options.timeout);
  }
  if (!settings.enable_capacity) {
    return std::make_unique<provisioner::Provisioner>(context, *driver, std::move(options));
  }
  provisioner::CapacityOptions capacity = settings.capacity;
  if (capacity.ns.empty()) capacity.ns = ReadEnvironment("NAMESPACE");
  if (capacity.pod_name.empty()) capacity.pod_name = ReadEnvironment("POD_NAME");
  capacity.timeout = options.timeout;
  capacity.retry_start = options.retry_start;
  capacity.retry_max = options.retry_max;
  capacity.node_name = options.node_deployment.node_name;
  return std::make_unique<ProvisionerWithCapacity>(
      context, *driver, std::move(options), std::move(capacity),
      settings.capacity_writes_per_second, settings.capacity_burst);
}

}  // namespace berth::roles
