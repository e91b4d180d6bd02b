#include "block/record.h"

#include <array>

#include "platform/files/record_files.h"

namespace berth::block {
namespace {

constexpr int kVersion = 1;

template <typename E, size_t N>
using Names = std::array<std::pair<E, std::string_view>, N>;

constexpr Names<Kind, 2> kKinds{{{Kind::kVolume, "volume"}, {Kind::kSnapshot, "snapshot"}}};
constexpr Names<State, 3> kStates{
    {{State::kCreating, "creating"}, {State::kReady, "ready"}, {State::kDeleting, "deleting"}}};
constexpr Names<Content, 5> kContents{{{Content::kRaw, "raw"},
                                       {Content::kBlank, "blank"},
                                       {Content::kFormatting, "formatting"},
                                       {Content::kCopied, "copied"},
                                       {Content::kFormatted, "formatted"}}};
constexpr Names<AccessType, 2> kAccess{
    {{AccessType::kMount, "mount"}, {AccessType::kBlock, "block"}}};

template <typename E, size_t N>
std::string_view NameIn(const Names<E, N>& names, E value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  return "";
}

template <typename E, size_t N>
bool Parse(const Names<E, N>& names, const std::string& text, E& value) {
  for (const auto& [candidate, name] : names) {
    if (name == text) {
      value = candidate;
      return true;
    }
  }
  return false;
}

}  // namespace

std::string_view NameOf(Kind kind) { return NameIn(kKinds, kind); }
std::string_view NameOf(State state) { return NameIn(kStates, state); }
std::string_view NameOf(Content content) { return NameIn(kContents, content); }
std::string_view NameOf(AccessType access) { return NameIn(kAccess, access); }

bool IsId(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

std::string Encode(const Record& record) {
  using std::chrono::nanoseconds;
  const auto created =
      std::chrono::duration_cast<nanoseconds>(record.created.time_since_epoch()).count();
  base::Json json = {
      {"version", kVersion},
      {"kind", NameOf(record.kind)},
      {"id", record.id},
      {"name", record.name},
      {"state", NameOf(record.state)},
      {"sizeBytes", record.size_bytes},
      {"createdUnixNanos", created},
      {"accessType", NameOf(record.access)},
      {"fsType", record.fs_type},
      {"content", NameOf(record.content)},
      {"fsUuid", record.fs_uuid},
      {"growFileSystem", record.grow_file_system},
      {"growingFrom", record.growing_from},
      {"sectorSize", record.sector_size},
      {"image",
       {{"device", record.image.device},
        {"inode", record.image.inode},
        {"bootId", record.image.boot_id}}},
  };
  if (!record.group.empty()) json["group"] = record.group;
  if (!record.inline_target.empty()) json["inlineTarget"] = record.inline_target;
  if (!record.pods_identity.empty()) json["podsIdentity"] = record.pods_identity;
  if (!record.source.id.empty()) {
    json["source"] = {{"kind", NameOf(record.source.kind)}, {"id", record.source.id}};
  }
  return base::json::Dump(json) + "\n";
}

base::StatusOr<Record> DecodeRecord(std::string_view text) {
  namespace json = base::json;
  ASSIGN_OR_RETURN(const base::Json value, platform::ParseRecord(text, kVersion));
  Record record;
  record.id = json::String(value, {"id"});
  record.name = json::String(value, {"name"});
  record.size_bytes = json::Int(value, {"sizeBytes"});
  record.created = base::WallTime(std::chrono::duration_cast<base::WallTime::duration>(
      std::chrono::nanoseconds(json::Int(value, {"createdUnixNanos"}))));
  record.fs_type = json::String(value, {"fsType"});
  record.fs_uuid = json::String(value, {"fsUuid"});
  record.grow_file_system = json::Bool(value, {"growFileSystem"});
  record.sector_size = static_cast<uint32_t>(json::Int(value, {"sectorSize"}));
  record.growing_from = json::Int(value, {"growingFrom"});
  record.source.id = json::String(value, {"source", "id"});
  record.group = json::String(value, {"group"});
  record.inline_target = json::String(value, {"inlineTarget"});
  record.pods_identity = json::String(value, {"podsIdentity"});
  record.image.device = static_cast<uint64_t>(json::Int(value, {"image", "device"}));
  record.image.inode = static_cast<uint64_t>(json::Int(value, {"image", "inode"}));
  record.image.boot_id = json::String(value, {"image", "bootId"});
  const bool source_ok =
      record.source.id.empty() ||
      (IsId(record.source.id) &&
       Parse(kKinds, json::String(value, {"source", "kind"}), record.source.kind));
  if (!Parse(kKinds, json::String(value, {"kind"}), record.kind) ||
      !Parse(kStates, json::String(value, {"state"}), record.state) ||
      !Parse(kContents, json::String(value, {"content"}), record.content) ||
      !Parse(kAccess, json::String(value, {"accessType"}), record.access) || !IsId(record.id) ||
      record.name.empty() || record.size_bytes <= 0 || !source_ok ||
      !(record.group.empty() || IsId(record.group))) {
    return base::Error(base::StatusCode::kDataLoss, "a member of the record is missing or unknown");
  }
  return record;
}

}  // namespace berth::block
