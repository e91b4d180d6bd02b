#include "apiserver/formats/entity_tag.h"

#include <openssl/sha.h>

#include <array>

namespace berth::apiserver {

std::string EntityTag(std::string_view document) {
  std::array<unsigned char, SHA512_DIGEST_LENGTH> digest;
  SHA512(reinterpret_cast<const unsigned char*>(document.data()), document.size(), digest.data());
  std::string out;
  out.reserve(2 * digest.size());
  for (const unsigned char byte : digest) fmt::format_to(std::back_inserter(out), "{:02X}", byte);
  return out;
}

void TagEntity(const http::Request& request, std::string_view tag, http::Response& response) {
  const std::string quoted = fmt::format("\"{}\"", tag);
  response.headers.emplace_back("ETag", quoted);
  // The header has one tag or several, separated by commas. A weak tag begins with W/; it matches
  // too.
  const std::string_view known = request.Header("If-None-Match");
  if (known != "*" && known.find(quoted) == std::string_view::npos) return;
  response.code = 304;
  response.body.clear();
}

}  // namespace berth::apiserver
