#include "block/iscsi/iscsi_backend.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/key_locks.h"
#include "base/log.h"
#include "base/mutex.h"
#include "block/images/image_record.h"
#include "block/images/proxy_mappings.h"
#include "block/iscsi/iscsi_settings.h"
#include "block/iscsi/lun_calls.h"
#include "block/iscsi/lun_image.h"
#include "block/progress.h"
#include "block/storage_check.h"

namespace berth::block {

using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;
using base::json::Int;
using base::json::String;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// How long one Delete overwrites a LUN. The next one goes on where it ended.
constexpr std::chrono::minutes kWipeTime{10};

// Whether the claim of one LUN failed so that another LUN may do.
bool MayTryAnother(const base::Status& status) {
  switch (status.code()) {
    case StatusCode::kFailedPrecondition:
    case StatusCode::kAlreadyExists:
    case StatusCode::kOutOfRange:
    case StatusCode::kDataLoss:
    case StatusCode::kNotFound:
    case StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

class IscsiBackend : public Backend {
 public:
  IscsiBackend(IscsiSettings settings, const BackendParts& parts, const std::string& program)
      : node_(parts.node),
        program_name_(program),
        list_images_(parts.list_images),
        proxied_(settings.Store(), parts),
        calls_(std::move(settings), parts, program) {}

  base::StatusOr<ImageInfo> Create(const NewImage& wanted) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(wanted.name));
    if (!wanted.source.empty()) return NoCopies("a claim of it cannot have a source");
    ASSIGN_OR_RETURN(const NamedLuns named, FindNamedLuns(wanted.name));
    if (!named.own.empty()) {
      // The PersistentVolume is there already, and a node may use it by now.
      ASSIGN_OR_RETURN(const Lun lun, calls_.FindLun(named.own));
      return ToInfo(wanted.name, lun);
    }
    ASSIGN_OR_RETURN(const std::vector<Lun> luns, calls_.ListLuns(wanted.name));
    const auto mine = std::ranges::find(luns, Lun::Reserved::kGuard, &Lun::reserved);
    if (mine != luns.end()) return ToInfo(wanted.name, *mine);  // taken before
    return TakeFree(wanted, luns, named.others);
  }
  base::Status Delete(const std::string& image) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(image));
    ASSIGN_OR_RETURN(const std::optional<Lun> lun, FindOwn(image));
    if (!lun.has_value()) return base::OkStatus();
    // A LUN that no PersistentVolume named was never written.
    const bool untouched = ParseLunImage(image).digest.empty() && lun->blank;
    if (calls_.settings().reclaim == LunReclaim::kKeep && !untouched) {
      LOG_WARNING("LUN {} of target {} keeps the data and the reservation of image {}",
                  Quote(lun->identity), Quote(calls_.settings().target), Quote(image));
      return base::OkStatus();
    }
    return Wipe(image, *lun, untouched ? 0 : lun->size_bytes);
  }
  base::StatusOr<ImageInfo> CreateSnapshot(const std::string& /*image*/,
                                           const std::string& /*snapshot*/) override {
    return NoCopies("Berth makes no snapshots of it");
  }
  SnapshotSupport OffersSnapshots() const override { return SnapshotSupport::kNone; }
  base::StatusOr<ImageInfo> Grow(const std::string& image, int64_t size_bytes) override {
    RETURN_IF_ERROR(CheckImageName(image));
    ASSIGN_OR_RETURN(const Lun lun, calls_.FindLun(image));
    if (lun.size_bytes >= size_bytes) return ToInfo(ParseLunImage(image).volume, lun);
    return Error(StatusCode::kOutOfRange,
                 "LUN {} has {} bytes, which is less than {}: grow it at target {}, which Berth "
                 "cannot do",
                 Quote(lun.identity), lun.size_bytes, size_bytes, Quote(calls_.settings().target));
  }
  base::StatusOr<std::vector<ImageInfo>> List() override {
    if (!list_images_) {
      return Error(StatusCode::kUnimplemented,
                   "a target does not tell which volumes its LUNs are: see the PersistentVolumes");
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> names, list_images_());
    ASSIGN_OR_RETURN(const std::vector<Lun> luns, calls_.FindLuns());
    std::vector<ImageInfo> images;
    for (const std::string& name : names) {
      const auto lun = std::ranges::find(luns, ParseLunImage(name).digest,
                                         [](const Lun& one) { return DigestLun(one.identity); });
      if (lun != luns.end()) images.push_back({.name = name, .size_bytes = lun->size_bytes});
    }
    return images;
  }

  base::StatusOr<bool> HasLock(const std::string& image) override {
    RETURN_IF_ERROR(CheckImageName(image));
    RETURN_IF_ERROR(CheckStillOwned(image));
    ASSIGN_OR_RETURN(const Json holders, FindHolders(image));
    // A wipe that was cut off leaves the operator's key, and only the next wipe removes it.
    return std::ranges::any_of(
        holders, [](const Json& one) { return String(one, {"node"}) != kOperatorName; });
  }
  base::StatusOr<bool> HoldsLock(const Mapping& mapping) override {
    const base::Status sound = Check(mapping);
    if (sound.code() == StatusCode::kDataLoss) return false;
    RETURN_IF_ERROR(sound);
    // The API may be away, and a request to it would take longer than the target.
    ASSIGN_OR_RETURN(const Json holders, FindHolders(mapping.image, StorageSecret::Age::kAny));
    return HasNode(holders, node_);
  }
  // The target keeps the reservations, so there is nothing to exchange. It is asked whether it
  // admits this node, so that a wrong secret is told before a fence is taken.
  base::Status ExchangeLocks(const std::string& /*life*/) override {
    RETURN_IF_ERROR(calls_.CheckSecret());  // an earlier check does not count without it
    if (check_.IsRecent()) return base::OkStatus();
    const auto luns = calls_.FindLuns();
    switch (luns.status().code()) {
      case StatusCode::kOk:
        break;
      case StatusCode::kNotFound:
      case StatusCode::kUnauthenticated:
      case StatusCode::kPermissionDenied:
      case StatusCode::kUnimplemented:
        return Error(StatusCode::kFailedPrecondition, "{}", base::Message(luns.status()));
      default:
        return luns.status();
    }
    if (luns->empty()) {
      return Error(StatusCode::kFailedPrecondition,
                   "target {} shows none of the LUNs in iscsi.luns.allow",
                   Quote(calls_.settings().target));
    }
    check_.NotePassed();
    return base::OkStatus();
  }
  // A session that has not reserved the LUN yet gets it only if no other node has it.
  base::Status ProveLocks(const std::string& /*life*/, const api::NodeName& /*node*/) override {
    return base::OkStatus();
  }
  std::string DescribeLapse() override {
    return "the target keeps the reservation of a machine that died until another node takes it";
  }
  bool FencesNodes() const override { return true; }
  base::StatusOr<std::vector<std::string>> FindClients(const std::string& image,
                                                       const api::NodeName& node) override {
    RETURN_IF_ERROR(CheckImageName(image));
    const auto answer = CallFor(image, {{"call", "fenceTargets"}, {"target", node.text()}});
    if (answer.status().code() == StatusCode::kNotFound) return std::vector<std::string>();
    RETURN_IF_ERROR(answer);
    return base::json::Strings(base::json::Array(*answer, {"keys"}));
  }
  // Without clients, too, because it also ends what the node has begun and not reserved yet.
  base::Status Fence(const std::string& image, const api::NodeName& node,
                     const std::vector<std::string>& clients) override {
    RETURN_IF_ERROR(CheckImageName(image));
    return FenceKeys(image, {{"call", "fence"}, {"target", node.text()}, {"keys", clients}});
  }
  base::Status FreeFromDead(const std::string& image) override {
    const auto holders = FindHolders(image);
    if (holders.status().code() == StatusCode::kNotFound) return base::OkStatus();
    RETURN_IF_ERROR(holders);
    if (!HasNode(*holders, node_)) return base::OkStatus();
    return FenceKeys(image, {{"call", "fence"}, {"target", node_}});
  }
  base::Status EndUnshown(const std::string& image,
                          std::optional<milliseconds> force_within) override {
    return proxied_.EndUnshown(image, force_within);
  }

  base::Status NoteFormatting(const std::string& image, const std::string& /*uuid*/) override {
    return ReadFormatting(image).status();
  }
  base::StatusOr<std::string> ReadFormatting(const std::string& image) override {
    return Error(StatusCode::kUnimplemented, "a target keeps no notes with the LUN of image {}",
                 Quote(image));
  }

  base::StatusOr<Mapping> Map(const std::string& image, const MapOptions& options) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(image));
    ASSIGN_OR_RETURN(const Lun lun, calls_.FindLun(image));
    const std::string volume = ParseLunImage(image).volume;
    // The ticket says who has the LUN now. If a fence, or another node, changes that before the
    // program has reserved the LUN, the program fails.
    ASSIGN_OR_RETURN(const Json now, calls_.CallFor(volume, lun, {{"call", "holders"}}));
    ASSIGN_OR_RETURN(Json settings, calls_.MakeServeSettings(volume, lun));
    settings["ticket"] = String(now, {"ticket"});
    return proxied_.Map({.image = image,
                         .read_only = options.read_only,
                         .shared = options.shared_writers,
                         .program = program_name_,
                         .settings = std::move(settings)});
  }
  base::StatusOr<std::optional<Mapping>> FindMapping(const std::string& image) override {
    return proxied_.Find(image);
  }
  base::StatusOr<std::vector<Mapping>> ListMappings() override { return proxied_.ListMappings(); }
  base::Status Check(const Mapping& mapping) override { return proxied_.Check(mapping); }
  base::StatusOr<Mapping> Refresh(const Mapping& mapping) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(mapping.image));
    ASSIGN_OR_RETURN(const Lun lun, calls_.FindLun(mapping.image));
    return proxied_.Refresh(mapping, lun.size_bytes);
  }
  base::Status Unmap(const Mapping& mapping) override {
    ASSIGN_OR_RETURN(const auto hold, LockImage(mapping.image));
    const bool died = proxied_.Check(mapping).code() == StatusCode::kDataLoss;
    RETURN_IF_ERROR(proxied_.Unmap(mapping));
    return died ? FreeFromDead(mapping.image) : base::OkStatus();
  }
  base::Status ForceUnmap(const Mapping& mapping, milliseconds patience) override {
    // The caller frees the reservation (FreeFromDead), because that needs the target.
    return proxied_.ForceUnmap(mapping, patience);
  }

 private:
  base::StatusOr<base::KeyLocks::Hold> LockImage(const std::string& image) {
    RETURN_IF_ERROR(CheckImageName(image));
    return keys_.LockExclusive(image);
  }

  base::Status NoCopies(std::string_view what) const {
    return Error(StatusCode::kUnimplemented,
                 "LUNs of iSCSI target {} are made beforehand by its administrator, so {}: let the "
                 "target copy the LUN, or copy the files in a pod",
                 Quote(calls_.settings().target), what);
  }

  static ImageInfo ToInfo(const std::string& volume, const Lun& lun) {
    return {.name = MakeLunImage(volume, lun.identity), .size_bytes = lun.size_bytes};
  }

  static bool HasNode(const Json& holders, const std::string& node) {
    return std::ranges::any_of(holders,
                               [&](const Json& one) { return String(one, {"node"}) == node; });
  }

  // Makes a call about the image's LUN.
  base::StatusOr<Json> CallFor(const std::string& image, Json request,
                               StorageSecret::Age age = StorageSecret::Age::kRecent) {
    ASSIGN_OR_RETURN(const Lun lun, calls_.FindLun(image, age));
    return calls_.CallFor(ParseLunImage(image).volume, lun, std::move(request), age);
  }
  base::StatusOr<Json> FindHolders(const std::string& image,
                                   StorageSecret::Age age = StorageSecret::Age::kRecent) {
    ASSIGN_OR_RETURN(const Json answer, CallFor(image, {{"call", "holders"}}, age));
    return base::json::Array(answer, {"holders"});
  }
  base::Status FenceKeys(const std::string& image, Json request) {
    const std::string target = String(request, {"target"});
    ASSIGN_OR_RETURN(const Json answer, CallFor(image, std::move(request)));
    const auto keys = base::json::Strings(base::json::Array(answer, {"keys"}));
    if (!keys.empty()) {
      LOG_INFO("node {} is fenced from image {}: {}", Quote(target), Quote(image),
               fmt::join(keys, ", "));
    }
    return base::OkStatus();
  }

  // What PersistentVolumes name.
  struct NamedLuns {
    std::string own;               // the image of the volume; empty: none
    std::set<std::string> others;  // the digests of the LUNs of other volumes
  };
  base::StatusOr<NamedLuns> FindNamedLuns(const std::string& volume) const {
    NamedLuns named;
    if (!list_images_) return named;
    ASSIGN_OR_RETURN(const std::vector<std::string> images, list_images_());
    for (const std::string& image : images) {
      LunImage parsed = ParseLunImage(image);
      if (parsed.digest.empty()) continue;
      if (parsed.volume == volume) {
        named.own = image;
      } else {
        named.others.insert(std::move(parsed.digest));
      }
    }
    return named;
  }
  // NOT_FOUND: another PersistentVolume names the LUN. So an earlier call for this image has given
  // the LUN back, and it was taken anew.
  base::Status CheckStillOwned(const std::string& image) const {
    const LunImage parsed = ParseLunImage(image);
    ASSIGN_OR_RETURN(const NamedLuns named, FindNamedLuns(parsed.volume));
    if (!named.others.contains(parsed.digest)) return base::OkStatus();
    return Error(StatusCode::kNotFound, "the LUN of image {} is another PersistentVolume's",
                 Quote(image));
  }

  base::StatusOr<ImageInfo> TakeFree(const NewImage& wanted, std::vector<Lun> luns,
                                     const std::set<std::string>& named) {
    std::ranges::sort(luns, {},
                      [](const Lun& lun) { return std::pair(lun.size_bytes, lun.number); });
    int used = 0, full = 0, small = 0;
    std::string problem;
    for (const Lun& lun : luns) {
      if (lun.reserved != Lun::Reserved::kNobody || named.contains(DigestLun(lun.identity))) {
        ++used;
        continue;
      }
      if (!lun.blank) {
        ++full;
        if (problem.empty()) problem = lun.problem;
        continue;
      }
      if (lun.size_bytes < wanted.size_bytes) {
        ++small;
        continue;
      }
      const auto taken = calls_.CallFor(
          wanted.name, lun, {{"call", "claim"}, {"size", wanted.size_bytes}, {"recorded", false}});
      if (taken.ok()) {
        LOG_INFO("LUN {} of target {} is taken for volume {}", Quote(lun.identity),
                 Quote(calls_.settings().target), Quote(wanted.name));
        return ToInfo(wanted.name, lun);
      }
      if (!MayTryAnother(taken.status())) return taken.status();
      ++used;  // somebody was faster
      problem = base::Message(taken.status());
    }
    return Error(StatusCode::kResourceExhausted,
                 "target {} has no free LUN of {} bytes or more: of {} in iscsi.luns.allow, {} are "
                 "in use, {} hold data, {} are smaller, and {} are not shown by the target{}{}",
                 Quote(calls_.settings().target), wanted.size_bytes,
                 calls_.settings().allowed.size(), used, full, small,
                 calls_.settings().allowed.size() - luns.size(), problem.empty() ? "" : "; ",
                 problem);
  }

  // The LUN that Delete is about; nullopt: there is none any more.
  base::StatusOr<std::optional<Lun>> FindOwn(const std::string& image) {
    const LunImage parsed = ParseLunImage(image);
    if (parsed.digest.empty()) {
      ASSIGN_OR_RETURN(const std::vector<Lun> luns, calls_.ListLuns(parsed.volume));
      const auto mine = std::ranges::find_if(luns, [](const Lun& lun) {
        return lun.reserved == Lun::Reserved::kGuard || lun.reserved == Lun::Reserved::kWipe;
      });
      return mine == luns.end() ? std::nullopt : std::optional(*mine);
    }
    if (const base::Status owned = CheckStillOwned(image); !owned.ok()) {
      if (owned.code() == StatusCode::kNotFound) return std::nullopt;
      return owned;
    }
    auto found = calls_.FindLun(image);
    if (found.status().code() == StatusCode::kNotFound) return std::nullopt;
    RETURN_IF_ERROR(found);
    return std::optional(*std::move(found));
  }

  // Overwrites the first `from` bytes with zeroes, or what an earlier call has left of them, and
  // gives the LUN back.
  base::Status Wipe(const std::string& image, const Lun& lun, int64_t from) {
    const auto end = steady_clock::now() + kWipeTime;
    {
      base::MutexLock lock(mutex_);
      if (const auto begun = wiped_.find(image); begun != wiped_.end()) {
        from = std::min(from, begun->second);
      }
    }
    while (true) {
      const auto wiped =
          calls_.CallFor(ParseLunImage(image).volume, lun, {{"call", "wipe"}, {"from", from}});
      base::MutexLock lock(mutex_);
      // The LUN is not blank at the end, so what was wiped has to be wiped again.
      if (wiped.status().code() == StatusCode::kInternal) wiped_.erase(image);
      RETURN_IF_ERROR(wiped);
      const Json& answer = *wiped;
      const bool done = base::json::Bool(answer, {"done"});
      const int64_t now = Int(answer, {"from"});
      if (done) {
        wiped_.erase(image);
        LOG_INFO("LUN {} of image {}: {}", Quote(lun.identity), Quote(image),
                 base::json::Bool(answer, {"kept"})
                     ? "nothing is reserved for it, so it is left as it is"
                     : "it was overwritten with zeroes, and is free");
        return base::OkStatus();
      }
      if (now >= from) {
        return Error(StatusCode::kInternal, "wiping LUN {} stands still", lun.number);
      }
      from = now;
      wiped_[image] = from;
      if (lun.size_bytes > 0) {
        ProgressReport()(1 - static_cast<double>(from) / static_cast<double>(lun.size_bytes));
      }
      if (steady_clock::now() < end) continue;
      return Error(StatusCode::kDeadlineExceeded,
                   "LUN {} is being overwritten with zeroes: {} of {} bytes are left",
                   Quote(lun.identity), from, lun.size_bytes);
    }
  }

  const std::string node_;
  const std::string program_name_;
  const ImageLister list_images_;
  const ProxyMappings proxied_;
  LunCalls calls_;
  base::KeyLocks keys_{"image"};
  StorageCheck check_;
  base::Mutex mutex_;
  // By image: the bytes at the front that are still to be overwritten.
  std::map<std::string, int64_t> wiped_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

base::StatusOr<std::unique_ptr<Backend>> OpenIscsiBackend(const Json& settings,
                                                          const BackendParts& parts,
                                                          const std::string& program) {
  ASSIGN_OR_RETURN(IscsiSettings read, ReadIscsiSettings(settings));
  return std::make_unique<IscsiBackend>(std::move(read), parts, program);
}

}  // namespace berth::block
