#include "crust/machine/machine_record.h"

#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/record_files.h"

namespace berth::crust {

using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;
namespace json = base::json;

namespace {

constexpr int kMachineVersion = 1;
constexpr std::string_view kRecordEnd = ".json";

}  // namespace

std::string Encode(const MachineRecord& record) {
  return json::Dump({{"version", kMachineVersion},
                     {"bootId", record.boot_id},
                     {"mark", record.mark},
                     {"pid", record.daemon.pid},
                     {"startTime", record.daemon.start_time},
                     {"sharePid", record.share.pid},
                     {"shareStartTime", record.share.start_time}}) +
         "\n";
}

StatusOr<MachineRecord> DecodeMachineRecord(std::string_view text) {
  ASSIGN_OR_RETURN(const Json value, platform::ParseRecord(text, kMachineVersion));
  MachineRecord record{
      .boot_id = json::String(value, {"bootId"}),
      .mark = json::String(value, {"mark"}),
      .daemon = {.pid = static_cast<pid_t>(json::Int(value, {"pid"})),
                 .start_time = static_cast<uint64_t>(json::Int(value, {"startTime"}))},
      .share = {.pid = static_cast<pid_t>(json::Int(value, {"sharePid"})),
                .start_time = static_cast<uint64_t>(json::Int(value, {"shareStartTime"}))}};
  if (record.boot_id.empty() || record.mark.empty()) {
    return Error(StatusCode::kDataLoss, "the record of the machine has no boot id or no mark");
  }
  return record;
}

StatusOr<MachineRecords> MachineRecords::Open(std::string folder) {
  RETURN_IF_ERROR(platform::MakePrivateFolder(folder));
  RETURN_IF_ERROR(platform::RemoveTornWrites(folder));
  ASSIGN_OR_RETURN(std::string boot_id, platform::ReadBootId());
  return MachineRecords(std::move(folder), std::move(boot_id));
}

StatusOr<std::vector<std::string>> MachineRecords::ListSandboxes() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, platform::ListFolder(folder_));
  std::vector<std::string> ids;
  for (const std::string& name : names) {
    if (name.ends_with(kRecordEnd)) ids.push_back(name.substr(0, name.size() - kRecordEnd.size()));
  }
  return ids;
}

StatusOr<MachineRecord> MachineRecords::ReadRecord(const std::string& sandbox_id) const {
  ASSIGN_OR_RETURN(const std::string text, platform::ReadFile(Path(sandbox_id)));
  return DecodeMachineRecord(text);
}

base::Status MachineRecords::WriteRecord(const std::string& sandbox_id,
                                         MachineRecord& record) const {
  record.boot_id = boot_id_;
  return platform::WriteDurably<"crust.machine_record">(Path(sandbox_id), Encode(record));
}

base::Status MachineRecords::RemoveRecord(const std::string& sandbox_id) const {
  return platform::RemoveDurably<"crust.machine_record">(Path(sandbox_id));
}

bool MachineRecords::IsOfThisBoot(const MachineRecord& record) const {
  return platform::IsThisBoot(record.boot_id, boot_id_);
}

}  // namespace berth::crust
