// A proxy between UNIX sockets that cuts connections: on request, and by itself after a random
// number of bytes, in the middle of the data.
//
// While the server behind it is away, a connection is accepted and closed. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::chaos {

class CuttingProxy {
 public:
  struct Options {
    std::string listen;  // path
    std::string server;  // path
    uint64_t seed = 0;
    double short_lived = 0.2;      // this part of the connections is cut without Cut(),
    size_t longest_life = 20'000;  // after at most so many bytes from the server
  };

  static base::StatusOr<std::unique_ptr<CuttingProxy>> Start(const Options& options);
  ~CuttingProxy();

  // Cuts each connection with this probability.
  void Cut(double probability);
  uint64_t cuts() const { return cuts_; }

 private:
  // The data from one side that the other side has not taken yet.
  struct Stream {
    int from = -1;
    int to = -1;
    std::string waiting;
    bool ended = false;
  };
  struct Connection {
    base::UniqueFd client;
    base::UniqueFd server;
    Stream up;
    Stream down;
    int64_t life = INT64_MAX;  // bytes that may still go down
  };

  CuttingProxy(const Options& options, base::UniqueFd listener, base::UniqueFd wake);
  void Run(const std::stop_token& stop);
  void Accept();
  void CutSome(double probability);
  // False if the connection is over.
  bool MoveBytes(Connection& connection, short client_events, short server_events);
  static bool Forward(Stream& stream, bool readable, bool writable, int64_t* life);

  const Options options_;
  base::UniqueFd listener_;
  base::UniqueFd wake_;  // an eventfd
  std::atomic<double> wanted_cut_{0};
  std::atomic<uint64_t> cuts_{0};
  // Used only by the thread.
  std::mt19937_64 random_;
  std::list<Connection> connections_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace berth::chaos
