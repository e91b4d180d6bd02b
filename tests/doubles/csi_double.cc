// A CSI driver that serves working volumes (folders) and is wrong on command: each rule of the
// specification that it can break is a switch (csi_rules.cc), set at run time by a file.
//
//   csi_double --list
//   csi_double --endpoint SOCKET --data FOLDER [--switches FILE] [--calls FILE] ...
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "base/log.h"
#include "csi_rules.h"
#include "proto/csi.grpc.pb.h"
#include "rpc/csi_client.h"
#include "rpc/outcome.h"
#include "rpc/registration_client.h"
#include "rpc/unix_server.h"
#include "wrong_driver.h"

namespace berth::doubles {
namespace {

struct Options {
  std::string endpoint, data, switches, calls, registration_folder, fuse_program;
  std::vector<std::string> share;  // source and type of the share that every volume is
  std::string name = "double.csi.example.com";
  std::string node_id = "node-a";
  std::string other_node = "node-b";
};

// One line for each call, when it begins and when it ends.
class CallLog {
 public:
  explicit CallLog(const std::string& file) : file_(file, std::ios::app) {}
  void Write(std::string_view event, std::string_view method, const std::string& volume) {
    base::MutexLock lock(mutex_);
    file_ << event << ' ' << method << ' ' << (volume.empty() ? "-" : volume) << std::endl;
  }

 private:
  base::Mutex mutex_;
  std::ofstream file_ ABSL_GUARDED_BY(mutex_);
};

template <typename Request>
std::string VolumeOf(const Request& request) {
  if constexpr (requires { request.volume_id(); }) return request.volume_id();
  if constexpr (requires { request.name(); }) return request.name();
  return "";
}

class Services : public csi::v1::Identity::Service,
                 public csi::v1::Controller::Service,
                 public csi::v1::Node::Service {
 public:
  Services(WorkingDriver& driver, const Switches& switches, CallLog& calls)
      : wrong_(driver), switches_(switches), calls_(calls) {}

#define BERTH_SERVE(service, rpc)                                                      \
  grpc::Status rpc(grpc::ServerContext* context, const csi::v1::rpc##Request* request, \
                   csi::v1::rpc##Response* response) override {                        \
    return Serve(*context, #rpc, *request, *response);                                 \
  }
  BERTH_CSI_RPCS(BERTH_SERVE)
#undef BERTH_SERVE

  std::vector<grpc::Service*> All() {
    return {static_cast<csi::v1::Identity::Service*>(this),
            static_cast<csi::v1::Controller::Service*>(this),
            static_cast<csi::v1::Node::Service*>(this)};
  }

 private:
  template <typename Request, typename Response>
  grpc::Status Serve(grpc::ServerContext& context, const std::string& method,
                     const Request& request, Response& response) {
    calls_.Write("begin", method, VolumeOf(request));
    for (const char* rule : {"hangs", "late"}) {
      if (!switches_.Read()(rule, method)) continue;
      const bool gave_up = WaitForCaller(context, rule, method);
      if (gave_up && std::string_view(rule) == "hangs") return grpc::Status::CANCELLED;
    }
    const Switches::On on = switches_.Read();
    const base::Status status = wrong_.Handle(on, request, response);
    calls_.Write(status.ok() ? "done" : "failed", method, VolumeOf(request));
    if (on("dies", method)) _exit(1);
    if (on("loses-answers", method) && status.ok()) return {grpc::StatusCode::UNAVAILABLE, "lost"};
    if (on("aborted-forever", method)) return {grpc::StatusCode::ABORTED, "a call is pending"};
    if (on("unknown-code", method)) return {static_cast<grpc::StatusCode>(42), "forty-two"};
    const grpc::Status answer = rpc::ToGrpc(status);
    if (answer.ok()) return answer;
    if (on("error-without-message")) return {answer.error_code(), ""};
    if (on("error-with-details")) return {answer.error_code(), answer.error_message(), "details"};
    return answer;
  }

  // True: the caller gave up. False: the switch was taken back.
  bool WaitForCaller(grpc::ServerContext& context, const char* rule, const std::string& method) {
    while (!context.IsCancelled()) {
      if (!switches_.Read()(rule, method)) return false;
      // It polls, because neither the file nor gRPC's blocking API reports a change by itself.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  WrongDriver wrong_;
  const Switches& switches_;
  CallLog& calls_;
};

void List() {
  for (const Rule& rule : Rules()) {
    fmt::print("{}{}\t{}\t{}\t{}\n", rule.name, rule.per_method ? ":METHOD" : "", rule.section,
               rule.rule, rule.wrong);
  }
}

base::Status Run(const Options& options) {
  rpc::FakeCsiState::Options state;
  state.name = options.name;
  state.node_id = options.node_id;
  state.topology = {{options.name + "/zone", "here"}};
  if (!options.share.empty()) {
    state.node_capabilities.insert(rpc::FakeCsiState::NodeRpc::RUNTIME_ASSISTED_MOUNT);
  }
  state.controller_capabilities.insert(rpc::FakeCsiState::ControllerRpc::MODIFY_VOLUME);
  WorkingDriver driver(state, {options.node_id, options.other_node}, options.data);
  driver.StageByFuse(options.fuse_program);
  if (!options.share.empty()) {
    csi::v1::FileSystemMountInfo share;
    share.set_source(options.share.at(0));
    share.set_type(options.share.at(1));
    driver.DeferShare(std::move(share));
  }
  // The kernel reaps the FUSE servers, because nothing here waits for them.
  if (!options.fuse_program.empty()) signal(SIGCHLD, SIG_IGN);
  const Switches switches(options.switches);
  CallLog calls(options.calls.empty() ? "/dev/null" : options.calls);
  Services services(driver, switches, calls);

  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  ASSIGN_OR_RETURN(const auto server, rpc::UnixServer::Start(options.endpoint, services.All()));
  std::unique_ptr<rpc::RegistrationServer> registration;
  if (!options.registration_folder.empty()) {
    ASSIGN_OR_RETURN(registration,
                     rpc::RegistrationServer::Start(
                         fmt::format("{}/{}-reg.sock", options.registration_folder, options.name),
                         options.name, options.endpoint));
  }
  LOG_INFO("the double serves at {}", options.endpoint);
  int signal = 0;
  sigwait(&stop, &signal);
  return base::OkStatus();
}

}  // namespace
}  // namespace berth::doubles

int main(int argc, char** argv) {
  CLI::App app("A CSI driver that is wrong on command");
  berth::doubles::Options options;
  bool list = false;
  app.add_flag("--list", list, "Name, section, rule and what is done instead, by tabs");
  app.add_option("--endpoint", options.endpoint, "Socket to serve on");
  app.add_option("--data", options.data, "Folder of the volumes");
  app.add_option("--switches", options.switches, "File of switches, one a line");
  app.add_option("--calls", options.calls, "File to which each call is written");
  app.add_option("--registration-folder", options.registration_folder, "plugins_registry");
  app.add_option("--stage-by-fuse", options.fuse_program,
                 "Volumes are staged by this program, fuse_double");
  app.add_option("--defer-share", options.share,
                 "SOURCE TYPE: each volume is this share, which a sandbox's runtime mounts")
      ->expected(2);
  app.add_option("--name", options.name, "Name of the driver")->capture_default_str();
  app.add_option("--node-id", options.node_id, "This node's id")->capture_default_str();
  app.add_option("--other-node", options.other_node, "A second node's id")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  berth::base::InitLogging("csi-double", 0);
  if (list) {
    berth::doubles::List();
    return 0;
  }
  const berth::base::Status status = berth::doubles::Run(options);
  if (!status.ok()) LOG_ERROR("{}", berth::base::ToString(status));
  return status.ok() ? 0 : 1;
}
