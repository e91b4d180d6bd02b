// A LUN as the store of a volume's server (blockexport/block_store.h).
//
// Requests of any alignment are served: a part of a block is read, changed and written, while no
// other write runs. With several nodes that write, that could undo what another node wrote to the
// same block, so it is refused (EINVAL).
#pragma once

#include <atomic>
#include <memory>
#include <shared_mutex>

#include "blockexport/block_store.h"
#include "iscsi/channel.h"

namespace berth::iscsi {

struct StoreOptions {
  ChannelOptions channel;
  bool read_only = false;
  bool shared_writers = false;
};

// Reads the settings of `berth-iscsi serve`: `cluster` and `node` (settings.h), `lun`, `identity`,
// `ticket` (reservations.h), and optionally `readOnly` and `shared`. INVALID_ARGUMENT names the
// member that is wrong.
base::StatusOr<StoreOptions> ReadStoreOptions(const base::Json& settings);

class IscsiStore : public blockexport::BlockStore {
 public:
  // The failures are those of Channel::Open.
  static base::StatusOr<std::unique_ptr<IscsiStore>> Open(const StoreOptions& options,
                                                          Deadline deadline);

  int64_t size_bytes() const override { return size_; }
  bool read_only() const override { return options_.read_only; }
  int Read(int64_t offset, std::span<char> into) override;
  int Write(int64_t offset, std::span<const char> from) override;
  int Flush() override;
  int WriteZeroes(int64_t offset, int64_t length) override;
  // FAILED_PRECONDITION: the LUN is smaller than it was.
  base::Status Refresh() override;

  const UnitInfo& info() const { return channel_->info(); }

 private:
  IscsiStore(const StoreOptions& options, std::unique_ptr<Channel> channel);
  int ReadBlocks(int64_t offset, std::span<uint8_t> into);
  int WriteBlocks(int64_t offset, std::span<const uint8_t> from);
  int WritePart(int64_t offset, std::span<const char> from);
  // Whether the range lies within the volume and neither end is within a block.
  bool IsInside(int64_t offset, size_t bytes) const;
  bool IsAligned(int64_t offset, size_t bytes) const;

  const StoreOptions options_;
  const std::unique_ptr<Channel> channel_;
  const int64_t block_;
  const int64_t most_bytes_;   // of a read or write
  const int64_t most_zeroes_;  // of a WRITE SAME
  std::atomic<int64_t> size_;
  std::atomic<bool> writes_same_;
  std::atomic<bool> unmaps_;
  std::shared_mutex parts_;  // held alone while part of a block is changed
};

}  // namespace berth::iscsi
