// The calls that take snapshots and group snapshots have this in common: the name that the driver
// gets, the times in answers, and when the driver is asked again.
#pragma once

#include <google/protobuf/timestamp.pb.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace berth::controllers::snapshotter {

// The name by which the driver is asked: PREFIX-UID. `length`: so many characters of the uid
// without dashes; negative: the whole uid.
std::string MakeSnapshotName(const std::string& prefix, std::string uid, int length);

// Nanoseconds since 1970. nullopt: nanoseconds cannot express the time.
std::optional<int64_t> ReadNanoseconds(const google::protobuf::Timestamp& time);
int64_t Nanoseconds(base::WallTime time);

// The time until the driver is asked about an upload again, after it was asked `asked` times: it
// doubles from `start`, up to `max`.
std::chrono::milliseconds PollDelay(int asked, std::chrono::milliseconds start,
                                    std::chrono::milliseconds max);

}  // namespace berth::controllers::snapshotter
