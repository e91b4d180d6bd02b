#include "roles/block_operator_role.h"

#include <cstdlib>

#include "controllers/blockoperator/block_operator.h"
#include "controllers/blockoperator/block_volume.h"
#include "controllers/csi_codec.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/endable_exec.h"

namespace berth::roles {

namespace {

namespace blockoperator = controllers::blockoperator;
using controllers::Controller;

// The system interfaces that the back ends use. They live as long as the role.
struct Machine {
  std::unique_ptr<platform::Exec> exec = platform::NewHostExec();
  std::unique_ptr<platform::Mounter> mounter = platform::NewMounter();
};

class BlockOperatorRole : public Controller {
 public:
  BlockOperatorRole(const controllers::Context& context, blockoperator::Options options,
                    ExecOf exec_of)
      : exec_([this, exec_of = std::move(exec_of)]() -> platform::Exec& {
          return exec_of ? exec_of(kBlockPlugin) : *machine_.exec;
        }),
        operator_(context, WithBackends(context.client, std::move(options))) {}

  std::string_view name() const override { return operator_.name(); }
  void Start() override { operator_.Start(); }
  // A call of the storage may take half an hour, and would go on beside the next leader's if it did
  // not end with this term. The next leader finds out how far it came, as after a crash.
  void Stop() override {
    exec_.EndRuns();
    operator_.Stop();
  }

 private:
  // `client` is borrowed.
  blockoperator::Options WithBackends(kube::Client& client, blockoperator::Options options) {
    options.open_backend = [this, &client](const base::Json& settings) {
      return block::OpenBackend(
          settings, {.exec = exec_,
                     .mounter = *machine_.mounter,
                     .proxy_socket = "",
                     .node = "",
                     .read_secret =
                         [&client](const std::string& ns, const std::string& name) {
                           return controllers::ReadSecret(client, {.name = name, .ns = ns});
                         },
                     .list_images = [&client] { return blockoperator::ListImages(client); }});
    };
    return options;
  }

  const Machine machine_;
  platform::EndableExec exec_;
  blockoperator::BlockOperator operator_;
};

std::string ReadEnvironment(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

}  // namespace

std::unique_ptr<Controller> MakeBlockOperatorRole(const controllers::Context& context,
                                                  controllers::DriverConnection* /*driver*/,
                                                  const RoleSettings& settings) {
  blockoperator::Options options = settings.block_operator;
  blockoperator::AgentOptions& agents = options.agents;
  if (agents.ns.empty()) agents.ns = ReadEnvironment("POD_NAMESPACE", "default");
  if (agents.own_pod.empty()) agents.own_pod = ReadEnvironment("POD_NAME", "");
  return std::make_unique<BlockOperatorRole>(context, std::move(options), settings.exec_of);
}

}  // namespace berth::roles
