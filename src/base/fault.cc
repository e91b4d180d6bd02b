#include "base/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "base/fault_spec.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace berth::base {

// All points of the program, and the faults that are switched on at each. Sites register themselves
// before main().
class FaultRegistry {
 public:
  static FaultRegistry& Get() {
    // Never destroyed: threads pass points while the process ends.
    static FaultRegistry& registry = *new FaultRegistry;
    return registry;
  }

  void Add(FaultSite* site) {
    MutexLock lock(mutex_);
    sites_.emplace(site->name(), site);
  }
  void Add(std::function<void()> family) {
    MutexLock lock(mutex_);
    families_.push_back(std::move(family));
  }

  std::vector<std::string> ListNames() {
    MakeFamilies();
    MutexLock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, site] : sites_) names.push_back(name);
    return names;
  }

  Status Init(std::string_view role) {
    MakeFamilies();
    MutexLock lock(mutex_);
    role_ = role;
    faults_.clear();
    for (const auto& [name, site] : sites_) site->armed_ = false;
    if (const char* folder = std::getenv("BERTH_FAULT_ONCE"); folder != nullptr) {
      once_folder_ = folder;
    }
    if (const char* path = std::getenv("BERTH_FAULT_LOG"); path != nullptr) {
      log_.Reset(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
      for (const auto& [name, site] : sites_) site->armed_ = true;
    }
    const char* text = std::getenv("BERTH_FAULTS");
    if (text == nullptr) return OkStatus();
    const StatusOr<std::vector<FaultSpec>> specs = ParseFaults(text);
    RETURN_IF_ERROR_WITH(specs, "BERTH_FAULTS");
    for (const FaultSpec& spec : *specs) RETURN_IF_ERROR_WITH(ArmSites(spec), "BERTH_FAULTS");
    return OkStatus();
  }

  Status PassPoint(const FaultSite& site) {
    std::chrono::milliseconds delay{0};
    Status result;
    {
      MutexLock lock(mutex_);
      LogFirstPassage(site.name());
      const auto found = faults_.find(&site);
      if (found == faults_.end()) return OkStatus();
      const uint64_t passage = ++found->second.passages;
      for (const FaultSpec& spec : found->second.specs) {
        if (!spec.ActsAt(site.name(), passage)) continue;
        if (spec.action == FaultSpec::Action::kDelay) {
          delay += spec.delay;
        } else if (spec.action == FaultSpec::Action::kCrash) {
          CrashProcess(site.name());
        } else if (result.ok()) {
          result = MakeFailure(spec, site.name());
        }
      }
    }
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    return result;
  }

 private:
  struct SiteFaults {
    std::vector<FaultSpec> specs;
    uint64_t passages = 0;
  };

  static Status MakeFailure(const FaultSpec& spec, std::string_view name) {
    if (spec.action == FaultSpec::Action::kCut) {
      return Error(StatusCode::kUnavailable,
                   "the connection was cut after the request was sent (fault point '{}')", name);
    }
    return Error(spec.code, "fault point '{}' was told to fail", name);
  }

  // Calls the families without the lock, because each point that they construct takes the lock to
  // register itself.
  void MakeFamilies() {
    std::vector<std::function<void()>> families;
    {
      MutexLock lock(mutex_);
      families.swap(families_);
    }
    for (const auto& make : families) make();
  }

  // Switches `spec` on at each point that it names, if it is for this process's role.
  Status ArmSites(const FaultSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    bool named = false;
    bool armed = false;
    for (const auto& [name, site] : sites_) {
      if (!spec.MatchesName(name)) continue;
      named = true;
      if (spec.action == FaultSpec::Action::kCut && site->kind() != FaultSite::Kind::kAnswer) {
        continue;
      }
      armed = true;
      if (!spec.role.empty() && spec.role != role_) continue;
      faults_[site].specs.push_back(spec);
      site->armed_ = true;
    }
    if (!named) {
      return Error(StatusCode::kInvalidArgument,
                   "no fault point is called '{}'; 'berth faults list' names all of them",
                   spec.name);
    }
    if (!armed) {
      return Error(StatusCode::kInvalidArgument,
                   "no answer arrives at '{}' that could be cut off; use the '.after' of a request",
                   spec.name);
    }
    return OkStatus();
  }

  void LogFirstPassage(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!log_.valid() || !logged_.insert(name).second) return;
    const std::string line = fmt::format("{}{}{}\n", role_, role_.empty() ? "" : "/", name);
    if (write(log_.get(), line.data(), line.size()) < 0) log_.Reset();
  }

  // Returns only if BERTH_FAULT_ONCE is set and a process has crashed here before, or if the file
  // that notes the crash cannot be created.
  void CrashProcess(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!once_folder_.empty()) {
      const std::string mark = fmt::format("{}/{}", once_folder_, name);
      const UniqueFd fd(open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (!fd.valid()) return;
    }
    kill(getpid(), SIGKILL);
    _exit(137);
  }

  Mutex mutex_;
  std::map<std::string, FaultSite*, std::less<>> sites_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> families_ ABSL_GUARDED_BY(mutex_);
  std::map<const FaultSite*, SiteFaults> faults_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> logged_ ABSL_GUARDED_BY(mutex_);
  std::string role_ ABSL_GUARDED_BY(mutex_);
  std::string once_folder_ ABSL_GUARDED_BY(mutex_);
  UniqueFd log_ ABSL_GUARDED_BY(mutex_);
};

FaultSite::FaultSite(std::string name, Kind kind) : name_(std::move(name)), kind_(kind) {
  FaultRegistry::Get().Add(this);
}

Status FaultSite::PassArmed() { return FaultRegistry::Get().PassPoint(*this); }

FaultFamily::FaultFamily(std::function<void()> make) { FaultRegistry::Get().Add(std::move(make)); }

std::vector<std::string> ListFaultPoints() { return FaultRegistry::Get().ListNames(); }

Status InitFaultPoints(std::string_view role) { return FaultRegistry::Get().Init(role); }

}  // namespace berth::base
