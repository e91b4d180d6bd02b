// SHA-256 of data that comes in pieces. For data in one piece, see Sha256Hex (ids.h).
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
  // Returns the digest of all data that was added, in lower-case hex. Call it once; call nothing
  // after it.
  std::string FinishHex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  const std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace berth::base
