// Keeps an informer's many objects small: each is packed into few bytes (json_packer.h), and Get
// unpacks it. The objects that Get returned last stay unpacked, because they are often needed again
// soon, so that a small cluster has little cost of unpacking. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/object.h"
#include "kube/json_packer.h"

namespace berth::kube {

// One object of a PackedObjects: its resourceVersion and its packed form, in one piece of memory.
class PackedObject {
 public:
  PackedObject(std::string_view version, std::string_view packed);

  std::string_view version() const { return {bytes_.get(), version_size_}; }

 private:
  friend class PackedObjects;
  std::string_view packed() const { return {bytes_.get() + version_size_, packed_size_}; }

  const std::unique_ptr<char[]> bytes_;
  const uint32_t version_size_;
  const uint32_t packed_size_;
};
using PackedPtr = std::shared_ptr<const PackedObject>;

class PackedObjects {
 public:
  using ObjectPtr = std::shared_ptr<const api::Object>;
  using Factory = std::function<ObjectPtr(base::Json)>;

  explicit PackedObjects(Factory factory) : factory_(std::move(factory)) {}

  PackedPtr KeepObject(const api::Object& object);
  // Returns the object. It aborts the process if the packed form is damaged.
  ObjectPtr Get(const PackedPtr& packed);

 private:
  // An object that Get returned. `packed` keeps its address from being that of another one.
  struct Recent {
    PackedPtr packed;
    ObjectPtr object;
  };

  const Factory factory_;
  JsonPacker packer_;
  std::vector<Recent> recent_;
  size_t next_recent_ = 0;
};

}  // namespace berth::kube
