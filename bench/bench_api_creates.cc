// Measures the durable creates per second of the embedded API, over TLS with 64 keep-alive clients.
// Then it measures the inserts per second of SQLite alone, in transactions of 64 rows of the same
// size.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>

#include "base/ids.h"
#include "bench/http.h"
#include "bench/measure.h"
#include "kube/config.h"
#include "store/revision_table.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusOr;

struct Options {
  std::string kubeconfig;
  std::string folder;  // on the disk of the API's database
  int clients = 64;
  int seconds = 5;
};

std::string MakeConfigMap(int client, int index) {
  return base::json::Dump({{"apiVersion", "v1"},
                           {"kind", "ConfigMap"},
                           {"metadata",
                            {{"name", fmt::format("bench-{}-{}-{}", getpid(), client, index)},
                             {"labels", {{"app", "bench"}}}}},
                           {"data", {{"key", std::string(200, 'v')}}}});
}

StatusOr<double> MeasureApiCreates(const Options& options) {
  ASSIGN_OR_RETURN(const kube::Config config, kube::LoadKubeconfig(options.kubeconfig));
  std::atomic<int64_t> created{0};
  std::atomic<bool> measuring{false}, stop{false};
  std::atomic<int> failed{0};
  std::vector<std::jthread> threads;
  for (int c = 0; c < options.clients; ++c) {
    threads.emplace_back([&, c] {
      // Each thread has its own client, and so its own connection.
      auto http = Http::ConnectTls(config);
      if (!http.ok()) ++failed;
      for (int i = 0; http.ok() && !stop; ++i) {
        if (!http->Post("/api/v1/namespaces/default/configmaps", MakeConfigMap(c, i)).ok())
          ++failed;
        if (measuring) ++created;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));  // connections are made, caches are warm
  measuring = true;
  const auto start = Clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(options.seconds));
  measuring = false;
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  const auto total = static_cast<double>(created.load());
  stop = true;
  threads.clear();
  if (failed > 0) {
    return base::Error(base::StatusCode::kInternal, "{} creates failed", failed.load());
  }
  return total / took;
}

StatusOr<double> MeasureSqliteInserts(const Options& options) {
  const std::string path = fmt::format("{}/bench-{}.db", options.folder, base::NewUuid());
  double rate = 0;
  const Status measured = [&]() -> Status {
    ASSIGN_OR_RETURN(auto table, store::RevisionTable::OpenWriter(path));
    // The value is as large as the server's, which fills in metadata.
    const std::string value = MakeConfigMap(0, 0) + std::string(150, ' ');
    int64_t rows = 0;
    const auto start = Clock::now();
    while (Clock::now() - start < std::chrono::seconds(options.seconds)) {
      RETURN_IF_ERROR(table->BeginTransaction());
      for (int i = 0; i < options.clients; ++i) {
        const std::string key = fmt::format("/configmaps/default/bench-{}", rows++);
        RETURN_IF_ERROR(table->Find(key));
        RETURN_IF_ERROR(table->Append(key, 0, false, value));
      }
      RETURN_IF_ERROR(table->CommitTransaction());
    }
    rate = static_cast<double>(rows) / std::chrono::duration<double>(Clock::now() - start).count();
    return base::OkStatus();
  }();
  for (const char* suffix : {"", "-wal", "-shm"}) unlink((path + suffix).c_str());
  RETURN_IF_ERROR(measured);
  return rate;
}

StatusOr<Json> RunBench(const Options& options) {
  ASSIGN_OR_RETURN(const double api, MeasureApiCreates(options));
  ASSIGN_OR_RETURN(const double sqlite, MeasureSqliteInserts(options));
  return Json{{"api_creates_per_second", api}, {"sqlite_inserts_per_second", sqlite}};
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  berth::bench::Options options;
  CLI::App app("Durable creates a second");
  app.add_option("--kubeconfig", options.kubeconfig)->required();
  app.add_option("--folder", options.folder)->required();
  app.add_option("--clients", options.clients);
  app.add_option("--seconds", options.seconds);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunBench(options));
}
