// A keep-alive HTTP connection to the API's UNIX socket that keeps nothing but the last body: the
// clients of the benchmarks must cost less than the server that they measure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::bench {

// The text of the last member `name` in a JSON text, "" if there is none: a list's own metadata
// stands behind its items.
std::string LastMember(std::string_view json, std::string_view name);

class UnixHttp {
 public:
  static base::StatusOr<UnixHttp> Connect(const std::string& socket);

  // The body of an answer 200; INTERNAL for another code. Valid until the next call.
  base::StatusOr<std::string_view> Get(std::string_view target);
  // Sends the request and reads the head of its answer; the events follow on fd().
  base::Status Watch(std::string_view target);

  int fd() const { return fd_.get(); }

 private:
  explicit UnixHttp(base::UniqueFd fd) : fd_(std::move(fd)) {}
  base::Status Send(std::string_view target);
  base::Status ReadHead();
  // Fills buffer_ until it has `size` bytes behind the position.
  base::Status Need(size_t size);
  base::StatusOr<std::string_view> Line();

  base::UniqueFd fd_;
  std::string buffer_;   // received
  size_t position_ = 0;  // what of it was used
  std::string body_;
  size_t content_length_ = 0;
  bool chunked_ = false;
};

}  // namespace berth::bench
