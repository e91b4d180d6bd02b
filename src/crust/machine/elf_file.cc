#include "crust/machine/elf_file.h"

#include <elf.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "platform/files/durable_file.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kLargestProgram = size_t{64} << 20;
constexpr size_t kMostFiles = 64;

// The object of type T at `offset`; nullopt: the file ends before its end.
template <typename T>
std::optional<T> ReadAt(std::string_view file, uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T object;
  memcpy(&object, file.data() + offset, sizeof(T));
  return object;
}

// The text at `offset` up to its zero byte; nullopt: it has no end.
std::optional<std::string> ReadTextAt(std::string_view file, uint64_t offset) {
  if (offset >= file.size()) return std::nullopt;
  const size_t end = file.find('\0', offset);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(file.substr(offset, end - offset));
}

struct Segments {
  std::vector<Elf64_Phdr> loads;
  std::optional<Elf64_Phdr> interpreter, dynamic;
};

std::optional<Segments> ReadSegments(std::string_view file) {
  const auto header = ReadAt<Elf64_Ehdr>(file, 0);
  if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_phentsize != sizeof(Elf64_Phdr)) {
    return std::nullopt;
  }
  Segments segments;
  for (size_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = ReadAt<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return std::nullopt;
    if (segment->p_type == PT_LOAD) segments.loads.push_back(*segment);
    if (segment->p_type == PT_INTERP) segments.interpreter = *segment;
    if (segment->p_type == PT_DYNAMIC) segments.dynamic = *segment;
  }
  return segments;
}

// Where the file has what is at `address` of the program.
std::optional<uint64_t> OffsetOf(uint64_t address, const Segments& segments) {
  for (const Elf64_Phdr& load : segments.loads) {
    if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz) {
      return load.p_offset + (address - load.p_vaddr);
    }
  }
  return std::nullopt;
}

// nullopt: the section is broken.
std::optional<std::vector<std::string>> ReadLibraries(std::string_view file,
                                                      const Segments& segments) {
  std::vector<std::string> libraries;
  if (!segments.dynamic) return libraries;
  std::vector<uint64_t> names;  // offsets in the table of texts
  std::optional<uint64_t> texts;
  for (uint64_t at = 0; at < segments.dynamic->p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto entry = ReadAt<Elf64_Dyn>(file, segments.dynamic->p_offset + at);
    if (!entry) return std::nullopt;
    if (entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
    if (entry->d_tag == DT_STRTAB) texts = OffsetOf(entry->d_un.d_ptr, segments);
  }
  for (const uint64_t name : names) {
    std::optional<std::string> text;
    if (texts && name < file.size()) text = ReadTextAt(file, *texts + name);
    // A name with a slash is a path, as no library of a distribution has it.
    if (!text || text->empty() || text->find('/') != std::string::npos) return std::nullopt;
    libraries.push_back(*std::move(text));
  }
  return libraries;
}

// Reads a file, also through symlinks, as which libraries have their names.
StatusOr<std::string> ReadThroughLinks(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  if (error) {
    return Error(StatusCode::kFailedPrecondition, "find {}: {}", Quote(path), error.message());
  }
  return platform::ReadFile(file, kLargestProgram);
}

StatusOr<std::string> FindLibrary(const std::string& name,
                                  const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::error_code error;
    if (std::filesystem::exists(folder + "/" + name, error)) return folder + "/" + name;
  }
  return Error(StatusCode::kFailedPrecondition, "this machine has no library {}", Quote(name));
}

}  // namespace

StatusOr<ElfNeeds> ReadElfNeeds(std::string_view file) {
  const std::optional<Segments> segments = ReadSegments(file);
  if (!segments) return Error(StatusCode::kInvalidArgument, "it is no 64-bit ELF file");
  ElfNeeds needs;
  if (segments->interpreter) {
    const auto path = ReadTextAt(file, segments->interpreter->p_offset);
    if (!path || !path->starts_with('/')) {
      return Error(StatusCode::kInvalidArgument, "its interpreter has no path");
    }
    needs.interpreter = *path;
  }
  auto libraries = ReadLibraries(file, *segments);
  if (!libraries) return Error(StatusCode::kInvalidArgument, "its dynamic section is broken");
  needs.libraries = *std::move(libraries);
  return needs;
}

std::vector<std::string> LoaderFolders() {
  return {"/lib/x86_64-linux-gnu",
          "/usr/lib/x86_64-linux-gnu",
          "/lib64",
          "/usr/lib64",
          "/lib",
          "/usr/lib"};
}

StatusOr<std::vector<ProgramFile>> ReadProgram(const std::string& program,
                                               const std::vector<std::string>& folders) {
  std::vector<ProgramFile> files;
  std::vector<std::string> open = {program};
  std::set<std::string> seen = {program};
  while (!open.empty()) {
    const std::string path = std::move(open.back());
    open.pop_back();
    if (files.size() >= kMostFiles) {
      return Error(StatusCode::kFailedPrecondition, "{} needs more than {} files", Quote(program),
                   kMostFiles);
    }
    ASSIGN_OR_RETURN(std::string content, ReadThroughLinks(path));
    const StatusOr<ElfNeeds> needs = ReadElfNeeds(content);
    if (!needs.ok()) {
      return Error(StatusCode::kFailedPrecondition, "read what {} needs: {}", Quote(path),
                   base::Message(needs.status()));
    }
    std::vector<std::string> wanted;
    if (!needs->interpreter.empty()) wanted.push_back(needs->interpreter);
    for (const std::string& library : needs->libraries) {
      ASSIGN_OR_RETURN(std::string found, FindLibrary(library, folders));
      wanted.push_back(std::move(found));
    }
    for (std::string& next : wanted) {
      if (seen.insert(next).second) open.push_back(std::move(next));
    }
    files.push_back({.path = path, .content = std::move(content)});
  }
  return files;
}

}  // namespace berth::crust
