#include "base/json_builder.h"

namespace berth::base::json {

Json* Builder::PlaceValue(Json value) {
  if (levels_.empty()) {
    root_ = std::move(value);
    return &root_;
  }
  Json& parent = *levels_.back().value;
  if (parent.is_array()) {
    auto& items = parent.get_ref<Json::array_t&>();
    items.emplace_back(std::move(value));
    return &items.back();
  }
  *member_ = std::move(value);
  return member_;
}

bool Builder::PutValue(Json value) {
  if (left_out_levels_ > 0) return true;
  if (leave_out_) {
    leave_out_ = false;
    return true;
  }
  PlaceValue(std::move(value));
  return true;
}

bool Builder::OpenLevel(Json::value_t type) {
  if (static_cast<int>(levels_.size()) + left_out_levels_ >= max_depth_) return false;
  if (left_out_levels_ > 0 || leave_out_) {
    leave_out_ = false;
    ++left_out_levels_;
    return true;
  }
  const bool has_unwanted = opens_unwanted_ && type == Json::value_t::object;
  opens_unwanted_ = false;
  levels_.push_back({PlaceValue(Json(type)), has_unwanted});
  return true;
}

bool Builder::CloseLevel() {
  if (left_out_levels_ > 0) {
    --left_out_levels_;
  } else {
    levels_.pop_back();
  }
  return true;
}

bool Builder::key(std::string& name) {
  if (left_out_levels_ > 0) return true;
  if (levels_.back().has_unwanted && name == unwanted_.name) {
    leave_out_ = true;
    return true;
  }
  opens_unwanted_ = !unwanted_.of.empty() && name == unwanted_.of;
  auto& members = levels_.back().value->get_ref<Json::object_t&>();
  // The hint is right for most texts, because they have their members in order.
  member_ = &members.emplace_hint(members.end(), name, nullptr)->second;
  return true;
}

bool Builder::parse_error(size_t /*position*/, const std::string& /*token*/,
                          const Json::exception& error) {
  error_ = error.what();
  return false;
}

}  // namespace berth::base::json
