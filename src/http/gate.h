// Accepts the connections of a TCP port on a thread of its own, and refuses clients that come too
// often (arrivals.h). A flood of connections then takes the time of this thread, and not of the
// event loop, which serves those who have connections.
//
//   listener ─▶ who is the client (peer.h) ─▶ came too often ─▶ reset
//                          └──▶ admitted, and the server gives it a seat
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "http/arrivals.h"
#include "http/peer.h"

namespace berth::http {

// Thread-safe.
class Gate {
 public:
  struct Options {
    std::string name;  // for log lines and the thread's name: "NAME-gate"
    ArrivalLimits limits;
    bool local_clients_by_user = true;  // as Server::Options
  };
  // Called on the gate's thread with each connection that may come, and the key of its client.
  // AdmitNext must follow for each of them.
  using Admit = std::function<void(base::UniqueFd socket, std::string key)>;

  // `listener` is a TCP socket that listens.
  Gate(base::UniqueFd listener, Options options, Admit admit);
  ~Gate();  // as Stop
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // The connection that was admitted has got its seat, or none, and the next one may come. If many
  // came at once, the server would take all of them for silent before it read the first request.
  void AdmitNext();
  // Charges `user` for the connection of a client that has shown who it is, and no longer the
  // client's address.
  void ChargeUser(const std::string& user, const std::string& key);
  // How many connections were refused since the last call.
  size_t TakeRefused();
  // Closes the listener. No connection is admitted after it returns. Further calls do nothing.
  void Stop();

 private:
  void Run();
  // Waits until a connection has come and may be admitted. False: the gate was stopped.
  bool WaitForClient();
  bool MayArrive(const std::string& key);

  const Options options_;
  const Admit admit_;
  base::UniqueFd listener_;
  const base::UniqueFd stop_;  // readable once Stop was called
  TcpPeers peers_;             // of the gate's thread
  base::Mutex mutex_;
  base::CondVar changed_;
  Arrivals arrivals_ ABSL_GUARDED_BY(mutex_);
  Arrivals::Time swept_ ABSL_GUARDED_BY(mutex_);
  size_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  bool admitting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace berth::http
