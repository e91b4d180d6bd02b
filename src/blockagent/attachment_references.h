// Which objects the events about an attached volume are about.
#pragma once

#include "base/event_sink.h"
#include "blockagent/records.h"

namespace berth::blockagent {

// The PersistentVolume of the record.
inline base::ObjectReference ReferenceTo(const Record& record) {
  return {.api_version = "v1",
          .kind = "PersistentVolume",
          .ns = "",
          .name = record.volume,
          .uid = record.volume_uid};
}

// The pod that the entry names.
inline base::ObjectReference ReferenceTo(const api::FenceEntry& entry) {
  return {.api_version = "v1",
          .kind = "Pod",
          .ns = entry.pod_namespace,
          .name = entry.pod,
          .uid = entry.pod_uid};
}

}  // namespace berth::blockagent
