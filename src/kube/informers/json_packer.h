// Packs JSON values that are much alike, such as the objects of one kind, into few bytes.
//
// A PersistentVolume takes some 150 bytes instead of 6,000, because its strings are numbers: a
// string that two values have had, such as a member's name, a driver or a phase, is stored once in
// a table, and stands in later values as its number. A UUID takes 16 bytes.
//
//   value  := null | false | true | number | string | array count value… | object count (string
//   value)… string := plain | (plain before the UUID, 16 bytes)
//   plain  := number in the table | its bytes
//
// The packed form exists only in the memory of this process, and only the packer that made it can
// read it. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory_resource>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"

namespace berth::kube {

class JsonPacker {
 public:
  // The table's strings are in `memory`, which is borrowed.
  explicit JsonPacker(std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : strings_(memory), numbers_(memory) {}

  // Returns the packed form of a value that nests at most as deep as base/json_builder.h lets text
  // nest. Anything that JSON text cannot hold becomes null.
  std::string Pack(const base::Json& value);
  // Returns the value that Pack got. `packed` must be a result of Pack of this object.
  base::Json Unpack(std::string_view packed) const;

 private:
  // When a string was seen last: its hash, and the number of the value that had it.
  struct Sight {
    uint64_t hash = 0;
    uint64_t value = 0;
  };

  void PackValue(const base::Json& value, std::string& out);
  void PackString(std::string_view text, std::string& out);
  static void PackText(std::string_view text, std::string& out);
  // Writes the number of a string in the table, or returns false if it is not in the table.
  bool PackKnown(std::string_view text, std::string& out);
  // Returns the place of a string in seen_, or the one that it is to take.
  Sight& FindSight(uint64_t hash);

  // The table. It only grows, to a limit, because packed values have its numbers.
  std::pmr::deque<std::pmr::string> strings_;
  std::pmr::unordered_map<std::string_view, uint32_t> numbers_;
  std::vector<Sight> seen_;  // empty before the first value, as most kinds have no objects
  uint64_t value_ = 0;       // the number of the value that is being packed
  std::string buffer_;       // keeps its memory from one value to the next
};

}  // namespace berth::kube
