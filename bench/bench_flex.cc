// Measures the time and CPU time that it takes to find Flexvolume drivers. It runs one of:
//   probe      ListPlugins() while nothing is new
//   scan       the first scan of --drivers drivers, with the copies that are run, without init
//   storm      --events file events within --seconds: the scans, and the CPU time beside them
//   discovery  the time from a new driver's rename until its init is done

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "bench/measure.h"
#include "platform/processes/exec.h"
#include "volume/flex/fake_flex_plugin.h"
#include "volume/flex/flex_prober.h"
#include "volume/plugin_registry.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Options {
  std::string folder;
  int drivers = 1000;
  int runs = 30;
  int events = 100'000;
  int for_seconds = 10;
};

constexpr std::string_view kScript =
    "#!/bin/sh\necho '{\"status\": \"Success\", \"capabilities\": {\"attach\": false}}'\n";

// Installs a driver as an installer does. Returns the time of the rename.
Clock::time_point InstallDriver(const std::string& drivers, int number) {
  const std::string name = fmt::format("driver-{}", number);
  const std::string in = fmt::format("{}/example.com~{}", drivers, name);
  std::filesystem::create_directories(in);
  std::ofstream(in + "/.part") << kScript;
  chmod((in + "/.part").c_str(), 0755);
  const auto at = Clock::now();
  std::filesystem::rename(in + "/.part", in + "/" + name);
  return at;
}

// A plugin whose Init runs the driver's init.
class RunPlugin : public volume::FakeFlexPlugin {
 public:
  using FakeFlexPlugin::FakeFlexPlugin;
  Status Init() override {
    ASSIGN_OR_RETURN(const auto version, driver().Current());
    const auto exec = platform::NewHostExec();
    return platform::RunOk(*exec, {.argv = {version.executable, "init"}}).status();
  }
};

volume::FlexProber::Options MakeProberOptions(const Options& options, std::string_view store) {
  return {.drivers = options.folder + "/drivers",
          .store = {.folder = fmt::format("{}/{}", options.folder, store), .users = {}},
          .make = volume::FakeFlexPlugin::Make};
}

// The four cases that the top of this file lists.
StatusOr<Json> BenchProbe(const Options& options) {
  InstallDriver(options.folder + "/drivers", 0);
  volume::FlexProber prober(MakeProberOptions(options, "store"));
  RETURN_IF_ERROR(prober.Init());
  constexpr int kCalls = 1'000'000;
  std::vector<double> ns;
  while (std::ssize(ns) < options.runs) {
    bool news = false;
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) {
      const auto list = prober.ListPlugins();
      RETURN_IF_ERROR(list);
      news = news || list->has_value();
    }
    if (!news) ns.push_back(duration<double, std::nano>(Clock::now() - start).count() / kCalls);
  }
  std::ranges::sort(ns);
  return Json{{"median_ns", ns[ns.size() / 2]}, {"worst_ns", ns.back()}, {"runs", ns.size()}};
}

StatusOr<Json> BenchScan(const Options& options) {
  for (int i = 0; i < options.drivers; ++i) InstallDriver(options.folder + "/drivers", i);
  Samples samples;
  for (int i = 0; i < options.runs; ++i) {
    volume::FlexProber prober(MakeProberOptions(options, fmt::format("store-{}", i)));
    const auto start = Clock::now();
    RETURN_IF_ERROR(prober.Init());
    ASSIGN_OR_RETURN(const auto list, prober.ListPlugins());
    samples.Add(Clock::now() - start);
    if (!list.has_value() || std::ssize(*list) != options.drivers) {
      return base::Error(StatusCode::kInternal, "the scan did not find all drivers");
    }
  }
  return Json{{"scan", samples.ToJson()}, {"drivers", options.drivers}};
}

double ReadCpuSeconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Makes the events at an even rate. Most are changes of a file's mode, and every 500th makes or
// removes a folder.
void MakeEvents(const Options& options, const std::vector<std::string>& files) {
  constexpr int kBatch = 100;
  const auto start = Clock::now();
  for (int i = 0; i < options.events; i += kBatch) {
    std::this_thread::sleep_until(start + seconds(options.for_seconds) * i / options.events);
    for (int j = i; j < i + kBatch; ++j) {
      const std::string& file = files[static_cast<size_t>(j) % files.size()];
      if (j % 1000 == 0) {
        mkdir((file + ".d").c_str(), 0755);
      } else if (j % 1000 == 500) {
        rmdir((file + ".d").c_str());
      } else {
        chmod(file.c_str(), j % 2 == 0 ? 0755 : 0750);
      }
    }
  }
}

StatusOr<Json> BenchStorm(const Options& options) {
  std::vector<std::string> files;
  for (int i = 0; i < 100; ++i) {
    InstallDriver(options.folder + "/drivers", i);
    files.push_back(
        fmt::format("{0}/drivers/example.com~driver-{1}/driver-{1}", options.folder, i));
  }
  volume::FlexProber prober(MakeProberOptions(options, "store"));
  std::mutex mutex;
  std::condition_variable changed;
  bool news = false;
  prober.SetOnChange([&] {
    const std::scoped_lock lock(mutex);
    news = true;
    changed.notify_all();
  });
  RETURN_IF_ERROR(prober.Init());
  RETURN_IF_ERROR(prober.ListPlugins());
  // The events come from another process, so that the CPU time of this one is the prober's.
  const pid_t pid = fork();
  if (pid == 0) {
    MakeEvents(options, files);
    _exit(0);
  }
  const double cpu = ReadCpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  const auto end = Clock::now() + seconds(options.for_seconds) + milliseconds(1500);
  int scans = 0;
  double in_scans = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex);
      if (!changed.wait_until(lock, end, [&] { return news; })) break;
      news = false;
    }
    const double before = ReadCpuSeconds(CLOCK_THREAD_CPUTIME_ID);
    ASSIGN_OR_RETURN(const auto list, prober.ListPlugins());
    if (list.has_value()) ++scans;
    in_scans += ReadCpuSeconds(CLOCK_THREAD_CPUTIME_ID) - before;
  }
  const double beside = ReadCpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - cpu - in_scans;
  waitpid(pid, nullptr, 0);
  return Json{{"scans", scans},
              {"events", options.events},
              {"cpu_percent", 100 * beside / options.for_seconds},
              {"cpu_percent_in_scans", 100 * in_scans / options.for_seconds}};
}

StatusOr<Json> BenchDiscovery(const Options& options) {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Clock::time_point> ready;
  auto made = MakeProberOptions(options, "store");
  made.make = [](auto driver, auto versions) {
    return std::make_shared<RunPlugin>(std::move(driver), std::move(versions));
  };
  std::vector<std::unique_ptr<volume::PluginProber>> probers;
  probers.push_back(std::make_unique<volume::FlexProber>(std::move(made)));
  volume::PluginRegistry registry({}, std::move(probers),
                                  {.on_state = [&](const std::string& name, const Status& state) {
                                    if (!state.ok()) return;
                                    const std::scoped_lock lock(mutex);
                                    ready.emplace(name, Clock::now());
                                    changed.notify_all();
                                  }});
  RETURN_IF_ERROR(registry.Init());
  Samples samples;
  for (int i = 0; i < options.runs; ++i) {
    const std::string name = fmt::format("example.com/driver-{}", i);
    const auto renamed = InstallDriver(options.folder + "/drivers", i);
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, seconds(30), [&] { return ready.contains(name); })) {
      return base::Error(StatusCode::kDeadlineExceeded, "'{}' is not found", name);
    }
    samples.Add(ready[name] - renamed);
  }
  registry.Stop();
  return Json{{"usable", samples.ToJson()}};
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  using berth::bench::PrintResult;
  berth::bench::Options options;
  CLI::App app("Measures the search for Flexvolume drivers");
  app.add_option("--folder", options.folder, "an empty folder for drivers and copies")->required();
  app.add_option("--drivers", options.drivers);
  app.add_option("--runs", options.runs);
  app.add_option("--events", options.events);
  app.add_option("--seconds", options.for_seconds);
  const auto* probe = app.add_subcommand("probe");
  const auto* scan = app.add_subcommand("scan");
  const auto* storm = app.add_subcommand("storm");
  app.add_subcommand("discovery");
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  std::filesystem::create_directories(options.folder + "/drivers");
  if (probe->parsed()) return PrintResult(berth::bench::BenchProbe(options));
  if (scan->parsed()) return PrintResult(berth::bench::BenchScan(options));
  if (storm->parsed()) return PrintResult(berth::bench::BenchStorm(options));
  return PrintResult(berth::bench::BenchDiscovery(options));
}
