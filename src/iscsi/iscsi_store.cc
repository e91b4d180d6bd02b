#include "iscsi/iscsi_store.h"

#include <errno.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/log.h"

namespace berth::iscsi {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 20;   // of a read or write
constexpr int64_t kMostZeroes = int64_t{8} << 20;  // of a WRITE SAME
constexpr uint16_t kSpaceFailed = 0x2707;          // the target's pool is full

int ToErrno(const Answer& answer) {
  switch (answer.outcome) {
    case Answer::Outcome::kGood:
      return 0;
    case Answer::Outcome::kConflict:
      return ESHUTDOWN;
    case Answer::Outcome::kCheckCondition:
      if (answer.sense_key == kSenseDataProtect) {
        return answer.sense_code == kSpaceFailed ? ENOSPC : EROFS;
      }
      return EIO;
    default:
      return EIO;
  }
}

// Whether the target does not know the command, or one of its options.
bool IsUnknown(const Answer& answer) {
  constexpr uint16_t kCommand = 0x2000, kField = 0x2400;
  return answer.outcome == Answer::Outcome::kCheckCondition &&
         answer.sense_key == kSenseIllegalRequest &&
         (answer.sense_code == kCommand || answer.sense_code == kField);
}

StatusOr<std::string> ReadTicket(const base::Json& settings) {
  constexpr size_t kLongest = 64;
  std::string ticket = base::json::String(settings, {"ticket"});
  if (!ticket.empty() && ticket.size() <= kLongest) return ticket;
  return Error(StatusCode::kInvalidArgument, "'ticket' is missing, or has more than {} bytes",
               kLongest);
}

int64_t RoundDown(int64_t value, int64_t unit) { return value / unit * unit; }
int64_t RoundUp(int64_t value, int64_t unit) { return RoundDown(value + unit - 1, unit); }

int64_t MostBytes(const UnitInfo& info) {
  const auto block = static_cast<int64_t>(info.capacity.block_bytes);
  const int64_t limit = info.limits.max_transfer * block;
  return limit == 0 ? kMostBytes : std::max(block, std::min(kMostBytes, limit));
}

int64_t MostZeroes(const UnitInfo& info) {
  const auto block = static_cast<int64_t>(info.capacity.block_bytes);
  const uint64_t most = static_cast<uint64_t>(kMostZeroes / block);
  const uint64_t limit = info.limits.max_write_same;
  return block * static_cast<int64_t>(limit == 0 ? most : std::min(most, limit));
}

}  // namespace

StatusOr<StoreOptions> ReadStoreOptions(const base::Json& settings) {
  StoreOptions options{.channel = {},
                       .read_only = base::json::Bool(settings, {"readOnly"}),
                       .shared_writers = base::json::Bool(settings, {"shared"})};
  ASSIGN_OR_RETURN(options.channel.settings, ReadSettings(settings));
  ASSIGN_OR_RETURN(options.channel.lun, ReadLun(settings));
  options.channel.identity = base::json::String(settings, {"identity"});
  if (options.channel.identity.empty()) {
    // A number alone may be another LUN's by tomorrow.
    return Error(StatusCode::kInvalidArgument, "'identity' is missing");
  }
  // Without the ticket, a node that was fenced before this call could get the LUN.
  ASSIGN_OR_RETURN(options.channel.ticket, ReadTicket(settings));
  options.channel.shared = options.read_only || options.shared_writers;
  return options;
}

IscsiStore::IscsiStore(const StoreOptions& options, std::unique_ptr<Channel> channel)
    : options_(options),
      channel_(std::move(channel)),
      block_(channel_->info().capacity.block_bytes),
      most_bytes_(RoundDown(MostBytes(channel_->info()), block_)),
      most_zeroes_(MostZeroes(channel_->info())),
      size_(channel_->info().capacity.size_bytes()),
      writes_same_(channel_->fences_write_same()),
      unmaps_(channel_->info().capacity.thin) {}

StatusOr<std::unique_ptr<IscsiStore>> IscsiStore::Open(const StoreOptions& options,
                                                       Deadline deadline) {
  ASSIGN_OR_RETURN(auto channel, Channel::Open(options.channel, deadline));
  return std::unique_ptr<IscsiStore>(new IscsiStore(options, std::move(channel)));
}

bool IscsiStore::IsInside(int64_t offset, size_t bytes) const {
  return offset >= 0 && offset <= size_ && bytes <= static_cast<size_t>(size_ - offset);
}

bool IscsiStore::IsAligned(int64_t offset, size_t bytes) const {
  return offset % block_ == 0 && static_cast<int64_t>(bytes) % block_ == 0;
}

int IscsiStore::ReadBlocks(int64_t offset, std::span<uint8_t> into) {
  while (!into.empty()) {
    const auto part = into.first(std::min<size_t>(into.size(), static_cast<size_t>(most_bytes_)));
    const auto blocks = static_cast<uint32_t>(static_cast<int64_t>(part.size()) / block_);
    const Answer answer =
        channel_->Run(iscsi::Read(static_cast<uint64_t>(offset / block_), blocks, part));
    if (const int error = ToErrno(answer); error != 0) return error;
    if (answer.bytes != part.size()) return EIO;
    offset += static_cast<int64_t>(part.size());
    into = into.subspan(part.size());
  }
  return 0;
}

int IscsiStore::WriteBlocks(int64_t offset, std::span<const uint8_t> from) {
  while (!from.empty()) {
    const auto part = from.first(std::min<size_t>(from.size(), static_cast<size_t>(most_bytes_)));
    const auto blocks = static_cast<uint32_t>(static_cast<int64_t>(part.size()) / block_);
    const Answer answer =
        channel_->Run(iscsi::Write(static_cast<uint64_t>(offset / block_), blocks, part));
    if (const int error = ToErrno(answer); error != 0) return error;
    offset += static_cast<int64_t>(part.size());
    from = from.subspan(part.size());
  }
  return 0;
}

int IscsiStore::Read(int64_t offset, std::span<char> into) {
  if (!IsInside(offset, into.size())) return EINVAL;
  auto* bytes = reinterpret_cast<uint8_t*>(into.data());
  if (IsAligned(offset, into.size())) return ReadBlocks(offset, {bytes, into.size()});
  const int64_t first = RoundDown(offset, block_);
  const int64_t end = RoundUp(offset + static_cast<int64_t>(into.size()), block_);
  std::vector<uint8_t> whole(static_cast<size_t>(end - first));
  if (const int error = ReadBlocks(first, whole); error != 0) return error;
  std::memcpy(bytes, whole.data() + (offset - first), into.size());
  return 0;
}

int IscsiStore::WritePart(int64_t offset, std::span<const char> from) {
  if (options_.shared_writers) return EINVAL;
  const std::unique_lock lock(parts_);
  const int64_t first = RoundDown(offset, block_);
  const int64_t end = RoundUp(offset + static_cast<int64_t>(from.size()), block_);
  std::vector<uint8_t> whole(static_cast<size_t>(end - first));
  if (const int error = ReadBlocks(first, whole); error != 0) return error;
  std::memcpy(whole.data() + (offset - first), from.data(), from.size());
  return WriteBlocks(first, whole);
}

int IscsiStore::Write(int64_t offset, std::span<const char> from) {
  if (options_.read_only) return EROFS;
  if (!IsInside(offset, from.size())) return EINVAL;
  if (!IsAligned(offset, from.size())) return WritePart(offset, from);
  const std::shared_lock lock(parts_);
  return WriteBlocks(offset, {reinterpret_cast<const uint8_t*>(from.data()), from.size()});
}

int IscsiStore::Flush() {
  if (options_.read_only) return 0;
  const Answer answer = channel_->Run(SynchronizeCache());
  // Without a write cache, every write that was answered is durable already.
  if (IsUnknown(answer) && channel_->write_cache() == false) return 0;
  return ToErrno(answer);
}

int IscsiStore::WriteZeroes(int64_t offset, int64_t length) {
  if (options_.read_only) return EROFS;
  if (length < 0 || !IsInside(offset, static_cast<size_t>(length))) return EINVAL;
  if (!writes_same_) return EOPNOTSUPP;
  const int64_t first = std::min(RoundUp(offset, block_), offset + length);
  const int64_t end = std::max(RoundDown(offset + length, block_), first);
  const std::vector<char> zeroes(static_cast<size_t>(block_));
  for (const auto& [at, bytes] :
       {std::pair(offset, first - offset), std::pair(end, offset + length - end)}) {
    if (bytes == 0) continue;
    if (const int error = Write(at, {zeroes.data(), static_cast<size_t>(bytes)}); error != 0) {
      return error;
    }
  }
  const std::span<const uint8_t> pattern(reinterpret_cast<const uint8_t*>(zeroes.data()),
                                         zeroes.size());
  for (int64_t at = first; at < end;) {
    const int64_t part = std::min(end - at, most_zeroes_);
    const std::shared_lock lock(parts_);
    const Answer answer =
        channel_->Run(WriteSame(static_cast<uint64_t>(at / block_),
                                static_cast<uint32_t>(part / block_), unmaps_, pattern));
    if (IsUnknown(answer) && unmaps_) {
      unmaps_ = false;  // the same part again
    } else if (IsUnknown(answer)) {
      writes_same_ = false;
      return EOPNOTSUPP;
    } else if (const int error = ToErrno(answer); error != 0) {
      return error;
    } else {
      at += part;
    }
  }
  return 0;
}

Status IscsiStore::Refresh() {
  ChannelUnit unit(*channel_);
  ASSIGN_OR_RETURN(const Capacity now, ReadCapacityOf(unit));
  if (now.block_bytes != block_ || now.size_bytes() < size_) {
    return Error(StatusCode::kFailedPrecondition,
                 "the LUN has {} bytes in blocks of {}, but had {} in blocks of {}",
                 now.size_bytes(), now.block_bytes, size_.load(), block_);
  }
  size_ = now.size_bytes();
  return base::OkStatus();
}

}  // namespace berth::iscsi
