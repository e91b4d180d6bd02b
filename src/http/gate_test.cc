#include "http/gate.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <deque>
#include <optional>
#include <thread>

namespace berth::http {
namespace {

// A listener on a free port of this host, which clients of 127.0.0.2 use.
class GateTest : public testing::Test {
 protected:
  void Open(const ArrivalLimits& limits) {
    base::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = AddressOf("127.0.0.1");
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener.get(), 512), 0);
    socklen_t size = sizeof(address);
    ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = address.sin_port;
    gate_.emplace(std::move(listener),
                  Gate::Options{.name = "test", .limits = limits, .local_clients_by_user = false},
                  [this](base::UniqueFd socket, std::string key) {
                    base::MutexLock lock(mutex_);
                    admitted_.push_back(std::move(socket));
                    keys_.push_back(std::move(key));
                    changed_.NotifyAll();
                  });
  }

  base::UniqueFd Connect() {
    base::UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in from = AddressOf("127.0.0.2");
    EXPECT_EQ(bind(client.get(), reinterpret_cast<sockaddr*>(&from), sizeof(from)), 0);
    sockaddr_in to = AddressOf("127.0.0.1");
    to.sin_port = port_;
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return client;
  }

  // Waits until the gate has closed the connection.
  static bool IsRefused(const base::UniqueFd& client) {
    pollfd fd = {.fd = client.get(), .events = POLLIN, .revents = 0};
    return poll(&fd, 1, 60'000) == 1 && (fd.revents & (POLLERR | POLLHUP)) != 0;
  }

  void WaitForAdmitted(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    base::MutexLock lock(mutex_);
    while (admitted_.size() < count && changed_.WaitUntil(mutex_, deadline)) {
    }
    ASSERT_EQ(admitted_.size(), count);
  }

  std::optional<Gate> gate_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<base::UniqueFd> admitted_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> keys_ ABSL_GUARDED_BY(mutex_);

 private:
  static sockaddr_in AddressOf(const char* text) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
  }

  in_port_t port_ = 0;
};

TEST_F(GateTest, ResetsWhoComesTooOften) {
  Open({.per_second = 1e-9, .burst = 2});
  std::deque<base::UniqueFd> clients;
  for (size_t i = 1; i <= 2; ++i) {
    clients.push_back(Connect());
    WaitForAdmitted(i);
    gate_->AdmitNext();
  }
  EXPECT_TRUE(IsRefused(Connect()));
  EXPECT_EQ(gate_->TakeRefused(), 1U);
  EXPECT_EQ(gate_->TakeRefused(), 0U);
  // A client that has shown who it is no longer counts for its address.
  gate_->ChargeUser("ann", "127.0.0.2");
  clients.push_back(Connect());
  WaitForAdmitted(3);
  base::MutexLock lock(mutex_);
  EXPECT_EQ(keys_.back(), "127.0.0.2");
}

TEST_F(GateTest, AdmitsTheNextWhenTheServerHasTakenTheLast) {
  Open({.burst = 1e6});
  const base::UniqueFd first = Connect();
  WaitForAdmitted(1);
  const base::UniqueFd second = Connect();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  WaitForAdmitted(1);
  gate_->AdmitNext();
  WaitForAdmitted(2);
}

TEST_F(GateTest, StopsWhileTheServerTakesNoConnection) {
  Open({.burst = 1e6});
  const base::UniqueFd first = Connect();
  WaitForAdmitted(1);
  const base::UniqueFd second = Connect();
  gate_->Stop();
  EXPECT_TRUE(IsRefused(second));
}

}  // namespace
}  // namespace berth::http
