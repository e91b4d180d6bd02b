#include "block/images/lock_handshake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"
#include "platform/processes/forked_child.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// The destructor waits no longer than this for the server, so that a server that does not answer
// does not keep the process from ending.
constexpr std::chrono::milliseconds kEndTime{2000};
constexpr std::string_view kNodeSuffix = ".node";
constexpr std::string_view kSeenSuffix = ".seen";
constexpr size_t kLargestFile = 4096;
constexpr size_t kNodeFileLength = 32 + kNodeSuffix.size();
// One child process notes at most this many locks, and the next one goes on, so that each is done
// in time if a share is slow and many nodes come at once.
constexpr size_t kNotesAtOnce = 128;
// The agent of a node locks this byte whatever its session is, so that only one agent runs there.
constexpr off_t kAgentByte = 0;

struct flock LockAt(off_t byte) {
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return range;
}

// Each session has a byte of its own, so that a lock is never taken for that of another session.
off_t ByteOf(const std::string& session) {
  return static_cast<off_t>(1 + (base::Fnv1a64(session) >> 3));
}

std::string NoteOf(const std::string& seen, const std::string& seer) {
  return fmt::format("{}.{}{}", seen, seer, kSeenSuffix);
}

struct Shown {
  std::string session;
  std::string weakness;
};

// Reads which session the content of a node's file names; nullopt: the file is of another kind, or
// is not finished.
std::optional<Shown> ParseShown(std::string_view text) {
  const auto json = base::json::Parse(text);
  if (!json.ok()) return std::nullopt;
  Shown shown{.session = base::json::String(*json, {"session"}),
              .weakness = base::json::String(*json, {"weakness"})};
  // The session becomes part of file names, and another node wrote it.
  const bool valid = shown.session.size() == kSessionLength &&
                     shown.session.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!valid) return std::nullopt;
  return shown;
}

// --- These functions run in child processes ---

struct FileContent {
  std::array<char, kLargestFile> bytes;
  size_t size;

  std::string_view text() const { return {bytes.data(), size}; }
};

// Makes system calls only. Gives 0 or an errno.
int ReadContent(int fd, FileContent& content) {
  const ssize_t size = pread(fd, content.bytes.data(), content.bytes.size(), 0);
  if (size < 0) return errno;
  content.size = static_cast<size_t>(size);
  return 0;
}

// Writes `text` over the content of the file, and makes system calls only. Gives 0 or an errno. The
// old content stays until it is overwritten, because a share that is full then needs no room.
int WriteContent(int fd, const std::string& text) {
  const ssize_t written = pwrite(fd, text.data(), text.size(), 0);
  const bool whole = written >= 0 && static_cast<size_t>(written) == text.size();
  if (whole && ftruncate(fd, written) == 0 && fsync(fd) == 0) return 0;
  const int error = written >= 0 && !whole ? ENOSPC : errno;
  // The file is emptied, because nobody may take its torn content for the session of this node.
  return ftruncate(fd, 0) == 0 && fsync(fd) == 0 ? error : EIO;
}

// A child process fills this when it opens and locks the file of a node.
struct OpenedFile {
  FileContent before;
  int write_error = 0;  // an errno
};

// Opens and locks the file, and writes `text` unless it is there; makes system calls only. Gives a
// descriptor or a negative errno.
int OpenNodeFile(const std::vector<std::string>& folders, const std::string& path, off_t byte,
                 const std::string& text, OpenedFile& opened) {
  for (const std::string& folder : folders) {
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return -errno;
  }
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return -errno;
  for (const off_t one : {kAgentByte, byte}) {
    struct flock range = LockAt(one);
    if (fcntl(fd, F_OFD_SETLK, &range) != 0) return errno == EACCES ? -EAGAIN : -errno;
  }
  if (const int error = ReadContent(fd, opened.before); error != 0) return -error;
  const bool same = opened.before.size == text.size() &&
                    memcmp(opened.before.bytes.data(), text.data(), text.size()) == 0;
  if (same) return fd;
  opened.write_error = WriteContent(fd, text);
  return opened.write_error == EIO ? -EIO : fd;
}

bool IsRoomError(int error) { return error == ENOSPC || error == EDQUOT; }

struct NoteFound {
  std::array<char, kNodeFileLength> name;
  int64_t changed_ns;
  uint64_t inode;
};

// A child process fills this when it lists the folder.
struct NotesFound {
  std::array<NoteFound, kNotesAtOnce> notes;
  size_t count;
  bool no_room;  // the share has no room for a missing note
};

// Looks at the file of a node, and notes its session if its lock is seen. Gives 0 or an errno.
int NoteLock(const std::string& folder, const std::string& path, const std::string& session,
             bool& seen) {
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return errno;
  FileContent content;
  if (const int error = ReadContent(fd.get(), content); error != 0) return error;
  const std::optional<Shown> shown = ParseShown(content.text());
  // All locks of one session are in this kernel, so they prove nothing about others.
  if (!shown.has_value() || shown->session == session) return 0;
  struct flock range = LockAt(ByteOf(shown->session));
  if (fcntl(fd.get(), F_OFD_GETLK, &range) != 0) return errno;
  if (range.l_type == F_UNLCK) return 0;
  const std::string note = folder + "/" + NoteOf(shown->session, session);
  const base::UniqueFd made(open(note.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!made.valid()) return errno;
  seen = true;
  return 0;
}

// The result of FindProof: whether a lock of a node would be seen.
enum class Proof { kNotShown, kWeak, kSeen, kNeverSeen };

struct ProofFound {
  Proof proof;
  std::array<char, 512> weakness;  // of kWeak
};

ProofFound FindProof(const std::vector<std::string>& names, const std::optional<Shown>& shown,
                     const std::string& session) {
  ProofFound found{.proof = Proof::kNeverSeen, .weakness = {}};
  if (!shown.has_value()) {
    found.proof = Proof::kNotShown;
    return found;
  }
  if (!shown->weakness.empty()) {
    found.proof = Proof::kWeak;
    shown->weakness.copy(found.weakness.data(), found.weakness.size() - 1);
    return found;
  }
  const std::set<std::string> notes(names.begin(), names.end());
  const std::string prefix = shown->session + ".";
  const bool seen = shown->session == session || notes.contains(NoteOf(shown->session, session)) ||
                    std::ranges::any_of(notes, [&](const std::string& note) {
                      if (!note.starts_with(prefix) || !note.ends_with(kSeenSuffix)) return false;
                      const std::string seer = note.substr(
                          prefix.size(), note.size() - prefix.size() - kSeenSuffix.size());
                      return notes.contains(NoteOf(seer, session));
                    });
  if (seen) found.proof = Proof::kSeen;
  return found;
}

// Gives an error of ListFolder as an errno.
int ErrnoOf(const Status& status) { return status.code() == StatusCode::kNotFound ? ENOENT : EIO; }

}  // namespace

LockHandshake::~LockHandshake() {
  const Status released = ReleaseLock(std::min(answer_time_, kEndTime));
  if (released.ok()) return;
  LOG_WARNING("the end of this process releases it: {}", base::ToString(released));
  static_cast<void>(lock_.Release());
}

std::string LockHandshake::PathOf(const std::string& node) const {
  return fmt::format("{}/{}{}", folder_, base::Sha256Hex(node).substr(0, 32), kNodeSuffix);
}

StatusOr<base::KeyLocks::Hold> LockHandshake::WaitForTurn() {
  return turns_.WaitExclusive(folder_, std::chrono::steady_clock::now() + answer_time_);
}

StatusOr<bool> LockHandshake::IsStillShown(const std::string& path, int lock) const {
  return platform::AskChild<bool>(fmt::format("look at {}", Quote(path)), answer_time_,
                                  [path, lock](bool& same) {
                                    struct stat named, held;
                                    same = lstat(path.c_str(), &named) == 0 &&
                                           fstat(lock, &held) == 0 && named.st_ino == held.st_ino;
                                    return 0;
                                  },
                                  {lock});
}

Status LockHandshake::ShowLock(const Own& own) {
  ASSIGN_OR_RETURN(const auto turn, WaitForTurn());
  const std::string path = PathOf(own.node);
  const std::string context = fmt::format("lock {}", Quote(path));
  if (lock_.valid() && own_.node == own.node && own_.session == own.session &&
      own_.weakness == own.weakness) {
    ASSIGN_OR_RETURN(const bool shown, IsStillShown(path, lock_.get()));
    if (shown) return base::OkStatus();
  }
  RETURN_IF_ERROR(ReleaseLock(answer_time_));
  std::vector<std::string> folders;
  for (size_t end = folder_.find('/', 1); end != std::string::npos;
       end = folder_.find('/', end + 1)) {
    folders.push_back(folder_.substr(0, end));
  }
  folders.push_back(folder_);
  const std::string text =
      base::json::Dump({{"node", own.node}, {"session", own.session}, {"weakness", own.weakness}});
  const auto found = std::make_shared<OpenedFile>();
  // The lock belongs to the open file, so a child process can take it for this process.
  ASSIGN_OR_RETURN(
      platform::OpenedInChild opened,
      platform::OpenInChild(context, answer_time_,
                            [folders = std::move(folders), path, byte = ByteOf(own.session), text,
                             found] { return OpenNodeFile(folders, path, byte, text, *found); }));
  if (opened.error == EAGAIN) {
    return Error(
        StatusCode::kFailedPrecondition,
        "another block agent that calls itself node {} uses the folder: give each node its "
        "own name",
        Quote(own.node));
  }
  const int error = opened.error != 0 ? opened.error : found->write_error;
  lock_ = std::move(opened.fd);
  const std::optional<Shown> before = ParseShown(found->before.text());
  if (before.has_value() && before->session != own.session) {
    RETURN_IF_ERROR(RemoveNotes(before->session));
  }
  if (IsRoomError(error)) {
    return Error(StatusCode::kResourceExhausted,
                 "the share has no room for {}, by which other nodes know the locks of node {}: "
                 "its volumes work, but no other node takes one over by itself if this node dies; "
                 "free some room on the share",
                 Quote(path), Quote(own.node));
  }
  if (error != 0) return platform::ErrnoError(error, context);
  own_ = own;
  return base::OkStatus();
}

Status LockHandshake::ReleaseLock(std::chrono::milliseconds patience) {
  own_ = {};
  if (!lock_.valid()) return base::OkStatus();
  Status released =
      platform::RunInChild(fmt::format("release the lock in {}", Quote(folder_)), patience,
                           [fd = lock_.get()] {
                             struct flock range = {};
                             range.l_type = F_UNLCK;
                             range.l_whence = SEEK_SET;
                             return fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
                           },
                           {lock_.get()});
  if (released.code() == StatusCode::kDeadlineExceeded) return released;
  lock_.Reset();
  return base::OkStatus();
}

// Files that cannot be removed stay, because other nodes may go on using the folder.
Status LockHandshake::RemoveNotes(const std::string& session) const {
  const auto removed = platform::AskForkedChild<int>(
      fmt::format("remove notes in {}", Quote(folder_)), answer_time_, [&](int&) {
        const auto names = platform::ListFolder(folder_);
        if (!names.ok()) return 0;
        for (const std::string& name : *names) {
          if (!name.ends_with(kSeenSuffix)) continue;
          if (name.starts_with(session + ".") || name.ends_with(NoteOf("", session))) {
            unlink((folder_ + "/" + name).c_str());
          }
        }
        return 0;
      });
  return removed.status();
}

void LockHandshake::HideLock() {
  const auto turn = WaitForTurn();
  if (!turn.ok()) {
    LOG_WARNING("{}", base::ToString(turn.status()));
    return;
  }
  {
    const base::MutexLock lock(mutex_);
    noted_.clear();
  }
  if (!lock_.valid()) return;
  const Own own = own_;
  const auto hide = [&]() -> Status {
    if (!own.node.empty()) {
      RETURN_IF_ERROR(RemoveNotes(own.session));
      RETURN_IF_ERROR(platform::RunInChild(
          fmt::format("remove the lock in {}", Quote(folder_)), answer_time_,
          [path = PathOf(own.node)] { return unlink(path.c_str()) == 0 ? 0 : errno; }));
    }
    RETURN_IF_ERROR(ReleaseLock(answer_time_));
    // rmdir leaves the two folders while files of other nodes are in them.
    return platform::RunInChild(fmt::format("remove the folder {}", Quote(folder_)), answer_time_,
                                [folder = folder_, parent = folder_.substr(0, folder_.rfind('/'))] {
                                  rmdir(folder.c_str());
                                  rmdir(parent.c_str());
                                  return 0;
                                });
  };
  if (const Status hidden = hide(); !hidden.ok()) LOG_WARNING("{}", base::ToString(hidden));
}

Status LockHandshake::NoteLocks(const std::string& session) {
  for (;;) {
    std::map<std::string, Noted> known;
    {
      const base::MutexLock lock(mutex_);
      known = noted_;
    }
    const auto found = platform::AskForkedChild<NotesFound>(
        fmt::format("look at the locks in {}", Quote(folder_)), answer_time_,
        [&](NotesFound& found) {
          const auto names = platform::ListFolder(folder_);
          if (!names.ok()) return ErrnoOf(names.status());
          int first = 0;
          for (const std::string& name : *names) {
            if (!name.ends_with(kNodeSuffix) || name.size() != kNodeFileLength) continue;
            const std::string path = folder_ + "/" + name;
            struct stat st;
            if (lstat(path.c_str(), &st) != 0) continue;  // its node removed it
            const Noted now{.session = session,
                            .changed_ns = st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec,
                            .inode = st.st_ino};
            if (const auto it = known.find(name); it != known.end() && it->second == now) continue;
            bool seen = false;
            const int error = NoteLock(folder_, path, session, seen);
            if (IsRoomError(error)) {
              found.no_room = true;
            } else if (error != 0 && error != ENOENT && first == 0) {
              first = error;
            }
            if (!seen) continue;
            NoteFound& note = found.notes[found.count++];
            name.copy(note.name.data(), note.name.size());
            note.changed_ns = now.changed_ns;
            note.inode = now.inode;
            if (found.count == kNotesAtOnce) return 0;
          }
          return found.count > 0 ? 0 : first;
        });
    if (found.status().code() == StatusCode::kNotFound) return base::OkStatus();
    RETURN_IF_ERROR(found);
    const base::MutexLock lock(mutex_);
    for (const NoteFound& note : std::span(found->notes).first(found->count)) {
      const std::string name(note.name.data(), note.name.size());
      noted_[name] = {.session = session, .changed_ns = note.changed_ns, .inode = note.inode};
      LOG_INFO("{}: the lock of another node is seen", Quote(folder_ + "/" + name));
    }
    if (found->count == kNotesAtOnce) continue;
    if (!found->no_room) return base::OkStatus();
    return Error(StatusCode::kResourceExhausted,
                 "the share has no room to note in {} that the locks of other nodes are seen: free "
                 "some room on the share",
                 Quote(folder_));
  }
}

Status LockHandshake::ProveSeen(const std::string& session, const api::NodeName& node) const {
  const auto found = platform::AskForkedChild<ProofFound>(
      fmt::format("read the locks noted in {}", Quote(folder_)), answer_time_,
      [&, path = PathOf(node.text())](ProofFound& found) {
        const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (!fd.valid()) return errno;
        FileContent content;
        if (const int error = ReadContent(fd.get(), content); error != 0) return error;
        const auto names = platform::ListFolder(folder_);
        if (!names.ok()) return ErrnoOf(names.status());
        found = FindProof(*names, ParseShown(content.text()), session);
        return 0;
      });
  if (!found.ok() && found.status().code() != StatusCode::kNotFound) return found.status();
  switch (found.ok() ? found->proof : Proof::kNotShown) {
    case Proof::kSeen:
      return base::OkStatus();
    case Proof::kNotShown:
      return Error(StatusCode::kFailedPrecondition,
                   "the agent of node {} has shown no lock in the folder of images", node);
    case Proof::kWeak:
      return Error(StatusCode::kFailedPrecondition,
                   "node {} may write although it has no lock, because {}", node,
                   found->weakness.data());
    case Proof::kNeverSeen:
      break;
  }
  return Error(StatusCode::kFailedPrecondition,
               "no node has seen a lock of node {} in the folder of images since that node mounted "
               "it, so the node's locks may not reach other nodes",
               node);
}

}  // namespace berth::block
