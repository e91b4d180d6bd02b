// The calls that take snapshots and group snapshots have this in common: the name that the driver
// gets, the record of a call whose outcome is not known, what an answer proves, and the times in
// answers.
#pragma once

#include <google/protobuf/timestamp.pb.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace berth::controllers::snapshotter {

// The name by which the driver is asked: PREFIX-UID. `length`: so many characters of the uid
// without dashes; negative: the whole uid.
std::string MakeSnapshotName(const std::string& prefix, std::string uid, int length);

// A digest of the request's serialised form. Use DigestRequest, because secrets are not recorded.
std::string DigestWithoutSecrets(const google::protobuf::MessageLite& request);

template <typename Request>
std::string DigestRequest(Request request) {
  request.clear_secrets();
  return DigestWithoutSecrets(request);
}

// Whether the driver's answer proves that it has nothing of the name. If an earlier call may have
// made something (not `first`), only the answer to the same call proves it, and a refusal of access
// does not.
bool ProvesNothingExists(const base::Status& status, bool first, bool same_request);

// Nanoseconds since 1970. nullopt: nanoseconds cannot express the time.
std::optional<int64_t> ReadNanoseconds(const google::protobuf::Timestamp& time);
int64_t Nanoseconds(base::WallTime time);

// The time until the driver is asked about an upload again, after it was asked `asked` times: it
// doubles from `start`, up to `max` and at most 30 seconds, because an upload takes minutes to
// hours.
std::chrono::milliseconds PollDelay(int asked, std::chrono::milliseconds start,
                                    std::chrono::milliseconds max);

}  // namespace berth::controllers::snapshotter
