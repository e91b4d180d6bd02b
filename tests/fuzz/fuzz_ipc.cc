// Random bytes to the readers of base/ipc: as a message's JSON, as what a peer sends, and as the
// stream of a guest's process.
#include <sys/socket.h>

#include <cstdlib>
#include <string_view>

#include "base/ipc/connection.h"
#include "base/ipc/guest_stream.h"

namespace {

using namespace berth::base;  // NOLINT(google-build-using-namespace)

void TryJson(std::string_view text) {
  const auto message = ipc::ReadJson(text);
  if (!message.ok()) return;
  // What was read is written and read again as the same.
  const auto again = ipc::ReadJson(ipc::WriteJson(*message));
  if (!again.ok() || !(*again == *message)) std::abort();
}

void TryFrame(std::string_view bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  UniqueFd peer(ends[1]);
  auto connection = ipc::Connection::Wrap(UniqueFd(ends[0]), geteuid());
  if (!connection.ok()) std::abort();
  if (send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) std::abort();
  peer.Reset();
  const auto message = connection->Receive(4096, ipc::DeadlineIn(std::chrono::seconds(5)));
  // The peer has closed its end, so Receive() must not wait.
  if (message.failure().problem == ipc::Problem::kTimeout) std::abort();
}

// What a guest sends to the stand-in of a process, in two pieces.
void TryStream(std::string_view bytes) {
  ipc::FrameReader whole, pieces;
  whole.Append(bytes);
  const size_t half = bytes.size() / 2;
  pieces.Append(bytes.substr(0, half));
  ipc::FrameWriter writer;
  std::string written;
  while (true) {
    const auto frame = whole.Next();
    if (!frame.ok()) return;
    if (!frame->has_value()) break;
    auto again = pieces.Next();
    if (again.ok() && !again->has_value()) {
      pieces.Append(bytes.substr(half));
      again = pieces.Next();
    }
    if (!again.ok() || *again != *frame) std::abort();
    written += writer.Write(**frame);
  }
  // What was read is written as the same.
  if (!bytes.starts_with(written)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  TryJson(input);
  TryFrame(input);
  TryStream(input);
  // Random bytes seldom begin with a valid head, so here they get one.
  std::string framed("BIPC\1\0\0\0", 8);
  const auto length = static_cast<uint32_t>(size);
  framed.append(reinterpret_cast<const char*>(&length), 4).append(4, '\0').append(input);
  TryFrame(framed);
  return 0;
}
