#include "kube/packed_objects.h"

#include "base/json.h"
#include "base/log.h"

namespace berth::kube {

namespace {

// A window of 8 KiB holds the dictionary and most objects. zlib's states take 50 KiB per informer.
constexpr int kWindowBits = -13;  // negative: without zlib's header and checksum
constexpr int kMemoryLevel = 4;
constexpr int kLevel = 1;
constexpr size_t kMaxDictionary = 8 * 1024;
constexpr size_t kRecent = 64;
// The client's parser has accepted this text already, so it is read again without limits.
constexpr base::json::ParseLimits kNoLimits{.max_bytes = size_t{1} << 30, .max_depth = 250};

Bytef* Bytes(std::string_view text) {
  // zlib takes a pointer without const, but it does not write to the input.
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

PackedObjects::PackedObjects(Factory factory, size_t parsed)
    : factory_(std::move(factory)), parsed_(parsed) {}

PackedObjects::~PackedObjects() {
  if (deflate_ != nullptr) deflateEnd(deflate_.get());
  if (inflate_ != nullptr) inflateEnd(inflate_.get());
}

PackedPtr PackedObjects::KeepObject(ObjectPtr object, size_t count) {
  auto packed = std::make_shared<PackedObject>();
  packed->version_ = object->resource_version();
  if (count < parsed_) {
    packed->object_ = std::move(object);
    return packed;
  }
  const std::string text = base::json::Dump(object->json());
  packed->live_ = object;
  packed->text_ = CompressText(text);
  if (packed->text_.empty()) {
    packed->text_ = text;
  } else {
    packed->size_ = text.size();
  }
  packed->text_.shrink_to_fit();
  return packed;
}

PackedObjects::ObjectPtr PackedObjects::Get(PackedObject& packed) {
  if (packed.object_ != nullptr) return packed.object_;
  ObjectPtr object = packed.live_.lock();
  if (object == nullptr) {
    auto parsed = base::json::Parse(
        packed.size_ > 0 ? ExpandText(packed.text_, packed.size_) : packed.text_, kNoLimits);
    if (!parsed.ok()) {
      // This code wrote the text itself, so only a fault of this code or of the memory leads here.
      LOG_ERROR("a packed object cannot be read: {}", base::ToString(parsed.status()));
      std::abort();
    }
    object = factory_(*std::move(parsed));
    packed.live_ = object;
  }
  if (recent_.size() < kRecent) {
    recent_.push_back(object);
  } else {
    recent_[next_recent_++ % kRecent] = object;
  }
  return object;
}

// Returns an empty text if zlib fails.
std::string PackedObjects::CompressText(std::string_view text) {
  if (deflate_ == nullptr) {
    auto stream = std::make_unique<z_stream>();
    if (deflateInit2(stream.get(), kLevel, Z_DEFLATED, kWindowBits, kMemoryLevel,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      return {};
    }
    deflate_ = std::move(stream);
    dictionary_ = text.substr(0, kMaxDictionary);
  }
  z_stream& stream = *deflate_;
  if (deflateReset(&stream) != Z_OK ||
      deflateSetDictionary(&stream, Bytes(dictionary_), static_cast<uInt>(dictionary_.size())) !=
          Z_OK) {
    return {};
  }
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = Bytes(text);
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = Bytes(out);
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) return {};
  return out.substr(0, stream.total_out);
}

// Returns an empty text if `packed` was not made by Compress.
std::string PackedObjects::ExpandText(std::string_view packed, size_t size) {
  if (inflate_ == nullptr) {
    auto stream = std::make_unique<z_stream>();
    if (inflateInit2(stream.get(), kWindowBits) != Z_OK) return {};
    inflate_ = std::move(stream);
  }
  z_stream& stream = *inflate_;
  if (inflateReset(&stream) != Z_OK ||
      inflateSetDictionary(&stream, Bytes(dictionary_), static_cast<uInt>(dictionary_.size())) !=
          Z_OK) {
    return {};
  }
  std::string out(size, '\0');
  stream.next_in = Bytes(packed);
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = Bytes(out);
  stream.avail_out = static_cast<uInt>(out.size());
  if (inflate(&stream, Z_FINISH) != Z_STREAM_END || stream.total_out != size) return {};
  return out;
}

}  // namespace berth::kube
