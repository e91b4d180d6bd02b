// What this node has attached, on disk: a file for each volume, written before each step.
//
//   DATA/block-agent/volumes/NAME.json     NAME is the PersistentVolume's
//
//   (none) ─▶ attaching ─▶ mapped ─▶ mounted ─▶ detaching ─▶ (none)
//
//   attaching   the fence may name this node, the image may be mapped
//   mapped      it is, to the recorded device; a file system may be in the making, and mounted
//   mounted     all that is in use is mounted
//   detaching   nobody is to use it here any more; whatever is left of it goes
//
// A record of another boot tells of devices and mounts that are gone; its fence may stand. Each pod
// that uses the volume is one of `uses`, with a state of its own: attaching, mounted, detaching.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "base/mutex.h"
#include "base/status.h"
#include "block/backend.h"
#include "platform/files/record_folder.h"

namespace berth::blockagent {

enum class State { kAttaching, kMapped, kMounted, kDetaching };
std::string_view Name(State state);

struct Use {
  api::FenceEntry entry;
  State state = State::kAttaching;  // never kMapped
};

struct Record {
  std::string volume;
  std::string volume_uid;  // of the PersistentVolume, for events
  std::string cluster;
  std::string image;
  base::Json backend;  // the StorageCluster's settings: they are needed though it be gone
  std::string boot_id;
  State state = State::kAttaching;
  std::string fs_type;  // once it is known
  // Of a file system that is in the making: what bears this UUID was never used.
  std::string formatting_uuid;
  std::string shared_mount;  // where pods' mounts are bound from; empty: each mounts the device
  std::optional<block::Mapping> mapping;
  std::vector<Use> uses;

  Use* Find(const api::FenceEntry& entry);
  Use* FindByFolder(std::string_view mount_dir);
};

base::Json ToJson(const Record& record);
// DATA_LOSS: a member is missing or unknown.
base::StatusOr<Record> FromJson(const base::Json& json);

// Thread-safe; of one volume one writes at a time.
class Records {
 public:
  // Reads what is there. A file that is no record is an error: it may tell of a device in use.
  static base::StatusOr<std::unique_ptr<Records>> Open(const std::string& folder);

  std::optional<Record> Get(const std::string& volume) const;
  std::vector<Record> All() const;
  // The volume of which a pod's folder this is; empty: none.
  std::string VolumeAt(std::string_view mount_dir) const;
  // Another volume of the same image; empty: none.
  std::string OtherOf(const Record& record) const;

  base::Status Put(const Record& record);
  base::Status Remove(const std::string& volume);

 private:
  explicit Records(std::unique_ptr<platform::RecordFolder> folder) : folder_(std::move(folder)) {}

  const std::unique_ptr<platform::RecordFolder> folder_;
  mutable base::Mutex mutex_;
  std::map<std::string, Record> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::blockagent
