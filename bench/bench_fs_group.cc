// Measures how long it takes to give a volume of many files to a group, and how long chown -R and
// chmod -R take for the same. Each run first brings the files into the state of its case:
//   both     group and mode must change
//   group    only the group must change
//   nothing  nothing must change
//   names    as nothing, but for a folder inside the volume, where each name is examined
//   root     as nothing, with the policy OnRootMismatch, which has no equivalent by hand

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/unique_fd.h"
#include "bench/measure.h"
#include "platform/errno.h"
#include "platform/processes/exec.h"
#include "platform/walks/ownership.h"

namespace berth::bench {
namespace {

using base::Json;
using base::Status;
using base::StatusOr;

constexpr gid_t kBefore = 4200, kAfter = 4201;
constexpr std::chrono::minutes kTimeout{5};

struct Options {
  std::string volume;  // the root of an empty file system; the tree is made below it
  int files = 200'000;
  int folders = 2'000;
  int runs = 30;
  int warm_up = 1;

  std::string Tree() const { return volume + "/tree"; }
};

Status MakeTree(const Options& options) {
  if (mkdir(options.Tree().c_str(), 0755) != 0) return platform::ErrnoError(errno, "make the tree");
  for (int i = 0; i < options.folders; ++i) {
    const std::string in = fmt::format("{}/{}", options.Tree(), i);
    if (mkdir(in.c_str(), 0755) != 0) return platform::ErrnoError(errno, "make " + in);
    for (int j = 0; j < options.files / options.folders; ++j) {
      const std::string path = fmt::format("{}/{}", in, j);
      if (!base::UniqueFd(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644)).valid()) {
        return platform::ErrnoError(errno, "make " + path);
      }
    }
  }
  return base::OkStatus();
}

Status RunCommand(std::vector<std::string> argv) {
  const auto exec = platform::NewHostExec();
  return platform::RunOk(*exec, {.argv = std::move(argv), .timeout = kTimeout}).status();
}

// Runs the commands that a person would type for the same.
Status ApplyByHand(const std::string& folder, gid_t group) {
  RETURN_IF_ERROR(RunCommand({"chown", "-R", fmt::format(":{}", group), folder}));
  return RunCommand({"chmod", "-R", "ug+rwX", folder});
}

// Applies the group with Berth's code, on a mount that is in no mount namespace, like that of a
// deferred volume.
Status ApplyWithBerth(const std::string& folder, gid_t group, bool root_only = false) {
  const base::UniqueFd root(
      open_tree(AT_FDCWD, folder.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!root.valid()) return platform::ErrnoError(errno, "clone the mount of " + folder);
  return platform::ApplyFsGroup(
      root.get(), folder, {.group = group, .only_on_root_mismatch = root_only, .exclusive = true});
}

// Brings the tree into its state before a run, and writes all of it to the disk, so that no run has
// to write the changes of an earlier one.
Status ResetTree(const std::string& folder, bool group, bool mode) {
  if (group) RETURN_IF_ERROR(RunCommand({"chown", "-R", fmt::format(":{}", kBefore), folder}));
  if (mode) RETURN_IF_ERROR(RunCommand({"chmod", "-R", "g-w", folder}));
  sync();
  return base::OkStatus();
}

template <typename Do>
StatusOr<Clock::duration> MeasureTime(Do work) {
  const auto start = Clock::now();
  RETURN_IF_ERROR(work());
  return Clock::now() - start;
}

StatusOr<Json> CompareCase(const Options& options, const std::string& folder, bool group,
                           bool mode) {
  Samples berth, by_hand;
  for (int i = 0; i < options.warm_up + options.runs; ++i) {
    for (const bool ours : {i % 2 == 0, i % 2 != 0}) {
      RETURN_IF_ERROR(ResetTree(folder, group, mode));
      ASSIGN_OR_RETURN(const auto took, MeasureTime([&] {
                         return ours ? ApplyWithBerth(folder, kAfter) : ApplyByHand(folder, kAfter);
                       }));
      if (i >= options.warm_up) (ours ? berth : by_hand).Add(took);
    }
  }
  return Json{{"berth", berth.ToJson()}, {"by_hand", by_hand.ToJson()}};
}

StatusOr<Json> RunAll(const Options& options) {
  RETURN_IF_ERROR(MakeTree(options));
  Json result;
  ASSIGN_OR_RETURN(result["both"], CompareCase(options, options.volume, true, true));
  ASSIGN_OR_RETURN(result["group"], CompareCase(options, options.volume, true, false));
  ASSIGN_OR_RETURN(result["nothing"], CompareCase(options, options.volume, false, false));
  ASSIGN_OR_RETURN(result["names"], CompareCase(options, options.Tree(), false, false));
  Samples root;
  for (int i = 0; i < options.warm_up + options.runs; ++i) {
    ASSIGN_OR_RETURN(const auto took,
                     MeasureTime([&] { return ApplyWithBerth(options.volume, kAfter, true); }));
    if (i >= options.warm_up) root.Add(took);
  }
  result["root"] = root.ToJson();
  return result;
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  berth::bench::Options options;
  CLI::App app("fsGroup of a large volume");
  app.add_option("--volume", options.volume, "The root of an empty file system")->required();
  app.add_option("--files", options.files);
  app.add_option("--folders", options.folders);
  app.add_option("--runs", options.runs);
  CLI11_PARSE(app, argc, argv);
  return berth::bench::PrintResult(berth::bench::RunAll(options));
}
