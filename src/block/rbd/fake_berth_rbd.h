// `berth-rbd call` in memory: a pool with images, locks and a blocklist, for tests of the back end
// that calls it. Thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/mutex.h"
#include "block/fake_storage_program.h"

namespace berth::block {

class FakeBerthRbd : public FakeStorageProgram {
 public:
  using Holders = std::map<std::string, std::string>;  // address → node
  struct Image {
    int64_t size = 0;
    std::string snapshot_of;
    std::string note;
    Holders holders;
  };

  static std::string key() { return "AQCMrqhlAAAAABAAd0Nb4lZvYbI1dm9xUVJ2fA=="; }

  FakeBerthRbd()
      : FakeStorageProgram({.program = "rbd",
                            .member = "key",
                            .value = key(),
                            .refusal_code = "PERMISSION_DENIED",
                            .refusal = "Ceph refuses the key of client.kube"}) {}

  // A client of the node takes the image's lock.
  void LockImageFor(const std::string& image, const std::string& node, const std::string& address) {
    base::MutexLock lock(mutex_);
    images_[image].holders[address] = node;
  }

 private:
  static Json Show(const std::string& name, const Image& image) {
    return {{"name", name}, {"size", image.size}, {"snapshotOf", image.snapshot_of}};
  }

  platform::CommandResult Answer(const std::string& call, const Json& request) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (call == "check") return GiveResult(Json::object());
    if (call == "list") {
      Json all = Json::array();
      for (const auto& [name, image] : images_) all.push_back(Show(name, image));
      return GiveResult({{"images", std::move(all)}});
    }
    if (call == "fenced" || call == "unfence") return AnswerAboutFences(call, request);
    return AnswerAboutImage(call, base::json::String(request, {"image"}), request);
  }
  platform::CommandResult AnswerAboutFences(const std::string& call, const Json& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (call == "fenced") {
      Json nodes = Json::object();
      for (const auto& [address, node] : fenced_) nodes[node].push_back(address);
      return GiveResult({{"nodes", std::move(nodes)}});
    }
    for (const Json& address : base::json::Array(request, {"addresses"})) {
      fenced_.erase(address.get<std::string>());
    }
    return GiveResult(Json::object());
  }
  platform::CommandResult AnswerAboutImage(const std::string& call, const std::string& name,
                                           const Json& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (call == "create") {
      const int64_t size = base::json::Int(request, {"size"});
      Image& image = images_.try_emplace(name, Image{.size = size}).first->second;
      if (image.size < size) return Fail("ALREADY_EXISTS", "image has another size");
      return GiveResult(Show(name, image));
    }
    if (call == "delete" && !images_.contains(name)) return GiveResult(Json::object());
    if (call == "fenceTargets") {
      Json addresses = Json::array();
      const std::string target = base::json::String(request, {"target"});
      for (const auto& [address, node] :
           images_.contains(name) ? images_.at(name).holders : Holders()) {
        if (node == target) addresses.push_back(address);
      }
      return GiveResult({{"addresses", std::move(addresses)}});
    }
    if (!images_.contains(name)) return Fail("NOT_FOUND", "there is no image '" + name + "'");
    Image& image = images_.at(name);
    if (call == "delete") {
      if (!image.holders.empty()) return Fail("FAILED_PRECONDITION", "the image has a lock");
      images_.erase(name);
      return GiveResult(Json::object());
    }
    if (call == "snapshot") {
      const std::string snapshot = base::json::String(request, {"snapshot"});
      images_[snapshot] = {.size = image.size, .snapshot_of = name};
      return GiveResult(Show(snapshot, images_[snapshot]));
    }
    if (call == "grow") image.size = std::max(image.size, base::json::Int(request, {"size"}));
    if (call == "grow" || call == "info") return GiveResult(Show(name, image));
    if (call == "note") image.note = base::json::String(request, {"uuid"});
    if (call == "note") return GiveResult(Json::object());
    if (call == "readNote") return GiveResult({{"uuid", image.note}});
    Json addresses = Json::array();
    if (call == "holders") {
      for (const auto& [address, node] : image.holders) {
        addresses.push_back({{"address", address}, {"node", node}, {"alive", true}});
      }
      return GiveResult({{"holders", std::move(addresses)}});
    }
    if (call != "fence") return Fail("UNIMPLEMENTED", "no call " + call);
    const std::string target = base::json::String(request, {"target"});
    const auto wanted = base::json::Strings(base::json::Array(request, {"addresses"}));
    EXPECT_FALSE(wanted.empty()) << "it would fence whatever client the node has by then";
    for (auto it = image.holders.begin(); it != image.holders.end();) {
      if (it->second != target || std::ranges::find(wanted, it->first) == wanted.end()) {
        ++it;
        continue;
      }
      addresses.push_back(it->first);
      fenced_[it->first] = target;
      it = image.holders.erase(it);
    }
    return GiveResult({{"addresses", std::move(addresses)}});
  }

  std::map<std::string, Image> images_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> fenced_ ABSL_GUARDED_BY(mutex_);  // address → node
};

}  // namespace berth::block
