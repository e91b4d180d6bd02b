// The server's side of the protocol: answers requests by their method, several at a time.
//
// A method that takes long (a utility that runs) occupies one thread. When all threads are busy, up
// to `max_waiting` requests wait, and further ones are refused with an error. A peer that has not
// sent a whole request within `io_timeout`, or sends something else, gets an error and is dropped.
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
#include "base/workers/worker_pool.h"

namespace berth::base::ipc {

struct Request {
  Message message;
  std::vector<UniqueFd> descriptors;
};

// The result of a method: a message, and the descriptors that are sent with it.
struct Reply {
  Reply(Message text) : message(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  Message message;
  std::vector<UniqueFd> descriptors;
};

// A method is called on several threads at once. If it fails, the message and the code of its
// Status are the reply's `error` and `code`.
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
    uid_t peer = 0;  // the only user whose processes are answered
  };

  explicit Server(Options options);
  // Accepts no more requests, drops those that wait, and waits for those that run.
  ~Server();

 private:
  void AcceptConnections();
  void AnswerCall(UniqueFd socket);
  StatusOr<Reply> RunMethod(const Request& request);

  const Options options_;
  UniqueFd stop_;  // an eventfd that tells the accepting thread to end
  WorkerPool pool_;
  std::jthread accepting_;
};

}  // namespace berth::base::ipc
