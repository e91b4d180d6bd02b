#include "node/pods/container_probes.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace berth::node {
namespace {

class NoEvents : public base::EventSink {
 public:
  void Record(const base::ObjectReference&, base::EventType, std::string_view,
              std::string_view) override {}
};

// Waits until the descriptor can be read; false: ten seconds have passed.
bool WaitReadable(int fd) {
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&wanted, 1, 10'000) == 1;
}

// A tenant chooses how long a probe waits for an answer.
TEST(ContainerProbesTest, AProbeEndsWithItsContainer) {
  const base::UniqueFd silent(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(silent.get(), raw, size), 0);
  ASSERT_EQ(listen(silent.get(), 1), 0);
  ASSERT_EQ(getsockname(silent.get(), raw, &size), 0);

  auto cri = rpc::CriClient::New("/no/runtime.sock");
  ASSERT_TRUE(cri.ok());
  NoEvents events;
  ContainerProbes probes(**cri, events, [](const std::string&) {});
  probes.Start();
  const api::Container container(base::Json{
      {"name", "main"},
      {"readinessProbe",
       {{"httpGet", {{"port", ntohs(address.sin_port)}}}, {"timeoutSeconds", 2'000'000'000}}}});
  const api::Pod pod(base::Json{{"metadata", {{"name", "p"}, {"namespace", "n"}, {"uid", "u"}}}});
  probes.FollowContainer(pod, container, ContainerId("c"), "127.0.0.1");
  ASSERT_TRUE(WaitReadable(silent.get()));
  const base::UniqueFd connection(accept4(silent.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::string request(4096, '\0');
  ASSERT_GT(recv(connection.get(), request.data(), request.size(), 0), 0);

  probes.RetainContainers(api::PodUid("u"), {});
  ASSERT_TRUE(WaitReadable(connection.get())) << "the probe still waits";
  EXPECT_EQ(recv(connection.get(), request.data(), request.size(), 0), 0);
  probes.Stop();
}

}  // namespace
}  // namespace berth::node
