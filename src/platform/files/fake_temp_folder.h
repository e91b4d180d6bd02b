// A folder under the temporary folder that goes with the object, for tests.
#pragma once

#include <string>
#include <string_view>

namespace berth::platform {

class TempFolder {
 public:
  TempFolder();
  // Lazily unmounts everything that is mounted inside, and removes the tree.
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Makes a sparse file and returns its path.
  std::string SparseFile(std::string_view name, uint64_t bytes) const;

 private:
  std::string path_;
};

}  // namespace berth::platform
