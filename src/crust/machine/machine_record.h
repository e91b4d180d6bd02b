// The record of one sandbox's virtual machine, in a file of its own (crust/paths.h). It is durable
// before each step that it describes.
//
//   no record ──▶ [starting] ──▶ [started] ──▶ no record
//                  the mark       pids and start times, too
//
// A machine of a record "starting" may run; it is found by the mark in the environment, and ended,
// because nothing was done with it yet. Thread-safe for different sandboxes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "platform/processes/daemon.h"

namespace berth::crust {

struct MachineRecord {
  std::string boot_id;
  std::string mark;  // the value of the variable kMachineMark in its processes' environment
  platform::DaemonId daemon;  // QEMU; pid 0: starting
  platform::DaemonId share;   // virtiofsd; pid 0: the guest shares no files with the host
  bool operator==(const MachineRecord& other) const {
    return boot_id == other.boot_id && mark == other.mark && daemon.pid == other.daemon.pid &&
           daemon.start_time == other.daemon.start_time && share.pid == other.share.pid &&
           share.start_time == other.share.start_time;
  }
};

inline constexpr std::string_view kMachineMark = "BERTH_MACHINE";

std::string Encode(const MachineRecord& record);
// DATA_LOSS: the text is not such a record.
base::StatusOr<MachineRecord> DecodeMachineRecord(std::string_view text);

class MachineRecords {
 public:
  // `folder` is made if missing.
  static base::StatusOr<MachineRecords> Open(std::string folder);

  // The ids of the sandboxes that have a record.
  base::StatusOr<std::vector<std::string>> ListSandboxes() const;
  // NOT_FOUND: there is no record. DATA_LOSS: it cannot be read.
  base::StatusOr<MachineRecord> ReadRecord(const std::string& sandbox_id) const;
  // Sets the boot id and writes the record durably.
  base::Status WriteRecord(const std::string& sandbox_id, MachineRecord& record) const;
  // OK if there is no record.
  base::Status RemoveRecord(const std::string& sandbox_id) const;
  // Whether the record is of this boot. The machine of another one has ended with it.
  bool IsOfThisBoot(const MachineRecord& record) const;

 private:
  MachineRecords(std::string folder, std::string boot_id)
      : folder_(std::move(folder)), boot_id_(std::move(boot_id)) {}
  std::string Path(const std::string& id) const { return folder_ + "/" + id + ".json"; }

  std::string folder_;
  std::string boot_id_;
};

}  // namespace berth::crust
