// Reports the key of each VolumeSnapshot that appears or changes. It stores no objects.
#pragma once

#include <functional>
#include <string>

#include "controllers/provisioner/snapshot.h"
#include "kube/informers/reflector.h"

namespace berth::controllers::provisioner {

// Watches from its construction to its destruction, which waits for a running call of `changed`.
class SnapshotWatch : kube::Reflector::Sink {
 public:
  // `client` is borrowed.
  SnapshotWatch(kube::Client& client, std::function<void(const std::string& key)> changed)
      : changed_(std::move(changed)),
        reflector_(client, api::kinds::kVolumeSnapshot, {.metadata_only = true}, *this) {
    reflector_.Start();
  }

 private:
  void OnListBegin() override {}
  void OnListItem(base::Json item) override { changed_(api::Object(std::move(item)).key()); }
  void OnListEnd(const std::string&) override {}
  void OnChange(kube::WatchEvent event) override {
    if (event.type == kube::WatchEvent::Type::kBookmark) return;
    changed_(api::Object(std::move(event.object)).key());
  }

  const std::function<void(const std::string& key)> changed_;
  kube::Reflector reflector_;  // last: it calls the one above until it is gone
};

}  // namespace berth::controllers::provisioner
