// Keeps an informer's many objects small: each is packed into few bytes (json_packer.h), and Get
// unpacks it. The objects that Get returned last stay unpacked, because they are often needed again
// soon, so that a small cluster has little cost of unpacking.
//
// All small records that stay in memory for an object come from one pool (record_pool.h). Not
// thread-safe: who makes, copies or destroys a PackedObject, or uses memory(), holds the lock that
// guards the PackedObjects.
#pragma once

#include <functional>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include "api/object.h"
#include "base/record_pool.h"
#include "kube/informers/json_packer.h"

namespace berth::kube {

// One object of a PackedObjects: its resourceVersion and its packed form, in one piece of memory
// that the copies share.
class PackedObject {
 public:
  PackedObject() = default;  // has no object

  std::string_view version() const { return {bytes_.get(), version_size_}; }

 private:
  friend class PackedObjects;
  PackedObject(std::string_view version, std::string_view packed,
               std::pmr::memory_resource* memory);
  std::string_view packed() const { return {bytes_.get() + version_size_, packed_size_}; }

  std::shared_ptr<char[]> bytes_;
  uint32_t version_size_ = 0;
  uint32_t packed_size_ = 0;
};

class PackedObjects {
 public:
  using ObjectPtr = std::shared_ptr<const api::Object>;
  using Factory = std::function<ObjectPtr(base::Json)>;

  explicit PackedObjects(Factory factory) : factory_(std::move(factory)) {}

  PackedObject KeepObject(const api::Object& object);
  // Returns the object. It aborts the process if the packed form is damaged.
  ObjectPtr Get(const PackedObject& packed);

  // The pool, for small records that stay as long as an object, such as its key.
  std::pmr::memory_resource* memory() { return &memory_; }

 private:
  // An object that Get returned. `packed` keeps its address from being that of another one.
  struct Recent {
    PackedObject packed;
    ObjectPtr object;
  };

  const Factory factory_;
  base::RecordPool memory_;  // before all that takes from it
  JsonPacker packer_{&memory_};
  std::vector<Recent> recent_;
  size_t next_recent_ = 0;
};

}  // namespace berth::kube
