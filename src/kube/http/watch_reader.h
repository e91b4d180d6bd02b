// Splits the bytes of a watch into events, and passes each one on: lines of JSON, or frames of
// protobuf, which are a length of 4 bytes and a WatchEvent. A server that is asked for protobuf may
// send either. The first byte tells which, because a line begins with '{', and no frame is as long
// as a length that begins so.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <string>

#include "kube/client.h"

namespace berth::kube {

class WatchReader {
 public:
  struct Options {
    size_t max_bytes = 0;       // of an event
    bool may_be_frames = true;  // the server was asked for protobuf
  };

  // `kind` and `on_event` are borrowed and must outlive this object.
  WatchReader(const api::KindInfo& kind, const Options& options,
              const std::function<bool(WatchEvent event)>& on_event)
      : kind_(kind), options_(options), on_event_(on_event) {}

  // Passes the events at the front of `received` on, and removes them. False: `on_event` returned
  // false. RESOURCE_EXHAUSTED: an event is too long. UNAVAILABLE: an event is malformed. An event
  // of type ERROR gives the error that it has.
  StatusOr<bool> ConsumeEvents(std::string& received);

  // The resourceVersion of the last event that was passed on; empty: there was none.
  const std::string& version() const { return version_; }
  // Why an event in protobuf could not be read with all its fields, after which ConsumeEvents has
  // failed. It was not passed on. OK: that did not happen.
  const Status& protobuf_failure() const { return protobuf_failure_; }

 private:
  // These return the number of bytes of the event at the front of `rest`, with the bytes that
  // delimit it, and set `event` to its content; 0: it is not complete.
  StatusOr<size_t> FindLine(std::string_view rest, std::string_view& event);
  StatusOr<size_t> FindFrame(std::string_view rest, std::string_view& event) const;
  StatusOr<WatchEvent> DecodeLine(std::string_view line) const;
  StatusOr<WatchEvent> DecodeFrame(std::string_view frame);
  Status MakeTooLongError() const;

  const api::KindInfo& kind_;
  const Options options_;
  const std::function<bool(WatchEvent event)>& on_event_;
  size_t scanned_ = 0;  // bytes at the front of the rest that have no line feed
  std::string version_;
  Status protobuf_failure_;
};

}  // namespace berth::kube
