// The SCSI commands that Berth sends (SPC-4, SBC-3).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "iscsi/scsi_data.h"

namespace berth::iscsi {

// A command with the memory that it reads into or writes from, which it borrows.
struct Command {
  std::array<uint8_t, 16> cdb{};
  uint8_t cdb_bytes = 16;
  std::span<uint8_t> in;  // at most one of the two is not empty
  std::span<const uint8_t> out;
};

Command TestUnitReady();
// `page` of the vital product data.
Command InquirePage(uint8_t page, std::span<uint8_t> in);
Command Inquire(std::span<uint8_t> in);
Command ReportLuns(std::span<uint8_t> in);
Command ReadCapacity(std::span<uint8_t> in);
Command ModeSense(uint8_t page, std::span<uint8_t> in);

Command Read(uint64_t block, uint32_t blocks, std::span<uint8_t> in);
Command Write(uint64_t block, uint32_t blocks, std::span<const uint8_t> out);
// Writes the second half of `blocks_out` to one block if the first half is what it has.
Command CompareAndWrite(uint64_t block, std::span<const uint8_t> blocks_out);
// Writes the one block in `pattern` to all `blocks`, and lets the target free their space if it
// returns the same data from then on.
Command WriteSame(uint64_t block, uint32_t blocks, bool unmap, std::span<const uint8_t> pattern);
Command SynchronizeCache();
bool IsFlush(const Command& command);

enum class PrIn : uint8_t {
  kReadKeys = 0,
  kReadReservation = 1,
  kCapabilities = 2,
  kFullStatus = 3
};
Command PersistentReserveIn(PrIn action, std::span<uint8_t> in);

enum class PrOut : uint8_t {
  kRegister = 0,
  kReserve = 1,
  kRelease = 2,
  kClear = 3,
  kPreempt = 4,
  kPreemptAndAbort = 5,
  kRegisterAndIgnoreExistingKey = 6,
};
// The parameters of PERSISTENT RESERVE OUT: `key` is the one that this session has registered,
// `action_key` the one that the action is about.
using PrParameters = std::array<uint8_t, 24>;
PrParameters MakePrParameters(uint64_t key, uint64_t action_key, bool keep_over_power_loss);
Command PersistentReserveOut(PrOut action, ReservationType type, const PrParameters& parameters);

}  // namespace berth::iscsi
