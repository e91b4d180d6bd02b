// The switches that make a double fail at run time: a file with one switch a line, "NAME" or
// "NAME:METHOD", which is read again at each call. Without the file no switch is on. Thread-safe.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace berth::doubles {

class Switches {
 public:
  explicit Switches(std::string file) : file_(std::move(file)) {}

  struct On {
    std::set<std::string, std::less<>> names;
    bool operator()(std::string_view rule) const { return names.contains(rule); }
    // True if the rule is switched on for this method, or for all methods.
    bool operator()(std::string_view rule, std::string_view method) const {
      return names.contains(std::string(rule) + ":" + std::string(method)) || names.contains(rule);
    }
  };
  On Read() const;

 private:
  const std::string file_;
};

}  // namespace berth::doubles
