#include "kube/http/fake_http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace berth::kube {

using base::MutexLock;

namespace {

// False if `stop` became readable first.
bool WaitReadable(int fd, int stop) {
  pollfd fds[2] = {{fd, POLLIN | POLLRDHUP, 0}, {stop, POLLIN, 0}};
  while (poll(fds, 2, -1) < 0) {
  }
  return fds[1].revents == 0;
}

std::string ToLower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

bool FakeHttpServer::Wire::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool FakeHttpServer::Wire::SendAnswer(int code, std::string_view body,
                                      std::string_view extra_headers) {
  return Send(fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n{}\r\n{}", code, body.size(),
                          extra_headers, body));
}

bool FakeHttpServer::Wire::BeginChunks(int code) {
  return Send(fmt::format("HTTP/1.1 {} X\r\nTransfer-Encoding: chunked\r\n\r\n", code));
}

bool FakeHttpServer::Wire::SendChunk(std::string_view data) {
  return Send(fmt::format("{:x}\r\n{}\r\n", data.size(), data));
}

bool FakeHttpServer::Wire::EndChunks() { return Send("0\r\n\r\n"); }

bool FakeHttpServer::Wire::WaitForClose() {
  while (WaitReadable(fd_, server_.stop_event_.get())) {
    char byte;
    if (recv(fd_, &byte, 1, 0) <= 0) return true;
  }
  return false;
}

FakeHttpServer::FakeHttpServer(Handler handler) : handler_(std::move(handler)) {
  char folder[] = "/tmp/berth-http-XXXXXX";
  if (mkdtemp(folder) == nullptr) throw std::runtime_error("mkdtemp failed");
  folder_ = folder;
  path_ = folder_ + "/api.sock";
  listener_ = base::UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  stop_event_ = base::UniqueFd(eventfd(0, EFD_CLOEXEC));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener_.get(), 64) != 0) {
    throw std::runtime_error("the test's server cannot listen at " + path_);
  }
  acceptor_ = std::jthread([this] { AcceptConnections(); });
}

FakeHttpServer::~FakeHttpServer() {
  const uint64_t one = 1;
  if (write(stop_event_.get(), &one, sizeof(one)) != sizeof(one)) std::abort();
  acceptor_.join();
  std::list<std::jthread> threads;
  {
    MutexLock lock(mutex_);
    threads.swap(threads_);
  }
  threads.clear();
  unlink(path_.c_str());
  rmdir(folder_.c_str());
}

std::vector<FakeHttpServer::Request> FakeHttpServer::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

int FakeHttpServer::connections() const {
  MutexLock lock(mutex_);
  return connections_;
}

void FakeHttpServer::AcceptConnections() {
  while (WaitReadable(listener_.get(), stop_event_.get())) {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    MutexLock lock(mutex_);
    const int connection = ++connections_;
    threads_.emplace_back([this, fd, connection] { ServeConnection(fd, connection); });
  }
}

void FakeHttpServer::ServeConnection(int fd, int connection) {
  const base::UniqueFd owner(fd);
  std::string buffer;
  while (true) {
    Request request;
    request.connection = connection;
    if (!ReadRequest(fd, buffer, request)) return;
    {
      MutexLock lock(mutex_);
      requests_.push_back(request);
    }
    Wire wire(*this, fd);
    if (!handler_(request, wire)) return;
  }
}

bool FakeHttpServer::ReadRequest(int fd, std::string& buffer, Request& request) {
  const auto fill = [&] {
    char data[4096];
    if (!WaitReadable(fd, stop_event_.get())) return false;
    const ssize_t got = recv(fd, data, sizeof(data), 0);
    if (got <= 0) return false;
    buffer.append(data, static_cast<size_t>(got));
    return true;
  };
  size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return false;
  }
  const std::string head = buffer.substr(0, end);
  buffer.erase(0, end + 4);
  const size_t space = head.find(' ');
  request.method = head.substr(0, space);
  request.target = head.substr(space + 1, head.find(' ', space + 1) - space - 1);
  request.headers = ToLower(head.substr(head.find("\r\n") + 2)) + "\r\n";
  constexpr std::string_view kLength = "content-length: ";
  if (const size_t at = request.headers.find(kLength); at != std::string::npos) {
    const size_t length = std::stoul(request.headers.substr(at + kLength.size()));
    while (buffer.size() < length) {
      if (!fill()) return false;
    }
    request.body = buffer.substr(0, length);
    buffer.erase(0, length);
  }
  return true;
}

}  // namespace berth::kube
