// The errors that a double must make at run time: a file with one switch a line, "NAME" or
// "NAME:METHOD", which is read anew at each call. Without the file there are none. Thread-safe.
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
    // For one method of many, or for all.
    bool operator()(std::string_view rule, std::string_view method) const {
      return names.contains(std::string(rule) + ":" + std::string(method)) || names.contains(rule);
    }
  };
  On Read() const;

 private:
  const std::string file_;
};

}  // namespace berth::doubles
