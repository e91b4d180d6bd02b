#include "cli/manifests.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "api/codecs/yaml.h"
#include "base/files/whole_file.h"
#include "base/json.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::cli {
namespace {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kMaxManifest = 16 * 1024 * 1024;

StatusOr<std::string> ReadManifest(int fd, const std::string& name) {
  std::string text;
  const int error = base::ReadAll(fd, kMaxManifest, text);
  if (error == 0) return text;
  if (error != EFBIG) return platform::ErrnoError(error, fmt::format("read '{}'", name));
  return Error(StatusCode::kResourceExhausted, "'{}' is larger than {} MiB", name,
               kMaxManifest / 1024 / 1024);
}

StatusOr<std::vector<std::string>> ListFiles(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string extension = entry.path().extension();
    if (extension == ".yaml" || extension == ".yml" || extension == ".json") {
      files.push_back(entry.path());
    }
  }
  if (error) return Error(StatusCode::kInvalidArgument, "read '{}': {}", path, error.message());
  if (files.empty()) {
    return Error(StatusCode::kInvalidArgument, "'{}' holds no .yaml, .yml or .json file", path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

Status AddObject(Json json, const std::string& ns, const std::string& where, KindFinder& kinds,
                 std::vector<Manifest>& out) {
  api::Object object(std::move(json));
  if (object.kind() == "List") {
    for (const Json& item : base::json::Array(object.json(), {"items"})) {
      RETURN_IF_ERROR(AddObject(item, ns, where, kinds, out));
    }
    return base::OkStatus();
  }
  if (object.kind().empty() || object.api_version().empty()) {
    return Error(StatusCode::kInvalidArgument, "{}: an object needs 'apiVersion' and 'kind'",
                 where);
  }
  const auto found = kinds.FindForObject(object.api_version(), object.kind());
  if (!found.ok()) return base::Annotate(found.status(), where);
  const api::KindInfo* kind = *found;
  if (object.name().empty() && object.String({"metadata", "generateName"}).empty()) {
    return Error(StatusCode::kInvalidArgument, "{}: the {} has no metadata.name", where,
                 object.kind());
  }
  if (kind->namespaced && object.ns().empty()) object.set_ns(ns);
  out.push_back({kind, std::move(object), where});
  return base::OkStatus();
}

}  // namespace

StatusOr<std::vector<Manifest>> ReadManifests(const std::vector<std::string>& paths,
                                              const std::string& ns, KindFinder& kinds) {
  std::vector<Manifest> out;
  for (const std::string& path : paths) {
    std::vector<std::string> files = {path};
    if (path != "-") {
      ASSIGN_OR_RETURN(files, ListFiles(path));
    }
    for (const std::string& file : files) {
      std::string text;
      const std::string name = file == "-" ? "standard input" : file;
      if (file == "-") {
        ASSIGN_OR_RETURN(text, ReadManifest(STDIN_FILENO, name));
      } else {
        // The file may be a pipe, which a shell makes for <(command).
        const base::UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
        if (!fd.valid()) return platform::ErrnoError(errno, fmt::format("open '{}'", file));
        ASSIGN_OR_RETURN(text, ReadManifest(fd.get(), name));
      }
      auto documents = api::ParseYaml(text);
      if (!documents.ok()) return base::Annotate(documents.status(), name);
      for (size_t i = 0; i < documents->size(); ++i) {
        RETURN_IF_ERROR(AddObject(std::move((*documents)[i]), ns,
                                  fmt::format("{}, document {}", name, i + 1), kinds, out));
      }
    }
  }
  if (out.empty()) return Error(StatusCode::kInvalidArgument, "no objects were given");
  return out;
}

}  // namespace berth::cli
