// Runs a plugin's utility in the same way as the node agent: in the pod that is registered for the
// plugin, or else on this host. With --containerized it runs it like an agent that is itself in a
// container. It prints the result of each run as one line of JSON.
//
//   plugin_utility run --kubelet FOLDER --data FOLDER --runtime SOCKET --plugin NAME
//       [--containerized] [...] -- ARGV
//   plugin_utility mount|unmount ... --type TYPE --source SOURCE --target TARGET

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/json.h"
#include "base/log.h"
#include "platform/mounts/mounter.h"
#include "volume/exec/router.h"

namespace berth {
namespace {

using base::Json;
using base::Status;

class PrintedEvents : public base::EventSink {
 public:
  void Record(const base::ObjectReference& object, base::EventType, std::string_view reason,
              std::string_view message) override {
    fmt::print(stderr, "event of {} {}: {}: {}\n", object.kind, object.name, reason, message);
  }
};

struct Options {
  std::string kubelet, data, runtime, plugin, stdin_data;
  std::vector<std::string> secrets;  // NAME=CONTENT
  std::vector<std::string> argv;
  int timeout_ms = 30'000;
  int runs = 1;  // at the same time
  bool leaves_daemon = false;
  size_t max_output = 64 * 1024;
  volume::HelperMount mount;
  volume::HostWay host;
};

Json OfStatus(const Status& status) {
  return {{"code", base::CodeName(status.code())}, {"message", base::Message(status)}};
}

Json OneRun(platform::Exec& exec, const Options& options) {
  platform::Command command{.argv = options.argv,
                            .stdin_data = options.stdin_data,
                            .timeout = std::chrono::milliseconds(options.timeout_ms),
                            .max_output = options.max_output,
                            .leaves_daemon = options.leaves_daemon};
  for (const std::string& secret : options.secrets) {
    const size_t equals = secret.find('=');
    command.secrets.push_back({secret.substr(0, equals), secret.substr(equals + 1)});
  }
  const auto result = exec.Run(command);
  Json said = OfStatus(result.status());
  if (result.ok()) {
    said["exit_code"] = result->exit_code;
    said["out_bytes"] = result->out.size();
    said["out"] = result->out.substr(0, 4096);
    said["err"] = result->err.substr(0, 4096);
  }
  return said;
}

void Print(const Json& said) { fmt::print("{}\n", base::json::Dump(said)); }

base::StatusOr<std::unique_ptr<volume::Utilities>> Utilities(const Options& options,
                                                             const volume::Paths& paths,
                                                             platform::Mounter& mounter,
                                                             base::EventSink& events) {
  return volume::NewUtilityRouter(
      {.data_folder = options.data,
       .cri_endpoint = options.runtime,
       .paths = paths,
       .mounter = mounter,
       .events = events,
       .node = {.api_version = "v1", .kind = "Node", .ns = "", .name = "node-a", .uid = "node-a"}},
      options.host);
}

void Run(volume::Utilities& utilities, const Options& options) {
  std::vector<Json> said(static_cast<size_t>(options.runs));
  std::vector<std::thread> threads;
  for (Json& one : said) {
    threads.emplace_back([&] { one = OneRun(utilities.GetExec(options.plugin), options); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Json& one : said) Print(one);
}

}  // namespace
}  // namespace berth

int main(int argc, char** argv) {
  using namespace berth;
  Options options;
  CLI::App app("Run a plugin's utility");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--kubelet", options.kubelet)->required();
  app.add_option("--data", options.data, "For records")->required();
  app.add_option("--runtime", options.runtime)->required();
  app.add_option("--plugin", options.plugin)->required();
  app.add_flag("--containerized", options.host.containerized);
  CLI::App* run = app.add_subcommand("run");
  run->add_option("--timeout-ms", options.timeout_ms);
  run->add_option("--runs", options.runs, "At the same time");
  run->add_option("--stdin", options.stdin_data);
  run->add_option("--secret", options.secrets, "NAME=CONTENT")->allow_extra_args(false);
  run->add_option("--max-output", options.max_output);
  run->add_flag("--leaves-daemon", options.leaves_daemon);
  run->add_option("argv", options.argv)->required();
  CLI::App* mount = app.add_subcommand("mount");
  CLI::App* unmount = app.add_subcommand("unmount");
  mount->add_option("--type", options.mount.fs_type);
  mount->add_option("--source", options.mount.source);
  for (CLI::App* of : {mount, unmount}) {
    of->add_option("--target", options.mount.target)->required();
  }
  CLI11_PARSE(app, argc, argv);
  base::InitLogging("utility", 0);

  const volume::Paths paths(options.kubelet);
  const auto mounter = platform::NewMounter();
  PrintedEvents events;
  const auto utilities = Utilities(options, paths, *mounter, events);
  if (!utilities.ok()) {
    Print(OfStatus(utilities.status()));
    return 1;
  }
  options.mount.plugin = options.plugin;
  volume::HelperMounts& mounts = (*utilities)->helper_mounts();
  if (run->parsed()) Run(**utilities, options);
  if (mount->parsed()) Print(OfStatus(mounts.Mount(options.mount)));
  if (unmount->parsed())
    Print(OfStatus(mounts.Unmount(options.plugin, platform::MountPoint(options.mount.target))));
  (*utilities)->Close();
  return 0;
}
