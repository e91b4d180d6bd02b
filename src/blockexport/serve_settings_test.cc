#include "blockexport/serve_settings.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "base/assert_ok.h"
#include "base/ipc/export_call.h"
#include "base/unique_fd.h"

namespace berth::blockexport {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::Not;

// Reads `text` from a pipe that another thread fills.
base::StatusOr<base::Json> ReadFromPipe(const std::string& text) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const base::UniqueFd output(ends[0]);
  base::UniqueFd input(ends[1]);
  const std::jthread filling([&] {
    for (size_t put = 0; put < text.size();) {
      const ssize_t n =
          write(input.get(), text.data() + put, std::min<size_t>(777, text.size() - put));
      if (n <= 0) break;
      put += static_cast<size_t>(n);
    }
    input.Reset();
  });
  auto settings = ReadSettings(output.get());
  std::string rest(1 << 16, '\0');
  while (read(output.get(), rest.data(), rest.size()) > 0) {
  }
  return settings;
}

TEST(ServeSettingsTest, AreReadToTheirEnd) {
  const std::string key(30'000, 'k');
  const auto settings = ReadFromPipe(R"({"socket": "/s", "file": "/f", "key": ")" + key + "\"}");
  ASSERT_OK(settings);
  EXPECT_EQ(base::json::String(*settings, {"key"}), key);
  const auto options = ParseExportOptions(*settings);
  ASSERT_OK(options);
  EXPECT_EQ(options->socket, "/s");
  EXPECT_EQ(options->file, "/f");
}

TEST(ServeSettingsTest, ThatAreNoObjectOrTooLongAreRefusedWithoutTheirText) {
  for (const std::string& text :
       {std::string(), std::string("[\"precious\"]"), std::string("{\"key\": precious"),
        "{\"key\": \"precious" + std::string(base::ipc::volume_export::kMostSettings, ' ') +
            "\"}"}) {
    const base::Status refused = ReadFromPipe(text).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(base::Message(refused), Not(HasSubstr("precious")));
  }
}

TEST(ServeSettingsTest, NeedTheSocketAndTheFileAsAbsolutePaths) {
  EXPECT_FALSE(ParseExportOptions({{"socket", "/s"}}).ok());
  EXPECT_FALSE(ParseExportOptions({{"socket", "s"}, {"file", "/f"}}).ok());
  EXPECT_FALSE(ParseExportOptions({{"socket", "/s"}, {"file", 5}}).ok());
}

}  // namespace
}  // namespace berth::blockexport
