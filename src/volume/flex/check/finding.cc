#include "volume/flex/check/finding.h"

#include <algorithm>

namespace berth::volume {

void Findings::Add(Finding finding) {
  if (!Has(finding.rule, finding.call)) all_.push_back(std::move(finding));
}

bool Findings::Has(std::string_view rule, std::string_view call) const {
  return std::any_of(all_.begin(), all_.end(), [rule, call](const Finding& finding) {
    return finding.rule == rule && finding.call == call;
  });
}

void Findings::AddFault(std::string_view rule, std::string_view call, std::string words) {
  Add({.weight = Finding::Weight::kFault,
       .rule = std::string(rule),
       .call = std::string(call),
       .words = std::move(words)});
}

void Findings::AddRemark(std::string_view rule, std::string_view call, std::string words) {
  Add({.weight = Finding::Weight::kRemark,
       .rule = std::string(rule),
       .call = std::string(call),
       .words = std::move(words)});
}

bool Findings::has_faults() const {
  return std::any_of(all_.begin(), all_.end(), [](const Finding& finding) {
    return finding.weight == Finding::Weight::kFault;
  });
}

}  // namespace berth::volume
