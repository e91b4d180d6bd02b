#include "kube/informers/packed_objects.h"

#include <algorithm>

namespace berth::kube {

namespace {

constexpr size_t kRecent = 32;
// The rest of a record is for the reference count.
constexpr size_t kLargestInPool = base::RecordPool::kLargestRecord - 64;

}  // namespace

PackedObject::PackedObject(std::string_view version, std::string_view packed,
                           std::pmr::memory_resource* memory)
    : bytes_(std::allocate_shared_for_overwrite<char[]>(std::pmr::polymorphic_allocator<>(memory),
                                                        version.size() + packed.size())),
      version_size_(static_cast<uint32_t>(version.size())),
      packed_size_(static_cast<uint32_t>(packed.size())) {
  std::copy(version.begin(), version.end(), bytes_.get());
  std::copy(packed.begin(), packed.end(), bytes_.get() + version.size());
}

PackedObject PackedObjects::KeepObject(const api::Object& object) {
  const std::string version = object.resource_version();
  const std::string packed = packer_.Pack(object.json());
  const bool small = version.size() + packed.size() <= kLargestInPool;
  return {version, packed, small ? &memory_ : std::pmr::new_delete_resource()};
}

PackedObjects::ObjectPtr PackedObjects::Get(const PackedObject& packed) {
  const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Recent& recent) {
    return recent.packed.bytes_ == packed.bytes_;
  });
  if (found != recent_.end()) return found->object;
  Recent recent{packed, factory_(packer_.Unpack(packed.packed()))};
  ObjectPtr object = recent.object;
  if (recent_.size() < kRecent) {
    recent_.push_back(std::move(recent));
  } else {
    recent_[next_recent_++ % kRecent] = std::move(recent);
  }
  return object;
}

}  // namespace berth::kube
