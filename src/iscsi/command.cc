#include "iscsi/command.h"

namespace berth::iscsi {
namespace {

constexpr uint8_t kSynchronizeCache = 0x91;

void WriteBigEndian(std::span<uint8_t> at, uint64_t value) {
  for (size_t i = at.size(); i > 0; --i, value >>= 8) at[i - 1] = static_cast<uint8_t>(value);
}

Command MakeCommand(uint8_t code, uint8_t bytes) {
  Command command;
  command.cdb[0] = code;
  command.cdb_bytes = bytes;
  return command;
}

Command OfBlocks(uint8_t code, uint64_t block, uint32_t blocks) {
  Command command = MakeCommand(code, 16);
  WriteBigEndian({&command.cdb[2], 8}, block);
  WriteBigEndian({&command.cdb[10], 4}, blocks);
  return command;
}

}  // namespace

Command TestUnitReady() { return MakeCommand(0x00, 6); }

Command Inquire(std::span<uint8_t> in) {
  Command command = MakeCommand(0x12, 6);
  WriteBigEndian({&command.cdb[3], 2}, in.size());
  command.in = in;
  return command;
}

Command InquirePage(uint8_t page, std::span<uint8_t> in) {
  Command command = Inquire(in);
  command.cdb[1] = 1;
  command.cdb[2] = page;
  return command;
}

Command ReportLuns(std::span<uint8_t> in) {
  Command command = MakeCommand(0xa0, 12);
  WriteBigEndian({&command.cdb[6], 4}, in.size());
  command.in = in;
  return command;
}

Command ReadCapacity(std::span<uint8_t> in) {
  Command command = MakeCommand(0x9e, 16);
  command.cdb[1] = 0x10;
  WriteBigEndian({&command.cdb[10], 4}, in.size());
  command.in = in;
  return command;
}

Command ModeSense(uint8_t page, std::span<uint8_t> in) {
  Command command = MakeCommand(0x5a, 10);
  command.cdb[1] = 0x08;  // no block descriptors
  command.cdb[2] = page;
  WriteBigEndian({&command.cdb[7], 2}, in.size());
  command.in = in;
  return command;
}

Command Read(uint64_t block, uint32_t blocks, std::span<uint8_t> in) {
  Command command = OfBlocks(0x88, block, blocks);
  command.in = in;
  return command;
}

Command Write(uint64_t block, uint32_t blocks, std::span<const uint8_t> out) {
  Command command = OfBlocks(0x8a, block, blocks);
  command.out = out;
  return command;
}

Command CompareAndWrite(uint64_t block, std::span<const uint8_t> blocks_out) {
  Command command = OfBlocks(0x89, block, 0);
  command.cdb[13] = 1;
  command.out = blocks_out;
  return command;
}

Command WriteSame(uint64_t block, uint32_t blocks, bool unmap, std::span<const uint8_t> pattern) {
  Command command = OfBlocks(0x93, block, blocks);
  if (unmap) command.cdb[1] = 0x08;
  command.out = pattern;
  return command;
}

Command SynchronizeCache() { return OfBlocks(kSynchronizeCache, 0, 0); }  // 0 blocks: all of them
bool IsFlush(const Command& command) { return command.cdb[0] == kSynchronizeCache; }

Command PersistentReserveIn(PrIn action, std::span<uint8_t> in) {
  Command command = MakeCommand(0x5e, 10);
  command.cdb[1] = static_cast<uint8_t>(action);
  WriteBigEndian({&command.cdb[7], 2}, in.size());
  command.in = in;
  return command;
}

PrParameters MakePrParameters(uint64_t key, uint64_t action_key, bool keep_over_power_loss) {
  PrParameters parameters{};
  WriteBigEndian({&parameters[0], 8}, key);
  WriteBigEndian({&parameters[8], 8}, action_key);
  if (keep_over_power_loss) parameters[20] = 1;
  return parameters;
}

Command PersistentReserveOut(PrOut action, ReservationType type, const PrParameters& parameters) {
  Command command = MakeCommand(0x5f, 10);
  command.cdb[1] = static_cast<uint8_t>(action);
  command.cdb[2] = static_cast<uint8_t>(type);
  WriteBigEndian({&command.cdb[5], 4}, parameters.size());
  command.out = parameters;
  return command;
}

}  // namespace berth::iscsi
