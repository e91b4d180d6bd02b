#include "block/proxy/export_record.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "block/images/image_record.h"
#include "platform/files/record_files.h"

namespace berth::block::proxy {
namespace {

constexpr int kVersion = 1;
constexpr std::array<std::string_view, 5> kStates{"starting", "serving", "quarantined", "closing",
                                                  "killing"};

}  // namespace

std::string_view StateName(Export::State state) { return kStates[static_cast<size_t>(state)]; }

std::string Encode(const Export& record) {
  const Volume& volume = record.volume;
  base::Json json = {{"version", kVersion},
                     {"store", volume.store},
                     {"image", volume.image},
                     {"path", volume.path},
                     {"device", volume.device},
                     {"inode", volume.inode},
                     {"server", volume.server},
                     {"export", volume.export_name},
                     {"readOnly", volume.read_only},
                     {"shared", volume.shared},
                     {"program", volume.program},
                     {"state", StateName(record.state)},
                     {"reason", record.reason},
                     {"lost", record.lost},
                     {"bootId", record.boot_id},
                     {"pid", record.daemon.pid},
                     {"startTime", record.daemon.start_time},
                     {"shownOn", record.shown_on},
                     {"generation", record.generation}};
  return base::json::Dump(json) + "\n";
}

base::StatusOr<Export> DecodeExport(std::string_view text) {
  namespace json = base::json;
  ASSIGN_OR_RETURN(const base::Json value, platform::ParseRecord(text, kVersion));
  Export record;
  Volume& volume = record.volume;
  volume.store = json::String(value, {"store"});
  volume.image = json::String(value, {"image"});
  volume.path = json::String(value, {"path"});
  volume.device = static_cast<uint64_t>(json::Int(value, {"device"}));
  volume.inode = static_cast<uint64_t>(json::Int(value, {"inode"}));
  volume.server = json::String(value, {"server"});
  volume.export_name = json::String(value, {"export"});
  volume.read_only = json::Bool(value, {"readOnly"});
  volume.shared = json::Bool(value, {"shared"});
  volume.program = json::String(value, {"program"});
  record.reason = json::String(value, {"reason"});
  record.lost = json::String(value, {"lost"});
  record.boot_id = json::String(value, {"bootId"});
  record.daemon.pid = static_cast<pid_t>(json::Int(value, {"pid"}));
  record.daemon.start_time = static_cast<uint64_t>(json::Int(value, {"startTime"}));
  record.shown_on = static_cast<uint64_t>(json::Int(value, {"shownOn"}));
  record.generation = static_cast<int>(json::Int(value, {"generation"}));
  const auto state = std::find(kStates.begin(), kStates.end(), json::String(value, {"state"}));
  if (state == kStates.end() || !IsImageName(volume.image) || record.generation < 0) {
    return base::Error(base::StatusCode::kDataLoss, "a member of the record is missing or unknown");
  }
  record.state = static_cast<Export::State>(state - kStates.begin());
  return record;
}

}  // namespace berth::block::proxy
