#include "cmd/berth-init/options.h"

#include <gmock/gmock.h>

#include <map>

namespace berth::init {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::map<std::string, std::string>& Variables() {
  static std::map<std::string, std::string> variables;
  return variables;
}

base::ipc::Result<Options> Parse(const std::vector<const char*>& arguments) {
  return ParseOptions(arguments, [](const char* name) -> const char* {
    const auto found = Variables().find(name);
    return found == Variables().end() ? nullptr : found->second.c_str();
  });
}

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() {
    Variables() = {{"POD_NAMESPACE", "kubernetes-storage"},
                   {"POD_NAME", "gluster-daemon-set-xtzwv"},
                   {"POD_UID", "5d1942bd-7358-40e8-9547-a04345c85be9"}};
  }
};

TEST_F(OptionsTest, KnowsThePodByTheDownwardApi) {
  const auto options = Parse({"--plugin", "kubernetes.io/glusterfs", "--plugin=kubernetes.io/nfs",
                              "--container", "mounts", "--grace", "30", "--kubelet-dir=/k",
                              "--host-mountinfo", "/h", "--", "rpcbind", "-f", "--plugin"});
  ASSERT_TRUE(options.ok()) << options.failure().text;
  EXPECT_THAT(options->plugins, ElementsAre("kubernetes.io/glusterfs", "kubernetes.io/nfs"));
  EXPECT_EQ(options->pod.ns, "kubernetes-storage");
  EXPECT_EQ(options->pod.name, "gluster-daemon-set-xtzwv");
  EXPECT_EQ(options->pod.uid, "5d1942bd-7358-40e8-9547-a04345c85be9");
  EXPECT_EQ(options->pod.container, "mounts");
  EXPECT_EQ(options->grace, std::chrono::seconds(30));
  EXPECT_EQ(options->kubelet_folder, "/k");
  EXPECT_EQ(options->host_mounts, "/h");
  EXPECT_THAT(options->command, ElementsAre("rpcbind", "-f", "--plugin"));
}

TEST_F(OptionsTest, TakesTheContainersNameFromTheEnvironment) {
  Variables()["CONTAINER_NAME"] = "mounts";
  const auto options = Parse({"--plugin", "kubernetes.io/nfs"});
  ASSERT_TRUE(options.ok()) << options.failure().text;
  EXPECT_EQ(options->pod.container, "mounts");
  EXPECT_EQ(options->host_mounts, "/host/proc/1/mountinfo");
  EXPECT_TRUE(options->command.empty());
}

TEST_F(OptionsTest, NamesTheVariableThatLacks) {
  for (const char* name : {"POD_NAMESPACE", "POD_NAME", "POD_UID"}) {
    for (const char* value : {"", "a/b", "a b", "..", "a\nb", "\xff"}) {
      const std::string before = Variables()[name];
      Variables()[name] = value;
      const auto options = Parse({"--plugin", "p", "--container", "c"});
      EXPECT_THAT(options.failure().text, HasSubstr(std::string("$") + name)) << value;
      Variables()[name] = before;
    }
  }
  EXPECT_THAT(Parse({"--plugin", "p"}).failure().text, HasSubstr("--container"));
}

TEST_F(OptionsTest, RefusesWhatItCannotMean) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"--container", "c"}, "no plugin"},
      {{"--container", "c", "--plugin", "../../etc/x"}, "--plugin is no name"},
      {{"--container", "c", "--plugin", "/x"}, "--plugin is no name"},
      {{"--container", "c", "--plugin", "a~b"}, "--plugin is no name"},
      {{"--container", "c", "--plugin", ""}, "--plugin is not set"},
      {{"--container", "c", "--plugin", "p", "--grace", "1d"}, "--grace"},
      {{"--container", "c", "--plugin", "p", "--grace", "-1"}, "--grace"},
      {{"--container", "c", "--plugin", "p", "--kubelet-dir", "k"}, "--kubelet-dir"},
      {{"--container", "c", "--plugin", "p", "--other", "k"}, "no flag '--other'"},
      {{"--container", "c", "--plugin", "p", "sh"}, "'sh' is no flag"},
      {{"--container", "c", "--plugin", "p", "--"}, "no command"},
      {{"--container", "c", "--plugin"}, "--plugin needs a value"},
  };
  for (const auto& [arguments, text] : cases) {
    const auto options = Parse(arguments);
    EXPECT_FALSE(options.ok()) << text;
    EXPECT_THAT(options.failure().text, HasSubstr(text));
  }
}

}  // namespace
}  // namespace berth::init
