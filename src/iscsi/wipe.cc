#include "iscsi/wipe.h"

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "iscsi/channel.h"
#include "iscsi/reservations.h"

namespace berth::iscsi {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr int64_t kMostWipeBytes = int64_t{1} << 20;   // of a write
constexpr int64_t kMostWipeZeroes = int64_t{8} << 20;  // of a WRITE SAME

bool RefusesCommand(const Answer& answer) {
  return answer.outcome == Answer::Outcome::kCheckCondition &&
         answer.sense_key == kSenseIllegalRequest;
}

// Writes zeroes before `from`, until the deadline or the LUN's first block. Gives what is left.
StatusOr<int64_t> WriteZeroesBefore(LogicalUnit& unit, const UnitInfo& info, int64_t from,
                                    bool writes_same, Deadline until) {
  const auto block = static_cast<int64_t>(info.capacity.block_bytes);
  const auto within = [&](int64_t most, uint64_t limit) {
    const auto bytes = static_cast<int64_t>(std::min(limit, uint64_t{UINT32_MAX})) * block;
    return limit == 0 ? most : std::max(block, std::min(most, bytes));
  };
  const int64_t most_written = within(kMostWipeBytes, info.limits.max_transfer);
  const int64_t most_repeated = within(kMostWipeZeroes, info.limits.max_write_same);
  const std::vector<uint8_t> zeroes(static_cast<size_t>(most_written));
  while (from > 0 && std::chrono::steady_clock::now() < until) {
    const int64_t part = std::min(from, writes_same ? most_repeated : most_written);
    const auto first = static_cast<uint64_t>((from - part) / block);
    const auto blocks = static_cast<uint32_t>(part / block);
    const std::span<const uint8_t> data(zeroes);
    const Answer answer =
        unit.Run(writes_same ? WriteSame(first, blocks, info.capacity.thin,
                                         data.first(static_cast<size_t>(block)))
                             : Write(first, blocks, data.first(static_cast<size_t>(part))));
    if (writes_same && RefusesCommand(answer)) {
      writes_same = false;  // the same part again
      continue;
    }
    if (!answer.good()) return AnswerError(answer, fmt::format("write zeroes to block {}", first));
    from -= part;
  }
  return from;
}

Status FlushCache(LogicalUnit& unit) {
  const Answer flushed = unit.Run(SynchronizeCache());
  // A target without a write cache need not know the command.
  return flushed.good() || RefusesCommand(flushed) ? base::OkStatus()
                                                   : AnswerError(flushed, "synchronize the cache");
}

StatusOr<int64_t> WipeReserved(LogicalUnit& unit, const UnitInfo& info, const Settings& settings,
                               uint16_t lun, int64_t from, Deadline until) {
  // If this process is frozen here, the LUN may be another volume's when it wakes up.
  ASSIGN_OR_RETURN(const bool writes_same,
                   FencesWriteSame(settings.login, lun, info.capacity, until));
  ASSIGN_OR_RETURN(const int64_t left, WriteZeroesBefore(unit, info, from, writes_same, until));
  RETURN_IF_ERROR(FlushCache(unit));
  if (left > 0) return left;
  ASSIGN_OR_RETURN(const bool blank, IsBlank(unit, info.capacity));
  if (blank) return 0;
  return Error(StatusCode::kInternal, "the LUN is not blank after it was overwritten with zeroes");
}

}  // namespace

StatusOr<Json> WipeUnit(LogicalUnit& unit, const Settings& settings, const Json& request,
                        Deadline until) {
  ASSIGN_OR_RETURN(const uint16_t lun, ReadLun(request));
  ASSIGN_OR_RETURN(const UnitInfo info, Inspect(unit));
  const int64_t from = std::min(base::json::Int(request, {"from"}, info.capacity.size_bytes()),
                                info.capacity.size_bytes());
  if (from < 0 || from % info.capacity.block_bytes != 0) {
    return Error(StatusCode::kInvalidArgument, "'from' is not the begin of a block");
  }
  Reservations reservations(unit, settings.owner);
  ASSIGN_OR_RETURN(const Reservations::State state, reservations.ReadState());
  if (state.held.type == ReservationType::kNone) {
    return Json{{"from", 0}, {"done", true}, {"kept", true}};
  }
  ASSIGN_OR_RETURN(const uint64_t key, reservations.Acquire(settings.node, /*shared=*/false,
                                                            reservations.Ticket(state)));
  const auto left = WipeReserved(unit, info, settings, lun, from, until);
  const bool done = left.ok() && *left == 0;
  RETURN_IF_ERROR(done ? reservations.Clear(key) : reservations.Release(key));
  RETURN_IF_ERROR(left);
  return Json{{"from", *left}, {"done", done}, {"kept", false}};
}

}  // namespace berth::iscsi
