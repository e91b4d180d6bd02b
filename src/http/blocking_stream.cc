#include "http/blocking_stream.h"

namespace berth::http {

BlockingStream::BlockingStream(std::shared_ptr<Exchange> exchange)
    : exchange_(std::move(exchange)), state_(std::make_shared<State>()) {
  exchange_->OnOver([state = state_] {
    base::MutexLock lock(state->mutex);
    state->over = true;
    state->changed.NotifyAll();
  });
}

BlockingStream::~BlockingStream() {
  if (started_) exchange_->BreakStream();  // does nothing if it has ended
}

void BlockingStream::Start(const Response& head) {
  if (started_) return;
  started_ = true;
  exchange_->AllowPauses();  // the source is the caller's thread, which waits in Send
  exchange_->StartStream(head);
}

bool BlockingStream::Send(std::string_view bytes) {
  if (bytes.empty()) return !exchange_->over();
  {
    base::MutexLock lock(state_->mutex);
    state_->drained = false;
  }
  if (!exchange_->PushPage(MakeFrame(EncodeChunk(bytes)))) return false;
  exchange_->OnDrained([state = state_] {
    base::MutexLock lock(state->mutex);
    state->drained = true;
    state->changed.NotifyAll();
  });
  base::MutexLock lock(state_->mutex);
  while (!state_->drained && !state_->over) state_->changed.Wait(state_->mutex);
  return state_->drained;
}

void BlockingStream::End() { exchange_->EndStream(); }

}  // namespace berth::http
