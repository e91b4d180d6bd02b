// Measures the time that the router of plugins' utilities adds: in the registered pod, compared
// with a bare ExecSync in its container; and on the host, compared with a bare fork and exec. Both
// run in turns.

#include <CLI/CLI.hpp>
#include <csignal>
#include <thread>

#include "bench/measure.h"
#include "platform/mounts/mounter.h"
#include "rpc/cri_client.h"
#include "volume/exec/router.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

struct Options {
  std::string runtime;
  std::string kubelet;
  std::string folder;  // for records
  std::string plugin;  // a pod is registered for it
  std::string container;
  int runs = 600;
  int warm_up = 5;
};

constexpr std::chrono::seconds kTimeout(60);
constexpr std::chrono::milliseconds kPause(20);
const platform::Command kCommand{.argv = {"true"}, .timeout = kTimeout};

class NoEvents : public base::EventSink {
 public:
  void Record(const base::ObjectReference&, base::EventType, std::string_view,
              std::string_view) override {}
};

// Returns the time of kCommand through `exec`.
StatusOr<Clock::duration> MeasureCommand(platform::Exec& exec) {
  const auto start = Clock::now();
  RETURN_IF_ERROR(RunOk(exec, kCommand));
  return Clock::now() - start;
}

// Returns the time of a bare ExecSync in the registered pod's container.
StatusOr<Clock::duration> MeasureExecSync(rpc::CriClient& runtime, const Options& options) {
  rpc::cri::ExecSyncRequest request;
  request.set_container_id(options.container);
  request.add_cmd("true");
  request.set_timeout(std::chrono::seconds(kTimeout).count());
  const auto start = Clock::now();
  ASSIGN_OR_RETURN(const auto answer, runtime.ExecSync(request, kTimeout));
  const auto took = Clock::now() - start;
  if (answer.exit_code() == 0) return took;
  return base::Error(StatusCode::kInternal, "'true' exited with {}", answer.exit_code());
}

StatusOr<Json> RunBench(const Options& options) {
  const volume::Paths paths(options.kubelet);
  const auto mounter = platform::NewMounter();
  NoEvents events;
  ASSIGN_OR_RETURN(const auto utilities, volume::NewUtilityRouter({.data_folder = options.folder,
                                                                   .cri_endpoint = options.runtime,
                                                                   .paths = paths,
                                                                   .mounter = *mounter,
                                                                   .events = events,
                                                                   .node = {}}));
  ASSIGN_OR_RETURN(const auto runtime, rpc::CriClient::New(options.runtime));
  const auto host = platform::NewHostExec();
  Samples pod, bare_pod, on_host, bare_host;
  // The router and the bare call take turns in being the first. Each begins after a pause, in which
  // the runtime finishes the clean-up of the call before.
  for (int i = 0; i < options.warm_up + options.runs; ++i) {
    Clock::duration routed{}, by_hand{};
    for (const bool through : {i % 2 == 0, i % 2 != 0}) {
      std::this_thread::sleep_for(kPause);
      ASSIGN_OR_RETURN((through ? routed : by_hand),
                       through ? MeasureCommand(utilities->GetPodExec(options.plugin))
                               : MeasureExecSync(*runtime, options));
    }
    ASSIGN_OR_RETURN(const auto routed_host,
                     MeasureCommand(utilities->GetExec("bench.berth.dev/none")));
    ASSIGN_OR_RETURN(const auto by_hand_host, MeasureCommand(*host));
    if (i < options.warm_up) continue;
    pod.Add(routed);
    bare_pod.Add(by_hand);
    on_host.Add(routed_host);
    bare_host.Add(by_hand_host);
  }
  return Json{{"pod", pod.ToJson()},
              {"bare_exec_sync", bare_pod.ToJson()},
              {"host", on_host.ToJson()},
              {"bare_host", bare_host.ToJson()}};
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  berth::bench::Options options;
  CLI::App app("A plugin's utility in its pod and on the host");
  app.add_option("--runtime", options.runtime)->required();
  app.add_option("--kubelet", options.kubelet)->required();
  app.add_option("--folder", options.folder)->required();
  app.add_option("--plugin", options.plugin)->required();
  app.add_option("--container", options.container)->required();
  app.add_option("--runs", options.runs);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunBench(options));
}
