// A logical unit of an iSCSI target: what it is, and the interface by which it is asked.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "iscsi/scsi_data.h"
#include "iscsi/session.h"

namespace berth::iscsi {

class LogicalUnit {
 public:
  virtual ~LogicalUnit() = default;
  // Sends the command and waits for its end. Sends it again after a unit attention, and while the
  // logical unit is busy or not ready. kLost: the connection broke, or the time is over.
  virtual Answer Run(const Command& command) = 0;
  // Ends the commands of all sessions to it. UNIMPLEMENTED: the target cannot do that.
  virtual base::Status Reset() = 0;
};

// The logical unit with that number on a session, which it borrows. All calls together end by the
// deadline.
class SessionUnit : public LogicalUnit {
 public:
  using OnAttention = std::function<void(uint16_t code)>;

  // `on_attention` gets the code of each unit attention that a command had.
  SessionUnit(Session& session, uint16_t lun, Deadline deadline, OnAttention on_attention = nullptr)
      : session_(session), lun_(lun), deadline_(deadline), on_attention_(std::move(on_attention)) {}
  Answer Run(const Command& command) override;
  base::Status Reset() override { return session_.ResetLun(lun_, deadline_); }

 private:
  Session& session_;
  const uint16_t lun_;
  const Deadline deadline_;
  const OnAttention on_attention_;
};

// Whether the logical unit is not ready, as while it starts or changes its state, and may be soon.
bool IsNotReady(const Answer& answer);
// Whether it can only be reached by another portal now (ALUA: standby or unavailable).
bool IsNotReadyHere(const Answer& answer);

// The failure of a command, with what was done: "read capacity: CHECK CONDITION 5/2000".
// UNAVAILABLE: no answer, or it is not ready. UNIMPLEMENTED: the logical unit does not know the
// command. FAILED_PRECONDITION: another session's reservation refuses it. INTERNAL: anything else.
base::Status AnswerError(const Answer& answer, std::string_view what);

struct UnitInfo {
  std::string identity;  // differs for any two logical units (docs/adr/0034)
  std::string serial;    // may be empty
  std::string vendor;
  std::string product;
  Capacity capacity;
  Limits limits;
};

// NOT_FOUND: there is no logical unit with this number. FAILED_PRECONDITION: it is no disk, it has
// no identity, or its blocks are not supported.
base::StatusOr<UnitInfo> Inspect(LogicalUnit& unit);
base::StatusOr<std::string> ReadIdentity(LogicalUnit& unit);
// Whether the target is Linux's own (LIO), as its vendor's name says.
base::StatusOr<bool> IsLio(LogicalUnit& unit);
bool IsLio(std::string_view vendor);
base::StatusOr<Capacity> ReadCapacityOf(LogicalUnit& unit);

// The numbers of the target's LUNs, at most 16,384.
base::StatusOr<std::vector<uint16_t>> ListLuns(LogicalUnit& unit);

// Whether the logical unit seems to hold nothing: its first and last MiB, and samples between
// them, read as zeroes. So a file system, a partition table, a volume group, an encrypted disk or
// an older Berth volume is not blank. Nothing is written. FAILED_PRECONDITION: it cannot be read.
base::StatusOr<bool> IsBlank(LogicalUnit& unit, const Capacity& capacity);

}  // namespace berth::iscsi
