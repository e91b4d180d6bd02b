// Creates very many objects, or reads all of them as informers do. Meanwhile bench/run measures the
// server's memory.

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>

#include "bench/http.h"
#include "bench/measure.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusOr;

struct Options {
  std::string socket;
  int create = 0;   // objects to make
  int readers = 1;  // informers at once
  int page = 500;   // objects in a page, as in client-go's reflector; 0: the whole list at once
};

constexpr int kWriters = 64;

Status CreateObjects(const Options& options) {
  std::atomic<int> next{0};
  std::vector<Status> results(kWriters);
  {
    std::vector<std::jthread> threads;
    for (Status& result : results) {
      threads.emplace_back([&] {
        auto http = Http::ConnectUnix(options.socket);
        result = http.status();
        for (int n; result.ok() && (n = next++) < options.create;) {
          const Json object = {{"apiVersion", "v1"},
                               {"kind", "ConfigMap"},
                               {"metadata", {{"name", fmt::format("many-{}", n)}}},
                               {"data", {{"key", std::string(300, 'v')}}}};
          result = http->Post("/api/v1/namespaces/default/configmaps", base::json::Dump(object))
                       .status();
        }
      });
    }
  }
  for (const Status& result : results) RETURN_IF_ERROR(result);
  return base::OkStatus();
}

// Reads all pages of a list, as one reflector does. Returns the number of bytes.
StatusOr<size_t> ReadAllPages(const Options& options) {
  ASSIGN_OR_RETURN(Http http, Http::ConnectUnix(options.socket));
  size_t bytes = 0;
  std::string token;
  do {
    ASSIGN_OR_RETURN(const std::string_view body,
                     http.Get(fmt::format("/api/v1/configmaps?limit={}{}{}", options.page,
                                          token.empty() ? "" : "&continue=", token)));
    bytes += body.size();
    token = FindLastMember(body, "continue");
  } while (!token.empty());
  return bytes;
}

StatusOr<Json> RunBench(const Options& options) {
  if (options.create > 0) {
    RETURN_IF_ERROR(CreateObjects(options));
    return Json{{"created", options.create}};
  }
  std::vector<StatusOr<size_t>> results(static_cast<size_t>(options.readers), size_t{0});
  const auto start = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back([&result, &options] { result = ReadAllPages(options); });
    }
  }
  for (const auto& result : results) RETURN_IF_ERROR(result);
  return Json{{"bytes", *results.front()},
              {"seconds", std::chrono::duration<double>(Clock::now() - start).count()}};
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  berth::bench::Options options;
  CLI::App app("Reading very many objects");
  app.add_option("--socket", options.socket)->required();
  app.add_option("--create", options.create);
  app.add_option("--readers", options.readers);
  app.add_option("--page", options.page);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunBench(options));
}
