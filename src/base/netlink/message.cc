#include "base/netlink/message.h"

#include <algorithm>

namespace berth::base::netlink {

Message& Message::Add(uint16_t type, std::string_view value) {
  nlattr attribute = {};
  attribute.nla_type = type;
  attribute.nla_len = static_cast<uint16_t>(NLA_HDRLEN + value.size());
  bytes_ += BytesOf(attribute);
  bytes_ += value;
  Pad();
  return *this;
}

size_t Message::BeginNested(uint16_t type) {
  const size_t at = bytes_.size();
  Add(static_cast<uint16_t>(type | NLA_F_NESTED), "");
  return at;
}

void Message::EndNested(size_t at) {
  nlattr attribute;
  memcpy(&attribute, bytes_.data() + at, sizeof attribute);
  attribute.nla_len = static_cast<uint16_t>(bytes_.size() - at);
  memcpy(bytes_.data() + at, &attribute, sizeof attribute);
}

std::string Message::Finish(uint32_t sequence) const {
  nlmsghdr header = {};
  header.nlmsg_len = static_cast<uint32_t>(bytes_.size());
  header.nlmsg_type = type_;
  header.nlmsg_flags = static_cast<uint16_t>(flags_ | NLM_F_REQUEST);
  header.nlmsg_seq = sequence;
  std::string message = bytes_;
  memcpy(message.data(), &header, sizeof header);
  return message;
}

std::optional<std::string_view> FindAttribute(std::string_view attributes, uint16_t type) {
  constexpr uint16_t kType = static_cast<uint16_t>(NLA_TYPE_MASK);
  while (attributes.size() >= sizeof(nlattr)) {
    nlattr attribute;
    memcpy(&attribute, attributes.data(), sizeof attribute);
    if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > attributes.size()) break;
    if ((attribute.nla_type & kType) == type) {
      return attributes.substr(NLA_HDRLEN, attribute.nla_len - NLA_HDRLEN);
    }
    attributes.remove_prefix(std::min<size_t>(NLA_ALIGN(attribute.nla_len), attributes.size()));
  }
  return std::nullopt;
}

std::string FindText(std::string_view attributes, uint16_t type) {
  const std::string_view value = FindAttribute(attributes, type).value_or("");
  return std::string(value.substr(0, value.find('\0')));
}

}  // namespace berth::base::netlink
