// Nodes find out with LockHandshake whether they see each other's locks on a folder of images.
//
// The absence of a lock proves that a node does not write only if its lock would be seen. So each
// agent holds a lock of a file of its own, and notes the nodes whose locks it sees:
//
//   FOLDER/.berth/nodes/LIFE/NODE.node   the name and the session of a node, locked by its agent
//   FOLDER/.berth/nodes/LIFE/A.B.seen    session B saw the lock of session A
//
// LIFE is the uid of the StorageCluster, because a cluster of that name that is made later has
// other nodes and mounts. A session is a node's mount of the folder since the node's boot, with the
// mount's options: after a reboot or a mount with other options a node has to be seen again.
// Several processes of a machine with the same mount have the same session. NODE is a digest of the
// name, because names come from API objects.
//
// A note that is lost in a crash is written again, so notes are no durable records.
//
// Thread-safe. The folder is on a share whose server may be dead, so each step on it runs in a
// child process that is given up after `answer_time`, and no lock of this process is held
// meanwhile, except that a second call of ShowLock or HideLock waits for the first one.
// DEADLINE_EXCEEDED: the folder does not answer.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "api/kinds/object_ids.h"
#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::block {

// A session has this many hexadecimal digits.
inline constexpr size_t kSessionLength = 32;

class LockHandshake {
 public:
  struct Own {
    std::string node;
    std::string session;
    // Why the file system does not stop this node's writes if the node loses its locks; empty: it
    // does.
    std::string weakness;
  };

  // `folder` is FOLDER/.berth/nodes/LIFE; it is made when it is needed.
  explicit LockHandshake(std::string folder,
                         std::chrono::milliseconds answer_time = std::chrono::seconds(10))
      : folder_(std::move(folder)), answer_time_(answer_time) {}
  ~LockHandshake();

  // Holds this node's lock, until HideLock or the end of this object. Idempotent; a changed session
  // is written. FAILED_PRECONDITION: another agent holds the lock of this node. RESOURCE_EXHAUSTED:
  // the share has no room for the file's content; then the file names no session, so that nothing
  // is proven of this node, and a later call tries again.
  base::Status ShowLock(const Own& own);
  // Releases the lock, and removes this node's file and the notes of its session.
  void HideLock();

  // Notes the sessions whose locks can be seen from `session`. One child process looks at all
  // files, so this is cheap for many nodes. RESOURCE_EXHAUSTED: there is no room for a note.
  base::Status NoteLocks(const std::string& session);

  // OK: a lock that `node` holds would be seen from `session`, because this session or one that it
  // saw has seen a lock of the node's present session. FAILED_PRECONDITION says what is missing.
  base::Status ProveSeen(const std::string& session, const api::NodeName& node) const;

 private:
  struct Noted {
    std::string session;  // the one that saw the lock
    int64_t changed_ns = 0;
    uint64_t inode = 0;
    bool operator==(const Noted&) const = default;
  };

  std::string PathOf(const std::string& node) const;
  base::StatusOr<base::KeyLocks::Hold> WaitForTurn();
  // Whether the file named `path` still is the locked one. Another process may have removed it.
  base::StatusOr<bool> IsStillShown(const std::string& path, int lock) const;
  base::Status RemoveNotes(const std::string& session) const;
  // Releases the lock and closes its descriptor. DEADLINE_EXCEEDED: the server does not answer, and
  // the descriptor stays open, because closing it could block for ever.
  base::Status ReleaseLock(std::chrono::milliseconds patience);

  const std::string folder_;
  const std::chrono::milliseconds answer_time_;
  base::KeyLocks turns_;
  // Only the call that has the turn uses these two.
  base::UniqueFd lock_;
  Own own_;  // the content of the file; its node is empty if the file names none
  base::Mutex mutex_;
  std::map<std::string, Noted> noted_ ABSL_GUARDED_BY(mutex_);  // by file name
};

}  // namespace berth::block
