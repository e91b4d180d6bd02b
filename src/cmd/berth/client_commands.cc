#include <filesystem>
#include <memory>

#include "base/log.h"
#include "cli/connect.h"
#include "cli/doctor/doctor.h"
#include "cli/explain/explain.h"
#include "cli/host_mount.h"
#include "cli/objects/apply.h"
#include "cli/objects/delete.h"
#include "cli/objects/describe.h"
#include "cli/objects/exec.h"
#include "cli/objects/get.h"
#include "cli/objects/logs.h"
#include "cli/output.h"
#include "cli/plugins/upgrade_mount_pod.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/signals.h"
#include "kube/http/http_client.h"

namespace berth::cmd {
namespace {

using base::Status;

// A command makes few requests, perhaps over a slow network, so it asks for JSON, which needs no
// tables of messages, and lets the server compress it.
const kube::HttpClientOptions kClientOptions{.format = kube::ObjectFormat::kJson, .compress = true};

// The options of every client command.
struct Connection {
  cli::ApiOptions api;
  CLI::Option* data = nullptr;

  void AddTo(CLI::App& command) {
    data = command.add_option("--data", api.data_folder, "Data folder of a standalone Berth");
    command.add_option("--kubeconfig", api.kubeconfig, "Kubeconfig of the API to talk to");
    command.add_option("-n,--namespace", api.ns, "Namespace")->capture_default_str();
  }
};

using Action = std::function<Status(kube::Client&, const cli::ApiOptions&, std::stop_token)>;

// Makes `command` connect to the API and run `action`.
void SetAction(CLI::App& command, const std::shared_ptr<Connection>& connection, int& exit_code,
               Action action) {
  command.callback([connection, &exit_code, action = std::move(action)] {
    StopSignals signals(StopSignals::Process::kCommand);
    exit_code = cli::ReportError([&]() -> Status {
      ASSIGN_OR_RETURN(const kube::Config config,
                       cli::LoadApiConfig(connection->api, connection->data->count() > 0));
      ASSIGN_OR_RETURN(const auto client, kube::NewHttpClient(config, kClientOptions));
      return action(*client, connection->api, signals.token());
    }());
  });
}

// Adds a subcommand with its connection options.
std::pair<CLI::App*, std::shared_ptr<Connection>> AddCommand(CLI::App& app, const char* name,
                                                             const char* help) {
  CLI::App* command = app.add_subcommand(name, help);
  auto connection = std::make_shared<Connection>();
  connection->AddTo(*command);
  return {command, connection};
}

void AddApply(CLI::App& app, int& exit_code) {
  auto [command, connection] =
      AddCommand(app, "apply", "Create or change objects as manifests say");
  auto files = std::make_shared<std::vector<std::string>>();
  command->add_option("-f,--filename", *files, "File, folder, or - for standard input")->required();
  SetAction(*command, connection, exit_code,
            [files](kube::Client& client, const cli::ApiOptions& api, std::stop_token) {
              return cli::ApplyManifests(client, api, *files);
            });
}

void AddGet(CLI::App& app, int& exit_code) {
  auto [command, connection] = AddCommand(app, "get", "List objects, or show them");
  auto options = std::make_shared<cli::GetOptions>();
  command->add_option("objects", options->words, "KIND[,KIND] [NAME...] or KIND/NAME...")
      ->required();
  command->add_option("-o,--output", options->output, "wide, json, yaml or name");
  command->add_option("-l,--selector", options->label_selector, "Label selector");
  command->add_option("--field-selector", options->field_selector, "Field selector");
  command->add_flag("-w,--watch", options->watch, "Then show each change, until interrupted");
  command->add_flag("-A,--all-namespaces", connection->api.all_namespaces, "In all namespaces");
  SetAction(*command, connection, exit_code,
            [options](kube::Client& client, const cli::ApiOptions& api, std::stop_token stop) {
              return cli::GetObjects(client, api, *options, stop);
            });
}

void AddDescribe(CLI::App& app, int& exit_code) {
  auto [command, connection] = AddCommand(app, "describe", "Show objects with their events");
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("objects", *words, "KIND [NAME...] or KIND/NAME...")->required();
  command->add_flag("-A,--all-namespaces", connection->api.all_namespaces, "In all namespaces");
  SetAction(*command, connection, exit_code,
            [words](kube::Client& client, const cli::ApiOptions& api, std::stop_token) {
              return cli::DescribeObjects(client, api, *words, base::SystemClock());
            });
}

void AddExplain(CLI::App& app, int& exit_code) {
  auto [command, connection] =
      AddCommand(app, "explain", "Say what blocks a volume, and show the proof");
  auto options = std::make_shared<cli::ExplainOptions>();
  command
      ->add_option("object", options->words,
                   "pod/NAME, pvc/NAME, pv/NAME, volumeattachment/NAME, volumesnapshot/NAME, "
                   "volumesnapshotcontent/NAME, hostmount/NAME or node/NAME")
      ->required();
  command->add_option("-o,--output", options->output, "json");
  command->callback([connection = connection, options, &exit_code] {
    StopSignals signals(StopSignals::Process::kCommand);
    const auto unblocked = [&]() -> base::StatusOr<bool> {
      ASSIGN_OR_RETURN(const kube::Config config,
                       cli::LoadApiConfig(connection->api, connection->data->count() > 0));
      ASSIGN_OR_RETURN(const auto client, kube::NewHttpClient(config, kClientOptions));
      // Flight records are read only from a folder that belongs to this API, because other folders
      // have the records of another Berth.
      if (!config.socket.empty() || connection->data->count() > 0) {
        options->flight_folder = cli::FlightFolder(connection->api.data_folder);
      }
      return cli::ExplainObject(*client, connection->api, *options, base::SystemClock());
    }();
    exit_code = unblocked.ok() ? (*unblocked ? 0 : 1) : cli::ReportError(unblocked.status());
  });
}

void AddDoctor(CLI::App& app, int& exit_code) {
  auto [command, connection] = AddCommand(
      app, "doctor",
      "Check whether this machine can run Berth, and whether a running Berth is healthy");
  auto options = std::make_shared<cli::DoctorOptions>();
  command
      ->add_option("--container-runtime-endpoint", options->runtime_endpoint,
                   "CRI socket of the runtime")
      ->capture_default_str();
  command->add_option("--kubelet-dir", options->kubelet_folder,
                      "The kubelet's folder, if it is not in the data folder");
  command->add_option("-o,--output", options->output, "json");
  command->callback([connection = connection, options, &exit_code] {
    StopSignals signals(StopSignals::Process::kCommand);
    std::unique_ptr<kube::Client> client;
    const Status connected = [&]() -> Status {
      ASSIGN_OR_RETURN(const kube::Config config,
                       cli::LoadApiConfig(connection->api, connection->data->count() > 0));
      ASSIGN_OR_RETURN(client, kube::NewHttpClient(config, kClientOptions));
      return base::OkStatus();
    }();
    options->data_folder =
        std::filesystem::absolute(connection->api.data_folder).lexically_normal();
    const auto healthy = cli::RunDoctor(*options, client.get(), connected, base::SystemClock());
    exit_code = healthy.ok() ? (*healthy ? 0 : 1) : cli::ReportError(healthy.status());
  });
}

void AddDelete(CLI::App& app, int& exit_code) {
  auto [command, connection] =
      AddCommand(app, "delete", "Delete objects and wait until they are gone");
  auto options = std::make_shared<cli::DeleteOptions>();
  auto timeout = std::make_shared<int64_t>(0);
  command->add_option("objects", options->words, "KIND NAME... or KIND/NAME...");
  command->add_option("-f,--filename", options->files,
                      "Delete the objects that these manifests name");
  command->add_flag("--all", options->all, "Delete all objects of the kinds");
  command->add_option("--grace-period", options->grace_period_seconds,
                      "Seconds that pods get to end");
  command->add_flag("--wait,!--no-wait", options->wait, "Wait until they are gone (the default)");
  command->add_flag("--ignore-not-found", options->ignore_not_found,
                    "Do not report an error for objects that do not exist");
  command->add_option("--timeout", *timeout, "Seconds to wait at most");
  SetAction(
      *command, connection, exit_code,
      [options, timeout](kube::Client& client, const cli::ApiOptions& api, std::stop_token stop) {
        options->timeout = std::chrono::seconds(*timeout);
        return cli::DeleteObjects(client, api, *options, stop);
      });
}

void AddLogs(CLI::App& app, int& exit_code) {
  auto [command, connection] = AddCommand(app, "logs", "Show what a pod's container wrote");
  auto options = std::make_shared<cli::LogOptions>();
  command->add_option("pod", options->pod, "Pod")->required();
  command->add_option("-c,--container", options->container, "Container");
  command->add_flag("-f,--follow", options->follow, "Then show each new line, until interrupted");
  command->add_flag("-p,--previous", options->previous,
                    "Show the log of the container before its last restart");
  command->add_flag("--timestamps", options->timestamps, "Show the time of each line");
  command->add_option("--tail", options->tail, "Show only this number of last lines");
  SetAction(*command, connection, exit_code,
            [options](kube::Client& client, const cli::ApiOptions& api, std::stop_token stop) {
              return cli::PrintLogs(client, api, *options, stop);
            });
}

void AddExec(CLI::App& app, int& exit_code) {
  auto [command, connection] = AddCommand(app, "exec", "Run a command in a pod's container");
  auto options = std::make_shared<cli::ExecOptions>();
  command->add_option("pod", options->pod, "Pod")->required();
  command->add_option("command", options->command, "The command, after --");
  command->add_option("-c,--container", options->container, "Container");
  command->add_flag("-i,--stdin", options->interactive, "Pass standard input on");
  command->add_flag("-t,--tty", options->tty, "Give the command a terminal");
  command->callback([connection = connection, options, &exit_code] {
    StopSignals signals(StopSignals::Process::kCommand);
    const auto code = [&]() -> base::StatusOr<int> {
      ASSIGN_OR_RETURN(const kube::Config config,
                       cli::LoadApiConfig(connection->api, connection->data->count() > 0));
      return cli::ExecInContainer(config, connection->api, *options, signals.token());
    }();
    exit_code = code.ok() ? *code : cli::ReportError(code.status());
  });
}

void AddHostMounts(CLI::App& app, int& exit_code) {
  auto timeout = std::make_shared<int64_t>(120);
  {
    auto [command, connection] = AddCommand(app, "mount", "Mount a claim on a path of the host");
    auto options = std::make_shared<cli::MountOptions>();
    command->add_option("claim", options->claim, "PersistentVolumeClaim")->required();
    command->add_option("path", options->path, "Folder to mount it on")->required();
    command->add_option(
        "--node-name", options->node_name,
        "Name of the node (default: the only node, or the node with this host's name)");
    command->add_flag("--read-only", options->read_only, "Mount it read-only");
    command->add_option("--timeout", *timeout, "Seconds to wait at most")->capture_default_str();
    SetAction(
        *command, connection, exit_code,
        [options, timeout](kube::Client& client, const cli::ApiOptions& api, std::stop_token stop) {
          options->timeout = std::chrono::seconds(*timeout);
          return cli::MountClaim(client, api, *options, stop);
        });
  }
  auto [command, connection] = AddCommand(app, "umount", "Unmount what 'berth mount' mounted");
  auto options = std::make_shared<cli::UnmountOptions>();
  command->add_option("path", options->path, "Folder that a claim is mounted on")->required();
  command->add_option(
      "--node-name", options->node_name,
      "Name of the node (default: the only node, or the node with this host's name)");
  command->add_option("--timeout", *timeout, "Seconds to wait at most")->capture_default_str();
  SetAction(*command, connection, exit_code,
            [options, timeout](kube::Client& client, const cli::ApiOptions&, std::stop_token stop) {
              options->timeout = std::chrono::seconds(*timeout);
              return cli::UnmountClaim(client, *options, stop);
            });
}

void AddUpgrade(CLI::App& app, int& exit_code) {
  CLI::App* upgrade =
      app.add_subcommand("upgrade", "Upgrade what pods depend on, after evicting those pods");
  upgrade->require_subcommand(1);
  auto [command, connection] =
      AddCommand(*upgrade, "mount-pod",
                 "Evict a node's pods, replace its mount pods by new ones, and let pods return");
  auto options = std::make_shared<cli::UpgradeMountPodOptions>();
  auto timeout = std::make_shared<int64_t>(options->timeout.count());
  command->add_option("--node", options->node, "The node")->required();
  command->add_option("--daemonset", options->daemon_set,
                      "NAMESPACE/NAME: replace only the mount pods of this DaemonSet");
  command->add_flag("--dry-run", options->dry_run, "Only say what would be done");
  command->add_option("--timeout", *timeout, "Seconds for the whole upgrade")
      ->capture_default_str();
  SetAction(*command, connection, exit_code,
            [options, timeout](kube::Client& client, const cli::ApiOptions&, std::stop_token stop) {
              options->timeout = std::chrono::seconds(*timeout);
              return cli::UpgradeMountPod(client, *options, stop);
            });
}

}  // namespace

void AddClientCommands(CLI::App& app, int& exit_code) {
  AddApply(app, exit_code);
  AddGet(app, exit_code);
  AddDescribe(app, exit_code);
  AddExplain(app, exit_code);
  AddDoctor(app, exit_code);
  AddDelete(app, exit_code);
  AddLogs(app, exit_code);
  AddExec(app, exit_code);
  AddHostMounts(app, exit_code);
  AddUpgrade(app, exit_code);
}

}  // namespace berth::cmd
