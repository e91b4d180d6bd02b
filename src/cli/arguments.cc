#include "cli/arguments.h"

namespace berth::cli {
namespace {

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t comma; (comma = text.find(',', start)) != std::string::npos; start = comma + 1) {
    parts.push_back(text.substr(start, comma - start));
  }
  parts.push_back(text.substr(start));
  return parts;
}

}  // namespace

StatusOr<std::vector<Target>> ParseTargets(const std::vector<std::string>& words,
                                           KindFinder& kinds) {
  if (words.empty()) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "say which kind: for example 'pods', or 'pod/NAME'");
  }
  std::vector<Target> targets;
  const bool slashes = words[0].find('/') != std::string::npos;
  if (!slashes) {
    const std::vector<std::string> parts = SplitAtCommas(words[0]);
    const std::vector<std::string> names(words.begin() + 1, words.end());
    for (const std::string& word : parts) {
      ASSIGN_OR_RETURN(const api::KindInfo* kind, kinds.FindByWord(word));
      targets.push_back({kind, names});
    }
    return targets;
  }
  for (const std::string& word : words) {
    const size_t slash = word.find('/');
    if (slash == std::string::npos || slash + 1 == word.size()) {
      return base::Error(
          base::StatusCode::kInvalidArgument,
          "'{}' is not KIND/NAME: if the first word is KIND/NAME, the others must be, too", word);
    }
    ASSIGN_OR_RETURN(const api::KindInfo* kind, kinds.FindByWord(word.substr(0, slash)));
    targets.push_back({kind, {word.substr(slash + 1)}});
  }
  return targets;
}

std::string NamespaceFor(const api::KindInfo& kind, const ApiOptions& options) {
  return kind.namespaced ? options.ns : "";
}

}  // namespace berth::cli
