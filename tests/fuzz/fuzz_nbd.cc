// Random bytes as the answers of an NBD server to the client's negotiation, and as the messages of
// a storage daemon over QMP.
#include <sys/socket.h>

#include "block/nbd/nbd_handshake.h"
#include "platform/processes/qmp_client.h"

namespace {

using namespace berth;  // NOLINT(google-build-using-namespace): a program of one file

void NegotiateWith(std::string_view said) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return;
  const base::UniqueFd client(pair[0]);
  base::UniqueFd server(pair[1]);
  [[maybe_unused]] const ssize_t sent = send(server.get(), said.data(), said.size(), MSG_NOSIGNAL);
  shutdown(server.get(), SHUT_WR);
  const auto exported = block::NegotiateExport(
      client, "pvc-1", std::chrono::steady_clock::now() + std::chrono::seconds(5));
  if (exported.ok() && exported->size_bytes > static_cast<uint64_t>(INT64_MAX)) __builtin_trap();
}

void ReadQmp(std::string_view said) {
  platform::QmpReader reader;
  while (!said.empty()) {
    const std::string_view part = said.substr(0, 1 + said.size() / 3);
    if (!reader.AddBytes(part).ok()) return;
    said.remove_prefix(part.size());
    for (;;) {
      const auto next = reader.TakeObject();
      if (!next.ok() || !next->has_value()) break;
      if (!(*next)->is_object()) __builtin_trap();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view said(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) == 0) {
    NegotiateWith(said);
  } else {
    ReadQmp(said);
  }
  return 0;
}
