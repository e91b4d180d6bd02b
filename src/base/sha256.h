// SHA-256 of what comes in pieces; of what is there whole: ids.h. Not thread-safe.
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
  // Lower-case hex of the digest of all that was added; once, as the last call.
  std::string Hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  const std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace berth::base
