#include <memory>

#include "base/log.h"
#include "base/text.h"
#include "block/proxy/calls.h"
#include "block/proxy/service.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/signals.h"
#include "platform/limits.h"
#include "rpc/socket_file.h"
#include "rpc/unix_socket.h"

namespace berth::cmd {
namespace {

namespace proxy = block::proxy;

base::Status ServeIoProxy(const proxy::Exports::Options& options, StopSignals& signals) {
  ASSIGN_OR_RETURN(const std::unique_ptr<proxy::Exports> exports, proxy::Exports::Open(options));
  const std::string socket = options.folder + "/sock";
  ASSIGN_OR_RETURN(base::UniqueFd listener, rpc::ListenAt(socket));
  const rpc::SocketFile file(socket);
  const auto server = proxy::ServeExports(*exports, std::move(listener));
  LOG_INFO("the I/O proxy serves at {}", base::Quote(socket));
  signals.Wait();
  return base::OkStatus();
}

}  // namespace

void AddIoProxyCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "io-proxy", "Carry the I/O of block volumes to user space, by a daemon for each");
  auto options = std::make_shared<proxy::Exports::Options>();
  options->folder = proxy::kFolder;
  auto verbosity = std::make_shared<int>(0);
  auto reconnect = std::make_shared<int>(30);
  command
      ->add_option("--folder", options->folder,
                   "Folder of its socket, its records and the files through which volumes are used")
      ->capture_default_str();
  command
      ->add_option("--reconnect", *reconnect,
                   "How many seconds an NBD server may be away before I/O fails")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_flag("-v", *verbosity, "Log more");
  command->callback([options, verbosity, reconnect, &exit_code] {
    StopSignals signals;
    base::InitLogging("io-proxy", *verbosity);
    // Each volume takes one descriptor for the watch over its daemon.
    if (const auto raised = platform::RaiseDescriptorLimit(); !raised.ok()) {
      LOG_WARNING("{}", base::ToString(raised));
    }
    options->reconnect = std::chrono::seconds(*reconnect);
    options->folder = std::string(base::TrimSlashes(options->folder));
    const base::Status ended = ServeIoProxy(*options, signals);
    if (!ended.ok()) {
      LOG_ERROR("{}", base::ToString(ended));
      exit_code = 1;
    }
  });
}

}  // namespace berth::cmd
