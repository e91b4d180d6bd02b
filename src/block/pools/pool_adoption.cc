#include "block/pools/pool_adoption.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/log.h"
#include "block/images/image.h"
#include "block/pools/pool_paths.h"
#include "platform/errno.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"

namespace berth::block {
namespace {

using base::StatusCode;

// Says what is wrong with the content of the image, by its record; empty: nothing is. `found` is
// what a probe found.
std::string FindContentMismatch(const Record& record,
                                const std::optional<platform::Signature>& found) {
  const std::string holds =
      found.has_value() ? fmt::format("it holds {} with UUID '{}'", found->type, found->uuid)
                        : std::string("no file system is found on it");
  switch (record.content) {
    case Content::kRaw:
      return "";
    case Content::kBlank:
      return found.has_value() ? "it should be blank, and " + holds : "";
    case Content::kFormatting:
      // Its next use would empty it. That is right only for the image of the record's own moment,
      // and an image that was restored may be newer and hold data.
      return found.has_value()
                 ? fmt::format("its record is of the moment when it was being formatted, and {}",
                               holds)
                 : "";
    case Content::kCopied:
      if (found.has_value() && found->type == record.fs_type) return "";
      return fmt::format("it should hold {}, and {}", record.fs_type, holds);
    case Content::kFormatted:
      if (found.has_value() && found->type == record.fs_type && found->uuid == record.fs_uuid) {
        return "";
      }
      return fmt::format("it should hold {} with UUID {}, and {}", record.fs_type, record.fs_uuid,
                         holds);
  }
  return "its record names no content that is known here";
}

std::string DescribeMatch(const Record& record) {
  switch (record.content) {
    case Content::kRaw:
      return fmt::format("{} bytes; a raw block volume, of which only the size is compared",
                         record.size_bytes);
    case Content::kBlank:
    case Content::kFormatting:
      return fmt::format("{} bytes, not formatted yet", record.size_bytes);
    case Content::kCopied:
      return fmt::format("{} bytes, a copy with {}", record.size_bytes, record.fs_type);
    case Content::kFormatted:
      break;
  }
  return fmt::format("{} bytes, {} with UUID {}", record.size_bytes, record.fs_type,
                     record.fs_uuid);
}

class Adoption {
 public:
  static base::StatusOr<Adoption> Open(const std::string& folder) {
    Adoption adoption(folder);
    struct stat st;
    const std::string volumes = adoption.paths_.Folder(Kind::kVolume);
    if (stat(volumes.c_str(), &st) != 0) {
      return platform::ErrnoError(errno, fmt::format("find a pool in {}", base::Quote(folder)));
    }
    adoption.place_.device = st.st_dev;
    ASSIGN_OR_RETURN(adoption.place_.boot_id, platform::ReadBootId());
    return adoption;
  }

  base::StatusOr<std::vector<AdoptionStep>> Plan() const {
    std::vector<AdoptionStep> steps;
    for (const Kind kind : {Kind::kVolume, Kind::kSnapshot}) {
      ASSIGN_OR_RETURN(const std::vector<std::string> names,
                       platform::ListFolder(paths_.Folder(kind)));
      for (const std::string& name : names) {
        const std::string id = name.substr(0, name.rfind('.'));
        if (!name.ends_with(".json") || !IsId(id)) continue;
        ASSIGN_OR_RETURN(AdoptionStep step, PlanStep(kind, id));
        steps.push_back(std::move(step));
      }
    }
    return steps;
  }

  base::Status Adopt(Record record) const {
    const std::string path = paths_.Image(record.kind, record.id);
    const base::UniqueFd image(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!image.valid()) return platform::ErrnoError(errno, "open image " + base::Quote(path));
    // What a restore wrote may not be on the disk yet.
    ASSIGN_OR_RETURN(record.image, FinishImage(image, path, place_.boot_id));
    RETURN_IF_ERROR(platform::WriteDurably<"block.record">(paths_.Record(record.kind, record.id),
                                                           Encode(record)));
    LOG_INFO("{} {}: the file with inode {} is its image from now on", NameOf(record.kind),
             base::Quote(record.id), record.image.inode);
    return base::OkStatus();
  }

 private:
  explicit Adoption(const std::string& folder) : paths_(folder) {}

  base::StatusOr<AdoptionStep> PlanStep(Kind kind, const std::string& id) const {
    const Record unknown{.kind = kind, .id = id};
    const auto text = platform::ReadFile(paths_.Record(kind, id));
    if (text.status().code() == StatusCode::kResourceExhausted) return text.status();
    if (!text.ok()) return RefuseAdoption(unknown, std::string(base::Message(text.status())));
    const auto decoded = DecodeRecord(*text);
    if (!decoded.ok() || decoded->id != id || decoded->kind != kind) {
      return RefuseAdoption(unknown, "its record cannot be read");
    }
    const Record& record = *decoded;
    const std::string path = paths_.Image(kind, id);
    const base::Status recorded = OpenImage(path, record, place_, O_RDONLY).status();
    if (recorded.ok()) return AdoptionStep{.record = record, .detail = DescribeMatch(record)};
    if (recorded.code() != StatusCode::kDataLoss) return recorded;
    if (record.state != State::kReady) {
      return RefuseAdoption(record, fmt::format("it is {}: remove the image and its record by "
                                                "hand if it may go",
                                                NameOf(record.state)));
    }
    return CompareImage(path, record);
  }

  // Compares a file that is not the recorded one with the record.
  base::StatusOr<AdoptionStep> CompareImage(const std::string& path, const Record& record) const {
    const auto st = CheckAdoptable(path, record, place_);
    if (st.status().code() == StatusCode::kFailedPrecondition) {
      return RefuseAdoption(record, std::string(base::Message(st.status())));
    }
    RETURN_IF_ERROR(st);
    const auto found = platform::ProbeSignature(path);
    if (found.status().code() == StatusCode::kFailedPrecondition) {
      return RefuseAdoption(record, std::string(base::Message(found.status())));
    }
    RETURN_IF_ERROR(found);
    if (std::string why = FindContentMismatch(record, *found); !why.empty()) {
      return RefuseAdoption(record, std::move(why));
    }
    return AdoptionStep{.kind = AdoptionStep::Kind::kAdopt,
                        .record = record,
                        .detail = fmt::format("{}; inode {}, was {}", DescribeMatch(record),
                                              st->st_ino, record.image.inode)};
  }

  PoolPaths paths_;
  PoolPlace place_;
};

}  // namespace

base::StatusOr<std::vector<AdoptionStep>> PlanAdoption(const std::string& folder) {
  ASSIGN_OR_RETURN(const Adoption adoption, Adoption::Open(folder));
  return adoption.Plan();
}

base::StatusOr<std::vector<AdoptionStep>> AdoptImages(const std::string& folder) {
  ASSIGN_OR_RETURN(const Adoption adoption, Adoption::Open(folder));
  ASSIGN_OR_RETURN(const base::UniqueFd lock, platform::LockFile(PoolPaths(folder).Lock()));
  ASSIGN_OR_RETURN(std::vector<AdoptionStep> steps, adoption.Plan());
  for (const AdoptionStep& step : steps) {
    if (step.kind != AdoptionStep::Kind::kAdopt) continue;
    RETURN_IF_ERROR_WITH(
        adoption.Adopt(step.record),
        fmt::format("adopt {} {}", NameOf(step.record.kind), base::Quote(step.record.id)));
  }
  return steps;
}

}  // namespace berth::block
