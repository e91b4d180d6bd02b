// Builds a Json from the events of nlohmann's parser, with a bounded depth. Unwanted members are
// left out during the parsing, because freeing them afterwards would cost more than parsing them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace berth::base::json {

// Every member `name` of an object that is itself a member named `of`, at any depth: {"metadata",
// "managedFields"}. An empty `of`: there is no such member.
struct UnwantedMember {
  std::string_view of;
  std::string_view name;
};

// As Parse, without the members `unwanted`.
StatusOr<Json> ParseWithout(UnwantedMember unwanted, std::string_view text,
                            const ParseLimits& limits = {});

// An event handler for Json::sax_parse.
class Builder {
 public:
  // Refuses a document that nests deeper than `max_depth` levels, because destroying a deep value
  // recurses.
  Builder(int max_depth, UnwantedMember unwanted) : max_depth_(max_depth), unwanted_(unwanted) {}

  Json TakeDocument() { return std::move(root_); }
  // Why the parser failed. Empty: it failed because the document is too deep.
  const std::string& error() const { return error_; }

  // The events; nlohmann::json_sax prescribes the names. false ends the parsing.
  bool null() { return PutValue(nullptr); }
  bool boolean(bool value) { return PutValue(value); }
  bool number_integer(Json::number_integer_t value) { return PutValue(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return PutValue(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return PutValue(value); }
  bool string(std::string& value) { return PutValue(value); }
  bool binary(Json::binary_t&) { return false; }  // JSON text has none
  bool start_object(size_t) { return OpenLevel(Json::value_t::object); }
  bool start_array(size_t) { return OpenLevel(Json::value_t::array); }
  bool end_object() { return CloseLevel(); }
  bool end_array() { return CloseLevel(); }
  bool key(std::string& name);
  bool parse_error(size_t position, const std::string& token, const Json::exception& error);

 private:
  struct Level {
    Json* value;
    bool has_unwanted;  // this object is a member named UnwantedMember::of
  };

  // Stores `value` as the document, as the next item of the open array, or as the value of member_.
  Json* PlaceValue(Json value);
  // As PlaceValue, unless the value is unwanted.
  bool PutValue(Json value);
  bool OpenLevel(Json::value_t type);
  bool CloseLevel();

  const int max_depth_;
  const UnwantedMember unwanted_;
  Json root_;
  std::vector<Level> levels_;
  Json* member_ = nullptr;       // the object's member whose value comes next
  bool opens_unwanted_ = false;  // that member is named UnwantedMember::of
  bool leave_out_ = false;       // the value that comes next is not wanted
  int left_out_levels_ = 0;      // open arrays and objects of an unwanted value
  std::string error_;
};

}  // namespace berth::base::json
