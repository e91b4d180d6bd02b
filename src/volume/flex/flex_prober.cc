#include "volume/flex/flex_prober.h"

#include <time.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "volume/flex/driver_options.h"

namespace berth::volume {

using base::Error;
using base::MutexLock;
using base::Quote;
using base::StatusCode;

namespace {

// A file system may store times in steps of up to two seconds, so a change soon after another may
// not show in them.
constexpr int64_t kTimeStepNs = 2'000'000'000;
// How many users of a removed driver a message names.
constexpr size_t kShownUsers = 3;

int64_t ReadClock() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool IsSettled(const DriverFolder& found, int64_t read_at) {
  return std::ranges::all_of(found.files, [&](const DriverFile& file) {
    return file.identity.changed_ns + kTimeStepNs < read_at;
  });
}

bool HasSameExecutable(const DriverStore::Taken& a, const DriverStore::Taken& b) {
  const FileIdentity& x = a.found.executable().identity;
  const FileIdentity& y = b.found.executable().identity;
  return x.device == y.device && x.inode == y.inode && x.size == y.size &&
         x.changed_ns == y.changed_ns && a.executable_digest == b.executable_digest;
}

}  // namespace

class FlexProber::Driver : public FlexDriver {
 public:
  Driver(std::string name, StatusOr<DriverVersion> current)
      : name_(std::move(name)), current_(std::move(current)) {}

  std::string_view name() const override { return name_; }
  StatusOr<DriverVersion> Current() const override {
    MutexLock lock(mutex_);
    return current_;
  }
  void SetCurrent(StatusOr<DriverVersion> current) {
    MutexLock lock(mutex_);
    current_ = std::move(current);
  }

 private:
  const std::string name_;
  mutable base::Mutex mutex_;
  StatusOr<DriverVersion> current_ ABSL_GUARDED_BY(mutex_);
};

FlexProber::FlexProber(Options options) : options_(std::move(options)) {}

FlexProber::~FlexProber() {
  // Plugins may outlive the prober, and then the store does, too.
  if (store_ != nullptr) store_->SetOnReleased(nullptr);
}

Status FlexProber::Init() {
  if (watch_ != nullptr) return base::OkStatus();
  if (store_ == nullptr) {
    ASSIGN_OR_RETURN(store_, DriverStore::Open(options_.store));
  }
  platform::WatchOptions watch{.max_depth = options_.limits.depth + 1,
                               .window = options_.window,
                               .skip_dot_names = true,
                               .report_attributes = true,
                               .keep_folder = true,
                               .on_trouble = options_.on_trouble};
  ASSIGN_OR_RETURN(watch_, platform::WatchFolder(
                               options_.drivers,
                               [this] {
                                 changed_ = true;
                                 if (on_change_) on_change_();
                               },
                               std::move(watch)));
  // When a hold ends, an old version can be removed, and a removed driver may leave the list. If a
  // hold ends on the thread of a running scan, no call is requested, because that scan removes
  // unused versions.
  store_->SetOnReleased([this] {
    if (scanning_ != std::this_thread::get_id()) watch_->RequestCall();
  });
  return base::OkStatus();
}

StatusOr<std::optional<PluginList>> FlexProber::ListPlugins() {
  if (!changed_.load(std::memory_order_acquire)) return std::optional<PluginList>();
  MutexLock lock(mutex_);
  // It is cleared before the folder is read, so that later changes set it again.
  changed_ = false;
  scanning_ = std::this_thread::get_id();
  const Status scanned = ScanFolder();
  scanning_ = std::thread::id();
  RETURN_IF_ERROR(scanned);
  PluginList list;
  for (const auto& [driver, known] : known_) list.push_back(known.plugin);
  return std::optional(std::move(list));
}

Status FlexProber::ScanFolder() {
  const StatusOr<base::UniqueFd> drivers = OpenDrivers(options_.drivers);
  StatusOr<DriverScan> scan = drivers.ok() ? ScanDrivers(drivers->get(), options_.limits)
                                           : StatusOr<DriverScan>(drivers.status());
  if (!scan.ok()) {
    watch_->RequestCall(options_.retry);
    return scan.status();
  }
  std::set<std::string> present;
  for (const DriverFolder& found : scan->drivers) {
    const Status taken = UpdateDriver(drivers->get(), found);
    if (!taken.ok()) scan->left_out.emplace(found.folder, taken);
    present.insert(found.driver);
  }
  std::set<std::string> gone = store_->ListHeldDrivers();
  for (const auto& [driver, known] : known_) gone.insert(driver);
  for (const std::string& driver : gone) {
    if (present.contains(driver)) continue;
    const auto why = scan->left_out.find(FolderOfDriver(driver));
    RetireDriver(driver, why == scan->left_out.end() ? MissingError(driver)
                                                     : UnusableError(why->first, why->second));
  }
  store_->RemoveUnused();
  const std::map<std::string, Status> before = std::exchange(left_out_, std::move(scan->left_out));
  ReportLeftOut(before);
  return base::OkStatus();
}

Status FlexProber::UpdateDriver(int drivers, const DriverFolder& found) {
  const auto it = known_.find(found.driver);
  Known* known = it == known_.end() ? nullptr : &it->second;
  if (known != nullptr && known->settled && known->taken->found == found) return base::OkStatus();
  const int64_t now = ReadClock();
  StatusOr<DriverStore::Taken> taken = store_->TakeCopy(drivers, found.folder, options_.limits);
  if (!taken.ok()) {
    const bool writing = taken.status().code() == StatusCode::kUnavailable;
    watch_->RequestCall(writing ? std::chrono::milliseconds(0) : options_.retry);
    if (known == nullptr || !known->taken.has_value() || !writing) {
      RetireDriver(found.driver, UnusableError(found.folder, taken.status()));
    } else {
      known->settled = false;
      known->driver->SetCurrent(UnusableError(found.folder, taken.status()));
    }
    return taken.status();
  }
  if (known == nullptr) known = &known_[found.driver];
  if (known->taken.has_value() && HasSameExecutable(*known->taken, *taken)) {
    known->driver->SetCurrent(taken->version);
  } else {
    MakePlugin(*known, found.driver, taken->version);
  }
  known->settled = IsSettled(taken->found, now);
  known->taken = *std::move(taken);
  return base::OkStatus();
}

void FlexProber::RetireDriver(const std::string& driver, const Status& why) {
  const auto it = known_.find(driver);
  if (it != known_.end()) {
    // All users of the plugin see this error, whether the plugin is listed or not.
    it->second.driver->SetCurrent(why);
    it->second.taken.reset();
    it->second.settled = false;
  }
  const bool held = store_->IsHeld(driver);
  if (held && it == known_.end()) MakePlugin(known_[driver], driver, why);
  if (!held && it != known_.end()) known_.erase(it);
}

void FlexProber::MakePlugin(Known& known, const std::string& driver,
                            StatusOr<DriverVersion> current) {
  known.driver = std::make_shared<Driver>(driver, std::move(current));
  known.plugin = options_.make(known.driver, store_);
}

// Adds the driver and its folder to the reason, because users see only the volume.
Status FlexProber::UnusableError(const std::string& folder, const Status& why) const {
  return base::Annotate(why, fmt::format("the Flexvolume driver in {} cannot be used",
                                         Quote(fmt::format("{}/{}", options_.drivers, folder))));
}

Status FlexProber::MissingError(const std::string& driver) const {
  return Error(StatusCode::kNotFound, "there is no Flexvolume driver {}: no folder {} in {}",
               Quote(driver), Quote(FolderOfDriver(driver)), Quote(options_.drivers));
}

void FlexProber::ReportLeftOut(const std::map<std::string, Status>& before) {
  if (!options_.on_left_out) return;
  for (const auto& [folder, why] : left_out_) {
    const auto old = before.find(folder);
    if (old == before.end() || old->second != why) options_.on_left_out(folder, why);
  }
  for (const auto& [folder, why] : before) {
    if (!left_out_.contains(folder)) options_.on_left_out(folder, base::OkStatus());
  }
}

std::shared_ptr<VolumePlugin> FlexProber::FindAbsent(std::string_view name) const {
  constexpr std::string_view kBuiltIn = "kubernetes.io/";
  const StatusOr<std::string> driver = DriverOfFolder(FolderOfDriver(name));
  if (!driver.ok() || *driver != name || name.starts_with(kBuiltIn)) return nullptr;
  return options_.make(std::make_shared<Driver>(*driver, MissingError(*driver)), store_);
}

std::string FlexProber::ExplainMissing(const VolumeSpec& spec) const {
  if (!IsFlexVolume(spec)) return "";
  const StatusOr<FlexSource> source = ReadFlexSource(spec);
  if (!source.ok()) return std::string(base::Message(source.status()));
  const std::string folder = FolderOfDriver(source->driver);
  MutexLock lock(mutex_);
  const auto why = left_out_.find(folder);
  const Status status =
      why == left_out_.end() ? MissingError(source->driver) : UnusableError(folder, why->second);
  return std::string(base::Message(status));
}

Status FlexProber::GetState(std::string_view name) const {
  StatusOr<DriverVersion> current = DriverVersion();
  {
    MutexLock lock(mutex_);
    const auto known = known_.find(std::string(name));
    if (known != known_.end() && !known->second.taken.has_value()) {
      current = known->second.driver->Current();
    }
  }
  if (current.ok()) return base::OkStatus();
  const std::vector<std::string> users = store_->UsersOf(name);
  std::string shown;
  for (size_t i = 0; i < std::min(users.size(), kShownUsers); ++i) {
    shown += fmt::format("{}{}", i == 0 ? "" : ", ", Quote(users[i]));
  }
  if (users.size() > kShownUsers) shown += fmt::format(" and {} more", users.size() - kShownUsers);
  const bool removed = current.status().code() == StatusCode::kNotFound;
  return Error(removed ? StatusCode::kFailedPrecondition : StatusCode::kUnavailable,
               "{}; a copy is kept for what it set up: {}", base::Message(current.status()), shown);
}

std::map<std::string, Status> FlexProber::ListLeftOut() const {
  MutexLock lock(mutex_);
  return left_out_;
}

}  // namespace berth::volume
