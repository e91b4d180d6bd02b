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
// So many users of a removed driver are named.
constexpr size_t kShownUsers = 3;

int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool Settled(const DriverFolder& found, int64_t read_at) {
  return std::ranges::all_of(found.files, [&](const DriverFile& file) {
    return file.identity.changed_ns + kTimeStepNs < read_at;
  });
}

bool SameExecutable(const DriverStore::Taken& a, const DriverStore::Taken& b) {
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
  void Set(StatusOr<DriverVersion> current) {
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
  if (store_ != nullptr) store_->OnReleased(nullptr);
}

Status FlexProber::Init() {
  if (watch_ != nullptr) return base::OkStatus();
  if (store_ == nullptr) {
    ASSIGN_OR_RETURN(store_, DriverStore::Open(options_.store));
  }
  platform::WatchOptions watch{.depth = options_.limits.depth + 1,
                               .window = options_.window,
                               .skip_dot_names = true,
                               .attributes = true,
                               .keep_folder = true,
                               .on_trouble = options_.on_trouble};
  ASSIGN_OR_RETURN(watch_, platform::WatchFolder(
                               options_.drivers,
                               [this] {
                                 news_ = true;
                                 if (tell_) tell_();
                               },
                               std::move(watch)));
  // An old version can be removed then, and a removed driver is listed no more, or for fewer users.
  // If a hold ends while a scan replaces its driver, that scan collects.
  store_->OnReleased([this] {
    if (scanning_ != std::this_thread::get_id()) watch_->RequestCall();
  });
  return base::OkStatus();
}

StatusOr<std::optional<PluginList>> FlexProber::Probe() {
  if (!news_.load(std::memory_order_acquire)) return std::optional<PluginList>();
  MutexLock lock(mutex_);
  // It is cleared before the folder is read, so that later changes set it again.
  news_ = false;
  scanning_ = std::this_thread::get_id();
  const Status scanned = Scan();
  scanning_ = std::thread::id();
  RETURN_IF_ERROR(scanned);
  PluginList list;
  for (const auto& [driver, known] : known_) list.push_back(known.plugin);
  return std::optional(std::move(list));
}

Status FlexProber::Scan() {
  const StatusOr<base::UniqueFd> drivers = OpenDrivers(options_.drivers);
  StatusOr<DriverScan> scan = drivers.ok() ? ScanDrivers(drivers->get(), options_.limits)
                                           : StatusOr<DriverScan>(drivers.status());
  if (!scan.ok()) {
    watch_->RequestCall(options_.retry);
    return scan.status();
  }
  std::set<std::string> present;
  for (const DriverFolder& found : scan->drivers) {
    const Status taken = Update(drivers->get(), found);
    if (!taken.ok()) scan->left_out.emplace(found.folder, taken);
    present.insert(found.driver);
  }
  std::set<std::string> gone = store_->Held();
  for (const auto& [driver, known] : known_) gone.insert(driver);
  for (const std::string& driver : gone) {
    if (present.contains(driver)) continue;
    const auto why = scan->left_out.find(FolderOfDriver(driver));
    Retire(driver,
           why == scan->left_out.end() ? Missing(driver) : Unusable(why->first, why->second));
  }
  store_->Collect();
  const std::map<std::string, Status> before = std::exchange(left_out_, std::move(scan->left_out));
  TellLeftOut(before);
  return base::OkStatus();
}

Status FlexProber::Update(int drivers, const DriverFolder& found) {
  const auto it = known_.find(found.driver);
  Known* known = it == known_.end() ? nullptr : &it->second;
  if (known != nullptr && known->settled && known->taken->found == found) return base::OkStatus();
  const int64_t now = Now();
  StatusOr<DriverStore::Taken> taken = store_->TakeCopy(drivers, found.folder, options_.limits);
  if (!taken.ok()) {
    const bool writing = taken.status().code() == StatusCode::kUnavailable;
    watch_->RequestCall(writing ? std::chrono::milliseconds(0) : options_.retry);
    if (known == nullptr || !known->taken.has_value() || !writing) {
      Retire(found.driver, Unusable(found.folder, taken.status()));
    } else {
      known->settled = false;
      known->driver->Set(Unusable(found.folder, taken.status()));
    }
    return taken.status();
  }
  if (known == nullptr) known = &known_[found.driver];
  if (known->taken.has_value() && SameExecutable(*known->taken, *taken)) {
    known->driver->Set(taken->version);
  } else {
    MakePlugin(*known, found.driver, taken->version);
  }
  known->settled = Settled(taken->found, now);
  known->taken = *std::move(taken);
  return base::OkStatus();
}

void FlexProber::Retire(const std::string& driver, const Status& why) {
  const auto it = known_.find(driver);
  if (it != known_.end()) {
    // Everyone that has the plugin learns this, whether the plugin is listed or not.
    it->second.driver->Set(why);
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

// The message for users, who care about volumes and not about folders.
Status FlexProber::Unusable(const std::string& folder, const Status& why) const {
  return base::Annotate(why, fmt::format("the Flexvolume driver in {} cannot be used",
                                         Quote(fmt::format("{}/{}", options_.drivers, folder))));
}

Status FlexProber::Missing(const std::string& driver) const {
  return Error(StatusCode::kNotFound, "there is no Flexvolume driver {}: no folder {} in {}",
               Quote(driver), Quote(FolderOfDriver(driver)), Quote(options_.drivers));
}

void FlexProber::TellLeftOut(const std::map<std::string, Status>& before) {
  if (!options_.on_left_out) return;
  for (const auto& [folder, why] : left_out_) {
    const auto old = before.find(folder);
    if (old == before.end() || old->second != why) options_.on_left_out(folder, why);
  }
  for (const auto& [folder, why] : before) {
    if (!left_out_.contains(folder)) options_.on_left_out(folder, base::OkStatus());
  }
}

std::shared_ptr<VolumePlugin> FlexProber::Absent(std::string_view name) const {
  constexpr std::string_view kBuiltIn = "kubernetes.io/";
  const StatusOr<std::string> driver = DriverOfFolder(FolderOfDriver(name));
  if (!driver.ok() || *driver != name || name.starts_with(kBuiltIn)) return nullptr;
  return options_.make(std::make_shared<Driver>(*driver, Missing(*driver)), store_);
}

std::string FlexProber::WhyNone(const VolumeSpec& spec) const {
  if (!IsFlexVolume(spec)) return "";
  const StatusOr<FlexSource> source = ReadFlexSource(spec);
  if (!source.ok()) return std::string(base::Message(source.status()));
  const std::string folder = FolderOfDriver(source->driver);
  MutexLock lock(mutex_);
  const auto why = left_out_.find(folder);
  const Status status =
      why == left_out_.end() ? Missing(source->driver) : Unusable(folder, why->second);
  return std::string(base::Message(status));
}

Status FlexProber::StateOf(std::string_view name) const {
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

std::map<std::string, Status> FlexProber::LeftOut() const {
  MutexLock lock(mutex_);
  return left_out_;
}

}  // namespace berth::volume
