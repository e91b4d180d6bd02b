// The kinds that the server serves: the built-in ones always, custom resources while their
// CustomResourceDefinition is established.
//
//   CustomResourceDefinition ─▶ KindRegistry::SetCustom ─▶ a new ServedKinds ─▶ requests, discovery
//
// A request takes one snapshot and uses no other. A kind lives as long as a KindPtr to it exists.
// Therefore a request or watch keeps the kind with which it began, even if the definition changes
// or is deleted meanwhile.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "apiserver/kinds/kind_rules.h"
#include "base/mutex.h"

namespace berth::apiserver {

// Immutable and thread-safe. Each version of a kind is an entry of its own.
class ServedKinds {
 public:
  // The built-in kinds and `custom`, which come after them.
  explicit ServedKinds(const std::vector<KindPtr>& custom);

  // Built-in kinds in the order of api::BuiltInKinds, then custom ones as they were given.
  const std::vector<KindPtr>& all() const { return all_; }
  // The same, as rows of the kind table; valid as long as this snapshot.
  std::span<const api::KindInfo* const> infos() const { return infos_; }

  // The kind of a URL; null if it is not served.
  KindPtr Find(std::string_view group, std::string_view version, std::string_view plural) const;
  // The kind of an object, "apps/v1" and "DaemonSet"; null if it is not served.
  KindPtr FindKind(std::string_view api_version, std::string_view kind) const;
  // Whether the snapshot has this same entry.
  bool Contains(const KindPtr& kind) const;

  // The number of the snapshot; KindRegistry gives each another one. It is a key for data that is
  // derived from the snapshot (documents, hashes).
  uint64_t number() const { return number_; }

 private:
  friend class KindRegistry;
  std::vector<KindPtr> all_;
  std::vector<const api::KindInfo*> infos_;
  uint64_t number_ = 0;
};

// Thread-safe.
class KindRegistry {
 public:
  KindRegistry();  // serves the built-in kinds

  std::shared_ptr<const ServedKinds> Current() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Replaces the custom kinds. If an entry that is served now is given again, its watches continue.
  void SetCustom(const std::vector<KindPtr>& custom) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable base::Mutex mutex_;
  std::shared_ptr<const ServedKinds> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
