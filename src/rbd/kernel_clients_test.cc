#include "rbd/kernel_clients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::rbd {
namespace {

using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Seen kKernel{.client_id = 7, .address = "10.0.0.1:0/70", .locks = true};

ClientRecord Intent(const std::string& node, const std::string& host, uint64_t id = 1) {
  return {.client_id = id, .node = api::NodeName(node), .program = Program::kKernel, .host = host};
}

ClientRecord Noted(const std::string& node, const std::string& address) {
  return {.address = address, .node = api::NodeName(node), .program = Program::kKernel};
}

// The addresses that are found for node n1; "unknown" if that cannot be told.
std::vector<std::string> Find(const std::vector<ClientRecord>& records,
                              const std::vector<Seen>& seen) {
  const auto found = FindKernelClients(records, seen, api::NodeName("n1"));
  if (!found.ok()) {
    EXPECT_EQ(found.status().code(), StatusCode::kFailedPrecondition);
    return {"unknown"};
  }
  std::vector<std::string> addresses;
  for (const ClientRecord& client : *found) {
    EXPECT_EQ(client.node.text(), "n1");
    addresses.push_back(client.address);
  }
  return addresses;
}

TEST(KernelClientsTest, AClientThatNobodyRecordedIsFoundByItsHost) {
  EXPECT_THAT(Find({Intent("n1", "10.0.0.1")}, {kKernel}), ElementsAre("10.0.0.1:0/70"));
  EXPECT_EQ(FindNodeOf({Intent("n1", "10.0.0.1")}, kKernel).text(), "n1");
  const Seen sixth{.client_id = 7, .address = "[fd00::5]:0/70", .locks = true};
  EXPECT_THAT(Find({Intent("n1", "[fd00::5]")}, {sixth}), ElementsAre("[fd00::5]:0/70"));
}

TEST(KernelClientsTest, WithoutAnIntentNobodyIsFound) {
  EXPECT_THAT(Find({}, {kKernel}), IsEmpty());
  EXPECT_THAT(Find({Noted("n1", "10.0.0.1:0/9")}, {kKernel}), IsEmpty());
  EXPECT_THAT(Find({Intent("n2", "10.0.0.1")}, {kKernel}), IsEmpty());
}

TEST(KernelClientsTest, RecordedClientsAreNotTakenForThatOfAnIntent) {
  const auto own = Intent("n1", "10.0.0.1");
  EXPECT_THAT(Find({own, Noted("n2", kKernel.address)}, {kKernel}), IsEmpty());
  const ClientRecord served{.client_id = 7,
                            .address = kKernel.address,
                            .node = api::NodeName("n1"),
                            .program = Program::kServe};
  EXPECT_THAT(Find({own, served}, {kKernel}), IsEmpty());
}

TEST(KernelClientsTest, TheClientOfAnotherNodeWithAnIntentStays) {
  EXPECT_THAT(Find({Intent("n1", "10.0.0.1"), Intent("n2", "10.0.0.2", 2)},
                   {{.client_id = 8, .address = "10.0.0.2:0/80", .locks = true}}),
              IsEmpty());
}

TEST(KernelClientsTest, WhatCannotBeToldIsAFailure) {
  // Two nodes behind one address, as behind NAT.
  const std::vector<ClientRecord> both{Intent("n1", "10.0.0.1"), Intent("n2", "10.0.0.1", 2)};
  EXPECT_THAT(Find(both, {kKernel}), ElementsAre("unknown"));
  EXPECT_TRUE(FindNodeOf(both, kKernel).empty());
  // A lock from an address of nobody.
  EXPECT_THAT(Find({Intent("n1", "10.0.0.3")}, {kKernel}), ElementsAre("unknown"));
  // A watcher of nobody cannot write, so it is no obstacle.
  EXPECT_THAT(Find({Intent("n1", "10.0.0.3")}, {{.client_id = 7, .address = "10.0.0.1:0/70"}}),
              IsEmpty());
}

TEST(KernelClientsTest, AClientThatLocksAndWatchesIsOne) {
  const auto seen = Merge({{.client_id = 7, .address = "10.0.0.1:0/70"}},
                          {{.client_id = 7, .address = "10.0.0.1:0/70"}});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen[0].locks);
}

}  // namespace
}  // namespace berth::rbd
