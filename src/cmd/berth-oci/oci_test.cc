#include "cmd/berth-oci/oci.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/ipc/message.h"
#include "cmd/berth-oci/annotations.h"
#include "cmd/berth-oci/arguments.h"
#include "cmd/berth-oci/create.h"
#include "cmd/berth-oci/runtime.h"
#include "cmd/berth-oci/runtime_log.h"

namespace berth::oci {
namespace {

using base::ipc::Problem;

TEST(ArgumentsTest, AreReadAsTheShimGivesThem) {
  const Arguments create = ReadArguments(
      {"berth-oci", "--root", "/run/runc/k8s.io", "--log", "/b/log.json", "--log-format", "json",
       "--systemd-cgroup", "create", "--bundle", "/b", "--pid-file", "/b/init.pid", "abc"});
  EXPECT_EQ(create.command, "create");
  EXPECT_EQ(create.bundle, "/b");
  EXPECT_EQ(create.log, "/b/log.json");
  EXPECT_TRUE(create.log_is_json);
  EXPECT_EQ(create.id, "abc");

  const Arguments remove =
      ReadArguments({"berth-oci", "--root=/r", "--log=/l", "delete", "--force", "abc"});
  EXPECT_EQ(remove.command, "delete");
  EXPECT_EQ(remove.id, "abc");
  EXPECT_EQ(remove.log, "/l");
  EXPECT_FALSE(remove.log_is_json);

  const Arguments run = ReadArguments({"berth-oci", "run", "-b", "/b", "--no-pivot", "x"});
  EXPECT_EQ(run.bundle, "/b");
  EXPECT_EQ(run.id, "x");
  const Arguments kill = ReadArguments({"berth-oci", "--root", "/r", "kill", "--all", "x", "9"});
  EXPECT_EQ(kill.root, "/r");
  EXPECT_TRUE(kill.all);
  EXPECT_THAT(kill.words, testing::ElementsAre("x", "9"));
  const Arguments exec = ReadArguments({"berth-oci", "exec", "--process", "/p", "--console-socket",
                                        "/s", "--detach", "--pid-file", "/f", "x"});
  EXPECT_EQ(exec.process, "/p");
  EXPECT_EQ(exec.console_socket, "/s");
  EXPECT_EQ(exec.pid_file, "/f");
  EXPECT_TRUE(exec.detach);
  EXPECT_EQ(exec.id, "x");
  EXPECT_EQ(ReadArguments({"berth-oci", "ps", "--format", "json", "x"}).id, "x");
  EXPECT_EQ(ReadArguments({"berth-oci", "update", "--resources=-", "x"}).resources, "-");
  // A folder by that name is no command.
  EXPECT_EQ(ReadArguments({"berth-oci", "--root", "create", "list"}).command, "list");
  EXPECT_EQ(ReadArguments({"berth-oci", "--version"}).command, "");
  EXPECT_EQ(ReadArguments({"berth-oci", "--root"}).command, "");
  EXPECT_EQ(ReadArguments({}).command, "");
}

std::string AnnotationOf(std::string_view config) {
  const auto read = ReadAnnotations(config);
  if (!read.ok()) return "failed";
  const auto found = read->find("a");
  return found == read->end() ? "none" : found->second;
}

TEST(AnnotationsTest, AreThoseOfTheTop) {
  EXPECT_EQ(AnnotationOf(R"({"annotations":{"a":"x"}})"), "x");
  EXPECT_EQ(AnnotationOf(R"( { "p" : { "annotations" : {"a":"deep"} } , "q":[{"annotations":
      {"a":"deep"}},[],{}], "annotations" : { "b":[1,{"a":"y"}], "a" : "x" } , "z":null } )"),
            "x");
  EXPECT_EQ(AnnotationOf(R"({"annotations":{"a":"x"},"annotations":{"a":"y"}})"), "y");
  EXPECT_EQ(AnnotationOf(R"({"\u0061nnotations":{"\u0061":"\"\\\/\u00e9"}})"), "\"\\/é");
  EXPECT_EQ(AnnotationOf(R"({"annotations":null})"), "none");
  EXPECT_EQ(AnnotationOf(R"({"annotations":[]})"), "none");
  EXPECT_EQ(AnnotationOf("{}"), "none");
}

TEST(AnnotationsTest, OfWhatIsNoJsonAreNotBelieved) {
  for (const char* text :
       {"", "[]", "{", R"({"annotations":{"a":"x"})", R"({"annotations":{"a":"x"}}x)",
        R"({"annotations":{"a":"x",}})", R"({"x":[1,2})", R"({"x":})", R"({"annotations":{"a":"x})",
        "{\"annotations\":{\"a\":\"x\n\"}}", R"({"x":"\u12"})", R"({"x" 1})", R"({"x":[1 2]})"}) {
    EXPECT_EQ(AnnotationOf(text), "failed") << text;
  }
  const std::string deep = "{\"x\":" + std::string(100000, '[');
  EXPECT_EQ(AnnotationOf(deep), "failed");
}

TEST(RuntimeLogTest, IsWhatContainerdReads) {
  const auto line = base::ipc::ReadJson(FormatLogLine("it \"broke\"", 0, true));
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(*line->FindText("level"), "error");
  EXPECT_EQ(*line->FindText("msg"), "it \"broke\"");
  EXPECT_EQ(*line->FindText("time"), "1970-01-01T00:00:00Z");
  EXPECT_EQ(FormatLogLine("it \"broke\"\n", 0, false),
            "time=\"1970-01-01T00:00:00Z\" level=error msg=\"it \\\"broke\\\"\\u000a\"\n");
}

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    char name[] = "/tmp/berth-oci-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~SettingsTest() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(SettingsTest, AreThoseOfTheFirstFileThatIsThere) {
  const std::string one = folder_ + "/one", two = folder_ + "/two";
  EXPECT_EQ(ReadConfig({one, two})->runtime, "runc");
  std::ofstream(two) << R"({"runtime":"crun","run":"/r"})";
  EXPECT_EQ(ReadConfig({one, two})->runtime, "crun");
  EXPECT_EQ(ReadConfig({one, two})->run_folder, "/r");
  EXPECT_EQ(ReadConfig({one, two})->socket, "/run/berth/crust-oci.sock");
  std::ofstream(one) << "{";
  EXPECT_EQ(ReadConfig({one, two}).failure().problem, Problem::kBroken);
}

class PlansTest : public SettingsTest {
 protected:
  PlansTest() : config_{.socket = folder_ + "/none.sock", .run_folder = folder_ + "/run"} {
    std::filesystem::create_directories(folder_ + "/bundle");
    std::filesystem::create_directories(folder_ + "/run");
  }
  base::ipc::Failure Prepare(std::string_view annotations) const {
    std::ofstream(folder_ + "/bundle/config.json") << "{\"annotations\":{" << annotations << "}}";
    return PrepareContainer(config_, {.command = "create", .bundle = folder_ + "/bundle"})
        .failure();
  }
  const Config config_;
  static constexpr std::string_view kPod =
      R"("io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-id":"s",
         "io.kubernetes.cri.sandbox-uid":"u")";
};

TEST_F(PlansTest, WithoutTheirFolderNoPodStartsWithoutItsVolumes) {
  const auto refused = Prepare(kPod);
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.text, testing::HasSubstr("/run/plans' is missing"));
  EXPECT_TRUE(Prepare("").ok()) << "no pod's container";
  std::filesystem::create_directory(folder_ + "/run/plans");
  EXPECT_TRUE(Prepare(kPod).ok()) << "a pod without a plan";
}

TEST_F(SettingsTest, TheRuntimeIsNeverThisProgramItself) {
  std::filesystem::create_symlink("/proc/self/exe", folder_ + "/runc");
  EXPECT_FALSE(FindRuntime(folder_ + "/runc").ok());
  EXPECT_FALSE(FindRuntime(folder_ + "/none").ok());
  EXPECT_TRUE(FindRuntime("/bin/sh").ok());
  setenv("PATH", (folder_ + ":/bin:/usr/bin").c_str(), 1);
  std::filesystem::create_symlink("/proc/self/exe", folder_ + "/sh");
  EXPECT_EQ(*FindRuntime("sh"), "/bin/sh");
}

}  // namespace
}  // namespace berth::oci
