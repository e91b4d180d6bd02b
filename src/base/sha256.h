// SHA-256 of data that comes in pieces. For data that is there as a whole see Sha256Hex (ids.h).
// Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace berth::base {

class Sha256 {
 public:
  Sha256();
  void Add(std::string_view data);
  // Lower-case hex of the digest of everything that was added. Call it once, and last.
  std::string Hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  const std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace berth::base
