// Random bytes as the requests of one connection. They must give the same requests when they are
// read in pieces as when they are read at once.

#include <cstdlib>
#include <string_view>
#include <vector>

#include "http/request_reader.h"

namespace {

using berth::http::RequestReader;

constexpr size_t kMaxHead = 1024;
constexpr size_t kMaxBody = 4096;

struct Outcome {
  std::vector<std::string> requests;
  bool refused = false;
};

Outcome Read(std::string_view bytes, size_t step) {
  Outcome outcome;
  RequestReader reader({.max_head = kMaxHead, .max_body = kMaxBody});
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    reader.Append(bytes.substr(0, step));
    RequestReader::Result result;
    while ((result = reader.Next()) == RequestReader::Result::kRequest ||
           result == RequestReader::Result::kHead) {
      if (result == RequestReader::Result::kHead) {
        const auto head = reader.CopyHead();
        if (!head.body.empty() || head.method != reader.head().method) std::abort();
        continue;
      }
      const auto request = reader.TakeRequest();
      if (request.body.size() > kMaxBody || request.target.size() > kMaxHead) std::abort();
      outcome.requests.push_back(request.method + " " + request.target + " " + request.body);
    }
    if (result == RequestReader::Result::kRefused) {
      outcome.refused = true;
      return outcome;
    }
    // The reader must hold only a bounded amount of data, whatever it gets.
    if (reader.waiting() > kMaxHead + step) std::abort();
    if (reader.memory() > 2 * (kMaxHead + step) + 2 * kMaxBody) std::abort();
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = Read(bytes, 64 * 1024);
  // With more data in its buffer the reader may refuse earlier, but the requests before that are
  // the same.
  const Outcome pieces = Read(bytes, 7);
  const size_t both = std::min(whole.requests.size(), pieces.requests.size());
  for (size_t i = 0; i < both; ++i) {
    if (whole.requests[i] != pieces.requests[i]) std::abort();
  }
  return 0;
}
