// A fault of a Flexvolume driver, described for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::volume {

struct Finding {
  // A driver with a fault fails for some user in some situation; a remark is only advice.
  enum class Weight { kFault, kRemark };
  Weight weight = Weight::kFault;
  std::string rule;   // "mount-again", which names the finding for scripts
  std::string call;   // the command that showed it, "mount"
  std::string words;  // what the driver did, and why that matters
};

class Findings {
 public:
  // Only the first finding of a rule and a call is kept.
  void Add(Finding finding);
  void AddFault(std::string_view rule, std::string_view call, std::string words);
  void AddRemark(std::string_view rule, std::string_view call, std::string words);

  const std::vector<Finding>& all() const { return all_; }
  bool has_faults() const;
  bool Has(std::string_view rule, std::string_view call) const;

 private:
  std::vector<Finding> all_;
};

}  // namespace berth::volume
