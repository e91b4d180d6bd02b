// Memory for many small records that stay. In a burst malloc would place them among trees and
// buffers that are freed soon, and a page of memory goes back to the kernel only when all that is
// in it was freed. The pool itself keeps what it has, for later records, until it is destroyed.
//
// Not thread-safe: who makes, copies or destroys a record holds the lock that guards the pool.
#pragma once

#include <memory_resource>

namespace berth::base {

class RecordPool : public std::pmr::unsynchronized_pool_resource {
 public:
  // The pool takes memory for many records of a size at a time, and it looks for each larger
  // record in one list, so larger ones are better made by malloc.
  static constexpr size_t kLargestRecord = 512;  // bytes

  RecordPool()
      : std::pmr::unsynchronized_pool_resource(
            std::pmr::pool_options{.largest_required_pool_block = kLargestRecord}) {}
};

}  // namespace berth::base
