// Writes JSON values as YAML text.

#include "api/codecs/yaml.h"
#include "api/codecs/yaml_scalar.h"

namespace berth::api {
namespace {

using base::Json;

bool IsPlain(const std::string& text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ' || text.back() == ':') return false;
  if (std::string_view("-?:,[]{}#&*!|>'\"%@`").find(text.front()) != std::string_view::npos) {
    // "-x", "?x" and ":x" need no quotes, because these characters are indicators only before a
    // blank.
    const bool indicator = std::string_view("-?:").find(text.front()) == std::string_view::npos;
    if (indicator || text.size() == 1 || text[1] == ' ' || text[1] == '-') return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7f || c >= 0x80) return false;
    if (c == ':' && text[i + 1] == ' ') return false;
    if (c == ' ' && text[i + 1] == '#') return false;
  }
  return !text.starts_with("<<") && !text.starts_with("=") && ResolvePlainScalar(text).is_string();
}

bool IsPrintable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u >= 0x20 && u < 0x7f;
  });
}

// Whether `text` can be a block scalar. A text with carriage returns, other control characters, or
// blanks at the end of a line cannot, because they would be lost.
bool FitsBlock(const std::string& text) {
  if (text.find('\n') == std::string::npos || text.front() == '\n' || text.front() == ' ')
    return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto u = static_cast<unsigned char>(text[i]);
    if (u != '\n' && u != '\t' && (u < 0x20 || u >= 0x7f)) return false;
    if (u == '\n' && i > 0 && (text[i - 1] == ' ' || text[i - 1] == '\t')) return false;
  }
  return text.find_first_not_of('\n') != std::string::npos;
}

void WriteBlock(std::string& out, const std::string& text, int indent) {
  std::string_view body = text;
  const bool ends = body.ends_with('\n');
  const bool more = body.ends_with("\n\n");
  out += ends ? more ? "|+" : "|" : "|-";
  if (ends) body.remove_suffix(1);
  while (true) {
    const size_t end = body.find('\n');
    const std::string_view line = body.substr(0, end);
    out += '\n';
    if (!line.empty()) {
      out.append(static_cast<size_t>(indent), ' ');
      out += line;
    }
    if (end == std::string_view::npos) break;
    body.remove_prefix(end + 1);
  }
}

void WriteString(std::string& out, const std::string& text, int indent) {
  if (IsPlain(text)) {
    out += text;
  } else if (FitsBlock(text)) {
    WriteBlock(out, text,
               std::max(indent, 2));  // at least 2, also if the text is the whole document
  } else if (text.empty() || !IsPrintable(text) || !ResolvePlainScalar(text).is_string()) {
    // Every JSON string is also a double-quoted YAML scalar.
    out += base::json::Dump(Json(text));
  } else {
    out += '\'';
    for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
    out += '\'';
  }
}

void WriteValue(std::string& out, const Json& value, int indent, bool in_list);

void WriteMember(std::string& out, const Json& value, int indent) {
  if (value.is_object() && !value.empty()) {
    out += '\n';
    WriteValue(out, value, indent + 2, false);
  } else if (value.is_array() && !value.empty()) {
    // kubectl does not indent a list below its key.
    out += '\n';
    WriteValue(out, value, indent, false);
  } else {
    out += ' ';
    WriteValue(out, value, indent + 2, false);
    out += '\n';
  }
}

// Objects and arrays end with a newline, scalars do not. `in_list`: the first line is indented
// already.
void WriteValue(std::string& out, const Json& value, int indent, bool in_list) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  if (value.is_object() && !value.empty()) {
    bool first = in_list;
    for (const auto& [key, member] : value.items()) {
      if (!first) out += margin;
      first = false;
      if (IsPlain(key)) {
        out += key;
      } else {
        out += base::json::Dump(Json(key));
      }
      out += ':';
      WriteMember(out, member, indent);
    }
  } else if (value.is_array() && !value.empty()) {
    bool first = in_list;
    for (const Json& item : value) {
      if (!first) out += margin;
      first = false;
      out += "- ";
      WriteValue(out, item, indent + 2, true);
      if (!item.is_structured() || item.empty()) out += '\n';
    }
  } else if (value.is_string()) {
    WriteString(out, value.get_ref<const std::string&>(), indent);
  } else {
    out += base::json::Dump(value);  // null, true, 1, {}, []
  }
}

}  // namespace

std::string ToYaml(const Json& value) {
  std::string out;
  WriteValue(out, value, 0, false);
  if (out.empty() || out.back() != '\n') out += '\n';
  return out;
}

}  // namespace berth::api
