#include "cmd/provisioner_role.h"

#include <cstdlib>

namespace berth::cmd {

namespace {

namespace provisioner = controllers::provisioner;
using controllers::Controller;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Two controllers of one driver as one.
class ProvisionerWithCapacity : public Controller {
 public:
  ProvisionerWithCapacity(const controllers::Context& context,
                          controllers::DriverConnection& driver, provisioner::Options options,
                          provisioner::CapacityOptions capacity)
      : provisioner_(context, driver, std::move(options)),
        capacity_(context, driver, std::move(capacity)) {}
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
  provisioner::Provisioner provisioner_;
  provisioner::CapacityController capacity_;
};

}  // namespace

std::unique_ptr<Controller> MakeProvisionerRole(const controllers::Context& context,
                                                controllers::DriverConnection* driver,
                                                const RoleSettings& settings) {
  provisioner::Options options = settings.provisioner;
  if (!settings.enable_capacity) {
    return std::make_unique<provisioner::Provisioner>(context, *driver, std::move(options));
  }
  provisioner::CapacityOptions capacity = settings.capacity;
  if (capacity.ns.empty()) capacity.ns = Environment("NAMESPACE");
  if (capacity.pod_name.empty()) capacity.pod_name = Environment("POD_NAME");
  capacity.timeout = options.timeout;
  capacity.retry_start = options.retry_start;
  capacity.retry_max = options.retry_max;
  capacity.default_fs_type = options.default_fs_type;
  capacity.node_name = options.node_deployment.node_name;
  return std::make_unique<ProvisionerWithCapacity>(context, *driver, std::move(options),
                                                   std::move(capacity));
}

}  // namespace berth::cmd
