// The objects of snapshots in their usual shape, like the objects in fake_cluster.h; `more` is
// merged over them.
#pragma once

#include <chrono>
#include <string>

#include "api/kinds/snapshots.h"
#include "controllers/fake_cluster.h"
#include "controllers/snapshot_names.h"

namespace berth::controllers {

inline void ServeSnapshots(kube::FakeClient& client) {
  client.Serve(api::kinds::kVolumeSnapshotClass);
  client.Serve(api::kinds::kVolumeSnapshotContent);
  client.Serve(api::kinds::kVolumeSnapshot);
}

// Options with which a test sees retries soon.
template <typename Options>
Options RetriesSoon() {
  Options options;
  options.retry_start = std::chrono::milliseconds(5);
  options.retry_max = std::chrono::milliseconds(50);
  return options;
}
// Options with which a test sees no retry.
template <typename Options>
Options NoRetries() {
  Options options;
  options.retry_start = std::chrono::minutes(10);
  options.retry_max = std::chrono::minutes(10);
  return options;
}

inline base::Json MakeSnapshotClass(const std::string& name, const base::Json& more = nullptr) {
  return Merged({{"apiVersion", "snapshot.storage.k8s.io/v1"},
                 {"kind", "VolumeSnapshotClass"},
                 {"metadata", {{"name", name}}},
                 {"driver", "fake.csi.example.com"},
                 {"deletionPolicy", "Delete"}},
                more);
}

// A snapshot of claim "data", with class "snap".
inline base::Json MakeSnapshot(const std::string& name, const base::Json& more = nullptr) {
  return Merged({{"apiVersion", "snapshot.storage.k8s.io/v1"},
                 {"kind", "VolumeSnapshot"},
                 {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", "uid-" + name}}},
                 {"spec",
                  {{"volumeSnapshotClassName", "snap"},
                   {"source", {{"persistentVolumeClaimName", "data"}}}}}},
                more);
}

// The content for `snapshot` of the volume with this handle. It has the finalizer, as the
// controller creates it.
inline base::Json MakeContent(const std::string& snapshot, const std::string& volume_handle,
                              const base::Json& more = nullptr) {
  return Merged({{"apiVersion", "snapshot.storage.k8s.io/v1"},
                 {"kind", "VolumeSnapshotContent"},
                 {"metadata",
                  {{"name", "snapcontent-uid-" + snapshot},
                   {"uid", "uid-of-content-" + snapshot},
                   {"finalizers", {kContentProtection}}}},
                 {"spec",
                  {{"driver", "fake.csi.example.com"},
                   {"deletionPolicy", "Delete"},
                   {"volumeSnapshotClassName", "snap"},
                   {"source", {{"volumeHandle", volume_handle}}},
                   {"volumeSnapshotRef",
                    {{"namespace", "default"}, {"name", snapshot}, {"uid", "uid-" + snapshot}}}}}},
                more);
}

// The changes that make MakeContent's content one for a snapshot that exists in the driver already
// and is not bound yet.
inline base::Json Existing(const std::string& snapshot_handle) {
  return {{"spec",
           {{"source", {{"volumeHandle", nullptr}, {"snapshotHandle", snapshot_handle}}},
            {"volumeSnapshotRef", {{"uid", nullptr}}}}},
          {"metadata", {{"finalizers", nullptr}}}};
}

inline base::Json ReadyContent(const std::string& snapshot_handle) {
  return {{"status",
           {{"snapshotHandle", snapshot_handle},
            {"creationTime", 1767225601000000000},
            {"restoreSize", 1 << 30},
            {"readyToUse", true}}}};
}

}  // namespace berth::controllers
