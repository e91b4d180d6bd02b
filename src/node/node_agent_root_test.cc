// The node agent with a real containerd (tools/own_containerd), against an API in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <future>

#include "kube/fake_client.h"
#include "node/node_agent.h"
#include "platform/files/durable_file.h"
#include "platform/files/watch_folder.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "rpc/cri_client.h"

namespace berth::node {
namespace {

using base::Json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace json = base::json;
namespace cri = rpc::cri;

constexpr char kImage[] = "berth.local/busybox:1";

class NoEvents : public base::EventSink {
 public:
  void Record(const base::ObjectReference& object, base::EventType type, std::string_view reason,
              std::string_view message) override {
    if (type == base::EventType::kWarning)
      fmt::print("event: {} {}: {}\n", object.name, reason, message);
  }
};

// <checkout>/tools/own_containerd, from <checkout>/build/PRESET/bin/THIS.
std::string OwnContainerd() {
  char self[PATH_MAX] = {};
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) return "";
  const std::string path(self);
  const size_t build = path.rfind("/build/");
  return build == std::string::npos ? "" : path.substr(0, build) + "/tools/own_containerd";
}

class NodeAgentRootTest : public ::testing::Test {
 protected:
  // One containerd for all tests: it takes a second to start.
  static void SetUpTestSuite() {
    exec_ = platform::NewHostExec().release();
    char folder[] = "/tmp/bctrXXXXXX";
    const std::string tool = OwnContainerd();
    if (geteuid() != 0 || access("/usr/bin/containerd", X_OK) != 0 ||
        access(tool.c_str(), X_OK) != 0 || mkdtemp(folder) == nullptr) {
      return;
    }
    const auto started =
        platform::RunOk(*exec_, {.argv = {tool, "start", folder}, .timeout = seconds(90)});
    ASSERT_TRUE(started.ok()) << base::ToString(started.status());
    containerd_ = folder;
  }
  static void TearDownTestSuite() {
    if (!containerd_.empty()) {
      const auto stopped = platform::RunOk(
          *exec_, {.argv = {OwnContainerd(), "stop", containerd_}, .timeout = seconds(90)});
      EXPECT_TRUE(stopped.ok()) << base::ToString(stopped.status());
      EXPECT_TRUE(platform::RemoveTree(containerd_).ok());
    }
    delete exec_;
  }

  void SetUp() override {
    if (containerd_.empty())
      GTEST_SKIP() << "skipped: needs root, containerd and tools/own_containerd";
    char folder[] = "/tmp/bagtXXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    auto direct = rpc::CriClient::New(containerd_ + "/containerd.sock");
    ASSERT_TRUE(direct.ok());
    direct_ = *std::move(direct);
    StartAgent();
  }
  void TearDown() override {
    if (folder_.empty()) return;
    for (const Json& pod : client_.PeekAll(api::kinds::kPod))
      Delete(json::String(pod, {"metadata", "name"}), 2);
    EXPECT_TRUE(
        client_.WaitUntil([&] { return client_.PeekAll(api::kinds::kPod).empty(); }, seconds(30)));
    // A pod that has ended goes from the API at once, and from the node thereafter.
    EXPECT_TRUE(WaitEmpty(folder_ + "/node/pods"));
    StopAgent();
    EXPECT_THAT(MountsBelow(folder_), IsEmpty());
    EXPECT_TRUE(platform::RemoveTree(folder_).ok());
  }

  static bool WaitEmpty(const std::string& folder) {
    std::promise<void> empty;
    bool told = false;
    const auto watch = platform::WatchFolder(folder, [&] {
      const auto names = platform::ListFolder(folder);
      if (names.ok() && names->empty() && !std::exchange(told, true)) empty.set_value();
    });
    return watch.ok() && empty.get_future().wait_for(seconds(30)) == std::future_status::ready;
  }

  void StartAgent(CriListWaits lists = {}) {
    informers_ = std::make_unique<kube::Informers>(client_);
    auto agent = NodeAgent::Start({.node_name = "node-a",
                                   .data_folder = folder_ + "/node",
                                   .kubelet_folder = folder_ + "/kubelet",
                                   .cri_endpoint = "unix://" + containerd_ + "/containerd.sock",
                                   .cri_lists = lists,
                                   .node_sockets = folder_ + "/run",
                                   .log_folder = folder_ + "/logs"},
                                  client_, *informers_, events_, clock_,
                                  [](volume::Host&) { return NodeAgent::Plugins(); });
    ASSERT_TRUE(agent.ok()) << base::ToString(agent.status());
    agent_ = *std::move(agent);
    informers_->Start();
  }
  void StopAgent() {
    agent_->Stop();
    informers_->Stop();
    agent_.reset();
    informers_.reset();
  }

  static std::vector<std::string> MountsBelow(const std::string& folder) {
    std::vector<std::string> out;
    const auto table = platform::NewMounter()->List();
    for (const platform::MountEntry& entry : *table) {
      if (entry.mount_point.starts_with(folder)) out.push_back(entry.mount_point);
    }
    return out;
  }

  std::string Add(const std::string& name, const std::string& script, Json spec = Json::object()) {
    Json container = {{"name", "main"}, {"image", kImage}, {"command", {"/bin/sh", "-c", script}}};
    if (spec.contains("container")) {
      container.update(spec["container"]);
      spec.erase("container");
    }
    spec["nodeName"] = "node-a";
    spec["containers"] = Json::array({container});
    return json::String(client_.Add({{"apiVersion", "v1"},
                                     {"kind", "Pod"},
                                     {"metadata", {{"name", name}, {"namespace", "default"}}},
                                     {"spec", spec},
                                     {"status", {{"phase", "Pending"}}}}),
                        {"metadata", "uid"});
  }
  void Delete(const std::string& name, int64_t grace) {
    (void)client_.Delete(api::kinds::kPod, "default", name, {.grace_period_seconds = grace});
  }
  Json PodNow(const std::string& name) { return client_.Peek(api::kinds::kPod, "default", name); }
  bool WaitPhase(const std::string& name, const std::string& phase) {
    const bool ok = client_.WaitUntil(
        [&] { return json::String(PodNow(name), {"status", "phase"}) == phase; }, seconds(30));
    if (!ok) ADD_FAILURE() << PodNow(name).dump(1);
    return ok;
  }
  Json ContainerOf(const std::string& name) {
    const Json pod = PodNow(name);
    const Json& list = json::Array(pod, {"status", "containerStatuses"});
    return list.empty() ? Json::object() : list[0];
  }

  // The answer of the node's socket, up to `part` or its end.
  std::string AskServer(const std::string& request, const std::string& part) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder_ + "/run/node-a.sock").copy(address.sun_path, sizeof(address.sun_path) - 1);
    const base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      return "no socket";
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
    std::string out;
    char block[4096];
    while (part.empty() || out.find(part) == std::string::npos) {
      const ssize_t size = recv(fd.get(), block, sizeof(block), 0);
      if (size <= 0) break;
      out.append(block, static_cast<size_t>(size));
    }
    return out;
  }

  static platform::Exec* exec_;
  static std::string containerd_;
  std::string folder_;
  base::SystemClock clock_;
  NoEvents events_;
  kube::FakeClient client_;
  std::unique_ptr<kube::Informers> informers_;
  std::unique_ptr<NodeAgent> agent_;
  std::unique_ptr<rpc::CriClient> direct_;
};

platform::Exec* NodeAgentRootTest::exec_ = nullptr;
std::string NodeAgentRootTest::containerd_;

TEST_F(NodeAgentRootTest, RunsAPodWithItsOwnNetworkAndRemovesEverything) {
  const std::string uid = Add(
      "web", "echo \"I am $(hostname) as $WHO\"; grep web /etc/hosts; exec sleep 1000",
      {{"container",
        {{"env",
          {{{"name", "WHO"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.name"}}}}}}}}}}});
  ASSERT_TRUE(WaitPhase("web", "Running"));
  EXPECT_THAT(json::String(PodNow("web"), {"status", "podIP"}), ::testing::StartsWith("10.213."));
  const std::string ip = json::String(PodNow("web"), {"status", "podIP"});
  const std::string log = AskServer(
      "GET /containerLogs/default/web/" + uid + "/main?follow=1 HTTP/1.1\r\nHost: n\r\n\r\n", ip);
  EXPECT_THAT(log, HasSubstr("I am web as web\n"));
  EXPECT_THAT(log, HasSubstr(ip + "\tweb"));
  EXPECT_THAT(json::String(ContainerOf("web"), {"containerID"}),
              ::testing::StartsWith("containerd://"));

  Delete("web", 2);
  ASSERT_TRUE(client_.WaitUntil([&] { return PodNow("web").is_null(); }, seconds(30)));
  EXPECT_EQ(direct_->ListPodSandbox(cri::ListPodSandboxRequest(), seconds(10))->items_size(), 0);
  EXPECT_EQ(direct_->ListContainers(cri::ListContainersRequest(), seconds(10))->containers_size(),
            0);
  EXPECT_FALSE(platform::ListFolder(folder_ + "/kubelet/pods/" + uid).ok());
}

TEST_F(NodeAgentRootTest, RunsACommandInAContainer) {
  const std::string uid = Add("web", "exec sleep 1000", {{"hostNetwork", true}});
  ASSERT_TRUE(WaitPhase("web", "Running"));
  const std::string answer =
      AskServer("GET /exec/default/web/" + uid +
                    "/main?command=echo&command=hello%20there&stdout=1&stderr=1 HTTP/1.1\r\n"
                    "Host: n\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
                    "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n",
                "Success");
  EXPECT_THAT(answer, HasSubstr("101 Switching Protocols"));
  EXPECT_THAT(answer, HasSubstr("hello there"));
}

TEST_F(NodeAgentRootTest, TellsAnExitAtOnceWithItsMessage) {
  Add("job", "sleep 0.3; echo the reason >/dev/termination-log; exit 3",
      {{"hostNetwork", true}, {"restartPolicy", "Never"}});
  ASSERT_TRUE(WaitPhase("job", "Failed"));
  const Json status = ContainerOf("job");
  EXPECT_EQ(json::Int(status, {"state", "terminated", "exitCode"}), 3);
  EXPECT_EQ(json::String(status, {"state", "terminated", "message"}), "the reason\n");
  EXPECT_EQ(json::String(status, {"state", "terminated", "reason"}), "Error");
}

TEST_F(NodeAgentRootTest, NoticesTheEndOfAContainerWithoutWaitingForAPoll) {
  StopAgent();
  // After two lists, the last of them 2 s after a change, no further list comes before the test
  // gives up. The end of the container's process is a change.
  StartAgent({.longest = std::chrono::hours(1), .growth = 1000});
  Add("job", "sleep 5; exit 0", {{"hostNetwork", true}, {"restartPolicy", "Never"}});
  ASSERT_TRUE(WaitPhase("job", "Running"));
  EXPECT_TRUE(WaitPhase("job", "Succeeded"));
}

TEST_F(NodeAgentRootTest, TakesAPodOnAfterARestartAndRestartsItsContainer) {
  const std::string uid = Add("web", "sleep 4; exit 1", {{"hostNetwork", true}});
  ASSERT_TRUE(WaitPhase("web", "Running"));
  const std::string first = json::String(ContainerOf("web"), {"containerID"});
  StopAgent();
  StartAgent();
  ASSERT_TRUE(client_.WaitUntil(
      [&] { return json::Int(ContainerOf("web"), {"restartCount"}) == 1; }, seconds(20)))
      << PodNow("web").dump(1);
  EXPECT_NE(json::String(ContainerOf("web"), {"containerID"}), first);
  EXPECT_EQ(direct_->ListPodSandbox(cri::ListPodSandboxRequest(), seconds(10))->items_size(), 1);
}

}  // namespace
}  // namespace berth::node
