// gzip compression of an answer, at once or piece by piece.
//
// It prefers speed to size (level 1), as the Kubernetes API server does. A compressor holds about
// 256 KiB. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct z_stream_s;

namespace berth::http {

class GzipWriter {
 public:
  GzipWriter();
  ~GzipWriter();
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;

  // Compresses `text` and appends to `out` the compressed bytes that are ready.
  void Write(std::string_view text, std::string& out);
  // Appends the rest. Nothing can be written afterwards.
  void Finish(std::string& out);

 private:
  void Deflate(std::string_view text, int flush, std::string& out);

  const std::unique_ptr<z_stream_s> stream_;
};

std::string Gzip(std::string_view text);
// The decompressed text; nullopt if `bytes` is not a complete gzip stream.
std::optional<std::string> Gunzip(std::string_view bytes);

}  // namespace berth::http
