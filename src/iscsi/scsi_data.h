// Reads what a SCSI target answers: lists of LUNs, sizes, identities and persistent reservations
// (SPC-4, SBC-3). Every length in an answer is checked against the bytes that arrived, because the
// target may be broken.
//
// Failures are DATA_LOSS: the answer is shorter than its own lengths say, or is no such answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::iscsi {

using Bytes = std::span<const uint8_t>;

// --- LUNs and sizes ---

// The numbers of LUNs in the answer to REPORT LUNS, in ascending order. LUNs of several levels and
// well-known logical units are left out, because they are no disks.
base::StatusOr<std::vector<uint16_t>> ParseLuns(Bytes answer);
// Whether that answer is longer than what arrived of it.
bool IsCutOff(Bytes answer);

struct Capacity {
  uint64_t blocks = 0;
  uint32_t block_bytes = 0;  // 512 to 4096, a power of two
  bool thin = false;         // LBPME and LBPRZ: unmapped blocks read as zeroes
  int64_t size_bytes() const { return static_cast<int64_t>(blocks * block_bytes); }
};

// The answer to READ CAPACITY(16). FAILED_PRECONDITION: the size of a block is not supported.
base::StatusOr<Capacity> ParseCapacity(Bytes answer);

// The limits of VPD page 0xB0, in blocks; 0: the target sets no limit.
struct Limits {
  uint32_t max_transfer = 0;
  uint64_t max_write_same = 0;
};
base::StatusOr<Limits> ParseLimits(Bytes page);

// --- Identity ---

struct StandardInquiry {
  uint8_t device_type = 0x1f;  // 0: a disk
  std::string vendor;
  std::string product;
};
// The standard INQUIRY data. NOT_FOUND: there is no logical unit at this number.
base::StatusOr<StandardInquiry> ParseInquiry(Bytes answer);

// The serial number in VPD page 0x80, without spaces around it.
base::StatusOr<std::string> ParseSerial(Bytes page);

// The best name of the logical unit in VPD page 0x83: "naa.…", "eui.…", "name.…" or "t10.…".
// `unique` tells whether the standard makes this name unique in the world. NOT_FOUND: the page
// names no logical unit.
struct Designator {
  std::string name;
  bool unique = false;
};
base::StatusOr<Designator> ParseDesignator(Bytes page);

// Whether the write cache is on, from the answer to MODE SENSE(10) of page 8.
base::StatusOr<bool> ParseWriteCache(Bytes answer);

// --- Persistent reservations (SPC-4, section 6.15) ---

enum class ReservationType : uint8_t {
  kNone = 0,
  kWriteExclusive = 1,
  kExclusiveAccess = 3,
  kWriteExclusiveRegistrantsOnly = 5,
  kExclusiveAccessRegistrantsOnly = 6,
  kWriteExclusiveAllRegistrants = 7,
  kExclusiveAccessAllRegistrants = 8,
};
std::string_view TypeName(ReservationType type);

struct Keys {
  // Counts the changes of registrations, and is 0 after a power loss of the target.
  uint32_t generation = 0;
  // The length that the whole answer has; more than what arrived if the buffer was too short.
  size_t whole_bytes = 0;
  std::vector<uint64_t> keys;
};
base::StatusOr<Keys> ParseKeys(Bytes answer);

struct Reservation {
  uint32_t generation = 0;  // as in Keys
  ReservationType type = ReservationType::kNone;
  uint64_t key = 0;  // of the holder; 0 with the types of all registrants
};
base::StatusOr<Reservation> ParseReservation(Bytes answer);

struct Registration {
  uint64_t key = 0;
  bool holder = false;
  std::string initiator;  // the iSCSI name in the TransportID; "": another transport
};
struct FullStatus {
  size_t whole_bytes = 0;
  std::vector<Registration> registrations;
};
base::StatusOr<FullStatus> ParseFullStatus(Bytes answer);

// Whether registrations survive a power loss of the target if they ask for it (PTPL_C).
base::StatusOr<bool> ParseKeepsOverPowerLoss(Bytes answer);

}  // namespace berth::iscsi
