// Compresses answers with gzip, at once or piece by piece.
//
// The compression prefers speed to size (level 1), as the Kubernetes API server does. A GzipWriter
// holds about 256 KiB and is not thread-safe.
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

// Returns the compressed text.
std::string Gzip(std::string_view text);
// Returns the decompressed text; nullopt if `bytes` do not begin with a complete gzip stream, or if
// the text is longer than `most_bytes`.
std::optional<std::string> Gunzip(std::string_view bytes, size_t most_bytes);

}  // namespace berth::http
