#include "http/gzip.h"

#include <zlib.h>

#include <new>

namespace berth::http {
namespace {

constexpr int kLevel = 1;
constexpr int kGzipWindow = 15 + 16;  // 32 KiB, with gzip's header and checksum
constexpr int kMemory = 8;
constexpr size_t kStepBytes = 16 * 1024;

}  // namespace

GzipWriter::GzipWriter() : stream_(std::make_unique<z_stream>()) {
  // With these arguments deflateInit2 fails only when memory is short.
  if (deflateInit2(stream_.get(), kLevel, Z_DEFLATED, kGzipWindow, kMemory, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::bad_alloc();
  }
}

GzipWriter::~GzipWriter() { deflateEnd(stream_.get()); }

void GzipWriter::Deflate(std::string_view text, int flush, std::string& out) {
  stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream_->avail_in = static_cast<uInt>(text.size());
  do {
    const size_t before = out.size();
    out.resize(before + kStepBytes);
    stream_->next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream_->avail_out = static_cast<uInt>(kStepBytes);
    deflate(stream_.get(), flush);
    out.resize(out.size() - stream_->avail_out);
  } while (stream_->avail_out == 0);  // the output buffer was full, so there may be more
}

void GzipWriter::Write(std::string_view text, std::string& out) {
  if (!text.empty()) Deflate(text, Z_NO_FLUSH, out);
}

void GzipWriter::Finish(std::string& out) { Deflate({}, Z_FINISH, out); }

std::string Gzip(std::string_view text) {
  std::string out;
  GzipWriter writer;
  writer.Write(text, out);
  writer.Finish(out);
  return out;
}

std::optional<std::string> Gunzip(std::string_view bytes, size_t most_bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int state = Z_OK;
  while (state == Z_OK && out.size() <= most_bytes) {
    const size_t before = out.size();
    out.resize(before + kStepBytes);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(kStepBytes);
    state = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || out.size() > most_bytes) return std::nullopt;
  return out;
}

}  // namespace berth::http
