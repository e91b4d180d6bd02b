// What is wrong with a Flexvolume driver, in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::volume {

struct Finding {
  // A driver with a fault fails somewhere for somebody; a remark is worth a thought.
  enum class Weight { kFault, kRemark };
  Weight weight = Weight::kFault;
  std::string rule;   // "mount-again", which names the finding for scripts
  std::string call;   // the command that showed it, "mount"
  std::string words;  // what it did, why that matters
};

class Findings {
 public:
  // The first of a rule and a call counts.
  void Add(Finding finding);
  void Fault(std::string_view rule, std::string_view call, std::string words);
  void Remark(std::string_view rule, std::string_view call, std::string words);

  const std::vector<Finding>& all() const { return all_; }
  bool has_faults() const;
  bool Has(std::string_view rule, std::string_view call) const;

 private:
  std::vector<Finding> all_;
};

}  // namespace berth::volume
