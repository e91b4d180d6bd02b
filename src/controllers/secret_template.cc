#include "controllers/secret_template.h"

#include "api/names.h"

namespace berth::controllers {

using api::Labels;
using api::SecretReference;
using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

StatusOr<std::string> Fill(std::string_view text, const Labels& tokens) {
  std::string out;
  while (!text.empty()) {
    const size_t start = text.find('$');
    out += text.substr(0, start);
    if (start == std::string_view::npos) break;
    text.remove_prefix(start);
    const size_t end = text.find('}');
    if (!text.starts_with("${") || end == std::string_view::npos) {
      return Error(StatusCode::kInvalidArgument, "malformed token at '{}': expected ${{...}}",
                   text);
    }
    const std::string token(text.substr(2, end - 2));
    const auto value = tokens.find(token);
    if (value == tokens.end()) {
      return Error(StatusCode::kInvalidArgument, "unknown token '${{{}}}'", token);
    }
    out += value->second;
    text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace

StatusOr<SecretReference> FillSecret(const SecretReference& templates, const Labels& in_namespace,
                                     const Labels& in_name) {
  Labels all = in_name;
  all.insert(in_namespace.begin(), in_namespace.end());
  const StatusOr<std::string> ns = Fill(templates.ns, in_namespace);
  RETURN_IF_ERROR_WITH(ns, fmt::format("secret namespace '{}'", templates.ns));
  RETURN_IF_ERROR_WITH(api::CheckDns1123Label(*ns), fmt::format("secret namespace '{}'", *ns));
  const StatusOr<std::string> name = Fill(templates.name, all);
  RETURN_IF_ERROR_WITH(name, fmt::format("secret name '{}'", templates.name));
  RETURN_IF_ERROR_WITH(api::CheckDns1123Subdomain(*name), fmt::format("secret name '{}'", *name));
  return SecretReference{.name = *name, .ns = *ns};
}

}  // namespace berth::controllers
