#include "kube/packed_objects.h"

#include <algorithm>

namespace berth::kube {

namespace {

constexpr size_t kRecent = 32;

std::unique_ptr<char[]> Join(std::string_view first, std::string_view second) {
  auto bytes = std::make_unique_for_overwrite<char[]>(first.size() + second.size());
  std::copy(first.begin(), first.end(), bytes.get());
  std::copy(second.begin(), second.end(), bytes.get() + first.size());
  return bytes;
}

}  // namespace

PackedObject::PackedObject(std::string_view version, std::string_view packed)
    : bytes_(Join(version, packed)),
      version_size_(static_cast<uint32_t>(version.size())),
      packed_size_(static_cast<uint32_t>(packed.size())) {}

PackedPtr PackedObjects::KeepObject(const api::Object& object) {
  return std::make_shared<const PackedObject>(object.resource_version(),
                                              packer_.Pack(object.json()));
}

PackedObjects::ObjectPtr PackedObjects::Get(const PackedPtr& packed) {
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const Recent& recent) { return recent.packed == packed; });
  if (found != recent_.end()) return found->object;
  Recent recent{packed, factory_(packer_.Unpack(packed->packed()))};
  ObjectPtr object = recent.object;
  if (recent_.size() < kRecent) {
    recent_.push_back(std::move(recent));
  } else {
    recent_[next_recent_++ % kRecent] = std::move(recent);
  }
  return object;
}

}  // namespace berth::kube
