// A back end in memory, for tests of the code that uses a back end. Nodes that share a FakeImages
// map images to devices that do not exist; the back end only makes up their names.
//
// It keeps the rules of backend.h: a mapping holds the image's lock, shared for readers, until it
// is unmapped. A device that is open can only be unmapped by force. Thread-safe.
#pragma once

#include <sys/sysmacros.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "block/backend.h"

namespace berth::block {

// What all nodes see.
class FakeImages {
 public:
  struct Image {
    ImageInfo info;
    // The nodes that have it mapped; true: for reading only.
    std::map<std::string, bool> mapped_by;
    std::map<std::string, std::string> clients;  // of the nodes in `mapped_by`
    bool shared_writers = false;
    std::string formatting;
  };

  base::Mutex mutex;
  std::map<std::string, Image> images ABSL_GUARDED_BY(mutex);
  // By node: its clients that were fenced.
  std::map<std::string, std::vector<std::string>> fenced ABSL_GUARDED_BY(mutex);
  // How many clients there were; each has a name that is used once.
  int made_clients ABSL_GUARDED_BY(mutex) = 0;
  // False: the back end cannot know its locks, so HasLock gives UNIMPLEMENTED.
  bool knows_locks ABSL_GUARDED_BY(mutex) = true;
  bool can_fence ABSL_GUARDED_BY(mutex) = false;
  SnapshotSupport snapshots ABSL_GUARDED_BY(mutex) = SnapshotSupport::kOfUnused;
  // The nodes of which no other node ever saw a lock.
  std::set<std::string> unseen ABSL_GUARDED_BY(mutex);
  // The answer of ExchangeLocks.
  base::Status exchange ABSL_GUARDED_BY(mutex);
};

class FakeBackend : public Backend {
 public:
  FakeBackend(FakeImages& images, std::string node) : images_(images), node_(std::move(node)) {}

  // Each call first calls `hook` with its own name and image; if the hook fails, the call fails
  // with the same status.
  void OnCall(std::function<base::Status(std::string_view call, const std::string& image)> hook) {
    base::MutexLock lock(images_.mutex);
    hook_ = std::move(hook);
  }
  // While `open` is true, the device counts as open and cannot be unmapped.
  void SetOpen(const std::string& image, bool open) {
    base::MutexLock lock(images_.mutex);
    open ? static_cast<void>(open_.insert(image)) : static_cast<void>(open_.erase(image));
  }
  // Sets the device that the image is mapped to, instead of a made-up name.
  void SetDevice(const std::string& image, const std::string& path, uint64_t number) {
    base::MutexLock lock(images_.mutex);
    devices_[image] = {path, number};
  }

  base::StatusOr<ImageInfo> Create(const NewImage& wanted) override {
    RETURN_IF_ERROR(Call("Create", wanted.name));
    base::MutexLock lock(images_.mutex);
    const auto [it, made] = images_.images.try_emplace(wanted.name);
    if (made) it->second.info = {wanted.name, wanted.size_bytes, ""};
    if (it->second.info.size_bytes != wanted.size_bytes) {
      return base::Error(base::StatusCode::kAlreadyExists, "image {} has another size",
                         base::Quote(wanted.name));
    }
    return it->second.info;
  }
  base::Status Delete(const std::string& image) override {
    RETURN_IF_ERROR(Call("Delete", image));
    base::MutexLock lock(images_.mutex);
    const auto it = images_.images.find(image);
    if (it == images_.images.end()) return base::OkStatus();
    if (!it->second.mapped_by.empty()) return LockedError(image);
    images_.images.erase(it);
    return base::OkStatus();
  }
  base::StatusOr<ImageInfo> CreateSnapshot(const std::string& image,
                                           const std::string& snapshot) override {
    RETURN_IF_ERROR(Call("CreateSnapshot", image));
    base::MutexLock lock(images_.mutex);
    if (images_.snapshots == SnapshotSupport::kNone) {
      return base::Error(base::StatusCode::kUnimplemented, "this back end makes no snapshots");
    }
    const auto it = images_.images.find(image);
    if (it == images_.images.end()) return MissingError(image);
    if (!it->second.mapped_by.empty() && images_.snapshots == SnapshotSupport::kOfUnused) {
      return LockedError(image);
    }
    const ImageInfo info{snapshot, it->second.info.size_bytes, image};
    images_.images[snapshot].info = info;
    return info;
  }
  SnapshotSupport OffersSnapshots() const override {
    base::MutexLock lock(images_.mutex);
    return images_.snapshots;
  }
  base::StatusOr<ImageInfo> Grow(const std::string& image, int64_t size_bytes) override {
    RETURN_IF_ERROR(Call("Grow", image));
    base::MutexLock lock(images_.mutex);
    const auto it = images_.images.find(image);
    if (it == images_.images.end()) return MissingError(image);
    it->second.info.size_bytes = std::max(it->second.info.size_bytes, size_bytes);
    return it->second.info;
  }
  base::StatusOr<std::vector<ImageInfo>> List() override {
    RETURN_IF_ERROR(Call("List", ""));
    base::MutexLock lock(images_.mutex);
    std::vector<ImageInfo> all;
    for (const auto& [name, image] : images_.images) all.push_back(image.info);
    return all;
  }

  bool KeepsLocks() const override {
    base::MutexLock lock(images_.mutex);
    return images_.knows_locks;
  }
  base::StatusOr<bool> HasLock(const std::string& image) override {
    RETURN_IF_ERROR(Call("HasLock", image));
    base::MutexLock lock(images_.mutex);
    if (!images_.knows_locks) {
      return base::Error(base::StatusCode::kUnimplemented, "this back end cannot know its locks");
    }
    const auto it = images_.images.find(image);
    return it != images_.images.end() && !it->second.mapped_by.empty();
  }
  base::StatusOr<bool> HoldsLock(const Mapping& mapping) override {
    RETURN_IF_ERROR(Call("HoldsLock", mapping.image));
    base::MutexLock lock(images_.mutex);
    if (!images_.knows_locks) {
      return base::Error(base::StatusCode::kUnimplemented, "this back end cannot know its locks");
    }
    const auto it = images_.images.find(mapping.image);
    return it != images_.images.end() && it->second.mapped_by.contains(node_);
  }
  base::Status ExchangeLocks(const std::string& life) override {
    RETURN_IF_ERROR(Call("ExchangeLocks", life));
    base::MutexLock lock(images_.mutex);
    return images_.exchange;
  }
  base::Status ProveLocks(const std::string& life, const api::NodeName& node) override {
    RETURN_IF_ERROR(Call("ProveLocks", life));
    base::MutexLock lock(images_.mutex);
    if (!images_.unseen.contains(node.text())) return base::OkStatus();
    return base::Error(base::StatusCode::kFailedPrecondition, "no lock of node {} was ever seen",
                       base::Quote(node.text()));
  }
  bool FencesNodes() const override {
    base::MutexLock lock(images_.mutex);
    return images_.can_fence;
  }
  base::StatusOr<std::vector<std::string>> FindClients(const std::string& image,
                                                       const api::NodeName& node) override {
    RETURN_IF_ERROR(Call("FindClients", image));
    base::MutexLock lock(images_.mutex);
    std::vector<std::string> clients;
    const auto found = images_.images.find(image);
    if (found == images_.images.end()) return clients;
    const auto client = found->second.clients.find(node.text());
    if (client != found->second.clients.end()) clients.push_back(client->second);
    return clients;
  }
  base::Status Fence(const std::string& image, const api::NodeName& node,
                     const std::vector<std::string>& clients) override {
    RETURN_IF_ERROR(Call("Fence", image));
    base::MutexLock lock(images_.mutex);
    if (!images_.can_fence) {
      return base::Error(base::StatusCode::kUnimplemented, "this back end cannot fence a node");
    }
    for (const std::string& client : clients) {
      images_.fenced[node.text()].push_back(client);
      const auto found = images_.images.find(image);
      if (found == images_.images.end()) continue;
      const auto present = found->second.clients.find(node.text());
      if (present == found->second.clients.end() || present->second != client) continue;
      EndClient(found->second, node.text());
    }
    return base::OkStatus();
  }
  base::Status EndUnshown(const std::string& image,
                          std::optional<std::chrono::milliseconds> force_within) override {
    return Call(force_within.has_value() ? "ForceEndUnshown" : "EndUnshown", image);
  }
  base::Status FreeFromDead(const std::string& image) override {
    return Call("FreeFromDead", image);
  }
  base::StatusOr<std::map<std::string, std::vector<std::string>>> ListFenced() override {
    RETURN_IF_ERROR(Call("ListFenced", ""));
    base::MutexLock lock(images_.mutex);
    return images_.fenced;
  }
  base::Status Unfence(const api::NodeName& node,
                       const std::vector<std::string>& clients) override {
    RETURN_IF_ERROR(Call("Unfence", node.text()));
    base::MutexLock lock(images_.mutex);
    std::vector<std::string>& fenced = images_.fenced[node.text()];
    std::erase_if(fenced, [&](const std::string& client) {
      return std::find(clients.begin(), clients.end(), client) != clients.end();
    });
    if (fenced.empty()) images_.fenced.erase(node.text());
    return base::OkStatus();
  }

  base::Status NoteFormatting(const std::string& image, const std::string& uuid) override {
    RETURN_IF_ERROR(Call("NoteFormatting", image));
    base::MutexLock lock(images_.mutex);
    const auto it = images_.images.find(image);
    if (it == images_.images.end()) return MissingError(image);
    it->second.formatting = uuid;
    return base::OkStatus();
  }
  base::StatusOr<std::string> ReadFormatting(const std::string& image) override {
    RETURN_IF_ERROR(Call("ReadFormatting", image));
    base::MutexLock lock(images_.mutex);
    const auto it = images_.images.find(image);
    if (it == images_.images.end()) return MissingError(image);
    return it->second.formatting;
  }

  base::StatusOr<Mapping> Map(const std::string& image, const MapOptions& options) override {
    RETURN_IF_ERROR(Call("Map", image));
    base::MutexLock lock(images_.mutex);
    const auto it = images_.images.find(image);
    if (it == images_.images.end()) return MissingError(image);
    FakeImages::Image& found = it->second;
    if (!found.mapped_by.contains(node_)) {
      for (const auto& [node, reads] : found.mapped_by) {
        if (reads && options.read_only) continue;
        if (found.shared_writers && options.shared_writers) continue;
        return LockedError(image);
      }
      found.mapped_by[node_] = options.read_only;
      found.clients[node_] = fmt::format("{}#{}", image, ++images_.made_clients);
      found.shared_writers = options.shared_writers;
    }
    return ToMapping(image, found);
  }
  base::StatusOr<std::optional<Mapping>> FindMapping(const std::string& image) override {
    RETURN_IF_ERROR(Call("FindMapping", image));
    base::MutexLock lock(images_.mutex);
    const auto it = images_.images.find(image);
    if (it == images_.images.end() || !it->second.mapped_by.contains(node_)) return std::nullopt;
    return std::optional(ToMapping(image, it->second));
  }
  base::StatusOr<std::vector<Mapping>> ListMappings() override {
    RETURN_IF_ERROR(Call("ListMappings", ""));
    base::MutexLock lock(images_.mutex);
    std::vector<Mapping> all;
    for (const auto& [name, image] : images_.images) {
      if (image.mapped_by.contains(node_)) all.push_back(ToMapping(name, image));
    }
    return all;
  }
  base::Status Check(const Mapping& mapping) override {
    RETURN_IF_ERROR(Call("Check", mapping.image));
    return Backend::Check(mapping);
  }
  base::StatusOr<Mapping> Refresh(const Mapping& mapping) override {
    RETURN_IF_ERROR(Call("Refresh", mapping.image));
    base::MutexLock lock(images_.mutex);
    const auto it = images_.images.find(mapping.image);
    if (it == images_.images.end()) return MissingError(mapping.image);
    return ToMapping(mapping.image, it->second);
  }
  base::Status Unmap(const Mapping& mapping) override {
    RETURN_IF_ERROR(Call("Unmap", mapping.image));
    base::MutexLock lock(images_.mutex);
    if (open_.contains(mapping.image)) {
      return base::Error(base::StatusCode::kFailedPrecondition, "device {} is open",
                         mapping.device);
    }
    const auto it = images_.images.find(mapping.image);
    if (it != images_.images.end()) EndClient(it->second, node_);
    return base::OkStatus();
  }
  base::Status ForceUnmap(const Mapping& mapping, std::chrono::milliseconds /*patience*/) override {
    RETURN_IF_ERROR(Call("ForceUnmap", mapping.image));
    base::MutexLock lock(images_.mutex);
    const auto it = images_.images.find(mapping.image);
    if (it != images_.images.end()) EndClient(it->second, node_);
    open_.erase(mapping.image);
    return base::OkStatus();
  }

 private:
  base::Status Call(std::string_view call, const std::string& image) {
    std::function<base::Status(std::string_view, const std::string&)> hook;
    {
      base::MutexLock lock(images_.mutex);
      hook = hook_;
    }
    return hook ? hook(call, image) : base::OkStatus();
  }
  static void EndClient(FakeImages::Image& image, const std::string& node) {
    image.mapped_by.erase(node);
    image.clients.erase(node);
  }
  static base::Status LockedError(const std::string& image) {
    return base::Error(base::StatusCode::kFailedPrecondition, "image {} has a lock",
                       base::Quote(image));
  }
  static base::Status MissingError(const std::string& image) {
    return base::Error(base::StatusCode::kNotFound, "there is no image {}", base::Quote(image));
  }
  Mapping ToMapping(const std::string& name, const FakeImages::Image& image) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(images_.mutex) {
    const auto device = devices_.find(name);
    return {.image = name,
            .device = device == devices_.end() ? "/dev/fake-" + name : device->second.first,
            .device_number = device == devices_.end()
                                 ? makedev(240, std::hash<std::string>()(name) % 4096)
                                 : device->second.second,
            .size_bytes = image.info.size_bytes,
            .read_only = image.mapped_by.at(node_),
            .state = {{"node", node_}}};
  }

  FakeImages& images_;
  const std::string node_;
  std::function<base::Status(std::string_view, const std::string&)> hook_
      ABSL_GUARDED_BY(images_.mutex);
  std::set<std::string> open_ ABSL_GUARDED_BY(images_.mutex);
  std::map<std::string, std::pair<std::string, uint64_t>> devices_ ABSL_GUARDED_BY(images_.mutex);
};

}  // namespace berth::block
