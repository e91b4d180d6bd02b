// Measures the durable puts per second of an etcd, from 64 clients with a connection each, with
// values as large as the objects of bench_api_creates. `etcd benchmark put` does the same.

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <atomic>

#include "bench/etcd.grpc.pb.h"
#include "bench/measure.h"

namespace berth::bench {
namespace {

using base::Json;
using base::StatusCode;
using base::StatusOr;

struct Options {
  std::string endpoint;
  int clients = 64;
  int seconds = 5;
  int value_bytes = 700;
};

StatusOr<Json> RunBench(const Options& options) {
  std::atomic<int64_t> put{0};
  std::atomic<int> failed{0};
  std::atomic<bool> measuring{false}, stop{false};
  std::vector<std::jthread> threads;
  for (int c = 0; c < options.clients; ++c) {
    threads.emplace_back([&, c] {
      grpc::ChannelArguments arguments;
      arguments.SetInt("bench.client", c);  // otherwise all clients would share one connection
      const auto stub = etcdserverpb::KV::NewStub(grpc::CreateCustomChannel(
          options.endpoint, grpc::InsecureChannelCredentials(), arguments));
      etcdserverpb::PutRequest request;
      request.set_value(std::string(static_cast<size_t>(options.value_bytes), 'v'));
      for (int i = 0; !stop; ++i) {
        request.set_key(fmt::format("/registry/configmaps/default/bench-{}-{}", c, i));
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
        etcdserverpb::PutResponse response;
        if (!stub->Put(&context, request, &response).ok()) ++failed;
        if (measuring) ++put;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  measuring = true;
  const auto start = Clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(options.seconds));
  measuring = false;
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  const auto total = static_cast<double>(put.load());
  stop = true;
  threads.clear();
  if (failed > 0) return base::Error(StatusCode::kInternal, "{} puts failed", failed.load());
  return Json{{"etcd_puts_per_second", total / took}};
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  berth::bench::Options options;
  CLI::App app("Durable puts a second of an etcd");
  app.add_option("--endpoint", options.endpoint)->required();
  app.add_option("--clients", options.clients);
  app.add_option("--seconds", options.seconds);
  app.add_option("--value-bytes", options.value_bytes);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunBench(options));
}
