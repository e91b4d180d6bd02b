#include "iscsi/scsi_data.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::iscsi {

using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

// The most that this program takes from one answer, so that a broken target cannot fill the memory.
constexpr size_t kMostLuns = 16384;  // that one level of numbers has
constexpr size_t kMostKeys = 8192;

base::Status TooShort(std::string_view what, size_t bytes) {
  return Error(StatusCode::kDataLoss, "the target's answer to {} has only {} bytes", what, bytes);
}

uint64_t ReadNumber(Bytes data, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | data[at + i];
  return value;
}
uint16_t Read16(Bytes data, size_t at) { return static_cast<uint16_t>(ReadNumber(data, at, 2)); }
uint32_t Read32(Bytes data, size_t at) { return static_cast<uint32_t>(ReadNumber(data, at, 4)); }

std::string Hex(Bytes data) {
  std::string text;
  for (const uint8_t byte : data) text += fmt::format("{:02x}", byte);
  return text;
}

// Printable ASCII without spaces around it. Other bytes become '?', so that a name can stand in a
// log line and in JSON.
std::string ReadText(Bytes data) {
  std::string text;
  for (const uint8_t byte : data) {
    if (byte == 0) break;
    text += byte >= 0x20 && byte < 0x7f ? static_cast<char>(byte) : '?';
  }
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// The content of a VPD page, after its four bytes of header.
StatusOr<Bytes> ReadPage(Bytes page, uint8_t code) {
  const std::string what = fmt::format("INQUIRY of page {:#04x}", code);
  if (page.size() < 4) return TooShort(what, page.size());
  if (page[1] != code) {
    return Error(StatusCode::kDataLoss, "the target answered {} with page {:#04x}", what, page[1]);
  }
  const size_t length = Read16(page, 2);
  if (page.size() - 4 < length) return TooShort(what, page.size());
  return page.subspan(4, length);
}

// How good a designator is; 0: it names no logical unit, or in a form that is not known.
int Rank(uint8_t type, Bytes id) {
  if (id.empty()) return 0;
  switch (type) {
    case 3:
      // Format 3 is assigned by the administrator, so two targets may use the same name.
      return id[0] >> 4 == 3 ? 2 : 5;
    case 2:
      return 4;
    case 8:
      return 3;
    case 1:
      return 1;
    default:
      return 0;
  }
}

std::string DesignatorName(uint8_t type, Bytes id) {
  switch (type) {
    case 3:
      return "naa." + Hex(id);
    case 2:
      return "eui." + Hex(id);
    case 8:
      return "name." + ReadText(id);
    default:
      return "t10." + ReadText(id);
  }
}

// The initiator's name in a TransportID of iSCSI, with or without ",i,0x" and the ISID behind it.
std::string ReadInitiator(Bytes transport_id) {
  if (transport_id.size() < 4 || (transport_id[0] & 0x0f) != 5) return "";
  const size_t length = std::min<size_t>(Read16(transport_id, 2), transport_id.size() - 4);
  const std::string text = ReadText(transport_id.subspan(4, length));
  return text.substr(0, text.find(",i,0x"));
}

}  // namespace

bool IsCutOff(Bytes answer) { return answer.size() >= 8 && Read32(answer, 0) > answer.size() - 8; }

StatusOr<std::vector<uint16_t>> ParseLuns(Bytes answer) {
  if (answer.size() < 8) return TooShort("REPORT LUNS", answer.size());
  const size_t length = Read32(answer, 0);
  if (answer.size() - 8 < length || length % 8 != 0) return TooShort("REPORT LUNS", answer.size());
  std::vector<uint16_t> luns;
  for (size_t at = 8; at < 8 + length && luns.size() < kMostLuns; at += 8) {
    const uint8_t method = answer[at] >> 6;
    const bool one_level = ReadNumber(answer, at + 2, 6) == 0;
    // Method 0 is a peripheral device, whose first byte is the bus; 1 is a flat number.
    if (!one_level || method > 1 || (method == 0 && answer[at] != 0)) continue;
    luns.push_back(Read16(answer, at) & 0x3fff);
  }
  std::ranges::sort(luns);
  luns.erase(std::ranges::unique(luns).begin(), luns.end());
  return luns;
}

StatusOr<Capacity> ParseCapacity(Bytes answer) {
  if (answer.size() < 15) return TooShort("READ CAPACITY", answer.size());
  const uint64_t last = ReadNumber(answer, 0, 8);
  Capacity capacity{.block_bytes = Read32(answer, 8), .thin = (answer[14] & 0xc0) == 0xc0};
  const uint32_t block = capacity.block_bytes;
  if (block < 512 || block > 4096 || (block & (block - 1)) != 0) {
    return Error(StatusCode::kFailedPrecondition,
                 "its blocks have {} bytes, which is not supported: 512 to 4096 are", block);
  }
  if (last >= (uint64_t{1} << 62) / block) {
    return Error(StatusCode::kDataLoss, "the target says that its last block is {}", last);
  }
  capacity.blocks = last + 1;
  return capacity;
}

StatusOr<Limits> ParseLimits(Bytes page) {
  ASSIGN_OR_RETURN(const Bytes content, ReadPage(page, 0xb0));
  if (content.size() < 8) return TooShort("INQUIRY of page 0xb0", page.size());
  // Targets of before SBC-3 have a shorter page, without the second limit.
  return Limits{.max_transfer = Read32(content, 4),
                .max_write_same = content.size() < 40 ? 0 : ReadNumber(content, 32, 8)};
}

StatusOr<StandardInquiry> ParseInquiry(Bytes answer) {
  if (answer.size() < 36) return TooShort("INQUIRY", answer.size());
  if (answer[0] >> 5 != 0) {
    return Error(StatusCode::kNotFound, "the target has no logical unit at this number");
  }
  return StandardInquiry{.device_type = static_cast<uint8_t>(answer[0] & 0x1f),
                         .vendor = ReadText(answer.subspan(8, 8)),
                         .product = ReadText(answer.subspan(16, 16))};
}

StatusOr<std::string> ParseSerial(Bytes page) {
  ASSIGN_OR_RETURN(const Bytes content, ReadPage(page, 0x80));
  return ReadText(content);
}

StatusOr<Designator> ParseDesignator(Bytes page) {
  ASSIGN_OR_RETURN(Bytes rest, ReadPage(page, 0x83));
  int best = 0;
  Designator found;
  while (!rest.empty()) {
    if (rest.size() < 4 || rest.size() - 4 < rest[3]) {
      return TooShort("INQUIRY of page 0x83", page.size());
    }
    const Bytes id = rest.subspan(4, rest[3]);
    const uint8_t association = rest[1] >> 4 & 3;
    const uint8_t type = rest[1] & 0x0f;
    const int rank = association == 0 ? Rank(type, id) : 0;
    if (rank > best) {
      best = rank;
      found = {.name = DesignatorName(type, id), .unique = rank >= 3};
    }
    rest = rest.subspan(4 + id.size());
  }
  if (best == 0) {
    return Error(StatusCode::kNotFound, "the target gives the logical unit no name (page 0x83)");
  }
  return found;
}

StatusOr<bool> ParseWriteCache(Bytes answer) {
  if (answer.size() < 8) return TooShort("MODE SENSE", answer.size());
  const size_t page = 8 + size_t{Read16(answer, 6)};
  if (answer.size() < page + 3 || (answer[page] & 0x3f) != 8) {
    return TooShort("MODE SENSE of page 8", answer.size());
  }
  return (answer[page + 2] & 0x04) != 0;
}

std::string_view TypeName(ReservationType type) {
  switch (type) {
    case ReservationType::kNone:
      return "None";
    case ReservationType::kWriteExclusive:
      return "WriteExclusive";
    case ReservationType::kExclusiveAccess:
      return "ExclusiveAccess";
    case ReservationType::kWriteExclusiveRegistrantsOnly:
      return "WriteExclusiveRegistrantsOnly";
    case ReservationType::kExclusiveAccessRegistrantsOnly:
      return "ExclusiveAccessRegistrantsOnly";
    case ReservationType::kWriteExclusiveAllRegistrants:
      return "WriteExclusiveAllRegistrants";
    case ReservationType::kExclusiveAccessAllRegistrants:
      return "ExclusiveAccessAllRegistrants";
  }
  return "Unknown";
}

StatusOr<Keys> ParseKeys(Bytes answer) {
  if (answer.size() < 8) return TooShort("READ KEYS", answer.size());
  const size_t length = Read32(answer, 4);
  if (length % 8 != 0) return TooShort("READ KEYS", answer.size());
  if (length / 8 > kMostKeys) {
    return Error(StatusCode::kDataLoss, "the target says that it has {} keys", length / 8);
  }
  Keys found{.generation = Read32(answer, 0), .whole_bytes = 8 + length, .keys = {}};
  for (size_t at = 8; at + 8 <= std::min(8 + length, answer.size()); at += 8) {
    found.keys.push_back(ReadNumber(answer, at, 8));
  }
  return found;
}

StatusOr<Reservation> ParseReservation(Bytes answer) {
  if (answer.size() < 8) return TooShort("READ RESERVATION", answer.size());
  const size_t length = Read32(answer, 4);
  const uint32_t generation = Read32(answer, 0);
  if (length == 0) return Reservation{.generation = generation};
  if (length < 16 || answer.size() < 24) return TooShort("READ RESERVATION", answer.size());
  return Reservation{.generation = generation,
                     .type = static_cast<ReservationType>(answer[21] & 0x0f),
                     .key = ReadNumber(answer, 8, 8)};
}

StatusOr<FullStatus> ParseFullStatus(Bytes answer) {
  if (answer.size() < 8) return TooShort("READ FULL STATUS", answer.size());
  const size_t length = Read32(answer, 4);
  FullStatus found{.whole_bytes = 8 + length, .registrations = {}};
  Bytes rest = answer.subspan(8, std::min(length, answer.size() - 8));
  // A descriptor that is cut off ends the list: the caller then asks again with a larger buffer.
  while (rest.size() >= 24 && found.registrations.size() < kMostKeys) {
    const size_t more = Read32(rest, 20);
    if (more > rest.size() - 24) break;
    found.registrations.push_back({.key = ReadNumber(rest, 0, 8),
                                   .holder = (rest[12] & 1) != 0,
                                   .initiator = ReadInitiator(rest.subspan(24, more))});
    rest = rest.subspan(24 + more);
  }
  if (!rest.empty() && found.whole_bytes <= answer.size()) {
    return TooShort("READ FULL STATUS", answer.size());
  }
  return found;
}

StatusOr<bool> ParseKeepsOverPowerLoss(Bytes answer) {
  if (answer.size() < 4) return TooShort("REPORT CAPABILITIES", answer.size());
  return (answer[2] & 0x01) != 0;
}

}  // namespace berth::iscsi
