// Messages between two processes of this program that carry a number and one descriptor
// (SCM_RIGHTS), over a socket of type SOCK_SEQPACKET. Async-signal-safe.
#pragma once

#include "base/unique_fd.h"

namespace berth::platform {

struct DescriptorMessage {
  int number = 0;
  base::UniqueFd fd;
};

// Returns 0 or an errno. The other end gets a descriptor of its own for the same file.
int SendDescriptor(int socket, int number, int fd);

// Receives the message that has come, without waiting. `fd` is invalid if there is none, or none
// that carries a descriptor.
DescriptorMessage ReceiveDescriptor(int socket);

}  // namespace berth::platform
