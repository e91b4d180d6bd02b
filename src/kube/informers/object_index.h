// Finds the keys of objects by values that the objects have.
//
// The values are not kept, but only their hashes, because an index of all volumes by their handles
// would otherwise take as much memory as the volumes. So FindKeys may return keys of objects that
// have another value, and the caller asks the object. Not thread-safe.
#pragma once

#include <functional>
#include <memory_resource>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace berth::kube {

class ObjectIndex {
 public:
  using Key = std::pmr::string;

  // `memory` is borrowed.
  explicit ObjectIndex(std::pmr::memory_resource* memory) : entries_(memory) {}

  // `key` is borrowed until it is erased. Does nothing if the object is there under the value.
  void Insert(std::string_view value, const Key& key) { entries_.insert({HashOf(value), &key}); }
  // Does nothing if the object is not there under the value.
  void Erase(std::string_view value, const Key& key) { entries_.erase({HashOf(value), &key}); }

  // The keys under the value, in their order, and perhaps others.
  std::vector<const Key*> FindKeys(std::string_view value) const {
    std::vector<const Key*> keys;
    const size_t hash = HashOf(value);
    for (auto it = entries_.lower_bound({hash, nullptr}); it != entries_.end() && it->hash == hash;
         ++it) {
      keys.push_back(it->key);
    }
    return keys;
  }

 private:
  struct Entry {
    size_t hash;     // of the value
    const Key* key;  // null stands before all keys

    bool operator<(const Entry& other) const {
      if (hash != other.hash) return hash < other.hash;
      if (key == nullptr || other.key == nullptr) return key == nullptr && other.key != nullptr;
      return *key < *other.key;
    }
  };

  static size_t HashOf(std::string_view value) { return std::hash<std::string_view>()(value); }

  std::pmr::set<Entry> entries_;
};

}  // namespace berth::kube
