// A shim of a Kata sandbox for tests: answers each request on its socket with the next of the bytes
// that it was given, as a whole HTTP answer or as a broken one.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"

namespace berth::crust::kata {

class FakeShim {
 public:
  explicit FakeShim(const std::string& path) {
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    listener_ = base::UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    unlink(path.c_str());
    if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        listen(listener_.get(), 8) != 0) {
      abort();
    }
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeShim() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  static std::string Ok(const std::string& body) { return Answer("200 OK", body); }
  static std::string Answer(const std::string& code, const std::string& body) {
    return "HTTP/1.1 " + code + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           body;
  }
  static std::string Stats(int64_t total, int64_t used) { return Ok(StatsBody(total, used)); }
  static std::string StatsBody(int64_t total, int64_t used) {
    return R"({"usage":[{"available":)" + std::to_string(total - used) + R"(,"total":)" +
           std::to_string(total) + R"(,"used":)" + std::to_string(used) +
           R"(,"unit":1},{"available":90,"total":100,"used":10,"unit":2}],)"
           R"("volume_condition":{"message":"OK"}})";
  }

  // Answers the next requests in this order; an empty text: the connection stays open without an
  // answer until its client closes it. Further requests get the last answer.
  void AnswerWith(std::vector<std::string> answers) {
    base::MutexLock lock(mutex_);
    answers_.assign(answers.begin(), answers.end());
  }
  // Returns the requests so far, whole.
  std::vector<std::string> requests() {
    base::MutexLock lock(mutex_);
    return requests_;
  }

 private:
  void Serve() {
    while (true) {
      const base::UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer.valid()) return;
      std::string request;
      char bytes[4096];
      while (!IsWhole(request)) {
        const ssize_t size = recv(peer.get(), bytes, sizeof(bytes), 0);
        if (size <= 0) break;
        request.append(bytes, static_cast<size_t>(size));
      }
      std::string answer;
      {
        base::MutexLock lock(mutex_);
        requests_.push_back(request);
        if (!answers_.empty()) answer = answers_.front();
        if (answers_.size() > 1) answers_.pop_front();
      }
      if (answer.empty()) {
        while (recv(peer.get(), bytes, sizeof(bytes), 0) > 0) {
        }
        continue;
      }
      send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }
  // The head, and a body of the length that the head names.
  static bool IsWhole(const std::string& request) {
    const size_t end = request.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const size_t length = request.find("Content-Length: ");
    if (length == std::string::npos || length > end) return true;
    return request.size() - end - 4 >= std::stoul(request.substr(length + 16));
  }

  base::UniqueFd listener_;
  base::Mutex mutex_;
  std::deque<std::string> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> requests_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace berth::crust::kata
