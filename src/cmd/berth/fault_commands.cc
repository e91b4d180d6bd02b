#include "base/fault.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"

namespace berth::cmd {

void AddFaultCommands(CLI::App& app) {
  CLI::App* faults = app.add_subcommand("faults", "Places at which a test can make Berth fail");
  faults->require_subcommand(1);
  CLI::App* list = faults->add_subcommand("list", "Name all fault points, one a line");
  list->footer(
      "BERTH_FAULTS in the environment of a Berth process switches points on:\n"
      "  [ROLE/]NAME=ACTION[@WHEN],...\n"
      "ROLE    up, csi-driver, ...: only in that process\n"
      "NAME    a point; * stands for any text\n"
      "ACTION  crash, error[:CODE], delay:MS, or, at the '.after' of a request, cut:\n"
      "        the request is done and its answer is lost\n"
      "WHEN    N: at the N-th passage alone; P%SEED: at P of 100 passages, by the seed");
  list->callback([] {
    for (const std::string& name : base::ListFaultPoints()) cli::Print(name + "\n");
  });
}

}  // namespace berth::cmd
