// One message of netlink(7), which programs make and read without a library. Not thread-safe.
#pragma once

#include <linux/netlink.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace berth::base::netlink {

// The bytes of a structure of the kernel. Borrows it.
template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// A request. Attributes are added after the structure that its type begins with, for example an
// ifinfomsg.
class Message {
 public:
  // `flags` beside NLM_F_REQUEST.
  template <typename Head>
  Message(uint16_t type, uint16_t flags, const Head& head) : type_(type), flags_(flags) {
    bytes_.resize(NLMSG_HDRLEN);
    bytes_ += BytesOf(head);
    Pad();
  }
  Message& Add(uint16_t type, std::string_view value);
  template <typename T>
  Message& AddNumber(uint16_t type, T number) {
    return Add(type, BytesOf(number));
  }
  // With the zero that ends it.
  Message& AddText(uint16_t type, const std::string& text) {
    return Add(type, std::string_view(text.c_str(), text.size() + 1));
  }
  // Begins a nested attribute: all that is added until EndNested is in it. Returns its offset, for
  // EndNested.
  size_t BeginNested(uint16_t type);
  void EndNested(size_t at);

  uint16_t flags() const { return flags_; }
  // The message with its header.
  std::string Finish(uint32_t sequence) const;

 private:
  void Pad() { bytes_.resize(NLMSG_ALIGN(bytes_.size())); }

  const uint16_t type_, flags_;
  std::string bytes_;
};

// The structure at the begin of `bytes`, which is cut off; nullopt: they are too short.
template <typename Head>
std::optional<Head> CutHead(std::string_view& bytes) {
  if (bytes.size() < sizeof(Head)) return std::nullopt;
  Head head;
  memcpy(&head, bytes.data(), sizeof head);
  bytes.remove_prefix(std::min<size_t>(NLMSG_ALIGN(sizeof head), bytes.size()));
  return head;
}

// The value of the first attribute of that type; nullopt: there is none. Whatever the bytes are,
// nothing outside of them is read.
std::optional<std::string_view> FindAttribute(std::string_view attributes, uint16_t type);

template <typename T>
std::optional<T> FindNumber(std::string_view attributes, uint16_t type) {
  const auto value = FindAttribute(attributes, type);
  if (!value.has_value() || value->size() != sizeof(T)) return std::nullopt;
  T number;
  memcpy(&number, value->data(), sizeof number);
  return number;
}

// A text without the zero that ends it; "": there is none.
std::string FindText(std::string_view attributes, uint16_t type);

}  // namespace berth::base::netlink
