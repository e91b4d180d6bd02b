#include "controllers/snapshotter/driver_answers.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

#include "base/ids.h"
#include "rpc/outcome.h"

namespace berth::controllers::snapshotter {

using base::Status;
using base::StatusCode;
using std::chrono::milliseconds;

std::string MakeSnapshotName(const std::string& prefix, std::string uid, int length) {
  if (length >= 0) {
    std::erase(uid, '-');
    uid = uid.substr(0, static_cast<size_t>(length));
  }
  return fmt::format("{}-{}", prefix, uid);
}

std::string DigestWithoutSecrets(const google::protobuf::MessageLite& request) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    request.SerializeToCodedStream(&coded);
  }
  return base::Sha256Hex(bytes).substr(0, 32);
}

bool ProvesNothingExists(const Status& status, bool first, bool same_request) {
  if (!rpc::IsFinal(status) || status.code() == StatusCode::kAlreadyExists) return false;
  if (first) return true;
  return same_request && status.code() != StatusCode::kPermissionDenied &&
         status.code() != StatusCode::kUnauthenticated;
}

std::optional<int64_t> ReadNanoseconds(const google::protobuf::Timestamp& time) {
  constexpr int64_t kMaxSeconds = 9'200'000'000;  // in the year 2261
  constexpr int64_t kPerSecond = 1'000'000'000;
  if (time.seconds() < 0 || time.seconds() > kMaxSeconds) return std::nullopt;
  if (time.nanos() < 0 || time.nanos() >= kPerSecond) return std::nullopt;
  return time.seconds() * kPerSecond + time.nanos();
}

int64_t Nanoseconds(base::WallTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

milliseconds PollDelay(int asked, milliseconds start, milliseconds max) {
  constexpr milliseconds kMaxPoll{30000};
  return std::min(start * (1 << std::min(asked, 20)), std::min(max, kMaxPoll));
}

}  // namespace berth::controllers::snapshotter
