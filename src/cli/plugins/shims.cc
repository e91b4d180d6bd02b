#include "cli/plugins/shims.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/ids.h"
#include "base/ipc/message.h"
#include "base/ipc/utility_call.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"

namespace berth::cli {
namespace {

namespace fs = std::filesystem;
namespace utility = base::ipc::utility;
using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr int64_t kRecordVersion = 1;
constexpr size_t kLargestShim = 16 * 1024 * 1024;

struct Type {
  std::string_view name;
  std::string_view plugin;
  std::vector<std::string> utilities;
};

const std::vector<Type>& Types() {
  static const std::vector<Type> types = {
      {"glusterfs", "kubernetes.io/glusterfs", {"mount.glusterfs"}},
      {"cephfs", "kubernetes.io/cephfs", {"ceph-fuse", "mount.ceph", "mount.fuse.ceph"}},
      {"nfs", "kubernetes.io/nfs", {"mount.nfs", "mount.nfs4"}},
      {"rbd", "kubernetes.io/rbd", {"rbd"}},
      {"iscsi", "kubernetes.io/iscsi", {"iscsiadm"}},
  };
  return types;
}

// A utility that has a shim, or will get one.
struct Shim {
  std::string utility;
  std::string plugin;  // empty: it is not known
};

Status CheckName(const std::string& name) {
  const bool plain = !name.empty() && name[0] != '.' && name[0] != '-' &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
                     });
  if (plain && name != "berth-shim") return base::OkStatus();
  return Error(StatusCode::kInvalidArgument, "{} is not the name of a utility", Quote(name));
}

// Returns the shims that options.names mean. With options.plugin, each name is that of a utility.
StatusOr<std::vector<Shim>> FindShims(const ShimOptions& options) {
  std::vector<Shim> shims;
  for (const std::string& name : options.names) {
    RETURN_IF_ERROR(CheckName(name));
    if (!options.plugin.empty()) {
      shims.push_back({name, options.plugin});
      continue;
    }
    std::vector<Shim> found;
    for (const Type& type : Types()) {
      for (const std::string& utility : type.utilities) {
        if (name == type.name || name == utility) {
          found.push_back({utility, std::string(type.plugin)});
        }
      }
    }
    if (found.empty()) found.push_back({name, ""});
    shims.insert(shims.end(), found.begin(), found.end());
  }
  return shims;
}

class Shims {
 public:
  Shims(const ShimOptions& options, const ReportLine& report)
      : options_(options), report_(report) {}

  Status Install() {
    ASSIGN_OR_RETURN(const std::vector<Shim> shims, FindShims(options_));
    if (shims.empty()) return Error(StatusCode::kInvalidArgument, "no type or utility is named");
    RETURN_IF_ERROR(ReadProgram());
    if (content_.empty()) {
      return Error(StatusCode::kNotFound, "there is no berth-shim at {}", Quote(program_));
    }
    // All paths are checked before the first one is changed.
    for (const Shim& shim : shims) RETURN_IF_ERROR(CheckFree(shim));
    RETURN_IF_ERROR(platform::MakeFolders(options_.records, 0755));
    RETURN_IF_ERROR(platform::RemoveTornWrites(options_.records));
    for (const Shim& shim : shims) RETURN_IF_ERROR(InstallOne(shim));
    return base::OkStatus();
  }

  Status Remove() {
    ASSIGN_OR_RETURN(std::vector<Shim> shims, FindShims(options_));
    if (options_.names.empty()) {
      ASSIGN_OR_RETURN(shims, ListRecordedShims());
      if (shims.empty()) report_("no shim is installed");
    }
    RETURN_IF_ERROR(ReadProgram());
    RETURN_IF_ERROR(platform::RemoveTornWrites(options_.records));
    for (const Shim& shim : shims) RETURN_IF_ERROR(RemoveOne(shim.utility));
    return base::OkStatus();
  }

 private:
  enum class Found { kNothing, kShim, kOther };

  struct Record {
    std::string path;
    std::vector<std::string> contents;  // SHA-256 of each content that a shim may have
  };

  std::string RecordPath(const std::string& utility) const {
    return fmt::format("{}/{}{}", options_.records, utility, platform::kRecordSuffix);
  }
  std::string ShimPath(const std::string& utility) const {
    return fmt::format("{}/{}", options_.sbin, utility);
  }
  // The path at which a shim is written before it is linked to its place.
  std::string NewShimPath(const std::string& utility) const {
    return fmt::format("{}/.{}.berth-shim", options_.sbin, utility);
  }

  // Removes what interrupted installations of the shim at `path` left beside it. The folder also
  // has files of others, so only the temp files of this shim go.
  Status RemoveTornShims(const std::string& utility, const std::string& path) const {
    RETURN_IF_ERROR(platform::RemoveTornWritesOf(path));
    return platform::RemoveTornWritesOf(NewShimPath(utility));
  }

  // Reads the content of berth-shim. It stays empty if berth-shim is not installed, because a
  // removal does not need it.
  Status ReadProgram() {
    std::error_code error;
    program_ = options_.program;
    if (program_.empty()) {
      program_ = fs::read_symlink("/proc/self/exe", error).replace_filename("berth-shim").string();
    }
    program_ = fs::canonical(program_, error).string();
    const auto content = platform::ReadFile(program_, kLargestShim);
    if (!content.ok()) return base::OkStatus();
    content_ = *content;
    hash_ = base::Sha256Hex(content_);
    return base::OkStatus();
  }

  // NOT_FOUND: there is no record. DATA_LOSS: it is damaged. It is parsed with base/ipc, because
  // berth-shim reads it, too, and because its path may have bytes that are not UTF-8.
  StatusOr<Record> ParseRecordOf(const std::string& utility) const {
    ASSIGN_OR_RETURN(const std::string text, platform::ReadFile(RecordPath(utility)));
    const auto message = base::ipc::ReadJson(text);
    if (!message.ok()) return Error(StatusCode::kDataLoss, "{}", message.failure().text);
    const auto& fields = message->fields();
    const bool versioned = std::any_of(fields.begin(), fields.end(), [](const auto& field) {
      return field.first == utility::kShimVersion;
    });
    // Earlier versions of Berth wrote records without a version.
    if (versioned && message->FindNumber(utility::kShimVersion) != kRecordVersion) {
      return Error(StatusCode::kDataLoss, "its version is not {}", kRecordVersion);
    }
    const std::string* path = message->FindText(utility::kShimPath);
    const auto* contents = message->FindList(utility::kShimContent);
    if (path == nullptr || contents == nullptr) {
      return Error(StatusCode::kDataLoss, "it names no path and contents");
    }
    return Record{*path, *contents};
  }

  // Returns nullopt if the record is missing or cannot be read. Then only a file with the content
  // of the present berth-shim counts as a shim.
  std::optional<Record> ReadRecord(const std::string& utility) const {
    StatusOr<Record> record = ParseRecordOf(utility);
    if (!record.ok()) return std::nullopt;
    return *std::move(record);
  }

  // Sets the record aside if `read`, with which ParseRecordOf ended, says that it is damaged. It is
  // called only when the record is about to be replaced or removed, because a shim that a newer
  // Berth installed needs it until then.
  Status SetDamagedRecordAside(const std::string& utility, const Status& read) const {
    if (read.code() != StatusCode::kDataLoss) return base::OkStatus();
    ASSIGN_OR_RETURN(const std::string aside, platform::SetRecordAside(RecordPath(utility)));
    report_(fmt::format("set the damaged record of {} aside as {}: {}", utility, aside,
                        base::Message(read)));
    return base::OkStatus();
  }

  Status WriteRecord(const Shim& shim, std::vector<std::string> contents) const {
    RETURN_IF_ERROR(SetDamagedRecordAside(shim.utility, ParseRecordOf(shim.utility).status()));
    const std::string text =
        base::ipc::WriteJson(base::ipc::Message()
                                 .Set(utility::kShimVersion, kRecordVersion)
                                 .Set(utility::kPlugin, shim.plugin)
                                 .Set(utility::kShimSocket, options_.socket)
                                 .Set(utility::kShimPath, ShimPath(shim.utility))
                                 .Set(utility::kShimContent, std::move(contents))) +
        "\n";
    return platform::WriteDurably<"cli.shim_record">(RecordPath(shim.utility), text, 0644);
  }

  StatusOr<std::vector<Shim>> ListRecordedShims() const {
    const auto names = platform::ListFolder(options_.records);
    std::vector<Shim> shims;
    if (names.status().code() == StatusCode::kNotFound) return shims;
    RETURN_IF_ERROR(names);
    for (const std::string& name : *names) {
      if (name[0] != '.' && name.ends_with(platform::kRecordSuffix)) {
        shims.push_back({name.substr(0, name.size() - platform::kRecordSuffix.size()), ""});
      }
    }
    return shims;
  }

  StatusOr<Found> InspectFile(const std::string& path, const std::optional<Record>& record) const {
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) {
      if (errno == ENOENT) return Found::kNothing;
      return platform::ErrnoError(errno, fmt::format("look at {}", Quote(path)));
    }
    if (!S_ISREG(info.st_mode) || info.st_size > static_cast<off_t>(kLargestShim)) {
      return Found::kOther;
    }
    ASSIGN_OR_RETURN(const std::string content, platform::ReadFile(path, kLargestShim));
    if (!content_.empty() && content == content_) return Found::kShim;
    const bool recorded = record && std::find(record->contents.begin(), record->contents.end(),
                                              base::Sha256Hex(content)) != record->contents.end();
    return recorded ? Found::kShim : Found::kOther;
  }

  Status CheckFree(const Shim& shim) const {
    if (shim.plugin.empty()) {
      std::vector<std::string_view> types;
      for (const Type& type : Types()) types.push_back(type.name);
      return Error(StatusCode::kInvalidArgument,
                   "{} is none of the types {}: name the volume plugin whose pod has it, with "
                   "--plugin",
                   Quote(shim.utility), fmt::join(types, ", "));
    }
    const std::string path = ShimPath(shim.utility);
    const auto record = ReadRecord(shim.utility);
    if (record && record->path != path) {
      ASSIGN_OR_RETURN(const Found elsewhere, InspectFile(record->path, record));
      if (elsewhere == Found::kShim) {
        return Error(StatusCode::kAlreadyExists,
                     "the shim of {} is installed as {}: remove it there first",
                     Quote(shim.utility), Quote(record->path));
      }
    }
    ASSIGN_OR_RETURN(const Found found, InspectFile(path, record));
    if (found != Found::kOther) return base::OkStatus();
    return Error(StatusCode::kAlreadyExists,
                 "{} is a real utility, which the host's mounts use: nothing was installed",
                 Quote(path));
  }

  Status InstallOne(const Shim& shim) const {
    const std::string path = ShimPath(shim.utility);
    const auto old_record = ReadRecord(shim.utility);
    ASSIGN_OR_RETURN(const Found found, InspectFile(path, old_record));
    std::vector<std::string> contents = {hash_};
    if (found == Found::kShim && old_record) {
      contents.insert(contents.end(), old_record->contents.begin(), old_record->contents.end());
    }
    RETURN_IF_ERROR(RemoveTornShims(shim.utility, path));
    RETURN_IF_ERROR(WriteRecord(shim, contents));
    if (found == Found::kNothing) {
      RETURN_IF_ERROR(LinkShim(shim.utility));
    } else if (found == Found::kShim) {
      RETURN_IF_ERROR(platform::RemoveDurably<"cli.fresh_shim">(NewShimPath(shim.utility)));
      RETURN_IF_ERROR(platform::WriteDurably<"cli.shim">(path, content_, 0755));
      RETURN_IF_ERROR(WriteRecord(shim, {hash_}));
    } else {
      return Error(StatusCode::kAlreadyExists, "another program created {} during the installation",
                   Quote(path));
    }
    report_(fmt::format("{} {}: runs in the pod of {}",
                        found == Found::kShim ? "renewed" : "installed", path, shim.plugin));
    return base::OkStatus();
  }

  // Installs a shim where no file is. It uses link(2), because that does not replace a file that
  // another program creates at the same time.
  Status LinkShim(const std::string& utility) const {
    const std::string path = ShimPath(utility);
    const std::string fresh = NewShimPath(utility);
    RETURN_IF_ERROR(platform::WriteDurably<"cli.shim">(fresh, content_, 0755));
    const int error = link(fresh.c_str(), path.c_str()) == 0 ? 0 : errno;
    RETURN_IF_ERROR(platform::RemoveDurably<"cli.fresh_shim">(fresh));
    if (error == 0) return base::OkStatus();
    return platform::ErrnoError(error, fmt::format("install {}", Quote(path)));
  }

  Status RemoveOne(const std::string& utility) const {
    const StatusOr<Record> parsed = ParseRecordOf(utility);
    const auto record = parsed.ok() ? std::optional(*parsed) : std::nullopt;
    const std::string path = record ? record->path : ShimPath(utility);
    ASSIGN_OR_RETURN(const Found found, InspectFile(path, record));
    if (found == Found::kShim) {
      RETURN_IF_ERROR(platform::RemoveDurably<"cli.shim">(path));
      report_(fmt::format("removed {}", path));
    } else if (found == Found::kOther && parsed.status().code() == StatusCode::kDataLoss) {
      // The file may be a shim, which needs its record: a newer Berth, which can read the record,
      // can remove both.
      report_(fmt::format("left {}: its record {} cannot be read: {}", path, RecordPath(utility),
                          base::Message(parsed.status())));
      return base::OkStatus();
    } else if (found == Found::kOther) {
      report_(fmt::format("left {}: it is not a shim", path));
    } else {
      report_(fmt::format("{} does not exist", path));
    }
    RETURN_IF_ERROR(platform::RemoveDurably<"cli.fresh_shim">(NewShimPath(utility)));
    RETURN_IF_ERROR(RemoveTornShims(utility, path));
    RETURN_IF_ERROR(SetDamagedRecordAside(utility, parsed.status()));
    // The record is removed last, so that the file is recognised as a shim until it is gone.
    return platform::RemoveDurably<"cli.shim_record">(RecordPath(utility));
  }

  const ShimOptions& options_;
  const ReportLine& report_;
  std::string program_, content_, hash_;
};

}  // namespace

Status InstallShims(const ShimOptions& options, const ReportLine& report) {
  return Shims(options, report).Install();
}

Status RemoveShims(const ShimOptions& options, const ReportLine& report) {
  return Shims(options, report).Remove();
}

}  // namespace berth::cli
