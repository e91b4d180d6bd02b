// Measures with fio the reads and writes of a volume through an I/O proxy, and the reads and writes
// of a plain loop device of the same image, in turns; and with --qemu those through a
// qemu-storage-daemon, which shows exports of NBD servers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "bench/measure.h"
#include "block/backend.h"
#include "block/proxy/service.h"
#include "block/sizes.h"
#include "platform/files/durable_file.h"
#include "rpc/unix_socket.h"

namespace berth::bench {
namespace {

using base::Json;

struct Job {
  std::string_view name;
  std::string_view rw;
  std::string_view block;
  int depth;
};

constexpr Job kJobs[] = {{"write", "write", "1M", 1},
                         {"read", "read", "1M", 1},
                         {"deep_write", "write", "1M", 8},
                         {"deep_read", "read", "1M", 8},
                         {"random_write", "randwrite", "4k", 16},
                         {"random_read", "randread", "4k", 16}};

// Runs fio, and returns the bytes per second.
base::StatusOr<double> RunFio(platform::Exec& exec, const Job& job, const std::string& device,
                              int seconds) {
  ASSIGN_OR_RETURN(
      const std::string output,
      platform::RunOk(
          exec,
          {.argv = {"fio", "--name=proxy", "--filename=" + device, fmt::format("--rw={}", job.rw),
                    fmt::format("--bs={}", job.block), fmt::format("--iodepth={}", job.depth),
                    "--ioengine=libaio", "--direct=1", fmt::format("--runtime={}", seconds),
                    "--time_based", "--output-format=json"},
           .timeout = std::chrono::seconds(60 + seconds),
           .max_output = size_t{1} << 20}));
  ASSIGN_OR_RETURN(const Json report, base::json::Parse(output));
  const Json& jobs = base::json::Array(report, {"jobs"});
  if (jobs.empty()) return base::Error(base::StatusCode::kInternal, "fio reports no job");
  return static_cast<double>(base::json::Int(jobs.front(), {"read", "bw_bytes"}) +
                             base::json::Int(jobs.front(), {"write", "bw_bytes"}));
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// An I/O proxy in this process.
class Proxy {
 public:
  static base::StatusOr<std::unique_ptr<Proxy>> Start(block::proxy::Exports::Options options) {
    RETURN_IF_ERROR(platform::MakeFolders(options.folder));
    auto proxy = std::make_unique<Proxy>();
    proxy->socket_ = options.folder + "/sock";
    ASSIGN_OR_RETURN(proxy->exports_, block::proxy::Exports::Open(std::move(options)));
    ASSIGN_OR_RETURN(base::UniqueFd listener, rpc::ListenAt(proxy->socket_));
    proxy->server_ = block::proxy::ServeExports(*proxy->exports_, std::move(listener));
    return proxy;
  }
  const std::string& socket() const { return socket_; }

 private:
  std::string socket_;
  std::unique_ptr<block::proxy::Exports> exports_;
  std::unique_ptr<base::ipc::Server> server_;
};

base::StatusOr<Json> RunBench(const std::string& folder, int rounds, int seconds, bool with_qemu) {
  const std::string images = folder + "/images";
  RETURN_IF_ERROR(platform::MakeFolders(images));
  ASSIGN_OR_RETURN(const auto proxy, Proxy::Start({.folder = folder + "/run"}));
  ASSIGN_OR_RETURN(const auto qemu,
                   Proxy::Start({.folder = folder + "/qemu", .image_program = ""}));
  const auto exec = platform::NewHostExec();
  const auto mounter = platform::NewMounter();
  std::map<std::string, std::unique_ptr<block::Backend>> backends;
  const auto open = [&](const std::string& name, const char* access, const Proxy& by) {
    return block::OpenBackend(
        {{"images", {{"folder", images}, {"access", access}}}},
        {.exec = *exec, .mounter = *mounter, .proxy_socket = by.socket(), .node = "bench" + name});
  };
  ASSIGN_OR_RETURN(backends["loop"], open("loop", "Loop", *proxy));
  ASSIGN_OR_RETURN(backends["proxy"], open("proxy", "Proxy", *proxy));
  if (with_qemu) {
    ASSIGN_OR_RETURN(backends["qemu"], open("qemu", "Proxy", *qemu));
  }
  RETURN_IF_ERROR(backends["loop"]->Create({.name = "bench", .size_bytes = 256 * block::kMiB}));
  std::map<std::string, std::map<std::string, std::vector<double>>> rates_by_job;
  // The first round is not counted, because it allocates the blocks of the file.
  for (int round = 0; round <= rounds; ++round) {
    for (const auto& [way, backend] : backends) {
      ASSIGN_OR_RETURN(const block::Mapping mapping, backend->Map("bench", {}));
      base::Status failed;
      for (const Job& job : kJobs) {
        const auto rate = RunFio(*exec, job, mapping.device, seconds);
        if (!rate.ok()) {
          failed = rate.status();
          break;
        }
        if (round > 0) rates_by_job[std::string(job.name)][way].push_back(*rate);
      }
      RETURN_IF_ERROR(backend->Unmap(mapping));
      RETURN_IF_ERROR(failed);
    }
  }
  Json result = {{"rounds", rounds}};
  for (const auto& [job, rates] : rates_by_job) {
    const double loop = MedianOf(rates.at("loop"));
    const double proxied = MedianOf(rates.at("proxy"));
    result[job] = {{"loop_mib", loop / block::kMiB},
                   {"proxy_mib", proxied / block::kMiB},
                   {"ratio", proxied / loop}};
    if (with_qemu) result[job]["qemu_mib"] = MedianOf(rates.at("qemu")) / block::kMiB;
  }
  return result;
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  CLI::App app("Reads and writes through the I/O proxy, beside a plain loop device");
  std::string folder;
  int rounds = 5;
  int seconds = 2;
  bool with_qemu = false;
  app.add_option("--folder", folder, "An empty folder on the disk that is measured")->required();
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 100));
  app.add_option("--seconds", seconds)->check(CLI::Range(1, 60));
  app.add_flag("--qemu", with_qemu, "Measure a qemu-storage-daemon, too");
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunBench(folder, rounds, seconds, with_qemu));
}
