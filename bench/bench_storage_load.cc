// Makes the load under which storage controllers are compared on one kube-apiserver: many claims,
// attachments of their volumes, and the deletion of both. Each command on standard input starts a
// phase, and ends with a line of JSON on standard output, so that the caller can read the figures
// of other processes between the phases.
//
//   volumes N   makes N volumes that name their claims, in place of a provisioner
//   claims N    N claims, until each is Bound
//   attach      an attachment of each volume, until each is attached
//   detach      deletes the attachments, until each is gone
//   delete      deletes the claims, until each of them and each volume is gone
//
// With --alone no storage controller runs: "attach" ends when the attachments exist, and "delete"
// when the claims are gone.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/log.h"
#include "base/mutex.h"
#include "bench/measure.h"
#include "bench/parallel.h"
#include "kube/config.h"
#include "kube/http/http_client.h"
#include "kube/informers/informers.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Attachment = api::VolumeAttachment;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;

struct Options {
  std::string kubeconfig;
  std::string ns;
  std::string storage_class;
  std::string driver;
  std::string node;
  bool alone = false;
  int clients = 4;  // so that making the objects takes little of a small machine
  int timeout_s = 600;
};

constexpr int kMostObjects = 100'000;
constexpr std::chrono::seconds kSyncTime{30};

std::string ClaimName(int i) { return fmt::format("data-{}", i); }
std::string VolumeName(const Options& options, int i) {
  return fmt::format("{}-{}", options.ns, i);
}

Json MakeVolume(const Options& options, int i) {
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolume"},
          {"metadata", {{"name", VolumeName(options, i)}}},
          {"spec",
           {{"accessModes", {"ReadWriteOnce"}},
            {"capacity", {{"storage", "16Mi"}}},
            {"storageClassName", options.storage_class},
            {"persistentVolumeReclaimPolicy", "Retain"},
            {"claimRef",
             {{"apiVersion", "v1"},
              {"kind", "PersistentVolumeClaim"},
              {"namespace", options.ns},
              {"name", ClaimName(i)}}},
            {"csi", {{"driver", options.driver}, {"volumeHandle", VolumeName(options, i)}}}}}};
}

Json MakeClaim(const Options& options, int i) {
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolumeClaim"},
          {"metadata", {{"name", ClaimName(i)}}},
          {"spec",
           {{"accessModes", {"ReadWriteOnce"}},
            {"storageClassName", options.storage_class},
            {"resources", {{"requests", {{"storage", "16Mi"}}}}}}}};
}

Json MakeAttachment(const Options& options, const std::string& volume) {
  return {{"apiVersion", "storage.k8s.io/v1"},
          {"kind", "VolumeAttachment"},
          {"metadata", {{"name", volume}}},
          {"spec",
           {{"attacher", options.driver},
            {"nodeName", options.node},
            {"source", {{"persistentVolumeName", volume}}}}}};
}

// The objects of this run that the watches have seen. Thread-safe.
class Progress {
 public:
  Progress(const Options& options, kube::Informers& informers) : options_(options) {
    informers.Of<Claim>().AddHandler([this](const auto& change) {
      if (change.latest().ns() != options_.ns) return;
      base::MutexLock lock(mutex_);
      Count(claims_, change);
      if (change.after != nullptr && change.after->phase() == "Bound") bound_.insert(change.key);
      if (change.after == nullptr) bound_.erase(change.key);
      changed_.NotifyAll();
    });
    informers.Of<Volume>().AddHandler([this](const auto& change) {
      if (change.latest().claim_namespace() != options_.ns) return;
      base::MutexLock lock(mutex_);
      Count(volumes_, change);
      changed_.NotifyAll();
    });
    informers.Of<Attachment>().AddHandler([this](const auto& change) {
      base::MutexLock lock(mutex_);
      if (!volumes_.contains(change.latest().name())) return;
      Count(attachments_, change);
      if (change.after != nullptr && change.after->attached()) attached_.insert(change.key);
      if (change.after == nullptr) attached_.erase(change.key);
      changed_.NotifyAll();
    });
  }

  struct Counts {
    size_t claims = 0;
    size_t bound = 0;
    size_t volumes = 0;
    size_t attachments = 0;
    size_t attached = 0;
  };

  std::vector<std::string> ListVolumes() const {
    base::MutexLock lock(mutex_);
    return {volumes_.begin(), volumes_.end()};
  }

  // DEADLINE_EXCEEDED if `reached` is still false after the time of the options.
  Status WaitUntil(const std::function<bool(const Counts&)>& reached) {
    const auto deadline = Clock::now() + std::chrono::seconds(options_.timeout_s);
    base::MutexLock lock(mutex_);
    for (Counts now = Get(); !reached(now); now = Get()) {
      if (!changed_.WaitUntil(mutex_, deadline) && Clock::now() > deadline) {
        return base::Error(StatusCode::kDeadlineExceeded,
                           "there are {} claims, {} of them bound, {} volumes, {} attachments, {} "
                           "of them attached",
                           now.claims, now.bound, now.volumes, now.attachments, now.attached);
      }
    }
    return base::OkStatus();
  }

 private:
  Counts Get() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return {.claims = claims_.size(),
            .bound = bound_.size(),
            .volumes = volumes_.size(),
            .attachments = attachments_.size(),
            .attached = attached_.size()};
  }
  template <typename Change>
  void Count(std::set<std::string>& keys, const Change& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (change.after == nullptr) {
      keys.erase(change.key);
    } else {
      keys.insert(change.key);
    }
  }

  const Options& options_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::set<std::string> claims_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> bound_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> volumes_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> attachments_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> attached_ ABSL_GUARDED_BY(mutex_);
};

class Load {
 public:
  Load(const Options& options, kube::Client& client, Progress& progress)
      : options_(options), client_(client), progress_(progress) {}

  // Returns {"count": .., "seconds": ..}: the time from the first request until the phase's end.
  // "claims" also has "provisioned_seconds": until the last volume existed.
  StatusOr<Json> RunPhase(const std::string& phase, int count) {
    if (count < 0 || count > kMostObjects) {
      return base::Error(StatusCode::kInvalidArgument, "{} objects", count);
    }
    if (phase == "volumes" || phase == "claims") count_ = count;
    const std::vector<std::string> volumes = progress_.ListVolumes();
    const size_t wanted = static_cast<size_t>(count_);
    const auto begin = Clock::now();
    const auto since = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    Json result{{"count", count_}};
    if (phase == "volumes") {
      RETURN_IF_ERROR(Run(count_, [&](int i) {
        return client_.Create(Volume::kInfo, "", MakeVolume(options_, i)).status();
      }));
      RETURN_IF_ERROR(Wait([&](const auto& now) { return now.volumes == wanted; }));
    } else if (phase == "claims") {
      RETURN_IF_ERROR(Run(count_, [&](int i) {
        return client_.Create(Claim::kInfo, options_.ns, MakeClaim(options_, i)).status();
      }));
      RETURN_IF_ERROR(Wait([&](const auto& now) { return now.volumes == wanted; }));
      result["provisioned_seconds"] = since();
      RETURN_IF_ERROR(Wait([&](const auto& now) { return now.bound == wanted; }));
    } else if (phase == "attach") {
      RETURN_IF_ERROR(Run(static_cast<int>(volumes.size()), [&](int i) {
        return client_
            .Create(Attachment::kInfo, "",
                    MakeAttachment(options_, volumes[static_cast<size_t>(i)]))
            .status();
      }));
      RETURN_IF_ERROR(Wait([&](const auto& now) {
        return (options_.alone ? now.attachments : now.attached) == wanted;
      }));
    } else if (phase == "detach") {
      RETURN_IF_ERROR(Run(static_cast<int>(volumes.size()), [&](int i) {
        return client_.Delete(Attachment::kInfo, "", volumes[static_cast<size_t>(i)], {});
      }));
      RETURN_IF_ERROR(Wait([&](const auto& now) { return now.attachments == 0; }));
    } else if (phase == "delete") {
      RETURN_IF_ERROR(Run(count_, [&](int i) {
        return client_.Delete(Claim::kInfo, options_.ns, ClaimName(i), {});
      }));
      RETURN_IF_ERROR(Wait([&](const auto& now) {
        return now.claims == 0 && (options_.alone || now.volumes == 0);
      }));
    } else {
      return base::Error(StatusCode::kInvalidArgument, "no phase is called {}", base::Quote(phase));
    }
    result["seconds"] = since();
    return result;
  }

 private:
  Status Run(int count, const std::function<Status(int)>& work) {
    return RunInParallel(count, options_.clients, work);
  }
  Status Wait(const std::function<bool(const Progress::Counts&)>& reached) {
    return progress_.WaitUntil(reached);
  }

  const Options& options_;
  kube::Client& client_;
  Progress& progress_;
  int count_ = 0;
};

// Prints at once, because the caller waits for the line. Returns the exit code.
int Answer(const StatusOr<Json>& result) {
  const int code = PrintResult(result);
  std::fflush(stdout);
  return code;
}

// Runs the commands until the end of standard input, or a failure. Returns the exit code.
int RunCommands(const Options& options) {
  const auto config = kube::LoadKubeconfig(options.kubeconfig);
  if (!config.ok()) return Answer(config.status());
  const auto client = kube::NewHttpClient(*config, {.user_agent = "bench-storage-load"});
  if (!client.ok()) return Answer(client.status());
  kube::Informers informers(**client);
  Progress progress(options, informers);
  informers.Start();
  Load load(options, **client, progress);
  Status status = informers.WaitForSync(kSyncTime);
  int code = status.ok() ? Answer(Json{{"ready", true}}) : Answer(status);
  for (std::string line; code == 0 && std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string phase;
    int count = 0;
    words >> phase >> count;
    code = Answer(load.RunPhase(phase, count));
  }
  informers.Stop();
  return code;
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  berth::bench::Options options;
  CLI::App app("The load under which storage controllers are compared");
  app.add_option("--kubeconfig", options.kubeconfig)->required();
  app.add_option("--namespace", options.ns)->required();
  app.add_option("--storage-class", options.storage_class)->required();
  app.add_option("--driver", options.driver)->required();
  app.add_option("--node", options.node)->required();
  app.add_flag("--alone", options.alone);
  app.add_option("--clients", options.clients)->check(CLI::Range(1, 64));
  app.add_option("--timeout-s", options.timeout_s)->check(CLI::Range(1, 3600));
  CLI11_PARSE(app, argc, argv);
  return berth::bench::RunCommands(options);
}
