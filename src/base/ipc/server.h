// The agents' half: answers requests by their method, several at a time.
//
// A method that takes long (a utility that runs) holds up only as many others as there are threads;
// beyond those a request waits, and beyond `max_waiting` it is told so. A peer that sends nothing,
// half a frame or garbage is dropped at `io_timeout`, with a reply that says why where there can be
// one.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/ipc/connection.h"
#include "base/status.h"
#include "base/worker_pool.h"

namespace berth::base::ipc {

struct Request {
  Message message;
  std::vector<UniqueFd> descriptors;
};

// What a method gives back: a message, and descriptors that go along.
struct Reply {
  Reply(Message text) : message(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  Message message;
  std::vector<UniqueFd> descriptors;
};

// Called on several threads at once. What it fails with is the reply's `error`.
using Method = std::function<StatusOr<Reply>(const Request&)>;

class Server {
 public:
  struct Options {
    std::string name;   // of the threads
    UniqueFd listener;  // a listening UNIX socket
    std::map<std::string, Method> methods;
    size_t max_calls = 64;
    size_t max_waiting = 256;
    std::chrono::milliseconds io_timeout{10'000};
    uid_t peer = 0;  // who alone is answered
  };

  explicit Server(Options options);
  // No more requests; waits for those that run.
  ~Server();

 private:
  void Accept();
  void Answer(UniqueFd socket);
  StatusOr<Reply> ReplyTo(const Request& request);

  const Options options_;
  UniqueFd stop_;  // an eventfd: the accepting thread is to end
  WorkerPool pool_;
  std::jthread accepting_;
};

}  // namespace berth::base::ipc
