// The durable record of the call that takes a snapshot or a group snapshot: "being-created" and,
// beside it, the digest of the request (kCreateRequest). One place for the contents of both kinds;
// snapshotter.h has the rules.
#pragma once

#include <string>
#include <string_view>

#include "api/kinds/group_snapshots.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotter/driver_answers.h"
#include "controllers/snapshotter/snapshotter.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotter {

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

// The patch that removes the record.
template <typename Content>
Json RemoveRecordPatch() {
  return {{"metadata",
           {{"annotations",
             {{std::string(CreationNames<Content>::kAnnotation), nullptr},
              {std::string(kCreateRequest), nullptr}}}}}};
}

// Writes that the driver is asked by `request`, a digest, and holds the content. Errors come from
// the API.
template <typename Content>
StatusOr<Content> RecordCreation(kube::Client& client, kube::Informer<Content>& contents,
                                 const Content& content, const std::string& request) {
  using Names = CreationNames<Content>;
  const bool open = content.has_annotation(Names::kAnnotation);
  const std::string noted = content.annotation(kCreateRequest);
  // Go's program records no request. After a switch from it the first one counts as the same.
  const bool same = !open || noted.empty() || noted == request;
  const std::string note = same ? request : std::string(kSeveralRequests);
  // With a handle it is known what the driver has.
  const bool on_record = !Names::HandleOf(content).empty() || (open && noted == note);
  if (on_record && content.has_finalizer(Names::kFinalizer)) return content;
  Json patch = FinalizersPatch(content, Names::kFinalizer, "");
  if (!on_record) {
    patch["metadata"]["annotations"] = {{std::string(Names::kAnnotation), "yes"},
                                        {std::string(kCreateRequest), note}};
  }
  return PatchAt(client, contents, content, std::move(patch));
}

// Records that the driver said that it has something of the name. The record then stays until it is
// known, whatever the driver says next.
template <typename Content>
Status NoteThatItExists(kube::Client& client, kube::Informer<Content>& contents,
                        const Content& content) {
  if (content.annotation(kCreateRequest) == kSeveralRequests) return base::OkStatus();
  const Json note = {
      {"metadata",
       {{"annotations", {{std::string(kCreateRequest), std::string(kSeveralRequests)}}}}}};
  return Patch(client, contents, content, note).status();
}

// Records what a failed call proves. `first`: no earlier call of an unknown outcome had been
// recorded. Errors come from the API.
template <typename Content>
Status RecordFailedCreation(kube::Client& client, kube::Informer<Content>& contents,
                            const Content& content, const Status& failure, bool first) {
  if (!CreationNames<Content>::HandleOf(content).empty()) return base::OkStatus();
  const bool same = content.annotation(kCreateRequest) != kSeveralRequests;
  if (ProvesNothingExists(failure, first, same)) {
    return Patch(client, contents, content, RemoveRecordPatch<Content>()).status();
  }
  if (failure.code() != base::StatusCode::kAlreadyExists) return base::OkStatus();
  return NoteThatItExists(client, contents, content);
}

// Records that the driver made something that cannot be used, and says when it is asked again.
template <typename Content>
base::KeyedWorkers::Outcome RecordRefusedAnswer(kube::Client& client,
                                                kube::Informer<Content>& contents,
                                                const Content& content, const Status& why) {
  if (CreationNames<Content>::HandleOf(content).empty()) {
    const Status noted = NoteThatItExists(client, contents, content);
    if (!noted.ok()) return AfterApi(noted);
  }
  return base::KeyedWorkers::Outcome::Retry(why);
}

}  // namespace berth::controllers::snapshotter
