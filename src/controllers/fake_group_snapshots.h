// The objects of group snapshots in their usual shape, like the objects in fake_snapshots.h.
#pragma once

#include <string>
#include <vector>

#include "controllers/fake_snapshots.h"

namespace berth::controllers {

inline void ServeGroups(kube::FakeClient& client) {
  client.Serve(api::kinds::kVolumeGroupSnapshotClass);
  client.Serve(api::kinds::kVolumeGroupSnapshotContent);
  client.Serve(api::kinds::kVolumeGroupSnapshot);
}

inline base::Json MakeGroupClass(const std::string& name, const base::Json& more = nullptr) {
  return Merged({{"apiVersion", "groupsnapshot.storage.k8s.io/v1"},
                 {"kind", "VolumeGroupSnapshotClass"},
                 {"metadata", {{"name", name}}},
                 {"driver", "fake.csi.example.com"},
                 {"deletionPolicy", "Delete"}},
                more);
}

// A group snapshot of the claims with the label app=db, with class "group".
inline base::Json MakeGroup(const std::string& name, const base::Json& more = nullptr) {
  return Merged({{"apiVersion", "groupsnapshot.storage.k8s.io/v1"},
                 {"kind", "VolumeGroupSnapshot"},
                 {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", "uid-" + name}}},
                 {"spec",
                  {{"volumeGroupSnapshotClassName", "group"},
                   {"source", {{"selector", {{"matchLabels", {{"app", "db"}}}}}}}}}},
                more);
}

// The content for `group` of the volumes with these handles, as the controller creates it.
inline base::Json MakeGroupContent(const std::string& group,
                                   const std::vector<std::string>& volume_handles,
                                   const base::Json& more = nullptr) {
  return Merged({{"apiVersion", "groupsnapshot.storage.k8s.io/v1"},
                 {"kind", "VolumeGroupSnapshotContent"},
                 {"metadata",
                  {{"name", "groupsnapcontent-uid-" + group},
                   {"uid", "uid-of-content-" + group},
                   {"finalizers", {kGroupContentProtection}}}},
                 {"spec",
                  {{"driver", "fake.csi.example.com"},
                   {"deletionPolicy", "Delete"},
                   {"volumeGroupSnapshotClassName", "group"},
                   {"source", {{"volumeHandles", volume_handles}}},
                   {"volumeGroupSnapshotRef",
                    {{"namespace", "default"}, {"name", group}, {"uid", "uid-" + group}}}}}},
                more);
}

// The changes that make MakeGroupContent's content one for a group snapshot that exists in the
// driver already and is not bound yet.
inline base::Json ExistingGroup(const std::string& handle,
                                const std::vector<std::string>& snapshots) {
  return {{"spec",
           {{"source",
             {{"volumeHandles", nullptr},
              {"groupSnapshotHandles",
               {{"volumeGroupSnapshotHandle", handle}, {"volumeSnapshotHandles", snapshots}}}}},
            {"volumeGroupSnapshotRef", {{"uid", nullptr}}}}},
          {"metadata", {{"finalizers", nullptr}}}};
}

}  // namespace berth::controllers
