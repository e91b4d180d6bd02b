// Runs informers while the server restarts a thousand times, compacts its history and loses its
// connections, and while writers write. Afterwards each informer's copy must equal a list, no
// change may have been reported out of order, and none may have been skipped between two lists.
//
//   informer_chaos [--seed N] [--restarts N]
//
// The server is the real one on a store on disk, in this process; clients come through a proxy that
// cuts their connections. Prints the seed and what happened; exits with 1 if a promise was broken.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <iostream>

#include "api/kinds/kinds.h"
#include "apiserver/server.h"
#include "base/log.h"
#include "cutting_proxy.h"
#include "kube/http/http_client.h"
#include "kube/informers/informers.h"
#include "recording_client.h"
#include "store/store.h"
#include "writer.h"

namespace berth::chaos {
namespace {

using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusOr;
using std::chrono::steady_clock;

// The API with its store, which can be stopped and started.
class Api {
 public:
  explicit Api(std::string folder) : folder_(std::move(folder)) {}

  Status Start() {
    ASSIGN_OR_RETURN(store_, store::Store::Open({.path = folder_ + "/store.db"}));
    ASSIGN_OR_RETURN(server_, apiserver::Server::Start(*store_, clock_,
                                                       {.unix_socket = socket(),
                                                        .port = 0,
                                                        .certificate_folder = folder_ + "/pki",
                                                        .kubeconfig = folder_ + "/kubeconfig",
                                                        .node_sockets = folder_}));
    return base::OkStatus();
  }
  void Stop() {
    server_.reset();
    store_.reset();
  }
  // Removes the history except for the last `keep` changes.
  Status Compact(int64_t keep) {
    return store_->Compact(std::max<int64_t>(store_->current() - keep, 0));
  }
  std::string socket() const { return folder_ + "/api.sock"; }

 private:
  const std::string folder_;
  base::SystemClock clock_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<apiserver::Server> server_;
};

// An informer, with the records that are needed to check it.
class Witness {
 public:
  Witness(kube::Client& client, const api::KindInfo& kind, kube::InformerOptions options)
      : options_(options),
        recorder_(client),
        informer_(recorder_, kind, options, [](Json json) -> kube::InformerBase::ObjectPtr {
          return std::make_shared<const api::Object>(std::move(json));
        }) {
    informer_.AddHandler([this](const kube::InformerBase::Change& change) { See(change); });
    informer_.Start();
  }
  void Stop() { informer_.Stop(); }

  std::string name() const {
    return fmt::format("{} {} {} {}", informer_.kind().plural, options_.ns, options_.label_selector,
                       options_.field_selector);
  }
  const kube::InformerOptions& options() const { return options_; }
  const api::KindInfo& kind() const { return informer_.kind(); }
  RecordingClient::Tape tape() const { return recorder_.tape(); }
  size_t told() const { return recorder_.told(); }
  size_t changes() const {
    MutexLock lock(mutex_);
    return changes_;
  }

  std::map<std::string, int64_t> Copy() const {
    std::map<std::string, int64_t> copy;
    for (const auto& object : informer_.All()) copy[object->key()] = VersionOf(object->json());
    return copy;
  }
  // The objects that result from all changes that the handler was told.
  std::map<std::string, int64_t> Told() const {
    MutexLock lock(mutex_);
    return present_;
  }
  std::vector<std::string> breaches() const {
    std::vector<std::string> all = tape().breaches;
    MutexLock lock(mutex_);
    all.insert(all.end(), breaches_.begin(), breaches_.end());
    return all;
  }

 private:
  // Checks that each change begins at the version where the last one ended, and that versions only
  // grow, also when an object is deleted and made again.
  void See(const kube::InformerBase::Change& change) {
    const int64_t before = change.before == nullptr ? 0 : VersionOf(change.before->json());
    const int64_t after = change.after == nullptr ? 0 : VersionOf(change.after->json());
    MutexLock lock(mutex_);
    ++changes_;
    const auto known = present_.find(change.key);
    if (before != (known == present_.end() ? 0 : known->second)) {
      breaches_.push_back(fmt::format("{}: a change from {}, but it was at {}", change.key, before,
                                      known == present_.end() ? 0 : known->second));
    }
    if (after == 0) {
      present_.erase(change.key);
      return;
    }
    if (after <= highest_[change.key]) {
      breaches_.push_back(fmt::format("{}: {} after {}", change.key, after, highest_[change.key]));
    }
    highest_[change.key] = after;
    present_[change.key] = after;
  }

  const kube::InformerOptions options_;
  RecordingClient recorder_;
  mutable base::Mutex mutex_;
  size_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int64_t> present_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> highest_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> breaches_ ABSL_GUARDED_BY(mutex_);
  kube::InformerBase informer_;  // last: it calls See
};

StatusOr<std::map<std::string, int64_t>> ListAll(kube::Client& client, const Witness& witness) {
  std::map<std::string, int64_t> found;
  kube::ListOptions options{.label_selector = witness.options().label_selector,
                            .field_selector = witness.options().field_selector,
                            .resource_version = {},
                            .limit = 100,
                            .continue_token = {},
                            .timeout = {},
                            .metadata_only = false};
  do {
    ASSIGN_OR_RETURN(kube::ListResult page,
                     client.List(witness.kind(), witness.options().ns, options));
    for (Json& item : page.items) {
      const api::Object object(std::move(item));
      found[object.key()] = VersionOf(object.json());
    }
    options.continue_token = page.continue_token;
  } while (!options.continue_token.empty());
  return found;
}

class Chaos {
 public:
  Chaos(std::string folder, uint64_t seed) : api_(std::move(folder)), random_(seed) {}

  Status Begin(const std::string& folder) {
    RETURN_IF_ERROR(api_.Start());
    ASSIGN_OR_RETURN(proxy_, CuttingProxy::Start({.listen = folder + "/proxy.sock",
                                                  .server = api_.socket(),
                                                  .seed = random_()}));
    ASSIGN_OR_RETURN(direct_, NewClient(api_.socket()));
    ASSIGN_OR_RETURN(shaky_, NewClient(folder + "/proxy.sock"));
    const std::vector<std::string> namespaces = {"left", "right"};
    for (const std::string& ns : namespaces) {
      RETURN_IF_ERROR(base::AsStatus(
          direct_->Create(api::kinds::kNamespace, "", {{"metadata", {{"name", ns}}}})));
    }
    const auto watch = [&](const api::KindInfo& kind, kube::InformerOptions options) {
      witnesses_.push_back(std::make_unique<Witness>(*shaky_, kind, std::move(options)));
    };
    watch(api::kinds::kConfigMap, {});
    watch(api::kinds::kSecret, {});
    watch(api::kinds::kConfigMap, {.ns = "left", .label_selector = {}, .field_selector = {}});
    watch(api::kinds::kConfigMap, {.ns = {}, .label_selector = "side=left", .field_selector = {}});
    watch(api::kinds::kSecret,
          {.ns = {}, .label_selector = {}, .field_selector = "metadata.namespace=right"});
    // They write more objects than one page of an informer's list holds.
    for (const char* name : {"one", "two", "three"}) {
      writers_.push_back(std::make_unique<Writer>(*shaky_, name, namespaces, 500, random_()));
    }
    return base::OkStatus();
  }

  Status Run(int restarts) {
    for (restarts_ = 0; restarts_ < restarts; ++restarts_) {
      if (restarts_ % kLongLifeEvery == 0) WaitForWatches();
      Pause(60);
      switch (random_() % 4) {
        case 0:
          proxy_->Cut(1);
          break;
        case 1:
          proxy_->Cut(0.5);
          break;
        case 2:
          RETURN_IF_ERROR(api_.Compact(static_cast<int64_t>(random_() % 50)));
          ++compactions_;
          break;
        default:
          break;
      }
      Pause(60);
      api_.Stop();
      Pause(10);
      RETURN_IF_ERROR(api_.Start());
    }
    return base::OkStatus();
  }

  // Stops the writers, waits until the copies equal the lists, and checks all promises.
  Status JudgeCopies() {
    for (const auto& writer : writers_) writer->Stop();
    for (const auto& witness : witnesses_) {
      ASSIGN_OR_RETURN(const auto listed, ListAll(*direct_, *witness));
      const auto deadline = steady_clock::now() + std::chrono::seconds(60);
      while (witness->Copy() != listed && steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      Expect(witness->Copy() == listed, witness->name() + ": its copy differs from a list");
      witness->Stop();
      Expect(witness->Told() == listed, witness->name() + ": what it told differs from a list");
      Expect(!listed.empty(), witness->name() + ": nothing to see");
      for (const std::string& breach : witness->breaches()) {
        Expect(false, witness->name() + ": " + breach);
      }
    }
    JudgeWriters();
    for (const size_t judged : kJudgedTapes) JudgeTape(*witnesses_[judged]);
    return base::OkStatus();
  }

  void Report() const {
    size_t lists = 0, watches = 0, changes = 0, expired = 0, writes = 0, unknown = 0;
    for (const auto& witness : witnesses_) {
      const auto tape = witness->tape();
      lists += tape.segments.size();
      watches += tape.watches;
      expired += tape.expired;
      changes += witness->changes();
    }
    for (const auto& writer : writers_) {
      for (const auto& [kind, versions] : writer->acknowledged()) writes += versions.size();
      unknown += writer->unknown();
    }
    fmt::print(
        "{} restarts, {} compactions, {} cuts; {} writes acknowledged, {} of unknown outcome; "
        "{} informers: {} lists, {} watches, {} too old, {} changes\n",
        restarts_, compactions_, proxy_->cuts(), writes, unknown, witnesses_.size(), lists, watches,
        expired, changes);
    for (const std::string& failure : failures_) fmt::print("BROKEN: {}\n", failure);
  }
  bool failed() const { return !failures_.empty(); }

 private:
  static StatusOr<std::unique_ptr<kube::Client>> NewClient(const std::string& socket) {
    kube::Config config;
    config.socket = socket;
    return kube::NewHttpClient(config, {.request_timeout = std::chrono::seconds(5)});
  }
  void Pause(int most_milliseconds) {
    std::this_thread::sleep_for(
        std::chrono::microseconds(random_() % (static_cast<uint64_t>(most_milliseconds) * 1000)));
  }
  void Expect(bool holds, const std::string& promise) {
    if (!holds && failures_.size() < 50) failures_.push_back(promise);
  }

  // Waits until the judged watches have told kTellsOfALongLife more events. A server that is
  // stopped after a few milliseconds may send no event at all, in particular on a busy machine.
  void WaitForWatches() {
    for (const size_t judged : kJudgedTapes) {
      const size_t enough = witnesses_[judged]->told() + kTellsOfALongLife;
      const auto deadline = steady_clock::now() + std::chrono::seconds(30);
      while (witnesses_[judged]->told() < enough && steady_clock::now() < deadline) Pause(5);
    }
    ++long_lives_;
  }

  // Each acknowledged write must be there, unless a later write of unknown outcome replaced it.
  void JudgeWriters() {
    for (const auto& writer : writers_) {
      for (const std::string& loss : writer->losses()) Expect(false, "lost: " + loss);
      for (const Writer::Object& object : writer->objects()) {
        const auto found = direct_->Get(*object.kind, object.ns, object.name);
        const int64_t version = found.ok() ? VersionOf(*found) : 0;
        const bool right = object.unsure ? version >= object.version || object.may_be_gone
                                         : version == object.version;
        Expect(right, fmt::format("{} {} should be at {} and is at {}", object.kind->plural,
                                  object.name, object.version, version));
      }
    }
  }

  // The watches must have told each acknowledged write between a list and their last event or
  // bookmark after it.
  void JudgeTape(const Witness& witness) {
    std::set<int64_t> written;
    for (const auto& writer : writers_) {
      const auto it = writer->acknowledged().find(&witness.kind());
      if (it != writer->acknowledged().end()) written.insert(it->second.begin(), it->second.end());
    }
    size_t told = 0;
    for (const RecordingClient::Segment& segment : witness.tape().segments) {
      for (auto it = written.upper_bound(segment.listed);
           it != written.end() && *it <= segment.through; ++it) {
        Expect(segment.events.contains(*it),
               fmt::format("{}: version {} was passed over between {} and {}", witness.name(), *it,
                           segment.listed, segment.through));
        ++told;
      }
    }
    // Without this check, watches that tell nothing would pass. It expects only half of the events,
    // because the writers do not know the outcome of some writes that the watches tell.
    Expect(told > long_lives_ * kTellsOfALongLife / 2,
           fmt::format("{}: watches told only {} writes", witness.name(), told));
  }

  // The witnesses that watch all objects of a kind; the others watch a part of them.
  static constexpr size_t kJudgedTapes[] = {0, 1};
  static constexpr int kLongLifeEvery = 10;
  static constexpr size_t kTellsOfALongLife = 20;

  Api api_;
  std::mt19937_64 random_;
  std::unique_ptr<CuttingProxy> proxy_;
  std::unique_ptr<kube::Client> direct_;
  std::unique_ptr<kube::Client> shaky_;
  std::vector<std::unique_ptr<Witness>> witnesses_;
  std::vector<std::unique_ptr<Writer>> writers_;
  int restarts_ = 0;
  size_t long_lives_ = 0;
  size_t compactions_ = 0;
  std::vector<std::string> failures_;
};

int Main(uint64_t seed, int restarts) {
  char folder[] = "/tmp/berth-chaos-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  fmt::print("seed {}\n", seed);
  std::cout.flush();
  int code = 1;
  {
    Chaos chaos(folder, seed);
    Status status = chaos.Begin(folder);
    if (status.ok()) status = chaos.Run(restarts);
    if (status.ok()) status = chaos.JudgeCopies();
    if (status.ok()) {
      chaos.Report();
      code = chaos.failed() ? 1 : 0;
    } else {
      fmt::print("BROKEN: {}\n", base::ToString(status));
    }
  }
  std::filesystem::remove_all(folder);
  return code;
}

}  // namespace
}  // namespace berth::chaos

int main(int argc, char** argv) {
  uint64_t seed = std::random_device{}();
  int restarts = 1000;
  CLI::App app("Informers under restarts, compactions and cut connections");
  app.add_option("--seed", seed, "Seed of all that is random (default: any)");
  app.add_option("--restarts", restarts, "How often the server restarts")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  berth::base::InitLogging("informer_chaos", 0);
  spdlog::set_level(spdlog::level::err);  // broken watches are expected here
  std::signal(SIGPIPE, SIG_IGN);
  return berth::chaos::Main(seed, restarts);
}
