#include "base/flight.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/files/process_stat.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/utf8.h"

namespace berth::base {
namespace {

constexpr size_t kSlotSize = 512;
constexpr size_t kSlots = 32;  // of a ring; the first holds the key
constexpr size_t kRingSize = kSlotSize * kSlots;
constexpr size_t kHeaderSize = 4096;
constexpr std::array<char, 8> kMagic = {'b', 'e', 'r', 't', 'h', 'f', 'l', '1'};
constexpr size_t kMaxRings = 1 << 16;

enum State : uint16_t { kFree = 0, kRunning = 1, kDone = 2 };

// On disk. Every text ends with a zero byte; `sum` covers all that follows it.
struct Slot {
  uint32_t sum = 0;
  uint16_t state = kFree;
  uint16_t kind = 0;
  uint64_t sequence = 0;
  uint64_t epoch = 0;
  int64_t first_ns = 0, start_ns = 0, end_ns = 0;
  uint32_t count = 1;
  int32_t pid = 0;
  int32_t code = 0;
  char what[44] = {};
  char target[136] = {};
  char message[272] = {};
};
static_assert(sizeof(Slot) == kSlotSize);

struct KeySlot {
  uint32_t sum = 0;
  char key[kSlotSize - 4] = {};
};
static_assert(sizeof(KeySlot) == kSlotSize);

struct Header {
  uint32_t sum = 0;
  int32_t pid = 0;
  char magic[8] = {};
  uint64_t epoch = 0;
  uint64_t process_start = 0;  // in clock ticks since the boot, as /proc/PID/stat has it
  char boot_id[40] = {};
  char role[40] = {};
};

template <typename T>
uint32_t SumOf(const T& record) {
  const auto* at = reinterpret_cast<const char*>(&record) + sizeof(record.sum);
  const uint32_t sum = Fnv1a32({at, sizeof(T) - sizeof(record.sum)});
  return sum == 0 ? 1 : sum;  // so that zeros are never a record
}

template <size_t N>
void Put(char (&field)[N], std::string_view text) {
  const size_t size = CharacterEnd(text, N - 1);
  std::memset(field, 0, N);
  std::memcpy(field, text.data(), size);
}

template <size_t N>
std::string FieldText(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

int64_t Nanoseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
WallTime ToTime(int64_t ns) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(std::chrono::nanoseconds(ns)));
}

// A key that is too long for its slot keeps its beginning and a sum of the whole.
std::string Fitting(std::string_view key) {
  constexpr size_t kMaxKey = sizeof(KeySlot::key) - 1;
  if (key.size() <= kMaxKey) return std::string(key);
  return fmt::format("{}#{:016x}", key.substr(0, kMaxKey - 17), std::hash<std::string_view>()(key));
}

template <typename T>
bool ReadAt(int fd, uint64_t offset, T& record) {
  return pread(fd, &record, sizeof(T), static_cast<off_t>(offset)) ==
             static_cast<ssize_t>(sizeof(T)) &&
         record.sum == SumOf(record);
}

bool ReadHeader(int fd, Header& header) {
  return ReadAt(fd, 0, header) && std::memcmp(header.magic, kMagic.data(), kMagic.size()) == 0;
}

uint64_t RingOffset(size_t ring) { return kHeaderSize + ring * kRingSize; }
uint64_t SlotOffset(size_t ring, size_t slot) { return RingOffset(ring) + slot * kSlotSize; }

size_t RingsIn(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_size <= static_cast<off_t>(kHeaderSize)) return 0;
  return std::min((static_cast<size_t>(st.st_size) - kHeaderSize + kRingSize - 1) / kRingSize,
                  kMaxRings);
}

thread_local FlightScope* current_scope = nullptr;

}  // namespace

class FlightRing {
 public:
  FlightRing(FlightRecorder& recorder, size_t index, std::string key)
      : recorder_(recorder), index_(index), key_(std::move(key)) {}

  size_t index() const { return index_; }
  uint64_t last_used() const { return last_used_; }

  // Takes over what the file holds.
  void Load(int fd) {
    MutexLock lock(mutex_);
    written_ = true;
    for (size_t i = 1; i < kSlots; ++i) {
      Slot slot;
      if (!ReadAt(fd, SlotOffset(index_, i), slot)) continue;
      last_used_ = std::max(last_used_.load(), slot.sequence);
      // An act that ran when the role died stays in the file as it is, but its place may be reused.
      RememberSlot(i, slot);
      if (slot.state == kRunning) notes_[i].state = kDone;
    }
  }

  size_t Start(FlightKind kind, std::string_view what, std::string_view target) {
    MutexLock lock(mutex_);
    Begin();
    const size_t place = FreePlace();
    if (place == 0) return 0;
    Slot slot;
    slot.state = kRunning;
    slot.kind = static_cast<uint16_t>(kind);
    slot.start_ns = slot.first_ns = Nanoseconds(std::chrono::system_clock::now());
    slot.pid = gettid();  // of the thread that acts, until SetPid
    Put(slot.what, what);
    Put(slot.target, target);
    running_[place] = slot;
    Store(place, slot);
    return place;
  }

  void SetPid(size_t place, pid_t pid) {
    MutexLock lock(mutex_);
    Slot& slot = running_[place];
    slot.pid = pid;
    Store(place, slot);
  }

  void End(size_t place, const Status& status) {
    MutexLock lock(mutex_);
    Slot slot = running_[place];
    running_.erase(place);
    slot.state = kDone;
    slot.end_ns = Nanoseconds(std::chrono::system_clock::now());
    slot.code = static_cast<int32_t>(status.code());
    Put(slot.message, Message(status));
    Fold(place, slot);
    Store(place, slot);
  }

  void Retry(const Status& why, std::chrono::milliseconds delay) {
    MutexLock lock(mutex_);
    Begin();
    const size_t place = FreePlace();
    if (place == 0) return;
    Slot slot;
    slot.state = kDone;
    slot.kind = static_cast<uint16_t>(FlightKind::kRetry);
    const auto now = std::chrono::system_clock::now();
    slot.start_ns = slot.first_ns = Nanoseconds(now);
    slot.end_ns = Nanoseconds(now + delay);
    slot.code = static_cast<int32_t>(why.code());
    slot.pid = getpid();
    Put(slot.what, "retry");
    Put(slot.message, Message(why));
    Fold(place, slot);
    Store(place, slot);
  }

  void Settled() {
    MutexLock lock(mutex_);
    for (size_t i = 1; i < kSlots; ++i) {
      if (notes_[i].state == kDone && notes_[i].kind == FlightKind::kRetry) DropSlot(i);
    }
  }

 private:
  // Before the first record: empties the place in the file, and names it.
  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(written_, true)) return;
    std::vector<char> empty(kRingSize);
    KeySlot name;
    Put(name.key, key_);
    name.sum = SumOf(name);
    std::memcpy(empty.data(), &name, sizeof(name));
    recorder_.Write(RingOffset(index_), empty.data(), empty.size());
  }

  // What is kept in memory of a slot.
  struct Remembered {
    State state = kFree;
    FlightKind kind = FlightKind::kCall;
    uint32_t outcome = 0;  // a sum of what, target and result
    uint32_t count = 1;
    int64_t first_ns = 0;
    uint64_t sequence = 0;
  };

  static uint32_t OutcomeOf(const Slot& slot) {
    Slot same;
    same.kind = slot.kind;
    same.code = slot.code;
    Put(same.what, FieldText(slot.what));
    Put(same.target, FieldText(slot.target));
    Put(same.message, FieldText(slot.message));
    return SumOf(same);
  }

  void RememberSlot(size_t place, const Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    notes_[place] = {.state = static_cast<State>(slot.state),
                     .kind = static_cast<FlightKind>(slot.kind),
                     .outcome = OutcomeOf(slot),
                     .count = slot.count,
                     .first_ns = slot.first_ns,
                     .sequence = slot.sequence};
  }

  // A free place, else the one of the oldest act that has ended; 0: all of them run.
  size_t FreePlace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    size_t best = 0;
    for (size_t i = 1; i < kSlots; ++i) {
      if (notes_[i].state == kFree) return i;
      if (notes_[i].state != kDone) continue;
      if (best == 0 || notes_[i].sequence < notes_[best].sequence) best = i;
    }
    return best;
  }

  // The same outcome as before is counted, so that retries don't push all else out of the ring.
  void Fold(size_t place, Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint32_t outcome = OutcomeOf(slot);
    for (size_t i = 1; i < kSlots; ++i) {
      if (i == place || notes_[i].state != kDone || notes_[i].outcome != outcome) continue;
      slot.count += notes_[i].count;
      slot.first_ns = notes_[i].first_ns;
      DropSlot(i);
    }
  }

  void DropSlot(size_t place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    notes_[place] = {};
    const std::array<char, kSlotSize> empty = {};
    recorder_.Write(SlotOffset(index_, place), empty.data(), empty.size());
  }

  void Store(size_t place, Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    slot.sequence = recorder_.sequence_.fetch_add(1, std::memory_order_relaxed);
    slot.epoch = recorder_.epoch_;
    slot.sum = SumOf(slot);
    RememberSlot(place, slot);
    last_used_ = slot.sequence;
    recorder_.Write(SlotOffset(index_, place), &slot, sizeof(slot));
  }

  FlightRecorder& recorder_;
  const size_t index_;
  const std::string key_;
  std::atomic<uint64_t> last_used_{0};
  Mutex mutex_;
  bool written_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<Remembered, kSlots> notes_ ABSL_GUARDED_BY(mutex_);
  std::map<size_t, Slot> running_ ABSL_GUARDED_BY(mutex_);
};

FlightRecorder::FlightRecorder(UniqueFd fd, const Options& options)
    : fd_(std::move(fd)), options_(options) {}

FlightRecorder::~FlightRecorder() = default;

StatusOr<std::unique_ptr<FlightRecorder>> FlightRecorder::Open(const std::string& path,
                                                               std::string_view role,
                                                               const Options& options) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return Error(StatusCode::kInternal, "open the flight record '{}': {}", path,
                 std::strerror(errno));
  }
  auto recorder = std::unique_ptr<FlightRecorder>(new FlightRecorder(std::move(fd), options));
  recorder->Load();
  RETURN_IF_ERROR_WITH(recorder->WriteHeader(role), fmt::format("flight record '{}'", path));
  return recorder;
}

void FlightRecorder::Load() {
  Header header;
  if (!ReadHeader(fd_.get(), header)) {
    if (ftruncate(fd_.get(), 0) != 0) LOG_WARNING("cannot empty the flight record");
    return;
  }
  epoch_ = header.epoch + 1;
  MutexLock lock(mutex_);
  const size_t rings = std::min(RingsIn(fd_.get()), options_.rings);
  for (size_t i = 0; i < rings; ++i) {
    KeySlot name;
    if (!ReadAt(fd_.get(), RingOffset(i), name)) continue;
    auto ring = std::make_shared<FlightRing>(*this, i, FieldText(name.key));
    ring->Load(fd_.get());
    sequence_ = std::max(sequence_.load(), ring->last_used() + 1);
    rings_.emplace(FieldText(name.key), std::move(ring));
  }
}

Status FlightRecorder::WriteHeader(std::string_view role) {
  Header header;
  header.pid = getpid();
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.epoch = epoch_;
  header.process_start = ReadStartTicks(getpid());
  Put(header.boot_id, ReadBootId());
  Put(header.role, role);
  header.sum = SumOf(header);
  if (pwrite(fd_.get(), &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header))) {
    return Error(StatusCode::kResourceExhausted, "write: {}", std::strerror(errno));
  }
  return OkStatus();
}

// A full disk costs records, never the work itself.
void FlightRecorder::Write(uint64_t offset, const void* data, size_t size) {
  const ssize_t written = pwrite(fd_.get(), data, size, static_cast<off_t>(offset));
  if (written == static_cast<ssize_t>(size)) return;
  if (!complained_.exchange(true)) {
    LOG_WARNING("the flight record is incomplete from here on: {}", std::strerror(errno));
  }
}

std::shared_ptr<FlightRing> FlightRecorder::Ring(std::string_view key, bool make) {
  const std::string fitting = Fitting(key);
  MutexLock lock(mutex_);
  if (const auto found = rings_.find(fitting); found != rings_.end()) return found->second;
  if (!make) return nullptr;
  std::vector<bool> taken(options_.rings);
  auto oldest = rings_.end();
  for (auto it = rings_.begin(); it != rings_.end(); ++it) {
    taken[it->second->index()] = true;
    // A ring that somebody uses now is not given to another key.
    if (it->second.use_count() > 1) continue;
    if (oldest == rings_.end() || it->second->last_used() < oldest->second->last_used()) {
      oldest = it;
    }
  }
  auto place = static_cast<size_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
  if (place == options_.rings) {
    if (oldest == rings_.end()) return nullptr;
    place = oldest->second->index();
    rings_.erase(oldest);
  }
  auto ring = std::make_shared<FlightRing>(*this, place, fitting);
  rings_.emplace(fitting, ring);
  return ring;
}

FlightScope::FlightScope(FlightRecorder* recorder, std::string key)
    : recorder_(recorder), key_(std::move(key)), outer_(current_scope) {
  current_scope = this;
}

FlightScope::~FlightScope() { current_scope = outer_; }

void FlightScope::Retry(const Status& why, std::chrono::milliseconds delay) {
  if (current_scope == nullptr || current_scope->recorder_ == nullptr) return;
  if (const auto ring = current_scope->recorder_->Ring(current_scope->key_, true)) {
    ring->Retry(why, delay);
  }
}

void FlightScope::Settled() {
  if (current_scope == nullptr || current_scope->recorder_ == nullptr) return;
  if (const auto ring = current_scope->recorder_->Ring(current_scope->key_, false)) {
    ring->Settled();
  }
}

FlightSpan::FlightSpan(FlightKind kind, std::string_view what, std::string_view target) {
  if (current_scope == nullptr || current_scope->recorder_ == nullptr) return;
  ring_ = current_scope->recorder_->Ring(current_scope->key_, true);
  if (ring_ == nullptr) return;
  slot_ = ring_->Start(kind, what, target);
  if (slot_ == 0) ring_.reset();
}

FlightSpan::~FlightSpan() { End(Status(StatusCode::kCancelled, "")); }

void FlightSpan::SetPid(pid_t pid) {
  if (ring_ != nullptr) ring_->SetPid(slot_, pid);
}

void FlightSpan::End(const Status& status) {
  if (ring_ != nullptr) ring_->End(slot_, status);
  ring_.reset();
}

StatusOr<FlightLog> ReadFlightLog(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return Error(errno == ENOENT ? StatusCode::kNotFound : StatusCode::kPermissionDenied,
                 "read the flight record '{}': {}", path, std::strerror(errno));
  }
  Header header;
  if (!ReadHeader(fd.get(), header)) {
    return Error(StatusCode::kInvalidArgument, "'{}' is no flight record", path);
  }
  FlightLog log{.role = FieldText(header.role), .pid = header.pid};
  log.alive = FieldText(header.boot_id) == ReadBootId() && header.process_start != 0 &&
              ReadStartTicks(header.pid) == header.process_start;
  for (size_t ring = 0; ring < RingsIn(fd.get()); ++ring) {
    KeySlot name;
    if (!ReadAt(fd.get(), RingOffset(ring), name)) continue;
    for (size_t i = 1; i < kSlots; ++i) {
      Slot slot;
      if (!ReadAt(fd.get(), SlotOffset(ring, i), slot) || slot.state == kFree) continue;
      const bool begun = slot.state == kRunning;
      const bool current = slot.epoch == header.epoch && log.alive;
      log.records.push_back({.key = FieldText(name.key),
                             .kind = static_cast<FlightKind>(slot.kind),
                             .what = FieldText(slot.what),
                             .target = FieldText(slot.target),
                             .first = ToTime(slot.first_ns),
                             .start = ToTime(slot.start_ns),
                             .end = ToTime(slot.end_ns),
                             .count = slot.count,
                             .pid = slot.pid,
                             .running = begun && current,
                             .interrupted = begun && !current,
                             .code = static_cast<StatusCode>(slot.code),
                             .message = FieldText(slot.message),
                             .sequence = slot.sequence});
    }
  }
  std::sort(log.records.begin(), log.records.end(),
            [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return log;
}

}  // namespace berth::base
