// A small HTTP/1.1 server on a UNIX socket for tests of the client. Each request goes to a handler,
// which writes raw bytes. Each connection has its own thread and is kept alive until the handler or
// the client ends it.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"

namespace berth::kube {

class FakeHttpServer {
 public:
  struct Request {
    std::string method;
    std::string target;
    std::string headers;  // lines in lower case
    std::string body;
    int connection = 0;  // counts from 1

    bool HasHeader(std::string_view line) const { return headers.find(line) != std::string::npos; }
  };

  // The wire of one connection, for a handler.
  class Wire {
   public:
    explicit Wire(FakeHttpServer& server, int fd) : server_(server), fd_(fd) {}
    // False once the client is gone.
    bool Send(std::string_view bytes);
    // A whole answer with Content-Length.
    bool SendAnswer(int code, std::string_view body, std::string_view extra_headers = "");
    // The head of a chunked answer, then its chunks; EndChunks ends it.
    bool BeginChunks(int code = 200);
    bool SendChunk(std::string_view data);
    bool EndChunks();
    // Waits until the client closes the connection or the server stops. True if the client did.
    bool WaitForClose();

   private:
    FakeHttpServer& server_;
    const int fd_;
  };

  // If it returns false, the connection is closed.
  using Handler = std::function<bool(const Request&, Wire&)>;

  explicit FakeHttpServer(Handler handler);
  ~FakeHttpServer();
  FakeHttpServer(const FakeHttpServer&) = delete;
  FakeHttpServer& operator=(const FakeHttpServer&) = delete;

  const std::string& socket_path() const { return path_; }
  std::vector<Request> requests() const;
  int connections() const;

 private:
  void AcceptConnections();
  void ServeConnection(int fd, int connection);
  bool ReadRequest(int fd, std::string& buffer, Request& request);

  const Handler handler_;
  std::string folder_;
  std::string path_;
  base::UniqueFd listener_;
  base::UniqueFd stop_event_;  // readable once the server stops
  mutable base::Mutex mutex_;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
  int connections_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<std::jthread> threads_ ABSL_GUARDED_BY(mutex_);
  std::jthread acceptor_;
};

}  // namespace berth::kube
