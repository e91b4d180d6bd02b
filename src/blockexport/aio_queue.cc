#include "blockexport/aio_queue.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace berth::blockexport {

// glibc has no functions for these calls.

std::unique_ptr<AioQueue> AioQueue::Open(int file, unsigned most, Ended ended) {
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, most, &context) != 0) {
    LOG_INFO("the kernel makes no I/O in the background ({}): threads wait for it",
             strerror(errno));
    return nullptr;
  }
  return std::unique_ptr<AioQueue>(new AioQueue(file, context, std::move(ended)));
}

AioQueue::AioQueue(int file, aio_context_t context, Ended ended)
    : file_(file), context_(context), ended_(std::move(ended)), thread_([this] { TakeEnded(); }) {}

// The call ends the wait of the thread for more.
AioQueue::~AioQueue() { syscall(SYS_io_destroy, context_); }

bool AioQueue::Begin(Transfer& transfer) {
  iocb request = {};
  request.aio_data = reinterpret_cast<uintptr_t>(&transfer);
  request.aio_lio_opcode = transfer.writes ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
  request.aio_fildes = static_cast<uint32_t>(file_);
  request.aio_buf = reinterpret_cast<uintptr_t>(transfer.data.data());
  request.aio_nbytes = transfer.data.size();
  request.aio_offset = transfer.offset;
  iocb* requests[] = {&request};  // the kernel copies it
  return syscall(SYS_io_submit, context_, 1, requests) == 1;
}

void AioQueue::TakeEnded() {
  pthread_setname_np(pthread_self(), "answers");
  std::array<io_event, 32> events;
  for (;;) {
    const long count =
        syscall(SYS_io_getevents, context_, 1, events.size(), events.data(), nullptr);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // EINVAL: the destructor destroyed the context
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      ended_(*reinterpret_cast<Transfer*>(events[i].data), events[i].res);
    }
  }
}

}  // namespace berth::blockexport
