#include "block/images/image_record.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/log.h"
#include "platform/files/record_files.h"

namespace berth::block {
namespace {

constexpr int kVersion = 1;
constexpr std::array<std::string_view, 4> kStates{"creating", "placing", "ready", "deleting"};

}  // namespace

bool IsImageName(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= 253 && plain(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return plain(c) || c == '-' || c == '.'; });
}

base::Status CheckImageName(std::string_view name) {
  if (IsImageName(name)) return base::OkStatus();
  return base::Error(base::StatusCode::kInvalidArgument,
                     "{} is not the name of an image: a name has lower-case letters, digits, '-' "
                     "and '.', begins with a letter or digit, and has at most 253 bytes",
                     base::Quote(name));
}

std::string Encode(const ImageRecord& record) {
  using std::chrono::nanoseconds;
  const auto created =
      std::chrono::duration_cast<nanoseconds>(record.created.time_since_epoch()).count();
  base::Json json = {
      {"version", kVersion},
      {"name", record.name},
      {"state", kStates[static_cast<size_t>(record.state)]},
      {"sizeBytes", record.size_bytes},
      {"madeBytes", record.made_bytes},
      {"createdUnixNanos", created},
      {"image",
       {{"device", record.identity.device},
        {"inode", record.identity.inode},
        {"bootId", record.identity.boot_id}}},
  };
  if (record.growing_from != 0) json["growingFrom"] = record.growing_from;
  if (!record.source.empty()) json["source"] = record.source;
  if (!record.snapshot_of.empty()) json["snapshotOf"] = record.snapshot_of;
  if (!record.formatting.empty()) json["formattingUUID"] = record.formatting;
  if (!record.fs_uuid.empty()) json["fileSystemUUID"] = record.fs_uuid;
  return base::json::Dump(json) + "\n";
}

base::StatusOr<ImageRecord> DecodeImageRecord(std::string_view text) {
  namespace json = base::json;
  ASSIGN_OR_RETURN(const base::Json value, platform::ParseRecord(text, kVersion));
  ImageRecord record;
  record.name = json::String(value, {"name"});
  record.size_bytes = json::Int(value, {"sizeBytes"});
  record.made_bytes = json::Int(value, {"madeBytes"});
  record.growing_from = json::Int(value, {"growingFrom"});
  record.source = json::String(value, {"source"});
  record.snapshot_of = json::String(value, {"snapshotOf"});
  record.formatting = json::String(value, {"formattingUUID"});
  record.fs_uuid = json::String(value, {"fileSystemUUID"});
  record.created = base::WallTime(std::chrono::duration_cast<base::WallTime::duration>(
      std::chrono::nanoseconds(json::Int(value, {"createdUnixNanos"}))));
  record.identity.device = static_cast<uint64_t>(json::Int(value, {"image", "device"}));
  record.identity.inode = static_cast<uint64_t>(json::Int(value, {"image", "inode"}));
  record.identity.boot_id = json::String(value, {"image", "bootId"});
  const auto state = std::find(kStates.begin(), kStates.end(), json::String(value, {"state"}));
  const auto good_or_none = [](const std::string& name) {
    return name.empty() || IsImageName(name);
  };
  if (state == kStates.end() || !IsImageName(record.name) ||
      (!record.formatting.empty() && !IsId(record.formatting)) ||
      (!record.fs_uuid.empty() && !IsId(record.fs_uuid)) || record.size_bytes <= 0 ||
      record.growing_from < 0 || !good_or_none(record.source) ||
      !good_or_none(record.snapshot_of)) {
    return base::Error(base::StatusCode::kDataLoss, "a member of the record is missing or unknown");
  }
  record.state = static_cast<ImageState>(state - kStates.begin());
  const bool needs_image =
      record.state == ImageState::kPlacing || record.state == ImageState::kReady;
  if (needs_image && record.identity.inode == 0) {
    return base::Error(base::StatusCode::kDataLoss, "the record names no image");
  }
  return record;
}

}  // namespace berth::block
