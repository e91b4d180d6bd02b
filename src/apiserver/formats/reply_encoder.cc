#include "apiserver/formats/reply_encoder.h"

#include "apiserver/formats/media_range.h"

namespace berth::apiserver {
namespace {

bool IsJson(std::string_view content_type) {
  return content_type.substr(0, content_type.find(';')) == "application/json";
}

// Like Go's strconv.ParseBool, but false for a text that ParseBool refuses.
bool IsTrue(std::string_view value) {
  return value == "1" || value == "t" || value == "T" || value == "true" || value == "TRUE" ||
         value == "True";
}

}  // namespace

bool WantsPretty(const http::Request& request) {
  if (request.raw_query().find("pretty") != std::string_view::npos) {
    const auto query = http::Query::Parse(request.raw_query());
    if (query.ok() && !query->Get("pretty").empty()) return IsTrue(query->Get("pretty"));
  }
  const std::string_view agent = request.Header("User-Agent");
  return agent.starts_with("curl") || agent.starts_with("Wget") || agent.starts_with("Mozilla/5.0");
}

ReplyEncoder::ReplyEncoder(const Options& options) {
  if (options.pretty) indenter_ = std::make_unique<JsonIndenter>();
  if (options.gzip) gzip_ = std::make_unique<http::GzipWriter>();
}

void ReplyEncoder::AddHeaders(http::Response& head) const {
  if (!gzip_) return;
  head.headers.emplace_back("Content-Encoding", "gzip");
  head.headers.emplace_back("Vary", "Accept-Encoding");
}

std::string ReplyEncoder::EncodePiece(std::string piece) {
  if (indenter_) {
    std::string indented;
    indenter_->Write(piece, indented);
    piece = std::move(indented);
  }
  if (gzip_) {
    std::string compressed;
    gzip_->Write(piece, compressed);
    piece = std::move(compressed);
  }
  return piece;
}

std::string ReplyEncoder::Finish() {
  std::string out = indenter_ ? "\n" : "";
  if (gzip_) {
    std::string compressed;
    gzip_->Write(out, compressed);
    gzip_->Finish(compressed);
    out = std::move(compressed);
  }
  return out;
}

void EncodeReply(const http::Request& request, http::Response& response) {
  for (const auto& [name, value] : response.headers) {
    if (name == "Content-Encoding") return;  // already encoded
  }
  const bool pretty = IsJson(response.content_type) && WantsPretty(request);
  const bool gzip = response.body.size() > kGzipFrom && AcceptsGzip(request);
  if (!pretty && !gzip) return;
  ReplyEncoder encoder({.pretty = pretty, .gzip = gzip});
  encoder.AddHeaders(response);
  response.body = encoder.EncodePiece(std::move(response.body));
  response.body += encoder.Finish();
}

}  // namespace berth::apiserver
