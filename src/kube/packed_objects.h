// Keeps an informer's many objects small: each is stored as compressed text, with the text of the
// first object as the dictionary, because objects of a kind are much alike. A PersistentVolume
// takes some 300 bytes instead of 6,000. Get returns an object parsed. Callers share the parsed
// object as long as one of them holds it.
//
// The first few objects stay parsed, so that small clusters have no cost of packing. Not
// thread-safe.
#pragma once

#include <zlib.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/object.h"

namespace berth::kube {

class PackedObject;
using PackedPtr = std::shared_ptr<PackedObject>;

class PackedObjects {
 public:
  using ObjectPtr = std::shared_ptr<const api::Object>;
  using Factory = std::function<ObjectPtr(base::Json)>;

  // All objects beyond the first `parsed` are packed.
  explicit PackedObjects(Factory factory, size_t parsed = 256);
  ~PackedObjects();
  PackedObjects(const PackedObjects&) = delete;
  PackedObjects& operator=(const PackedObjects&) = delete;

  // Returns `object`, packed if `count`, the number of objects that are kept already, is `parsed`
  // or more.
  PackedPtr KeepObject(ObjectPtr object, size_t count);
  // Returns the object. It aborts the process if the packed text is damaged.
  ObjectPtr Get(PackedObject& packed);

 private:
  std::string CompressText(std::string_view text);
  std::string ExpandText(std::string_view packed, size_t size);

  const Factory factory_;
  const size_t parsed_;
  std::string dictionary_;
  std::unique_ptr<z_stream> deflate_, inflate_;  // made with the first packed object
  // The objects that Get returned last. They stay parsed for a while, because they are often needed
  // again.
  std::vector<ObjectPtr> recent_;
  size_t next_recent_ = 0;
};

// One object of a PackedObjects.
class PackedObject {
 public:
  const std::string& version() const { return version_; }

 private:
  friend class PackedObjects;
  std::string version_;                    // resourceVersion
  PackedObjects::ObjectPtr object_;        // null: packed
  std::weak_ptr<const api::Object> live_;  // the parsed form of a packed object while it is in use
  std::string text_;                       // compressed; plain if that failed
  size_t size_ = 0;                        // of the text; 0: not compressed
};

}  // namespace berth::kube
