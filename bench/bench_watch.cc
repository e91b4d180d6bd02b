// Measures the time from an object's creation to its event at each of 1,000 watchers of its kind,
// and at a single one.

#include <sys/epoll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "api/kind_info.h"
#include "bench/http.h"
#include "bench/measure.h"
#include "kube/config.h"
#include "kube/http/http_client.h"
#include "platform/limits.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

struct Options {
  std::string socket;
  int watchers = 1000;
  int runs = 30;
  int warm_up = 3;
};

constexpr const char* kNamespace = "default";

class Watchers {
 public:
  static StatusOr<Watchers> Start(const std::string& socket, int count) {
    Watchers watchers;
    watchers.epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
    // The watches begin at the present revision, so that they do not report objects that exist
    // already.
    ASSIGN_OR_RETURN(Http lister, Http::ConnectUnix(socket));
    ASSIGN_OR_RETURN(const std::string_view list, lister.Get("/api/v1/configmaps?limit=1"));
    const std::string target = fmt::format("/api/v1/configmaps?watch=1&resourceVersion={}",
                                           FindLastMember(list, "resourceVersion"));
    for (int i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(Http connection, Http::ConnectUnix(socket));
      RETURN_IF_ERROR(connection.Watch(target));
      epoll_event event = {.events = EPOLLIN, .data = {.fd = connection.fd()}};
      if (epoll_ctl(watchers.epoll_.get(), EPOLL_CTL_ADD, connection.fd(), &event) != 0) {
        return base::Error(StatusCode::kInternal, "epoll_ctl: errno {}", errno);
      }
      watchers.connections_.push_back(std::move(connection));
    }
    return watchers;
  }

  // Reads until every watcher has got the event of the object `name`, and adds the time of each
  // since `start` to `samples`, which may be null.
  Status AwaitEvents(const std::string& name, Clock::time_point start, Samples* samples) {
    const std::string quoted = fmt::format("\"{}\"", name);
    std::set<int> missing;
    for (const Http& connection : connections_) missing.insert(connection.fd());
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    while (!missing.empty()) {
      std::array<epoll_event, 256> events;
      const int ready = epoll_wait(epoll_.get(), events.data(), events.size(), 1000);
      if (Clock::now() > deadline) {
        return base::Error(StatusCode::kDeadlineExceeded, "{} watchers did not see '{}'",
                           missing.size(), name);
      }
      for (int i = 0; i < ready; ++i) {
        const int fd = events[static_cast<size_t>(i)].data.fd;
        ASSIGN_OR_RETURN(const std::string_view text, ReadEvents(fd));
        if (text.find(quoted) == std::string_view::npos || missing.erase(fd) == 0) continue;
        if (samples != nullptr) samples->Add(Clock::now() - start);
      }
    }
    return base::OkStatus();
  }

 private:
  // Reads what a watcher has received. One read holds a whole event, because events are small.
  StatusOr<std::string_view> ReadEvents(int fd) {
    const ssize_t n = read(fd, buffer_.data(), buffer_.size());
    if (n <= 0) return base::Error(StatusCode::kUnavailable, "the server ended a watch");
    return std::string_view(buffer_.data(), static_cast<size_t>(n));
  }

  base::UniqueFd epoll_;
  std::vector<Http> connections_;
  std::vector<char> buffer_ = std::vector<char>(64 * 1024);
};

StatusOr<Samples> MeasureEvents(kube::Client& client, const Options& options, int count) {
  ASSIGN_OR_RETURN(Watchers watchers, Watchers::Start(options.socket, count));
  Samples samples;
  for (int i = 0; i < options.warm_up + options.runs; ++i) {
    const std::string name = fmt::format("bench-watch-{}-{}", count, i);
    const auto start = Clock::now();
    // The object is created on another thread, because its events may come before the answer.
    Status created = base::OkStatus();
    std::jthread writer([&] {
      created = client
                    .Create(api::kinds::kConfigMap, kNamespace,
                            {{"apiVersion", "v1"},
                             {"kind", "ConfigMap"},
                             {"metadata", {{"name", name}}},
                             {"data", {{"key", std::string(200, 'v')}}}})
                    .status();
    });
    RETURN_IF_ERROR(watchers.AwaitEvents(name, start, i < options.warm_up ? nullptr : &samples));
    writer.join();
    RETURN_IF_ERROR(created);
    RETURN_IF_ERROR(client.Delete(api::kinds::kConfigMap, kNamespace, name, {}));
  }
  return samples;
}

StatusOr<Json> RunBench(const Options& options) {
  RETURN_IF_ERROR(platform::RaiseDescriptorLimit());
  kube::Config config;
  config.socket = options.socket;
  ASSIGN_OR_RETURN(const auto client, kube::NewHttpClient(config));
  ASSIGN_OR_RETURN(const Samples one, MeasureEvents(*client, options, 1));
  ASSIGN_OR_RETURN(const Samples many, MeasureEvents(*client, options, options.watchers));
  return Json{{"one", one.ToJson()}, {"many", many.ToJson()}, {"watchers", options.watchers}};
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  berth::bench::Options options;
  CLI::App app("Watch events at many watchers");
  app.add_option("--socket", options.socket)->required();
  app.add_option("--watchers", options.watchers);
  app.add_option("--runs", options.runs);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunBench(options));
}
