#include "kube/informers/json_packer.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/log.h"

namespace berth::kube {

namespace {

using base::Json;

// The first byte of a value. From kFirstKnown on it is the number of a string in the table.
enum Tag : uint8_t {
  kNull,
  kFalse,
  kTrue,
  kUnsigned,      // varint
  kNegative,      // varint of -1 - value
  kDouble,        // 8 bytes
  kArray,         // varint of the count, values
  kObject,        // varint of the count, strings and values in turns
  kText,          // varint of the size, bytes
  kUuid,          // 16 bytes
  kPrefixedUuid,  // a plain string (no UUID), 16 bytes
  kManyKnown,     // varint of the number in the table, less kFewKnown
  kFirstKnown,
};
constexpr uint32_t kFewKnown = 256 - kFirstKnown;

// Limits of the table. A longer string is seldom in several objects.
constexpr size_t kMostStrings = 4096;
constexpr size_t kLongestString = 128;
constexpr size_t kSights = 1024;  // strings that were seen last

constexpr size_t kUuidText = 36;
constexpr size_t kUuidBytes = 16;

bool IsDash(size_t position) {
  return position == 8 || position == 13 || position == 18 || position == 23;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Reads a UUID in its usual form, in lower case. Returns whether `text` is one.
bool ReadUuid(std::string_view text, std::array<char, kUuidBytes>& bytes) {
  if (text.size() != kUuidText) return false;
  size_t next = 0;
  for (size_t i = 0; i < kUuidText;) {
    if (IsDash(i)) {
      if (text[i++] != '-') return false;
      continue;
    }
    const int high = HexDigit(text[i]);
    const int low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[next++] = static_cast<char>(high << 4 | low);
    i += 2;
  }
  return true;
}

void AppendUuid(std::string_view bytes, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (size_t i = 0; i < kUuidBytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    const auto byte = static_cast<uint8_t>(bytes[i]);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
}

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

// Reads what Pack wrote. The bytes never left this process, so only a fault of this code or of the
// memory makes them unreadable.
class Reader {
 public:
  Reader(std::string_view packed, const std::pmr::deque<std::pmr::string>& strings)
      : rest_(packed), strings_(strings) {}

  Json ReadValue() {
    const uint8_t tag = ReadByte();
    switch (tag) {
      case kNull:
        return nullptr;
      case kFalse:
        return false;
      case kTrue:
        return true;
      case kUnsigned:
        return ReadVarint();
      case kNegative:
        return -1 - static_cast<int64_t>(ReadVarint());
      case kDouble: {
        uint64_t bits = 0;
        std::memcpy(&bits, ReadBytes(sizeof bits).data(), sizeof bits);
        return std::bit_cast<double>(bits);
      }
      case kArray: {
        Json array = Json::array();
        auto& items = array.get_ref<Json::array_t&>();
        const uint64_t count = ReadVarint();
        for (uint64_t i = 0; i < count; ++i) items.push_back(ReadValue());
        return array;
      }
      case kObject: {
        Json object = Json::object();
        auto& members = object.get_ref<Json::object_t&>();
        const uint64_t count = ReadVarint();
        for (uint64_t i = 0; i < count; ++i) {
          std::string name = ReadString(ReadByte());
          // They were written in the order of the map.
          members.emplace_hint(members.end(), std::move(name), ReadValue());
        }
        return object;
      }
      default:
        return ReadString(tag);
    }
  }

 private:
  void Check(bool readable) const {
    if (readable) return;
    LOG_ERROR("a packed object cannot be read");
    std::abort();
  }

  std::string_view ReadBytes(size_t size) {
    Check(size <= rest_.size());
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  uint8_t ReadByte() { return static_cast<uint8_t>(ReadBytes(1)[0]); }
  uint64_t ReadVarint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = ReadByte();
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    return value;
  }

  const std::pmr::string& FindKnown(uint64_t number) const {
    Check(number < strings_.size());
    return strings_[number];
  }

  std::string ReadPlain(uint8_t tag) {
    if (tag >= kFirstKnown) return std::string(FindKnown(tag - kFirstKnown));
    if (tag == kManyKnown) return std::string(FindKnown(ReadVarint() + kFewKnown));
    Check(tag == kText);
    return std::string(ReadBytes(ReadVarint()));
  }

  std::string ReadString(uint8_t tag) {
    if (tag != kUuid && tag != kPrefixedUuid) return ReadPlain(tag);
    std::string text;
    if (tag == kPrefixedUuid) text = ReadPlain(ReadByte());
    text.reserve(text.size() + kUuidText);
    AppendUuid(ReadBytes(kUuidBytes), text);
    return text;
  }

  std::string_view rest_;
  const std::pmr::deque<std::pmr::string>& strings_;
};

}  // namespace

std::string JsonPacker::Pack(const Json& value) {
  seen_.resize(kSights);
  ++value_;
  buffer_.clear();
  PackValue(value, buffer_);
  return buffer_;
}

Json JsonPacker::Unpack(std::string_view packed) const {
  return Reader(packed, strings_).ReadValue();
}

void JsonPacker::PackValue(const Json& value, std::string& out) {
  switch (value.type()) {
    case Json::value_t::boolean:
      out += static_cast<char>(value.get<bool>() ? kTrue : kFalse);
      return;
    case Json::value_t::number_integer:
      if (const auto number = value.get<int64_t>(); number < 0) {
        out += static_cast<char>(kNegative);
        AppendVarint(static_cast<uint64_t>(-1 - number), out);
        return;
      }
      [[fallthrough]];
    case Json::value_t::number_unsigned:
      out += static_cast<char>(kUnsigned);
      AppendVarint(value.get<uint64_t>(), out);
      return;
    case Json::value_t::number_float: {
      const auto bits = std::bit_cast<std::array<char, 8>>(value.get<double>());
      out += static_cast<char>(kDouble);
      out.append(bits.data(), bits.size());
      return;
    }
    case Json::value_t::string:
      PackString(value.get_ref<const std::string&>(), out);
      return;
    case Json::value_t::array:
      out += static_cast<char>(kArray);
      AppendVarint(value.size(), out);
      for (const Json& item : value) PackValue(item, out);
      return;
    case Json::value_t::object:
      out += static_cast<char>(kObject);
      AppendVarint(value.size(), out);
      for (const auto& [name, member] : value.get_ref<const Json::object_t&>()) {
        PackString(name, out);
        PackValue(member, out);
      }
      return;
    default:
      out += static_cast<char>(kNull);
      return;
  }
}

void JsonPacker::PackString(std::string_view text, std::string& out) {
  if (PackKnown(text, out)) return;
  std::array<char, kUuidBytes> uuid;
  if (text.size() >= kUuidText && ReadUuid(text.substr(text.size() - kUuidText), uuid)) {
    const std::string_view prefix = text.substr(0, text.size() - kUuidText);
    out += static_cast<char>(prefix.empty() ? kUuid : kPrefixedUuid);
    // A string of many UUIDs is shortened by its last one alone, because the depth of the stack
    // must not depend on its length.
    if (!prefix.empty() && !PackKnown(prefix, out)) PackText(prefix, out);
    out.append(uuid.data(), uuid.size());
    return;
  }
  PackText(text, out);
}

void JsonPacker::PackText(std::string_view text, std::string& out) {
  out += static_cast<char>(kText);
  AppendVarint(text.size(), out);
  out += text;
}

JsonPacker::Sight& JsonPacker::FindSight(uint64_t hash) {
  Sight& first = seen_[hash % seen_.size()];
  Sight& second = seen_[hash / seen_.size() % seen_.size()];
  if (first.hash == hash) return first;
  // Two strings that are in each object must not drive out each other.
  return second.hash == hash || first.value == value_ ? second : first;
}

bool JsonPacker::PackKnown(std::string_view text, std::string& out) {
  if (text.size() > kLongestString) return false;
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) {
    if (found->second < kFewKnown) {
      out += static_cast<char>(kFirstKnown + found->second);
    } else {
      out += static_cast<char>(kManyKnown);
      AppendVarint(found->second - kFewKnown, out);
    }
    return true;
  }
  // A string that occurs in this value only, such as its name, does not enter the table, even if it
  // occurs there twice.
  const uint64_t hash = numbers_.hash_function()(text);
  Sight& sight = FindSight(hash);
  const bool again = sight.hash == hash && sight.value != 0 && sight.value != value_;
  sight = {hash, value_};
  if (!again || strings_.size() >= kMostStrings) return false;
  const std::pmr::string& stored = strings_.emplace_back(text);
  numbers_.emplace(stored, static_cast<uint32_t>(strings_.size() - 1));
  return PackKnown(text, out);
}

}  // namespace berth::kube
