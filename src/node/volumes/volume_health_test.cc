#include "node/volumes/volume_health.h"

#include <gtest/gtest.h>

#include "kube/fake_client.h"
#include "node/volumes/fake_volume_plugin.h"

namespace berth::node {
namespace {

TEST(VolumeHealth, DriversThatHangHoldUpNoOthersVolumes) {
  kube::FakeClient client;
  FakeVolumeHost host(client, "/nowhere", "node-a");
  FakeVolumePlugin plugin(host, {});
  VolumeHealth::Volumes volumes;
  const auto add = [&](const std::string& name, const std::string& driver) {
    volumes[name] = {
        .plugin = std::shared_ptr<volume::VolumePlugin>(std::shared_ptr<void>(), &plugin),
        .record = {.folder_name = name},
        .name = name,
        .driver = driver,
        .pod = {.kind = "Pod", .name = "web"}};
  };
  for (const char* name : {"hung-1", "hung-2", "hung-3"}) add(name, "a.example.com");
  for (const char* name : {"hung-4", "hung-5", "hung-6"}) add(name, "b.example.com");
  add("well", "c.example.com");
  plugin.SetCondition(
      std::optional(volume::VolumePlugin::Condition{.abnormal = true, .message = "a disk fails"}));
  plugin.Hang("GetCondition", "hung");
  VolumeHealth health(
      std::chrono::milliseconds(1), [&] { return volumes; }, host.events(),
      /*metrics=*/nullptr);
  health.Start();
  EXPECT_TRUE(host.fake_events().WaitFor({"Volume well: a disk fails"}));
  plugin.Unhang();
}

TEST(VolumeHealth, MetricsComeAndGoWithTheClaimsVolume) {
  base::Metrics metrics;
  VolumeMetrics volume_metrics(&metrics);
  volume_metrics.SetMetrics("shop/data",
                            {.total_bytes = 100, .used_bytes = 40, .available_inodes = 7});
  volume_metrics.SetMetrics("shop/more", {.total_bytes = 200});
  const std::string text = metrics.RenderText();
  const auto has = [](const std::string& all, const std::string& line) {
    return all.find(line) != std::string::npos;
  };
  const std::string labels = R"({namespace="shop",persistentvolumeclaim="data"})";
  EXPECT_TRUE(has(text, "kubelet_volume_stats_capacity_bytes" + labels + " 100")) << text;
  EXPECT_TRUE(has(text, "kubelet_volume_stats_used_bytes" + labels + " 40"));
  EXPECT_TRUE(has(text, "kubelet_volume_stats_inodes_free" + labels + " 7"));
  volume_metrics.RetainClaims({"shop/more"});
  EXPECT_FALSE(has(metrics.RenderText(), labels));
  EXPECT_TRUE(has(metrics.RenderText(), R"(persistentvolumeclaim="more")"));
}

}  // namespace
}  // namespace berth::node
