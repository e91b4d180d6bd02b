// The durable record of the call that takes a snapshot or a group snapshot: the annotation
// "being-created". One place for the contents of both kinds; snapshotter.h has the rules.
#pragma once

#include <string>
#include <string_view>

#include "api/kinds/group_snapshots.h"
#include "controllers/snapshot_names.h"
#include "controllers/writes.h"
#include "rpc/outcome.h"

namespace berth::controllers::snapshotter {

// Annotation beside "being-created" that a Berth of before 30 November 2026 wrote. Nothing reads it
// any more, and it is removed with the record.
inline constexpr std::string_view kCreateRequest = "snapshot.storage.berth.dev/create-request";

// The names that a kind gives the annotation, the finalizer and the driver's handle.
template <typename Content>
struct CreationNames;

template <>
struct CreationNames<api::VolumeSnapshotContent> {
  static constexpr std::string_view kAnnotation = kBeingCreated;
  static constexpr std::string_view kFinalizer = kContentProtection;
  static std::string HandleOf(const api::VolumeSnapshotContent& content) {
    return content.snapshot_handle();
  }
};

template <>
struct CreationNames<api::VolumeGroupSnapshotContent> {
  static constexpr std::string_view kAnnotation = kGroupBeingCreated;
  static constexpr std::string_view kFinalizer = kGroupContentProtection;
  static std::string HandleOf(const api::VolumeGroupSnapshotContent& content) {
    return content.group_handle();
  }
};

// Writes that the driver is asked, and holds the content, unless it is being deleted. Errors come
// from the API.
template <typename Content>
StatusOr<Content> RecordCreation(kube::Client& client, kube::Informer<Content>& contents,
                                 const Content& content) {
  using Names = CreationNames<Content>;
  // With a handle it is known what the driver has.
  const bool on_record =
      !Names::HandleOf(content).empty() || content.has_annotation(Names::kAnnotation);
  const bool held = content.has_finalizer(Names::kFinalizer) || content.deleting();
  if (on_record && held) return content;
  Json patch = held ? Json::object() : FinalizersPatch(content, Names::kFinalizer, "");
  if (!on_record) patch["metadata"]["annotations"] = {{std::string(Names::kAnnotation), "yes"}};
  return PatchAt(client, contents, content, std::move(patch));
}

// Removes the record, if there is one, and returns the content as it is then. Errors come from the
// API.
template <typename Content>
StatusOr<Content> RemoveRecord(kube::Client& client, kube::Informer<Content>& contents,
                               const Content& content) {
  const std::string annotation(CreationNames<Content>::kAnnotation);
  if (!content.has_annotation(annotation)) return content;
  Json gone = {{annotation, nullptr}};
  if (content.has_annotation(kCreateRequest)) gone[std::string(kCreateRequest)] = nullptr;
  return Patch(client, contents, content, {{"metadata", {{"annotations", std::move(gone)}}}});
}

// Records what a failed call says: after a final error the driver is not at work, and has given
// nothing by which it could be asked to delete it. Returns the content as it is then. Errors come
// from the API.
template <typename Content>
StatusOr<Content> RecordFailedCreation(kube::Client& client, kube::Informer<Content>& contents,
                                       const Content& content, const Status& failure) {
  if (!rpc::IsFinal(failure)) return content;
  return RemoveRecord(client, contents, content);
}

}  // namespace berth::controllers::snapshotter
