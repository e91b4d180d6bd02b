// Builds a Json from the events of nlohmann's parser, with a bounded depth. It leaves unwanted
// members out while it parses, because to free them afterwards would cost more than to parse them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace berth::base::json {

// A member `name` of the objects that are a member `of`: {"metadata", "managedFields"}.
struct UnwantedMember {
  std::string_view of;
  std::string_view name;
};

// As Parse, leaving `unwanted` out.
StatusOr<Json> ParseWithout(UnwantedMember unwanted, std::string_view text,
                            const ParseLimits& limits = {});

// An event handler for Json::sax_parse.
class Builder {
 public:
  // Refuses what nests deeper than `max_depth` levels: destroying a deep value recurses.
  Builder(int max_depth, UnwantedMember unwanted) : max_depth_(max_depth), unwanted_(unwanted) {}

  Json TakeDocument() { return std::move(root_); }
  // Why it ended. Empty: the parser gave no reason, because the value is too deep.
  const std::string& error() const { return error_; }

  bool null() { return Put(nullptr); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(Json::number_integer_t value) { return Put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Put(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return Put(value); }
  bool string(std::string& value) { return Put(value); }
  bool binary(Json::binary_t&) { return false; }  // JSON text has none
  bool start_object(size_t) { return Open(Json::value_t::object); }
  bool start_array(size_t) { return Open(Json::value_t::array); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& name);
  bool parse_error(size_t position, const std::string& token, const Json::exception& error);

 private:
  struct Level {
    Json* value;
    bool has_unwanted;  // this object is a member `of`
  };

  // Places a value where the parser is.
  Json* PlaceValue(Json value);
  bool Put(Json value);
  bool Open(Json::value_t type);
  bool Close();

  const int max_depth_;
  const UnwantedMember unwanted_;
  Json root_;
  std::vector<Level> levels_;
  Json* member_ = nullptr;       // the object's member whose value comes next
  bool opens_unwanted_ = false;  // that member is an `of`
  bool leave_out_ = false;       // the value that comes next is not wanted
  int left_out_levels_ = 0;      // within such a value
  std::string error_;
};

}  // namespace berth::base::json
