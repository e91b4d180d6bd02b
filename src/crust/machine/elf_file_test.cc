#include "crust/machine/elf_file.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crust {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

// An ELF file with one segment of all of it, which is loaded at 0x1000.
std::string MakeElf(const std::string& interpreter, const std::vector<std::string>& libraries) {
  constexpr uint64_t kBase = 0x1000;
  constexpr size_t kSegments = 3;
  std::string texts(1, '\0');
  std::vector<Elf64_Dyn> entries;
  for (const std::string& library : libraries) {
    entries.push_back({.d_tag = DT_NEEDED, .d_un = {.d_val = texts.size()}});
    texts += library + '\0';
  }
  const uint64_t dynamic = sizeof(Elf64_Ehdr) + kSegments * sizeof(Elf64_Phdr);
  const uint64_t text = dynamic + (entries.size() + 2) * sizeof(Elf64_Dyn);
  entries.push_back({.d_tag = DT_STRTAB, .d_un = {.d_ptr = kBase + text}});
  entries.push_back({.d_tag = DT_NULL, .d_un = {}});
  const uint64_t end = text + texts.size() + interpreter.size() + 1;

  Elf64_Ehdr header = {};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = kSegments;
  Elf64_Phdr load = {}, path = {}, needs = {};
  load.p_type = PT_LOAD;
  load.p_vaddr = kBase;
  load.p_filesz = end;
  path.p_type = interpreter.empty() ? PT_NULL : PT_INTERP;
  path.p_offset = text + texts.size();
  needs.p_type = PT_DYNAMIC;
  needs.p_offset = dynamic;
  needs.p_filesz = entries.size() * sizeof(Elf64_Dyn);

  std::string file;
  const auto add = [&](const auto& object) {
    file.append(reinterpret_cast<const char*>(&object), sizeof object);
  };
  add(header);
  for (const Elf64_Phdr& segment : {load, path, needs}) add(segment);
  for (const Elf64_Dyn& entry : entries) add(entry);
  return file + texts + interpreter + '\0';
}

TEST(ElfFileTest, TellsTheInterpreterAndTheLibraries) {
  const auto needs = ReadElfNeeds(MakeElf("/lib64/ld.so", {"libone.so.1", "libc.so.6"}));
  ASSERT_OK(needs);
  EXPECT_EQ(needs->interpreter, "/lib64/ld.so");
  EXPECT_THAT(needs->libraries, ElementsAre("libone.so.1", "libc.so.6"));
}

TEST(ElfFileTest, NoPrefixOfAFileIsTakenForTheWhole) {
  const std::string file = MakeElf("/lib64/ld.so", {"libone.so.1"});
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_EQ(ReadElfNeeds(file.substr(0, size)).status().code(), StatusCode::kInvalidArgument)
        << size;
  }
  EXPECT_TRUE(ReadElfNeeds(file).ok());
}

TEST(ElfFileTest, ALibraryThatIsAPathIsRefused) {
  EXPECT_EQ(ReadElfNeeds(MakeElf("", {"../../etc/shadow"})).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ElfFileTest, AProgramIsReadWithAllThatItsLibrariesNeedEachOnce) {
  const platform::TempFolder folder;
  const auto write = [&](const std::string& name, const std::string& content) {
    std::filesystem::create_directories((folder / name).substr(0, (folder / name).rfind('/')));
    std::ofstream(folder / name) << content;
  };
  write("program", MakeElf(folder / "ld.so", {"liba.so", "libb.so"}));
  write("ld.so", MakeElf("", {}));
  write("first/liba.so.1.2", MakeElf("", {"libc.so"}));
  std::filesystem::create_symlink("liba.so.1.2", folder / "first/liba.so");
  write("second/liba.so", "not the first");
  write("second/libb.so", MakeElf("", {"libc.so"}));
  write("second/libc.so", MakeElf("", {"libb.so"}));
  const std::vector<std::string> folders = {folder / "first", folder / "second"};
  const auto files = ReadProgram(folder / "program", folders);
  ASSERT_OK(files);
  std::vector<std::string> paths;
  for (const ProgramFile& file : *files) paths.push_back(file.path);
  EXPECT_THAT(paths, testing::UnorderedElementsAre(
                         folder / "program", folder / "ld.so", folder / "first/liba.so",
                         folder / "second/libb.so", folder / "second/libc.so"));
  EXPECT_EQ(files->front().path, folder / "program");

  std::filesystem::remove(folder / "second/libc.so");
  const auto missing = ReadProgram(folder / "program", folders);
  EXPECT_EQ(missing.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(missing.status())), HasSubstr("'libc.so'"));
  std::ofstream(folder / "program") << "#!/bin/sh\n";
  EXPECT_EQ(ReadProgram(folder / "program", folders).status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace berth::crust
