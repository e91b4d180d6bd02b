// A client of a LUN without a file system: it drives an IscsiStore by lines on standard input.
//
//   {settings as of `berth-iscsi serve`, on one line}     → "ready SIZE BLOCK" | "failed CODE
//   WORDS" write OFFSET LENGTH BYTE | zero OFFSET LENGTH | flush → "ok" | the name of the errno
//   read OFFSET LENGTH                                    → "ok BYTE" if all are that byte | "ok
//   mixed" refresh                                               → "ok SIZE" | CODE stream OFFSET
//   LENGTH BYTE THREADS                     → "ok"; from then on each thread writes
//       LENGTH bytes again and again, at OFFSET and behind the others', until a write fails
//   wait                                                  → the error of each thread, after all
//   ended quit
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "iscsi/iscsi_store.h"

namespace berth {
namespace {

std::string ErrnoName(int error) { return error == 0 ? "ok" : strerrorname_np(error); }

base::StatusOr<std::unique_ptr<iscsi::IscsiStore>> OpenStore(const std::string& line) {
  ASSIGN_OR_RETURN(const base::Json settings, base::json::Parse(line));
  iscsi::StoreOptions options;
  ASSIGN_OR_RETURN(options, iscsi::ReadStoreOptions(settings));
  return iscsi::IscsiStore::Open(options,
                                 std::chrono::steady_clock::now() + std::chrono::seconds(10));
}

class Streams {
 public:
  void Start(iscsi::IscsiStore& store, int64_t offset, size_t length, char byte, int threads) {
    for (int i = 0; i < threads; ++i) {
      errors_.push_back(std::make_unique<int>(0));
      threads_.emplace_back([&store, at = offset + static_cast<int64_t>(length) * i,
                             error = errors_.back().get(), data = std::string(length, byte)] {
        while ((*error = store.Write(at, data)) == 0) {
        }
      });
    }
  }
  std::string Wait() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    std::string text;
    for (const auto& error : errors_) text += ErrnoName(*error) + " ";
    errors_.clear();
    return text;
  }
  bool running() const { return !threads_.empty(); }

 private:
  std::vector<std::thread> threads_;
  std::vector<std::unique_ptr<int>> errors_;
};

std::string RunLine(iscsi::IscsiStore& store, Streams& streams, const std::string& line) {
  std::istringstream words(line);
  std::string name;
  int64_t offset = 0, length = 0;
  int byte = 0, threads = 0;
  words >> name >> offset >> length >> byte >> threads;
  std::string data(static_cast<size_t>(length), static_cast<char>(byte));
  if (name == "write") return ErrnoName(store.Write(offset, data));
  if (name == "zero") return ErrnoName(store.WriteZeroes(offset, length));
  if (name == "flush") return ErrnoName(store.Flush());
  if (name == "read") {
    const int error = store.Read(offset, data);
    if (error != 0) return ErrnoName(error);
    const bool same = std::ranges::all_of(data, [&](char c) { return c == data[0]; });
    return same ? fmt::format("ok {}", static_cast<uint8_t>(data[0])) : "ok mixed";
  }
  if (name == "refresh") {
    const base::Status status = store.Refresh();
    return status.ok() ? fmt::format("ok {}", store.size_bytes())
                       : std::string(base::CodeName(status.code()));
  }
  if (name == "stream") {
    streams.Start(store, offset, data.size(), static_cast<char>(byte), threads);
    return "ok";
  }
  return name == "wait" ? streams.Wait() : "what?";
}

int Run() {
  std::string line;
  std::getline(std::cin, line);
  auto store = OpenStore(line);
  if (!store.ok()) {
    std::cout << "failed " << base::CodeName(store.status().code()) << ' '
              << base::Message(store.status()) << std::endl;
    return 1;
  }
  std::cout << "ready " << (*store)->size_bytes() << ' ' << (*store)->info().capacity.block_bytes
            << std::endl;
  Streams streams;
  while (std::getline(std::cin, line) && line != "quit") {
    std::cout << RunLine(**store, streams, line) << std::endl;
  }
  if (streams.running()) _exit(1);
  return 0;
}

}  // namespace
}  // namespace berth

int main() {
  signal(SIGPIPE, SIG_IGN);  // libiscsi writes to sockets that may be closed
  berth::base::InitLogging("iscsi_writer", 0);
  return berth::Run();
}
