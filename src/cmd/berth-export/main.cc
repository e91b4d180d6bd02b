// Serves an image of an image folder as a FUSE file:
//
//   berth-export serve
//
// The image is open as descriptor 3, with its lock. The settings are on standard input:
// {"socket": PATH, "file": PATH, "readOnly": BOOL} (blockexport/export_server.h). A failure before
// it serves is one line of JSON on standard output.
#include <cstdio>
#include <string_view>

#include "base/log.h"
#include "blockexport/file_store.h"
#include "blockexport/serve_settings.h"

namespace berth {
namespace {

constexpr int kImageFd = 3;

base::StatusOr<int> ServeImage() {
  ASSIGN_OR_RETURN(const base::Json settings, blockexport::ReadSettings(0));
  ASSIGN_OR_RETURN(const blockexport::ExportOptions options,
                   blockexport::ParseExportOptions(settings));
  ASSIGN_OR_RETURN(std::unique_ptr<blockexport::BlockStore> store,
                   blockexport::FileStore::Open(base::UniqueFd(kImageFd),
                                                base::json::Bool(settings, {"readOnly"})));
  return blockexport::RunExport(std::move(store), options);
}

}  // namespace
}  // namespace berth

int main(int argc, char** argv) {
  if (argc != 2 || std::string_view(argv[1]) != "serve") {
    fprintf(stderr, "usage: berth-export serve, with its settings on standard input\n");
    return 2;
  }
  berth::base::InitLogging("berth-export", 0);
  const auto exit_code = berth::ServeImage();
  if (exit_code.ok()) return *exit_code;
  berth::blockexport::ReportFailure(exit_code.status());
  return 1;
}
