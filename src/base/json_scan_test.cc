#include "base/json_scan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace berth::base::json {
namespace {

// Builds the value that was walked over.
class Builder {
 public:
  Json value;

  bool Null() { return Put(nullptr); }
  bool Boolean(bool boolean) { return Put(boolean); }
  bool Integer(int64_t integer) { return Put(integer); }
  bool Number(double number, std::string_view /*text*/) { return Put(number); }
  bool String(std::string_view text) { return Put(std::string(text)); }
  bool Key(std::string_view name) {
    key_ = name;
    return true;
  }
  bool StartObject() { return Open(Json::object()); }
  bool StartArray() { return Open(Json::array()); }
  bool EndObject() { return Close(); }
  bool EndArray() { return Close(); }

 private:
  bool Put(Json item) {
    *PlaceItem() = std::move(item);
    return true;
  }
  Json* PlaceItem() {
    if (open_.empty()) return &value;
    Json& parent = *open_.back();
    if (parent.is_object()) return &parent[key_];
    parent.push_back(nullptr);
    return &parent.back();
  }
  bool Open(Json empty) {
    Json* place = PlaceItem();
    *place = std::move(empty);
    open_.push_back(place);
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;
  std::string key_;
};

TEST(JsonScan, MeetsWhatAParserReads) {
  for (
      const std::string_view text :
      {R"({"a":1,"b":[true,false,null,-5,1.5,1e3,"x"],"c":{},"d":[],"e":{"f":[[1],[2,{"g":"h"}]]}})",
       R"("a\"b\\c\/d\b\f\n\r\tz\u0041\u00e9\u20ac\ud83d\ude00é€😀")",
       R"([0,-0.5,9007199254740993])", R"( { "a" : [ 1 , 2 ] } )", "7", "null", R"({"":""})"}) {
    Builder builder;
    EXPECT_TRUE(Scan(text, builder)) << text;
    EXPECT_EQ(builder.value, Json::parse(text)) << text;
  }
}

TEST(JsonScan, StopsWhereTextGoesWrong) {
  for (const std::string_view text :
       {"", "{", "[1", R"({"a")", R"("a)", R"("\)", R"("\u12)", R"("\ud800")", R"("\ud800\u0041")",
        R"("\x")", "}", "]", "tru", "-", "x"}) {
    Builder builder;
    EXPECT_FALSE(Scan(text, builder)) << text;
  }
}

}  // namespace
}  // namespace berth::base::json
